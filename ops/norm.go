package ops

import (
	"fmt"
	"math"

	"graphrun/graph"
)

var (
	opRMSNorm = graph.Register(&graph.Op{
		Name: "rmsnorm", Doc: "y = x · w / sqrt(mean x² + eps), over the last dimension",
		MinArgs: 1, MaxArgs: 2, Flags: graph.Pure,
		Attrs: []graph.AttrSpec{{Name: "eps", Default: float32(0), Required: true}},
		Infer: inferRMSNorm, Prepare: prepareRMSNorm, Kernel: rmsnormKernel,
	})
	opRMSNormAdd = graph.Register(&graph.Op{
		Name: "rmsnormadd", Doc: "y = z + x · w / sqrt(mean x² + eps)",
		MinArgs: 3, MaxArgs: 3, Flags: graph.Pure,
		Attrs: []graph.AttrSpec{{Name: "eps", Default: float32(0), Required: true}},
		Infer: inferRMSNormAdd, Prepare: prepareRMSNorm, Kernel: rmsnormAddKernel,
	})
	opRMSNormQuant = graph.Register(&graph.Op{
		Name: "rmsnormquant", Doc: "rmsnorm and quantize in one go",
		MinArgs: 1, MaxArgs: 2, Flags: graph.Pure,
		Attrs: []graph.AttrSpec{{Name: "eps", Default: float32(0), Required: true}, {Name: "to", Default: "", Required: true}},
		Infer: inferRMSNormQuant, Prepare: prepareRMSNorm, Kernel: rmsnormQuantKernel,
	})
)

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

// NormRow writes y = x · w / sqrt(mean x² + eps) for one vector; w may be nil.
// The squares are summed in float64. One rounding to f32 for the factor; then
// two products, factor first. y may be x.
func NormRow(y, x, w []float32, eps float64) { normPart(y, x, w, normFactor(x, eps)) }

func normFactor(x []float32, eps float64) float32 {
	sum := 0.0
	for _, z := range x {
		sum += float64(z) * float64(z)
	}
	return float32(1 / math.Sqrt(sum/float64(len(x))+eps))
}

func normPart(y, x, w []float32, f float32) {
	if w == nil {
		for i := range x {
			y[i] = x[i] * f
		}
		return
	}
	for i, w := range w[:len(x)] {
		y[i] = x[i] * f * w
	}
}

// weight returns the weight of a norm call, nil when it has none.
func (p *rmsnormParam) weight(c *graph.Call) []float32 {
	if len(c.In) < 2 {
		return nil
	}
	return c.In[1].F32[:p.n]
}

func rmsnormKernel(c *graph.Call, lo, hi int) {
	p := c.Param.(*rmsnormParam)
	for t := lo; t < hi; t++ {
		x, y := c.In[0].Row(t), c.Out.Row(t)
		for o := 0; o < len(x); o += p.n {
			NormRow(y[o:o+p.n], x[o:o+p.n], p.weight(c), p.eps)
		}
	}
}

// RMSNormAdd is a norm and the addition of its result to the residual z, made
// by the pass fuse-norm-residual.
//
//	y[t,d] = z[t,d] + x[t,d] · w[d] / sqrt(mean_d x[t,d]² + eps)
//
// x and z are f32 of the same type, w is a vector of the last dimension, the
// result has x's type.
// The builder records ErrShape as RMSNorm and if z differs from x.
func RMSNormAdd(b *graph.Builder, x, w, z *graph.Value, eps float32) *graph.Value {
	return b.Op(opRMSNormAdd, graph.MakeAttrs("eps", eps), x, w, z)
}

func inferRMSNormAdd(a []graph.Type, at graph.Attrs) (graph.Type, error) {
	t, err := inferRMSNorm(a[:2], at)
	if err == nil && !a[2].Equal(t) {
		err = misfit(2, "z", a[2], "%s, the type of operand 0 (x)", t)
	}
	return t, err
}

func rmsnormAddKernel(c *graph.Call, lo, hi int) {
	p := c.Param.(*rmsnormParam)
	for t := lo; t < hi; t++ {
		x, z, y := c.In[0].Row(t), c.In[2].Row(t), c.Out.Row(t)
		for o := 0; o < len(x); o += p.n {
			NormRow(y[o:o+p.n], x[o:o+p.n], p.weight(c), p.eps)
		}
		for i := range y {
			y[i] += z[i]
		}
	}
}

// RMSNormQuant is a norm whose result is only wanted in the quantized form, made
// by the pass fuse-norm-quantize: Quantize(RMSNorm(x, w)).
//
// x is f32 [T,K], w is f32 [K] or nil, the result is of the type to, q8 or q8k,
// and x's shape.
// The builder records ErrShape as RMSNorm and Quantize.
func RMSNormQuant(b *graph.Builder, x, w *graph.Value, eps float32, to graph.DType) *graph.Value {
	a := graph.MakeAttrs("eps", eps, "to", to.String())
	if w == nil {
		return b.Op(opRMSNormQuant, a, x)
	}
	return b.Op(opRMSNormQuant, a, x, w)
}

func inferRMSNormQuant(a []graph.Type, at graph.Attrs) (graph.Type, error) {
	t, err := inferRMSNorm(a, at)
	if err == nil && len(t.Shape) != 2 {
		err = misfit(0, "x", t, "f32[T,K]")
	}
	if err != nil {
		return graph.Type{}, err
	}
	return inferQuantize([]graph.Type{t}, at)
}

func rmsnormQuantKernel(c *graph.Call, lo, hi int) {
	p := c.Param.(*rmsnormParam)
	var buf [chunkElems]float32
	block := c.Out.DType.BlockElems()
	for t := lo; t < hi; t++ {
		x, w := c.In[0].Row(t), p.weight(c)
		f := normFactor(x, p.eps)
		for at := 0; at < p.n; at += block {
			if w != nil {
				w = p.weight(c)[at:]
			}
			normPart(buf[:block], x[at:at+block], w, f)
			quantizeAt(c.Out.DType, c.Out.RawRow(t), p.n, at, buf[:block])
		}
	}
}
