//go:build darwin || freebsd || linux

package hub

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

var errNoSpace error = unix.ENOSPC

// lockFile takes the lock of an open file, which ends with it: flock, as the
// hub's own tools use it.
func lockFile(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return errBusy
	}
	return err
}

// freeSpace returns the bytes an unprivileged user may still write to the disk
// of dir.
func freeSpace(dir string) (int64, bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true
}
