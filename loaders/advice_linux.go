package loaders

import (
	"os"
	"syscall"
	"unsafe"
)

// What these ask for is advice: where the system refuses, a model needs more
// memory or is slower, no more.

// largePages asks for the processor's large pages. A file that is not in memory
// yet is then read in such pieces, and weights in large pages are faulted in and
// read faster.
func largePages(data []byte) {
	_ = syscall.Madvise(data, syscall.MADV_HUGEPAGE)
}

// largePagesAround asks for large pages wherever they would hold a part of data,
// which lies in Go's heap: the neighbours may be in them too.
func largePagesAround(data []byte) {
	const large = 2 << 20
	lead := uintptr(unsafe.Pointer(unsafe.SliceData(data))) % large
	size := (lead + uintptr(len(data)) + large - 1) / large * large
	// The range may begin before data, so it is no slice.
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, uintptr(unsafe.Pointer(unsafe.SliceData(data)))-lead, size, syscall.MADV_HUGEPAGE)
}

// smallPages asks that the whole pages within data have no part in large ones, so
// that reading what lies beside them does not bring them in.
func smallPages(data []byte) {
	page := os.Getpagesize()
	lead := int(-uintptr(unsafe.Pointer(unsafe.SliceData(data))) & uintptr(page-1))
	if n := (len(data) - lead) &^ (page - 1); n > 0 {
		_ = syscall.Madvise(data[lead:lead+n], syscall.MADV_NOHUGEPAGE)
	}
}

// dropPages takes pages of a mapped file out of the process's memory; the file
// still has them.
func dropPages(data []byte) {
	_ = syscall.Madvise(data, syscall.MADV_DONTNEED)
}
