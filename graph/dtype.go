package graph

import "fmt"

// DType is the element type of a tensor. Quantized types store a row as
// blocks; BlockElems and BlockBytes give the block's size.
type DType uint8

// The element types graphrun knows. Names are those of the GGUF world in lower
// case; DTypeByName reads them back.
const (
	Invalid DType = iota
	F32
	F16
	BF16
	F64
	I8
	I16
	I32
	I64
	// U8, F8_E4M3 and F8_E5M2 occur in safetensors files only: bytes of packed
	// formats, and floats of 8 bits.
	U8
	F8_E4M3
	F8_E5M2
	Q8_0
	Q4_0
	Q4_1
	Q5_0
	Q5_1
	Q2_K
	Q3_K
	Q4_K
	Q5_K
	Q6_K
	IQ4_NL
	IQ4_XS
	IQ3_S
	MXFP4
	TQ1_0
	TQ2_0
	// Q8 is an activation quantized per 32 elements and Q8K per 256: int8
	// numbers with f32 scales and integer sums beside them. They exist only
	// inside a compiled graph, never in a file; ops/quantize.go has the layout.
	Q8
	Q8K
	numDTypes
)

var dtypes = [numDTypes]struct {
	name          string
	elems, nbytes int
}{
	Invalid: {"invalid", 1, 0},
	F32:     {"f32", 1, 4},
	F16:     {"f16", 1, 2},
	BF16:    {"bf16", 1, 2},
	F64:     {"f64", 1, 8},
	I8:      {"i8", 1, 1},
	I16:     {"i16", 1, 2},
	I32:     {"i32", 1, 4},
	I64:     {"i64", 1, 8},
	U8:      {"u8", 1, 1},
	F8_E4M3: {"f8_e4m3", 1, 1},
	F8_E5M2: {"f8_e5m2", 1, 1},
	Q8_0:    {"q8_0", 32, 34},
	Q4_0:    {"q4_0", 32, 18},
	Q4_1:    {"q4_1", 32, 20},
	Q5_0:    {"q5_0", 32, 22},
	Q5_1:    {"q5_1", 32, 24},
	Q2_K:    {"q2_k", 256, 84},
	Q3_K:    {"q3_k", 256, 110},
	Q4_K:    {"q4_k", 256, 144},
	Q5_K:    {"q5_k", 256, 176},
	Q6_K:    {"q6_k", 256, 210},
	IQ4_NL:  {"iq4_nl", 32, 18},
	IQ4_XS:  {"iq4_xs", 256, 136},
	IQ3_S:   {"iq3_s", 256, 110},
	MXFP4:   {"mxfp4", 32, 17},
	TQ1_0:   {"tq1_0", 256, 54},
	TQ2_0:   {"tq2_0", 256, 66},
	Q8:      {"q8", 32, 32 + 4 + 4},
	Q8K:     {"q8k", 256, 256 + 4 + 16*2},
}

// String returns the lower-case name, as the text form prints it.
func (t DType) String() string {
	if t >= numDTypes {
		return fmt.Sprintf("dtype(%d)", uint8(t))
	}
	return dtypes[t].name
}

// BlockElems returns the number of elements one block of the type holds: 1 for
// plain types, 32 or 256 for quantized ones.
func (t DType) BlockElems() int { return dtypes[t].elems }

// BlockBytes returns the number of bytes one block of the type takes.
func (t DType) BlockBytes() int { return dtypes[t].nbytes }

// Quantized reports whether the type stores elements in blocks with scales.
func (t DType) Quantized() bool { return dtypes[t].elems > 1 }

// RowBytes returns the bytes of a row of n elements. n must be a multiple of
// BlockElems.
func (t DType) RowBytes(n int) int {
	return n / dtypes[t].elems * dtypes[t].nbytes
}

// DTypeByName returns the type with the given lower-case name.
func DTypeByName(name string) (DType, bool) {
	for t := F32; t < numDTypes; t++ {
		if dtypes[t].name == name {
			return t, true
		}
	}
	return Invalid, false
}

// DTypes returns all valid types in a fixed order.
func DTypes() []DType {
	all := make([]DType, 0, numDTypes-1)
	for t := F32; t < numDTypes; t++ {
		all = append(all, t)
	}
	return all
}
