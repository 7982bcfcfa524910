package opstest

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"graphrun/graph"
	"graphrun/ops"
)

// Widths are sizes around the vector widths of kernels (4, 8, 16 lanes and
// unrolled multiples), a prime and a large one.
var Widths = []int{1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 509, 1024}

// Rows are numbers of tokens: none, one, and around the tiles of products.
var Rows = []int{0, 1, 2, 5, 7, 13}

// random returns a generator that depends on the name alone.
func random(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(h.Sum64(), 1))
}

// normal returns n numbers around 0 of the given spread, every eighth of them
// five times as large: activations have outliers.
func normal(r *rand.Rand, n int, spread float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		z := r.NormFloat64() * spread
		if r.IntN(8) == 0 {
			z *= 5
		}
		x[i] = float32(z)
	}
	return x
}

// scaleFields are the places of the f16 numbers in a block; filled with random
// bits they would be anything up to infinity.
var scaleFields = map[graph.DType][]int{
	graph.Q8_0: {0}, graph.Q4_0: {0}, graph.Q4_1: {0, 2}, graph.Q5_0: {0}, graph.Q5_1: {0, 2},
	graph.Q2_K: {80, 82}, graph.Q3_K: {108}, graph.Q4_K: {0, 2}, graph.Q5_K: {0, 2}, graph.Q6_K: {208},
	graph.IQ4_NL: {0}, graph.IQ4_XS: {0}, graph.IQ3_S: {0}, graph.TQ1_0: {52}, graph.TQ2_0: {64},
}

// Weight returns a weight tensor of any weight type: random numbers, or random
// blocks with scales between about 1/1000 and 1/100, some of them negative. The
// name seeds the generator.
func Weight(name string, dt graph.DType, sizes ...int) *graph.Tensor {
	r := random(name + dt.String())
	t := graph.NewTensor(graph.Type{DType: dt, Shape: graph.ShapeOf(sizes...)}, nil)
	switch dt {
	case graph.F32:
		copy(t.F32, normal(r, len(t.F32), 0.3))
		return t
	case graph.F16:
		for i := 0; i < len(t.Raw); i += 2 {
			binary.LittleEndian.PutUint16(t.Raw[i:], f16Bits(roundF16(r.NormFloat64()*0.3)))
		}
		return t
	case graph.BF16:
		for i := 0; i < len(t.Raw); i += 2 {
			binary.LittleEndian.PutUint16(t.Raw[i:], uint16(math.Float32bits(float32(r.NormFloat64()*0.3))>>16))
		}
		return t
	}
	for i := range t.Raw {
		t.Raw[i] = byte(r.Uint32())
	}
	size := dt.BlockBytes()
	for at := 0; at < len(t.Raw); at += size {
		if dt == graph.MXFP4 {
			t.Raw[at] = byte(119 + r.IntN(6))
		}
		for _, f := range scaleFields[dt] {
			d := math.Exp2(-10 + 3*r.Float64())
			if r.IntN(4) == 0 {
				d = -d
			}
			binary.LittleEndian.PutUint16(t.Raw[at+f:], f16Bits(roundF16(d)))
		}
	}
	return t
}

// dense returns the numbers of a weight, row after row. The decoders it uses are
// checked against the reference program bit for bit.
func dense(w *graph.Tensor) []float64 {
	n := 1
	for _, d := range w.Dims {
		n *= d
	}
	x := w.F32
	if w.DType != graph.F32 {
		x = make([]float32, n)
		ops.DequantRow(w.DType, x, w.Raw)
	}
	return wide(x)
}

// wide converts to float64.
func wide(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, z := range x {
		y[i] = float64(z)
	}
	return y
}

// roundF16 rounds to the nearest 16-bit float, ties to even, numbers beyond the
// largest to the largest.
func roundF16(x float64) float64 {
	if x == 0 || math.IsNaN(x) {
		return x
	}
	_, e := math.Frexp(x) // |x| in [2^(e-1), 2^e)
	step := math.Ldexp(1, max(e-11, -24))
	y := math.RoundToEven(x/step) * step
	return max(-65504, min(65504, y))
}

// f16Bits encodes a number that is a 16-bit float exactly.
func f16Bits(x float64) uint16 {
	sign := uint16(0)
	if math.Signbit(x) {
		sign, x = 0x8000, -x
	}
	if x < 0x1p-14 {
		return sign | uint16(x*0x1p24)
	}
	_, e := math.Frexp(x)
	return sign | uint16(e+14)<<10 | uint16(math.Ldexp(x, 11-e))&0x3ff
}

// f64s makes n numbers of a function of the index.
func f64s(n int, f func(i int) float64) []float64 {
	y := make([]float64, n)
	for i := range y {
		y[i] = f(i)
	}
	return y
}

// relative returns tolerances of rel times the number plus abs.
func relative(x []float64, rel, abs float64) []float64 {
	return f64s(len(x), func(i int) float64 { return math.Abs(x[i])*rel + abs })
}

// exactly returns tolerances of zero.
func exactly(n int) []float64 { return make([]float64, n) }
