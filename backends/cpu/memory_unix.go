//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package cpu

import "syscall"

// mapMemory returns n zero bytes of memory that takes room when it is touched.
func mapMemory(n int) ([]byte, error) {
	return syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
}

func unmapMemory(b []byte) error { return syscall.Munmap(b) }
