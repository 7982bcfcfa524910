//go:build !(amd64 && gc && !noasm)

package kern

// ReadThrough reads p once, as fast as the machine can with one thread. It is
// the roof of products with one token: time it beside them.
func ReadThrough(p []byte) { readGeneric(p) }

// PeakProducts does about n multiply-adds of bytes in registers and returns
// how many, 0 if there is no such instruction. It is the roof of products with
// many tokens.
func PeakProducts(n int) int { return 0 }

// Prefetch asks for p in a cache near the processor. Here it does nothing.
func Prefetch(p []byte) {}
