//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package loaders

import (
	"io"
	"os"
)

// mapFile reads the first size bytes of f into memory: this system has no
// mapping of files.
func mapFile(f *os.File, size int) ([]byte, error) {
	data := make([]byte, size)
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, &os.PathError{Op: "read", Path: f.Name(), Err: err}
	}
	return data, nil
}

// unmapFile leaves the memory to the collector.
func unmapFile([]byte) error { return nil }

// allocMemory returns zeroed memory.
func allocMemory(size int) ([]byte, error) { return make([]byte, size), nil }

// freeMemory leaves memory of allocMemory to the collector.
func freeMemory([]byte) error { return nil }

// stateOf asks for the size and the time of the last write.
func stateOf(f *os.File) (fileState, error) {
	st, err := f.Stat()
	if err != nil {
		return fileState{}, err
	}
	return fileState{st.Size(), st.ModTime().UnixNano(), true}, nil
}
