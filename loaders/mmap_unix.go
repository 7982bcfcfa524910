//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package loaders

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// mapFile maps the first size bytes of f read-only. Pages are read when they
// are touched; a page beyond the end of a file that has shrunk since raises
// SIGBUS.
func mapFile(f *os.File, size int) ([]byte, error) {
	data, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, &os.PathError{Op: "mmap", Path: f.Name(), Err: err}
	}
	largePages(data)
	return data, nil
}

// stateOf asks for the size and the time of the last write.
func stateOf(f *os.File) (fileState, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fileState{}, &os.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return fileState{st.Size, st.Mtim.Nano(), st.Nlink > 0}, nil
}

// unmapFile undoes mapFile.
func unmapFile(data []byte) error { return syscall.Munmap(data) }

// allocMemory returns zeroed memory that the collector does not see: weights
// that are made would otherwise double its idea of the heap.
func allocMemory(size int) ([]byte, error) {
	if size == 0 {
		return []byte{}, nil
	}
	data, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return nil, err
	}
	largePages(data)
	return data, nil
}

// freeMemory gives memory of allocMemory back.
func freeMemory(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	return syscall.Munmap(data)
}
