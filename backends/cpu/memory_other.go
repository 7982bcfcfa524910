//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package cpu

// mapMemory returns n zero bytes.
func mapMemory(n int) ([]byte, error) { return alignedBytes(n), nil }

func unmapMemory([]byte) error { return nil }
