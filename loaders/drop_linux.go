package loaders

import "syscall"

// dropPages takes pages of a mapped file out of the process's memory; the file
// still has them.
func dropPages(data []byte) {
	// Advice that is refused costs memory, no more.
	_ = syscall.Madvise(data, syscall.MADV_DONTNEED)
}
