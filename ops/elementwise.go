package ops

import (
	"fmt"
	"math"

	"graphrun/graph"
)

var (
	opAdd = graph.Register(&graph.Op{
		Name: "add", Doc: "y = a + c, c also [last] or [1]",
		MinArgs: 2, MaxArgs: 2, Flags: graph.Pure | graph.Commutative,
		Infer: inferBinary, Prepare: prepareBinary, Kernel: addKernel,
	})
	opMul = graph.Register(&graph.Op{
		Name: "mul", Doc: "y = a · c, c also [last] or [1]",
		MinArgs: 2, MaxArgs: 2, Flags: graph.Pure | graph.Commutative,
		Infer: inferBinary, Prepare: prepareBinary, Kernel: mulKernel,
	})
	opScale = graph.Register(&graph.Op{
		Name: "scale", Doc: "y = x · by",
		MinArgs: 1, MaxArgs: 1, Flags: graph.Pure,
		Attrs: []graph.AttrSpec{{Name: "by", Default: float32(0), Required: true}},
		Infer: inferScale, Prepare: func(v *graph.Value) (any, error) { return v.Attrs.Float("by"), nil },
		Kernel: scaleKernel,
	})
	opSoftcap = graph.Register(&graph.Op{
		Name: "softcap", Doc: "y = cap · tanh(x / cap)",
		MinArgs: 1, MaxArgs: 1, Flags: graph.Pure,
		Attrs: []graph.AttrSpec{{Name: "cap", Default: float32(0), Required: true}},
		Infer: inferSoftcap, Prepare: func(v *graph.Value) (any, error) { return v.Attrs.Float("cap"), nil },
		Kernel: softcapKernel,
	})
	opSiLU = graph.Register(&graph.Op{
		Name: "silu", Doc: "y = x / (1 + exp(-x))",
		MinArgs: 1, MaxArgs: 1, Flags: graph.Pure,
		Infer: inferSame, Kernel: siluKernel,
	})
	opGELU = graph.Register(&graph.Op{
		Name: "gelu", Doc: "y = x/2 · (1 + tanh(sqrt(2/π)·(x + 0.044715·x³)))",
		MinArgs: 1, MaxArgs: 1, Flags: graph.Pure,
		Infer: inferSame, Kernel: geluKernel,
	})
)

// Add adds element by element.
//
//	y[t,d] = a[t,d] + c[t,d]    or  a[t,d] + c[d]    or  a[t,d] + c[0]
//
// a is f32 with any fixed tail, c is of the same type, a vector of a's last
// dimension, or [1]. The result has a's type. The two may change places.
// The builder records ErrShape if neither operand broadcasts to the other.
func Add(b *graph.Builder, a, c *graph.Value) *graph.Value { return b.Op(opAdd, nil, a, c) }

// Mul multiplies element by element.
//
//	y[t,d] = a[t,d] · c[t,d]    or  a[t,d] · c[d]    or  a[t,d] · c[0]
//
// a is f32 with any fixed tail, c is of the same type, a vector of a's last
// dimension, or [1]. The result has a's type. The two may change places.
// The builder records ErrShape if neither operand broadcasts to the other.
func Mul(b *graph.Builder, a, c *graph.Value) *graph.Value { return b.Op(opMul, nil, a, c) }

// Scale multiplies by a number known now.
//
//	y[t,d] = x[t,d] · by
//
// x is f32 of any shape, the result has its type.
// The builder records an error if by is not finite.
func Scale(b *graph.Builder, x *graph.Value, by float32) *graph.Value {
	return b.Op(opScale, graph.MakeAttrs("by", by), x)
}

// Softcap bends numbers smoothly into the open range -cap to cap.
//
//	y[t,d] = cap · tanh(x[t,d] / cap)
//
// x is f32 of any shape, the result has its type.
// The builder records an error unless cap is positive and finite: a model
// without a cap has no such operation, 0 does not mean off.
// Source: Gemma 2 report, 2024, section 2.
func Softcap(b *graph.Builder, x *graph.Value, cap float32) *graph.Value {
	return b.Op(opSoftcap, graph.MakeAttrs("cap", cap), x)
}

// SiLU, GELU and SwigluOAI name the activations of Act, Gated and GatedMatMul.
const (
	SiLU      = "silu"
	GELU      = "gelu"
	SwigluOAI = "swiglu_oai"
)

// Act applies an activation function element by element.
//
//	silu: y = x / (1 + exp(-x))
//	gelu: y = x/2 · (1 + tanh(sqrt(2/π) · (x + 0.044715·x³)))
//
// x is f32 of any shape, the result has its type. kind is SiLU or GELU. No
// finite x gives NaN: the tails are 0 and x.
// The builder records an error for another kind.
// Source: Hendrycks and Gimpel, 2016, the tanh form.
func Act(b *graph.Builder, x *graph.Value, kind string) *graph.Value {
	switch kind {
	case SiLU:
		return b.Op(opSiLU, nil, x)
	case GELU:
		return b.Op(opGELU, nil, x)
	}
	b.Fail(fmt.Errorf("ops: act: unknown activation %q; known: gelu, silu", kind))
	return b.Op(opSiLU, nil, x)
}

// inferSame accepts one f32 operand of any shape and returns its type.
func inferSame(a []graph.Type, _ graph.Attrs) (graph.Type, error) {
	if err := checkRows(0, "x", a[0], 0); err != nil {
		return graph.Type{}, err
	}
	return a[0], nil
}

