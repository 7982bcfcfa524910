package loaders

import (
	"os"
	"syscall"
	"unsafe"
)

// mapFile maps the first size bytes of f read-only. Pages are read when they
// are touched. Windows refuses to shrink or replace a file while it is mapped.
func mapFile(f *os.File, size int) ([]byte, error) {
	section, err := syscall.CreateFileMapping(syscall.Handle(f.Fd()), nil, syscall.PAGE_READONLY, 0, 0, nil)
	if err != nil {
		return nil, &os.PathError{Op: "CreateFileMapping", Path: f.Name(), Err: err}
	}
	// The view keeps the section alive after its handle is closed.
	defer syscall.CloseHandle(section)
	addr, err := syscall.MapViewOfFile(section, syscall.FILE_MAP_READ, 0, 0, uintptr(size))
	if err != nil {
		return nil, &os.PathError{Op: "MapViewOfFile", Path: f.Name(), Err: err}
	}
	// The address is outside Go's heap, so the collector never moves it; the
	// detour through a pointer is how vet accepts that.
	base := *(*unsafe.Pointer)(unsafe.Pointer(&addr))
	return unsafe.Slice((*byte)(base), size), nil
}

// unmapFile undoes mapFile.
func unmapFile(data []byte) error {
	return syscall.UnmapViewOfFile(uintptr(unsafe.Pointer(unsafe.SliceData(data))))
}

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
