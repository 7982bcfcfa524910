package ops

import (
	"encoding/binary"
	"math"

	"github.com/x448/float16"

	"graphrun/graph"
)

// IsWeightType reports whether weights may have the type: f32, f16, bf16 or a
// block format of model files.
func IsWeightType(t graph.DType) bool {
	switch t {
	case graph.F32, graph.F16, graph.BF16:
		return true
	case graph.Q8, graph.Q8K:
		return false
	}
	return t.Quantized()
}

// DequantRow decodes a row of weights.
//
//	dst[i] = element i of src
//
// t is a weight type, len(dst) a multiple of its block, src holds the blocks of
// at least len(dst) elements. The result is exact: it has the bits of the
// format's definition computed in f32, each product and sum rounded by itself.
// It panics if t is no weight type or src is too short.
// Source: GGUF file format and the ggml block definitions.
func DequantRow(t graph.DType, dst []float32, src []byte) {
	n, size := t.BlockElems(), t.BlockBytes()
	if !IsWeightType(t) {
		panic("ops: dequant of a type that is no weight type")
	}
	if len(dst)%n != 0 || len(src) < t.RowBytes(len(dst)) {
		panic("ops: dequant of a row that does not divide into blocks or is too short")
	}
	if n == 1 {
		dequantBlock(t, dst, src)
		return
	}
	for ; len(dst) > 0; dst, src = dst[n:], src[size:] {
		dequantBlock(t, dst[:n], src[:size])
	}
}

// dequantBlock decodes one block, or any number of elements of an unblocked
// type. A switch, not a table of functions: calls through a table would move
// callers' stack arrays to the heap.
func dequantBlock(t graph.DType, y []float32, b []byte) {
	switch t {
	case graph.F32:
		for i := range y {
			y[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
	case graph.F16:
		for i := range y {
			y[i] = f16At(b, 2*i)
		}
	case graph.BF16:
		for i := range y {
			y[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16)
		}
	case graph.Q8_0:
		dequantQ8_0(y, b)
	case graph.Q4_0:
		dequantQ4_0(y, b)
	case graph.Q4_1:
		dequantQ4_1(y, b)
	case graph.Q5_0:
		dequantQ5_0(y, b)
	case graph.Q5_1:
		dequantQ5_1(y, b)
	case graph.Q2_K:
		dequantQ2K(y, b)
	case graph.Q3_K:
		dequantQ3K(y, b)
	case graph.Q4_K:
		dequantQ4K(y, b)
	case graph.Q5_K:
		dequantQ5K(y, b)
	case graph.Q6_K:
		dequantQ6K(y, b)
	case graph.IQ4_NL:
		dequantIQ4NL(y, b)
	case graph.IQ4_XS:
		dequantIQ4XS(y, b)
	case graph.IQ3_S:
		dequantIQ3S(y, b)
	case graph.MXFP4:
		dequantMXFP4(y, b)
	case graph.TQ1_0:
		dequantTQ1_0(y, b)
	case graph.TQ2_0:
		dequantTQ2_0(y, b)
	default:
		panic("ops: dequant of a type that is no weight type")
	}
}

// f16At reads the 16-bit float at byte i of b, exactly.
func f16At(b []byte, i int) float32 {
	return fromF16(binary.LittleEndian.Uint16(b[i:]))
}

// fromF16 converts a 16-bit float: subnormals and NaN payloads included.
func fromF16(h uint16) float32 {
	sign, rest := uint32(h&0x8000)<<16, uint32(h&0x7fff)
	switch {
	case rest >= 0x7c00: // infinity, NaN
		return math.Float32frombits(sign | 0x7f800000 | rest<<13)
	case rest < 0x400: // zero, subnormal: a multiple of 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(rest)*0x1p-24))
	}
	return math.Float32frombits(sign | (rest<<13 + (127-15)<<23))
}

// toF16 rounds to the nearest 16-bit float, ties to even. Finite numbers beyond
// the largest become the largest: an infinity in a cache would turn every later
// token into NaN.
func toF16(x float32) uint16 {
	h := float16.Fromfloat32(x).Bits()
	if h&0x7fff == 0x7c00 && !math.IsInf(float64(x), 0) {
		h--
	}
	return h
}
