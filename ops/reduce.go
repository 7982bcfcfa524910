package ops

import (
	"math"

	"graphrun/graph"
)

var opSoftmax = graph.Register(&graph.Op{
	Name: "softmax", Doc: "y = exp(x - max x) / sum of the same, over the last dimension",
	MinArgs: 1, MaxArgs: 1, Flags: graph.Pure,
	Infer: inferRows1, Prepare: prepareLast, Kernel: softmaxKernel,
})

// Softmax turns the last dimension into probabilities.
//
//	y[t,e] = exp(x[t,e] - m) / sum_e exp(x[t,e] - m),  m = max_e x[t,e]
//
// x is f32 [T,E] or [T,H,E], the result has its type. A row of -Inf, or with a
// NaN in it, gives NaN.
// The builder records ErrShape if x is not f32 with two or more dimensions.
func Softmax(b *graph.Builder, x *graph.Value) *graph.Value { return b.Op(opSoftmax, nil, x) }

// inferRows1 accepts f32 rows of vectors and returns the same type.
func inferRows1(a []graph.Type, _ graph.Attrs) (graph.Type, error) {
	if err := checkRows(0, "x", a[0], 2); err != nil {
		return graph.Type{}, err
	}
	return a[0], nil
}

// prepareLast gives kernels the size of the last dimension.
func prepareLast(v *graph.Value) (any, error) { return v.Type.Shape.Last(), nil }

func softmaxKernel(c *graph.Call, lo, hi int) {
	n := c.Param.(int)
	for t := lo; t < hi; t++ {
		x, y := c.In[0].Row(t), c.Out.Row(t)
		for o := 0; o < len(x); o += n {
			softmax(y[o:o+n], x[o:o+n])
		}
	}
}

// softmax writes the probabilities of the scores x to y, which may be x.
func softmax(y, x []float32) {
	m := float32(math.Inf(-1))
	for _, s := range x {
		m = max(m, s)
	}
	sum := 0.0
	for i, s := range x {
		y[i] = float32(math.Exp(float64(s) - float64(m)))
		sum += float64(y[i])
	}
	for i := range y {
		y[i] = float32(float64(y[i]) / sum)
	}
}
