package quant

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"graphrun/graph"
	"graphrun/loaders"
)

// types are those that Row writes, in the order of package graph.
var types = []graph.DType{
	graph.F32, graph.F16, graph.BF16, graph.Q8_0, graph.Q4_0, graph.Q4_1, graph.Q5_0, graph.Q5_1,
	graph.Q2_K, graph.Q3_K, graph.Q4_K, graph.Q5_K, graph.Q6_K, graph.IQ4_NL, graph.IQ4_XS, graph.MXFP4, graph.TQ1_0, graph.TQ2_0,
}

// encode encodes one block, or any number of elements of a float type. w is nil
// or has a positive weight for each element. A switch, not a table of
// functions: calls through a table would move Row's array to the heap.
func encode(t graph.DType, b []byte, x, w []float32) {
	switch t {
	case graph.F32:
		encodeF32(b, x)
	case graph.F16:
		encodeF16(b, x)
	case graph.BF16:
		encodeBF16(b, x)
	case graph.Q8_0:
		encodeQ8_0(b, x)
	case graph.Q4_0:
		encodeQ4_0(b, x, w)
	case graph.Q4_1:
		encodeQ4_1(b, x, w)
	case graph.Q5_0:
		encodeQ5_0(b, x, w)
	case graph.Q5_1:
		encodeQ5_1(b, x, w)
	case graph.Q2_K:
		encodeQ2K(b, x, w)
	case graph.Q3_K:
		encodeQ3K(b, x, w)
	case graph.Q4_K:
		encodeQ4K(b, x, w)
	case graph.Q5_K:
		encodeQ5K(b, x, w)
	case graph.Q6_K:
		encodeQ6K(b, x, w)
	case graph.IQ4_NL:
		encodeIQ4NL(b, x, w)
	case graph.IQ4_XS:
		encodeIQ4XS(b, x, w)
	case graph.MXFP4:
		encodeMXFP4(b, x, w)
	case graph.TQ1_0:
		encodeTQ1(b, x, w)
	case graph.TQ2_0:
		encodeTQ2(b, x, w)
	default:
		panic("quant: a type that Types does not list")
	}
}

// Types returns the types that Row writes, in the order of package graph.
func Types() []graph.DType { return slices.Clone(types) }

// NonFiniteError says that a weight is NaN or infinite, which no block format
// can hold.
type NonFiniteError struct {
	Index int // in the row
	Value float32
}

func (e *NonFiniteError) Error() string {
	return fmt.Sprintf("element %d of the row is %v; weights must be finite", e.Index, e.Value)
}

// Row encodes a row of weights as type t.
//
// dst takes t.RowBytes(len(src)) bytes, len(src) is a multiple of t's block.
// weights is nil or has a number for each element that says how much its error
// counts: not negative, finite; only their ratios matter, and all zeros are
// taken as equal ones. Q8_0, MXFP4 and the float types do not use them.
//
// Numbers beyond Limit become the largest the type has; numbers too small for
// its scales become zero. What was written always decodes to finite numbers.
//
// An error means that nothing useful was written: *loaders.UnsupportedError for
// a type that is not among Types, *NonFiniteError for a weight that is not
// finite, and others for wrong lengths and wrong weights. Row allocates nothing
// else and may be called from several goroutines.
func Row(dst []byte, src []float32, t graph.DType, weights []float32) error {
	if !slices.Contains(types, t) {
		return &loaders.UnsupportedError{What: "encoding as", Name: t.String(), Known: typeNames()}
	}
	n, size := t.BlockElems(), t.BlockBytes()
	switch {
	case len(src)%n != 0:
		return fmt.Errorf("quant: a row of %d elements does not divide into blocks of %d (%s)", len(src), n, t)
	case len(dst) != t.RowBytes(len(src)):
		return fmt.Errorf("quant: %d bytes for a row of %d elements, want %d (%s)", len(dst), len(src), t.RowBytes(len(src)), t)
	case weights != nil && len(weights) != len(src):
		return fmt.Errorf("quant: %d importance weights for a row of %d elements", len(weights), len(src))
	}
	if i := slices.IndexFunc(src, notFinite); i >= 0 {
		return &NonFiniteError{Index: i, Value: src[i]}
	}
	if n == 1 {
		encode(t, dst, src, nil)
		return nil
	}
	var scaled [256]float32
	for i := 0; i < len(src); i += n {
		var w []float32
		if weights != nil {
			w = scaled[:n]
			ok, err := normalize(w, weights[i:i+n])
			if err != nil {
				return err
			}
			if !ok {
				w = nil
			}
		}
		encode(t, dst[i/n*size:][:size], src[i:i+n], w)
	}
	return nil
}

// normalize scales weights to a mean of 1, so that sums of them neither
// overflow nor vanish, with a floor that keeps every element in the sums. ok is
// false if all are zero.
func normalize(dst, weights []float32) (ok bool, err error) {
	sum := 0.0
	for _, w := range weights {
		if !(w >= 0) || w > math.MaxFloat32 {
			return false, fmt.Errorf("quant: importance weight %v; want finite numbers, 0 or more", w)
		}
		sum += float64(w)
	}
	if sum == 0 {
		return false, nil
	}
	by := float64(len(weights)) / sum
	for i, w := range weights {
		dst[i] = max(float32(float64(w)*by), leastWeight)
	}
	return true, nil
}

// leastWeight is the share of a mean weight that an element of weight 0 counts.
const leastWeight = 1e-6

func notFinite(x float32) bool { return x-x != 0 }

func typeNames() []string {
	var names []string
	for _, t := range types {
		names = append(names, strings.ToUpper(t.String()))
	}
	return names
}

// Limit returns the largest magnitude that every element of a block of type t
// can have: numbers beyond it are cut off.
func Limit(t graph.DType) float32 {
	const f16 = 65504
	switch t {
	case graph.F16, graph.Q4_1, graph.Q5_1, graph.TQ1_0, graph.TQ2_0:
		return f16
	case graph.Q8_0:
		return 127 * f16
	case graph.Q4_0:
		return 7 * f16
	case graph.Q5_0:
		return 15 * f16
	case graph.Q2_K, graph.Q4_K, graph.Q5_K:
		return 15 * f16
	case graph.Q3_K:
		return 31 * 3 * f16
	case graph.Q6_K:
		return 127 * 31 * f16
	case graph.IQ4_NL:
		return 113 * f16
	case graph.IQ4_XS:
		return 31 * 113 * f16
	case graph.MXFP4:
		return 0x1.8p127
	}
	return math.MaxFloat32
}
