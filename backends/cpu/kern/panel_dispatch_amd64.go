//go:build amd64 && gc && !noasm

package kern

import "graphrun/graph"

// gemmTile calls the panel kernel for a quantized type and 1 to 6 tokens. It
// is a preemption point, hence not inlined.
//
//go:noinline
func gemmTile(w graph.DType, f *format, T int, a *gemmArgs) {
	kind := 0
	if f.act == graph.Q8K {
		kind = f.group / 16 * 2
	}
	if f.min {
		kind++
	}
	switch kind<<3 | T {
	case 0<<3 | 1:
		gemm32T1AVX512(a)
	case 0<<3 | 2:
		gemm32T2AVX512(a)
	case 0<<3 | 3:
		gemm32T3AVX512(a)
	case 0<<3 | 4:
		gemm32T4AVX512(a)
	case 0<<3 | 5:
		gemm32T5AVX512(a)
	case 0<<3 | 6:
		gemm32T6AVX512(a)
	case 1<<3 | 1:
		gemm32MinT1AVX512(a)
	case 1<<3 | 2:
		gemm32MinT2AVX512(a)
	case 1<<3 | 3:
		gemm32MinT3AVX512(a)
	case 1<<3 | 4:
		gemm32MinT4AVX512(a)
	case 1<<3 | 5:
		gemm32MinT5AVX512(a)
	case 1<<3 | 6:
		gemm32MinT6AVX512(a)
	case 2<<3 | 1:
		gemm256x16T1AVX512(a)
	case 2<<3 | 2:
		gemm256x16T2AVX512(a)
	case 2<<3 | 3:
		gemm256x16T3AVX512(a)
	case 2<<3 | 4:
		gemm256x16T4AVX512(a)
	case 2<<3 | 5:
		gemm256x16T5AVX512(a)
	case 2<<3 | 6:
		gemm256x16T6AVX512(a)
	case 3<<3 | 1:
		gemm256x16MinT1AVX512(a)
	case 3<<3 | 2:
		gemm256x16MinT2AVX512(a)
	case 3<<3 | 3:
		gemm256x16MinT3AVX512(a)
	case 3<<3 | 4:
		gemm256x16MinT4AVX512(a)
	case 3<<3 | 5:
		gemm256x16MinT5AVX512(a)
	case 3<<3 | 6:
		gemm256x16MinT6AVX512(a)
	case 4<<3 | 1:
		gemm256x32T1AVX512(a)
	case 4<<3 | 2:
		gemm256x32T2AVX512(a)
	case 4<<3 | 3:
		gemm256x32T3AVX512(a)
	case 4<<3 | 4:
		gemm256x32T4AVX512(a)
	case 4<<3 | 5:
		gemm256x32T5AVX512(a)
	case 4<<3 | 6:
		gemm256x32T6AVX512(a)
	case 5<<3 | 1:
		gemm256x32MinT1AVX512(a)
	case 5<<3 | 2:
		gemm256x32MinT2AVX512(a)
	case 5<<3 | 3:
		gemm256x32MinT3AVX512(a)
	case 5<<3 | 4:
		gemm256x32MinT4AVX512(a)
	case 5<<3 | 5:
		gemm256x32MinT5AVX512(a)
	case 5<<3 | 6:
		gemm256x32MinT6AVX512(a)
	default:
		panic("kern: no panel kernel")
	}
}

// gemmFloatTile is gemmTile for plain types.
//
//go:noinline
func gemmFloatTile(w graph.DType, T int, a *gemmArgs) {
	switch int(w)<<4 | T {
	case int(graph.F32)<<4 | 1:
		gemmF32T1AVX512(a)
	case int(graph.F32)<<4 | 2:
		gemmF32T2AVX512(a)
	case int(graph.F32)<<4 | 3:
		gemmF32T3AVX512(a)
	case int(graph.F32)<<4 | 4:
		gemmF32T4AVX512(a)
	case int(graph.F32)<<4 | 6:
		gemmF32T6AVX512(a)
	case int(graph.F32)<<4 | 8:
		gemmF32T8AVX512(a)
	case int(graph.F32)<<4 | 12:
		gemmF32T12AVX512(a)
	case int(graph.F16)<<4 | 1:
		gemmF16T1AVX512(a)
	case int(graph.F16)<<4 | 2:
		gemmF16T2AVX512(a)
	case int(graph.F16)<<4 | 3:
		gemmF16T3AVX512(a)
	case int(graph.F16)<<4 | 4:
		gemmF16T4AVX512(a)
	case int(graph.F16)<<4 | 6:
		gemmF16T6AVX512(a)
	case int(graph.F16)<<4 | 8:
		gemmF16T8AVX512(a)
	case int(graph.F16)<<4 | 12:
		gemmF16T12AVX512(a)
	case int(graph.BF16)<<4 | 1:
		gemmBF16T1AVX512(a)
	case int(graph.BF16)<<4 | 2:
		gemmBF16T2AVX512(a)
	case int(graph.BF16)<<4 | 3:
		gemmBF16T3AVX512(a)
	case int(graph.BF16)<<4 | 4:
		gemmBF16T4AVX512(a)
	case int(graph.BF16)<<4 | 6:
		gemmBF16T6AVX512(a)
	case int(graph.BF16)<<4 | 8:
		gemmBF16T8AVX512(a)
	case int(graph.BF16)<<4 | 12:
		gemmBF16T12AVX512(a)
	default:
		panic("kern: no panel kernel")
	}
}
