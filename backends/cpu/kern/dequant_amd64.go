//go:build amd64 && gc && !noasm

package kern

import (
	"unsafe"

	"graphrun/graph"
)

// dequantArgs is what the dequantizing kernels take.
type dequantArgs struct {
	src, dst unsafe.Pointer
	blocks   int // of 16 elements for plain types
}

func dequantRow(t graph.DType, dst []float32, src []byte) {
	if t == graph.F32 && len(dst) > 0 {
		copy(unsafe.Slice((*byte)(ptr(dst, 0)), 4*len(dst)), src)
		return
	}
	elems := t.BlockElems()
	if elems == 1 {
		elems = 16
	}
	blocks := len(dst) / elems
	if !features.avx512 || blocks == 0 {
		dequantRowGeneric(t, dst, src)
		return
	}
	a := dequantArgs{src: ptr(src, 0), dst: ptr(dst, 0), blocks: blocks}
	switch t {
	case graph.Q8_0:
		dequantQ8_0AVX512(&a)
	case graph.Q4_0:
		dequantQ4_0AVX512(&a)
	case graph.Q4_1:
		dequantQ4_1AVX512(&a)
	case graph.Q5_0:
		dequantQ5_0AVX512(&a)
	case graph.Q5_1:
		dequantQ5_1AVX512(&a)
	case graph.IQ4_NL:
		dequantIQ4_NLAVX512(&a)
	case graph.MXFP4:
		dequantMXFP4AVX512(&a)
	case graph.Q2_K:
		dequantQ2_KAVX512(&a)
	case graph.Q3_K:
		dequantQ3_KAVX512(&a)
	case graph.Q4_K:
		dequantQ4_KAVX512(&a)
	case graph.Q5_K:
		dequantQ5_KAVX512(&a)
	case graph.Q6_K:
		dequantQ6_KAVX512(&a)
	case graph.IQ4_XS:
		dequantIQ4_XSAVX512(&a)
	case graph.IQ3_S:
		dequantIQ3_SAVX512(&a)
	case graph.TQ1_0:
		dequantTQ1_0AVX512(&a)
	case graph.TQ2_0:
		dequantTQ2_0AVX512(&a)
	case graph.F16:
		dequantF16AVX512(&a)
	case graph.BF16:
		dequantBF16AVX512(&a)
	}
	if done := blocks * elems; done < len(dst) {
		dequantRowGeneric(t, dst[done:], src[t.RowBytes(done):])
	}
}