func inferScale(a []graph.Type, at graph.Attrs) (graph.Type, error) {
	if by := float64(at.Float("by")); math.IsNaN(by) || math.IsInf(by, 0) {
		return graph.Type{}, fmt.Errorf("attribute by is %v, want a finite number", by)
	}
	return inferSame(a, at)
}

func inferSoftcap(a []graph.Type, at graph.Attrs) (graph.Type, error) {
	if c := float64(at.Float("cap")); !(c > 0) || math.IsInf(c, 0) {
		return graph.Type{}, fmt.Errorf("attribute cap is %v, want a positive finite number", c)
	}
	return inferSame(a, at)
}

// broadcast says how the smaller operand of a binary operation is read.
type broadcast uint8

const (
	sameShape broadcast = iota
	vector              // one number per element of the last dimension
	scalar
)

// broadcasts reports whether c can stand beside a, and how.
func broadcasts(a, c graph.Type) (broadcast, bool) {
	switch {
	case a.Equal(c):
		return sameShape, true
	case isVector(c, a.Shape.Last()):
		return vector, true
	case isVector(c, 1):
		return scalar, true
	}
	return 0, false
}

// inferBinary gives the type of the operand the other one broadcasts to.
func inferBinary(a []graph.Type, _ graph.Attrs) (graph.Type, error) {
	for i, name := range []string{"a", "c"} {
		if err := checkRows(i, name, a[i], 1); err != nil {
			return graph.Type{}, err
		}
	}
	if _, ok := broadcasts(a[0], a[1]); ok {
		return a[0], nil
	}
	if _, ok := broadcasts(a[1], a[0]); ok {
		return a[1], nil
	}
	return graph.Type{}, misfit(1, "c", a[1], "%s, f32[%d] or f32[1]", a[0], a[0].Shape.Last())
}

// binaryParam is what a binary operation knows before it runs: which operand
// has the result's shape and how the other is read.
type binaryParam struct {
	wide, small int
	how         broadcast
	last        int
}

func prepareBinary(v *graph.Value) (any, error) {
	p := &binaryParam{wide: 0, small: 1, last: v.Type.Shape.Last()}
	how, ok := broadcasts(v.Args[0].Type, v.Args[1].Type)
	if !ok {
		p.wide, p.small = 1, 0
		how, _ = broadcasts(v.Args[1].Type, v.Args[0].Type)
	}
	p.how = how
	return p, nil
}

func addKernel(c *graph.Call, lo, hi int) {
	p := c.Param.(*binaryParam)
	a, s := c.In[p.wide], c.In[p.small]
	for t := lo; t < hi; t++ {
		y, x := c.Out.Row(t), a.Row(t)
		switch p.how {
		case sameShape:
			for i, z := range s.Row(t) {
				y[i] = x[i] + z
			}
		case vector:
			for o := 0; o < len(x); o += p.last {
				for i, z := range s.F32[:p.last] {
					y[o+i] = x[o+i] + z
				}
			}
		case scalar:
			for i := range x {
				y[i] = x[i] + s.F32[0]
			}
		}
	}
}

func mulKernel(c *graph.Call, lo, hi int) {
	p := c.Param.(*binaryParam)
	a, s := c.In[p.wide], c.In[p.small]
	for t := lo; t < hi; t++ {
		y, x := c.Out.Row(t), a.Row(t)
		switch p.how {
		case sameShape:
			for i, z := range s.Row(t) {
				y[i] = x[i] * z
			}
		case vector:
			for o := 0; o < len(x); o += p.last {
				for i, z := range s.F32[:p.last] {
					y[o+i] = x[o+i] * z
				}
			}
		case scalar:
			for i := range x {
				y[i] = x[i] * s.F32[0]
			}
		}
	}
}

func scaleKernel(c *graph.Call, lo, hi int) {
	by := c.Param.(float32)
	for t := lo; t < hi; t++ {
		y := c.Out.Row(t)
		for i, x := range c.In[0].Row(t) {
			y[i] = x * by
		}
	}
}

func softcapKernel(c *graph.Call, lo, hi int) {
	limit := c.Param.(float32)
	for t := lo; t < hi; t++ {
		SoftcapRow(c.Out.Row(t), c.In[0].Row(t), limit)
	}
}

// SoftcapRow is Softcap for a vector. y may be x.
func SoftcapRow(y, x []float32, limit float32) {
	for i, z := range x {
		y[i] = softcap(z, limit)
	}
}

func siluKernel(c *graph.Call, lo, hi int) {
	for t := lo; t < hi; t++ {
		y := c.Out.Row(t)
		for i, x := range c.In[0].Row(t) {
			y[i] = silu(x)
		}
	}
}

func geluKernel(c *graph.Call, lo, hi int) {
	for t := lo; t < hi; t++ {
		y := c.Out.Row(t)
		for i, x := range c.In[0].Row(t) {
			y[i] = gelu(x)
		}
	}
}

func softcap(x, limit float32) float32 {
	return limit * float32(math.Tanh(float64(x)/float64(limit)))
}

// silu: exp(-x) overflows to +Inf for x far below zero, and x/Inf is -0.
func silu(x float32) float32 {
	return float32(float64(x) / (1 + math.Exp(-float64(x))))
}

// gelu is written with the logistic function, (1 + tanh u)/2 = 1/(1 + exp(-2u)):
// where tanh rounds to -1, 1 + tanh would lose all digits. In float64 u is finite
// for every finite f32 x, and exp(-2u) is 0 or +Inf at worst, which is right.
func gelu(x float32) float32 {
	z := float64(x)
	u := math.Sqrt2 / math.SqrtPi * (z + 0.044715*z*z*z) // sqrt(2/π)
	return float32(z / (1 + math.Exp(-2*u)))
}
