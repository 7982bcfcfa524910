package engine

import (
	"os"
	"syscall"
	"unsafe"
)

// adviceRead is MADV_POPULATE_READ of Linux 5.14 and later.
const adviceRead = 22

// mapPages enters the pages of a mapped file that hold b into the process's table
// of pages, reading them if they are not in memory. It reports false where the
// system cannot do that.
func mapPages(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	page := uintptr(os.Getpagesize())
	p := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	before := p % page // the mapping begins at a page
	whole := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), -int(before))), len(b)+int(before))
	return syscall.Madvise(whole, adviceRead) == nil
}
