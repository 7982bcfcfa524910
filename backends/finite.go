package backends

import (
	"fmt"
	"math"
	"strings"

	"graphrun/graph"
	"graphrun/ops"
)

// ValueError says which value of a step was the first that is not finite, or
// that a 16-bit cache cannot hold. A program compiled with Options.Finite
// returns it from Run.
type ValueError struct {
	Value  *graph.Value
	Index  []int   // of the first such element
	X      float32 // the element
	Inputs []Range
}

// Range is what an argument of the value holds.
type Range struct {
	Value    *graph.Value
	Min, Max float32 // of the finite elements; 0 when there are none
	Bad      int     // elements that are not finite
	Known    bool    // false for activations in blocks and for caches
}

// Error prints one line: value, layer, source line, element, ranges of the
// inputs.
func (e *ValueError) Error() string {
	v := e.Value
	var b strings.Builder
	fmt.Fprintf(&b, "backends: %s = %s", v, v.Op.Name)
	if v.Name != "" {
		fmt.Fprintf(&b, " %q", v.Name)
	}
	if v.Layer >= 0 {
		fmt.Fprintf(&b, " of layer %d", v.Layer)
	}
	if v.Origin != "" {
		fmt.Fprintf(&b, " (%s)", v.Origin)
	}
	if x := float64(e.X); math.IsNaN(x) || math.IsInf(x, 0) {
		fmt.Fprintf(&b, " is the first value that is not finite: %v at %v; inputs: ", e.X, e.Index)
	} else {
		fmt.Fprintf(&b, " is given %v at %v, which f16 cannot hold; inputs: ", e.X, e.Index)
	}
	for i, r := range e.Inputs {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(r.String())
	}
	return b.String()
}

// String prints "v8 attn.norm -1.5 to 2".
func (r Range) String() string {
	s := r.Value.String()
	if r.Value.Name != "" {
		s += " " + r.Value.Name
	}
	if !r.Known {
		return s + " " + r.Value.Type.String()
	}
	s += fmt.Sprintf(" %.4g to %.4g", r.Min, r.Max)
	if r.Bad > 0 {
		s += fmt.Sprintf(" and %d not finite", r.Bad)
	}
	return s
}

// maxF16 is the largest number an f16 holds.
const maxF16 = 65504

// CheckCall returns a *ValueError when the result of a call that was run holds a
// NaN or an infinity, or when it wrote a number beyond f16 into a cache of f16.
// finite reports whether all of x is finite; nil is a plain loop. Only f32 results are looked at: the
// others come from them.
func CheckCall(c *graph.Call, finite func(x []float32) bool) error {
	if c.Value.Op.Is(graph.State) {
		if c.Out.DType != graph.F16 {
			return nil
		}
		for _, x := range c.In[1:] {
			if i, ok := find(x, func(y float32) bool { return y > maxF16 || y < -maxF16 }); ok {
				return newValueError(c, x, i)
			}
		}
		return nil
	}
	y := c.Out
	if y.F32 == nil {
		return nil
	}
	if finite == nil {
		finite = allFinite
	}
	if n := y.RowElems(); y.Stride == n {
		if finite(y.F32[:n*y.Rows()]) {
			return nil
		}
	} else {
		ok := true
		for t := range y.Rows() {
			ok = ok && finite(y.Row(t))
		}
		if ok {
			return nil
		}
	}
	i, _ := find(y, func(x float32) bool { return !isFinite(x) })
	return newValueError(c, y, i)
}

func allFinite(x []float32) bool {
	for _, y := range x {
		if !isFinite(y) {
			return false
		}
	}
	return true
}

func isFinite(x float32) bool { return math.Float32bits(x)<<1 < 0xff<<24 }

// find returns the position of the first element of an f32 tensor that is bad.
func find(x *graph.Tensor, bad func(float32) bool) (i int, ok bool) {
	if x.F32 == nil {
		return 0, false
	}
	for t := range x.Rows() {
		for k, y := range x.Row(t) {
			if bad(y) {
				return t*x.RowElems() + k, true
			}
		}
	}
	return 0, false
}

func newValueError(c *graph.Call, x *graph.Tensor, at int) error {
	n := x.RowElems()
	e := &ValueError{Value: c.Value, X: x.Row(at / n)[at%n], Index: make([]int, len(x.Dims))}
	for d := len(x.Dims) - 1; d >= 0; d-- {
		e.Index[d], at = at%x.Dims[d], at/x.Dims[d]
	}
	for i, a := range c.Value.Args {
		e.Inputs = append(e.Inputs, rangeOf(a, c.In[i]))
	}
	return e
}

// rangeOf looks at every element of a tensor.
func rangeOf(v *graph.Value, x *graph.Tensor) Range {
	r := Range{Value: v, Known: true, Min: float32(math.Inf(1)), Max: float32(math.Inf(-1))}
	add := func(list []float32) {
		for _, y := range list {
			if isFinite(y) {
				r.Min, r.Max = min(r.Min, y), max(r.Max, y)
			} else {
				r.Bad++
			}
		}
	}
	switch {
	case x.F32 != nil:
		for t := range x.Rows() {
			add(x.Row(t))
		}
	case x.I32 != nil:
		for _, y := range x.I32 {
			add([]float32{float32(y)})
		}
	case v.Op == graph.OpWeight && ops.IsWeightType(x.DType):
		row := make([]float32, x.RowElems())
		for t := range x.Rows() {
			ops.DequantRow(x.DType, row, x.RawRow(t))
			add(row)
		}
	default:
		return Range{Value: v}
	}
	if r.Min > r.Max {
		r.Min, r.Max = 0, 0
	}
	return r
}
