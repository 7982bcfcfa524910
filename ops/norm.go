package ops

import (
	"fmt"
	"math"

	"graphrun/graph"
)

var opRMSNorm = graph.Register(&graph.Op{
	Name: "rmsnorm", Doc: "y = x · w / sqrt(mean x² + eps), over the last dimension",
	MinArgs: 1, MaxArgs: 2, Flags: graph.Pure,
	Attrs: []graph.AttrSpec{{Name: "eps", Default: float32(0), Required: true}},
	Infer: inferRMSNorm, Prepare: prepareRMSNorm, Kernel: rmsnormKernel,
})

// RMSNorm scales each vector of the last dimension by the inverse of its root
// mean square.
//
//	y[t,d] = x[t,d] · w[d] / sqrt(mean_d x[t,d]² + eps)
//
// x is [T,D] or [T,H,K] f32, w is [D] or [K] f32 or nil for no weight, the
// result has x's type. eps is added inside the root. The squares are summed in
// float64, so no f32 x overflows.
// The builder records ErrShape if w is not a vector of x's last dimension, and
// an error if eps is negative or not finite.
// Source: Zhang and Sennrich, 2019.
func RMSNorm(b *graph.Builder, x, w *graph.Value, eps float32) *graph.Value {
	a := graph.MakeAttrs("eps", eps)
	if w == nil {
		return b.Op(opRMSNorm, a, x)
	}
	return b.Op(opRMSNorm, a, x, w)
}

func inferRMSNorm(a []graph.Type, at graph.Attrs) (graph.Type, error) {
	if err := checkRows(0, "x", a[0], 2); err != nil {
		return graph.Type{}, err
	}
	if n := a[0].Shape.Last(); len(a) == 2 && !isVector(a[1], n) {
		return graph.Type{}, misfit(1, "w", a[1], "f32[%d]", n)
	}
	if eps := float64(at.Float("eps")); !(eps >= 0) || math.IsInf(eps, 0) {
		return graph.Type{}, fmt.Errorf("attribute eps is %v, want a finite number of at least 0", eps)
	}
	return a[0], nil
}

type rmsnormParam struct {
	n   int // size of the last dimension
	eps float64
}

func prepareRMSNorm(v *graph.Value) (any, error) {
	return &rmsnormParam{v.Type.Shape.Last(), float64(v.Attrs.Float("eps"))}, nil
}

func rmsnormKernel(c *graph.Call, lo, hi int) {
	p := c.Param.(*rmsnormParam)
	for t := lo; t < hi; t++ {
		x, y := c.In[0].Row(t), c.Out.Row(t)
		for o := 0; o < len(x); o += p.n {
			x, y := x[o:o+p.n], y[o:o+p.n]
			sum := 0.0
			for _, z := range x {
				sum += float64(z) * float64(z)
			}
			// One rounding to f32 for the factor; then two products, factor first.
			f := float32(1 / math.Sqrt(sum/float64(p.n)+p.eps))
			if len(c.In) == 2 {
				for i, w := range c.In[1].F32[:p.n] {
					y[i] = x[i] * f * w
				}
			} else {
				for i := range x {
					y[i] = x[i] * f
				}
			}
		}
	}
}
