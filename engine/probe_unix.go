//go:build darwin || freebsd || linux || netbsd || openbsd

package engine

import "syscall"

// canTake reports whether the system grants n bytes of memory at once. Go's
// allocator ends the process where it does not.
func canTake(n int) error {
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return err
	}
	return syscall.Munmap(b)
}
