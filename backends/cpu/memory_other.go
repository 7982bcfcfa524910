//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package cpu

// A mapping is memory for caches and activations, here of Go's heap.
type mapping struct{ use []byte }

// mapMemory returns n zero bytes.
func mapMemory(n int) (mapping, error) { return mapping{alignedBytes(n)}, nil }

func (mapping) free() error { return nil }
