//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package loaders

import (
	"os"
	"syscall"
)

// mapFile maps the first size bytes of f read-only. Pages are read when they
// are touched; a page beyond the end of a file that has shrunk since raises
// SIGBUS.
func mapFile(f *os.File, size int) ([]byte, error) {
	data, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, &os.PathError{Op: "mmap", Path: f.Name(), Err: err}
	}
	return data, nil
}

// unmapFile undoes mapFile.
func unmapFile(data []byte) error { return syscall.Munmap(data) }
