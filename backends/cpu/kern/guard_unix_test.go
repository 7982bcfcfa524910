//go:build unix

package kern

import (
	"syscall"
	"testing"
)

// guarded returns n bytes that end where unreadable memory begins, so that a
// kernel reading past the end faults.
func guarded(t testing.TB, n int) []byte {
	const page = 1 << 14
	size := (n+page-1)/page*page + page
	mem, err := syscall.Mmap(-1, 0, size+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mprotect(mem[size:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Munmap(mem) })
	return mem[size-n : size : size]
}
