//go:build amd64 && gc && !noasm

package kern

// ReadThrough reads p once, as fast as the machine can with one thread. It is
// the roof of products with one token: time it beside them.
func ReadThrough(p []byte) {
	const chunk = 1 << 20
	for len(p) >= 512 && features.avx512 {
		n := min(len(p), chunk) / 512
		readAVX512(&p[0], n)
		p = p[512*n:]
	}
	readGeneric(p)
}

// PeakProducts does about n multiply-adds of bytes in registers and returns
// how many, 0 if there is no such instruction. It is the roof of products with
// many tokens.
func PeakProducts(n int) int {
	const round = 16 * 64
	if !features.avx512 {
		return 0
	}
	for i := 0; i < n; i += 1 << 24 {
		peakAVX512(1 << 24 / round)
	}
	return (n + 1<<24 - 1) >> 24 << 24
}

// Prefetch asks for p in the second-level cache and returns at once, or when the
// processor takes no more requests. It never faults. Of the last bytes, less than
// 512, nothing is asked for.
func Prefetch(p []byte) {
	if n := len(p) / 512; n > 0 {
		prefetchLines(&p[0], n)
	}
}
