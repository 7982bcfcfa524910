package kern

import "unsafe"

// The arguments of the vector kernels; the generator knows the offsets.
type (
	vecArgs struct {
		x, z, y unsafe.Pointer
		n       int
		c, d    float32
	}
	ropeArgs struct {
		x, y, cos, sin       unsafe.Pointer
		pairs, heads, stride int
	}
	keyArgs struct {
		x, dst unsafe.Pointer
		n      int
	}
)
