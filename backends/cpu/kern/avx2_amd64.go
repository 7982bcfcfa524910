//go:build amd64 && gc && !noasm

package kern

import (
	"unsafe"

	"graphrun/graph"
)

// plainArgs is what the AVX2 kernels of plain types take. The generator knows
// the offsets.
type plainArgs struct {
	q, x   unsafe.Pointer
	ldx    int
	y      unsafe.Pointer
	ldy    int
	blocks int // of 16 elements
}

// decodeBlocks decodes a row and reports whether there is a kernel for it.
func decodeBlocks(t graph.DType, a *rowArgs) bool {
	if !features.avx2 {
		return false
	}
	switch t {
	case graph.Q8_0:
		decodeQ8_0AVX2(a)
	case graph.Q4_0:
		decodeQ4_0AVX2(a)
	case graph.Q4_1:
		decodeQ4_1AVX2(a)
	case graph.Q5_0:
		decodeQ5_0AVX2(a)
	case graph.Q5_1:
		decodeQ5_1AVX2(a)
	case graph.IQ4_NL:
		decodeIQ4_NLAVX2(a)
	case graph.MXFP4:
		decodeMXFP4AVX2(a)
	case graph.Q2_K:
		decodeQ2_KAVX2(a)
	case graph.Q3_K:
		decodeQ3_KAVX2(a)
	case graph.Q4_K:
		decodeQ4_KAVX2(a)
	case graph.Q5_K:
		decodeQ5_KAVX2(a)
	case graph.Q6_K:
		decodeQ6_KAVX2(a)
	case graph.IQ4_XS:
		decodeIQ4_XSAVX2(a)
	case graph.TQ2_0:
		decodeTQ2_0AVX2(a)
	case graph.TQ1_0:
		decodeTQ1_0AVX2(a)
	case graph.IQ3_S:
		decodeIQ3_SAVX2(a)
	default:
		return false
	}
	return true
}

// mulFloatAVX2 multiplies plain rows, a few tokens at a time. What is left of
// a row after steps of 16 elements is added in plain code.
func mulFloatAVX2(y []float32, ldy int, w *Mat, x []byte, ldx int, T, lo, hi int) {
	rb := w.rowBytes()
	a := plainArgs{ldx: ldx, ldy: 4 * ldy, blocks: w.K / 16}
	whole := a.blocks * 16
	for n0 := lo; n0 < hi; n0 += decodedRows {
		for t := 0; t < T; {
			size := groupOf4(T - t)
			for n := n0; n < min(n0+decodedRows, hi); n++ {
				row := w.Data[n*rb : (n+1)*rb]
				if a.blocks > 0 {
					a.q, a.x, a.y = ptr(row, 0), ptr(x, t*ldx), ptr(y, t*ldy+n)
					floatChunk(w.Type, size, &a)
				}
				for i := t; whole < w.K && i < t+size; i++ {
					s := float32(0)
					for k := whole; k < w.K; k++ {
						s += elem(w.Type, row, k) * f32at(x, i*ldx+4*k)
					}
					if a.blocks > 0 {
						s += y[i*ldy+n]
					}
					y[i*ldy+n] = s
				}
			}
			t += size
		}
	}
}

// dotChunk multiplies decoded rows with 1 to 4 tokens.
//
//go:noinline
func dotChunk(f *format, T int, a *dotArgs) {
	kind := T
	if f.act == graph.Q8K {
		kind += 8
	}
	if f.min {
		kind += 16
	}
	b := *a // the kernels use it up
	switch kind {
	case 1:
		dot32T1AVX2(&b)
	case 2:
		dot32T2AVX2(&b)
	case 3:
		dot32T3AVX2(&b)
	case 4:
		dot32T4AVX2(&b)
	case 8 + 1:
		dot256T1AVX2(&b)
	case 8 + 2:
		dot256T2AVX2(&b)
	case 8 + 3:
		dot256T3AVX2(&b)
	case 8 + 4:
		dot256T4AVX2(&b)
	case 16 + 1:
		dot32MinT1AVX2(&b)
	case 16 + 2:
		dot32MinT2AVX2(&b)
	case 16 + 3:
		dot32MinT3AVX2(&b)
	case 16 + 4:
		dot32MinT4AVX2(&b)
	case 24 + 1:
		dot256MinT1AVX2(&b)
	case 24 + 2:
		dot256MinT2AVX2(&b)
	case 24 + 3:
		dot256MinT3AVX2(&b)
	case 24 + 4:
		dot256MinT4AVX2(&b)
	default:
		panic("kern: no row kernel")
	}
}

// floatChunk calls the kernel for a plain type and 1 to 4 tokens.
//
//go:noinline
func floatChunk(w graph.DType, T int, a *plainArgs) {
	switch int(w)<<3 | T {
	case int(graph.F32)<<3 | 1:
		floatF32T1AVX2(a)
	case int(graph.F32)<<3 | 2:
		floatF32T2AVX2(a)
	case int(graph.F32)<<3 | 3:
		floatF32T3AVX2(a)
	case int(graph.F32)<<3 | 4:
		floatF32T4AVX2(a)
	case int(graph.F16)<<3 | 1:
		floatF16T1AVX2(a)
	case int(graph.F16)<<3 | 2:
		floatF16T2AVX2(a)
	case int(graph.F16)<<3 | 3:
		floatF16T3AVX2(a)
	case int(graph.F16)<<3 | 4:
		floatF16T4AVX2(a)
	case int(graph.BF16)<<3 | 1:
		floatBF16T1AVX2(a)
	case int(graph.BF16)<<3 | 2:
		floatBF16T2AVX2(a)
	case int(graph.BF16)<<3 | 3:
		floatBF16T3AVX2(a)
	case int(graph.BF16)<<3 | 4:
		floatBF16T4AVX2(a)
	default:
		panic("kern: no row kernel")
	}
}
