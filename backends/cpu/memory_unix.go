//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package cpu

import (
	"syscall"
	"unsafe"
)

// A mapping is memory outside Go's heap. It takes room when it is touched.
type mapping struct {
	whole []byte // as mapped
	use   []byte
}

// largePage is the size of the processor's large pages, on most machines.
const largePage = 2 << 20

// mapMemory returns n zero bytes. Touching memory for the first time costs a
// fault for every page, so much of it is asked for in large pages: in a virtual
// machine faults of 4 KiB are the greater part of the time a cache is first
// written in.
func mapMemory(n int) (m mapping, err error) {
	size := n
	if n >= largePage {
		size += 2 * largePage
	}
	m.whole, err = syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return m, err
	}
	m.use = m.whole[:n:n]
	if n >= largePage {
		skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(m.whole))) & (largePage - 1))
		m.use = m.whole[skip : skip+n : skip+n]
		adviseLarge(m.whole[skip : skip+(n+largePage-1)&^(largePage-1)])
	}
	return m, nil
}

func (m mapping) free() error { return syscall.Munmap(m.whole) }
