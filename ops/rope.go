package ops

import (
	"fmt"
	"math"

	"graphrun/graph"
)

var opRope = graph.Register(&graph.Op{
	Name: "rope", Doc: "rotates pairs of x by pos · base^(-2i/dims) / factors[i]",
	MinArgs: 2, MaxArgs: 3, Flags: graph.Pure,
	Attrs: ropeAttrs(),
	Infer: inferRope, Prepare: prepareRope, Kernel: ropeKernel,
})

// ropeAttrs are the attributes of a rotation.
func ropeAttrs() []graph.AttrSpec {
	return []graph.AttrSpec{
		{Name: "base", Default: float32(0), Required: true},
		{Name: "dims", Default: 0, Required: true},
		{Name: "half", Default: false},
		{Name: "linear", Default: float32(1)},
		{Name: "yarn", Default: float32(0)},
		{Name: "yarn_context", Default: 0},
		{Name: "yarn_fast", Default: float32(32)},
		{Name: "yarn_slow", Default: float32(1)},
		{Name: "yarn_attn", Default: float32(1)},
	}
}

// RopeParams say which numbers Rope pairs and how fast the pairs turn.
type RopeParams struct {
	// Base is theta: pair i turns by Base^(-2i/Dims) per position.
	Base float32
	// Dims is the number of leading elements of a head that turn; the rest
	// passes through. 0 means all.
	Dims int
	// Half pairs element i with i+Dims/2; otherwise 2i is paired with 2i+1.
	Half bool
	// Linear divides all angles; 0 and 1 are off.
	Linear float32
	// Yarn stretches the low frequencies; the zero value is off.
	Yarn Yarn
}

// Yarn are the numbers of YaRN scaling.
type Yarn struct {
	// Factor divides the angles of slow pairs; 0 is off.
	Factor float32
	// OrigContext is the context in tokens the model was first trained for.
	OrigContext int
	// BetaFast and BetaSlow are turns over OrigContext: pairs that turn more
	// often than BetaFast keep their frequency, less often than BetaSlow are
	// divided by Factor, between them a ramp. 0 means 32 and 1.
	BetaFast, BetaSlow float32
	// AttnFactor multiplies cos and sin beside 1 + 0.1·ln Factor. 0 means 1.
	AttnFactor float32
}

// Rope turns pairs of numbers of each head by an angle that grows with the
// position.
//
//	(a, b) -> m·(a·cos φ - b·sin φ), m·(a·sin φ + b·cos φ)
//	φ = pos[t] · f[i] / factors[i],  f[i] = Base^(-2i/Dims) / Linear,  m = 1
//
// With YaRN, r[i] being 1 for pairs that keep their frequency and 0 for those
// that are divided, f[i] = Base^(-2i/Dims)·((1-r[i])/Factor + r[i]) and
// m = (1 + 0.1·ln Factor)·AttnFactor.
//
// x is f32 [T,H,K], pos is i32 [T], factors is f32 [Dims/2] or nil for 1. The
// result has x's type. Angles, cos and sin are computed in float64 from the
// position itself, so they do not depend on how a prompt was cut.
// The builder records ErrShape if pos or factors do not fit x, and an error if
// Dims is odd or above K, Base is not above 0, or Linear and Yarn are both on.
// Source: Su et al., 2021; Chen et al., 2023 (linear); Peng et al., 2023 (YaRN).
func Rope(b *graph.Builder, x, pos, factors *graph.Value, p RopeParams) *graph.Value {
	a := p.attrs(x.Type.Shape.Last())
	if factors == nil {
		return b.Op(opRope, a, x, pos)
	}
	return b.Op(opRope, a, x, pos, factors)
}

// attrs returns the attributes of a rotation of heads of k elements.
func (p RopeParams) attrs(k int) graph.Attrs {
	if p.Dims == 0 {
		p.Dims = k
	}
	a := graph.MakeAttrs("base", p.Base, "dims", p.Dims, "half", p.Half)
	if p.Linear != 0 {
		a = a.With("linear", p.Linear)
	}
	if y := p.Yarn; y.Factor != 0 {
		a = a.With("yarn", y.Factor).With("yarn_context", y.OrigContext)
		if y.BetaFast != 0 {
			a = a.With("yarn_fast", y.BetaFast)
		}
		if y.BetaSlow != 0 {
			a = a.With("yarn_slow", y.BetaSlow)
		}
		if y.AttnFactor != 0 {
			a = a.With("yarn_attn", y.AttnFactor)
		}
	}
	return a
}

func inferRope(a []graph.Type, at graph.Attrs) (graph.Type, error) {
	if !isF32(a[0], 3) || !fixedTail(a[0].Shape) {
		return graph.Type{}, misfit(0, "x", a[0], "f32[T,H,K]")
	}
	if !isIndex(a[1], a[0].Shape) {
		return graph.Type{}, misfit(1, "pos", a[1], "i32[%s]", a[0].Shape[0])
	}
	k, dims := a[0].Shape.Last(), at.Int("dims")
	if dims <= 0 || dims%2 != 0 || dims > k {
		return graph.Type{}, fmt.Errorf("attribute dims is %d, want an even number from 2 to %d, the head width", dims, k)
	}
	if len(a) == 3 && !isVector(a[2], dims/2) {
		return graph.Type{}, misfit(2, "factors", a[2], "f32[%d]", dims/2)
	}
	for _, key := range []string{"base", "linear", "yarn_fast", "yarn_slow", "yarn_attn"} {
		if f := float64(at.Float(key)); !(f > 0) || math.IsInf(f, 0) {
			return graph.Type{}, fmt.Errorf("attribute %s is %v, want a positive finite number", key, f)
		}
	}
	if y := float64(at.Float("yarn")); y != 0 {
		switch {
		case !(y >= 1) || math.IsInf(y, 0):
			return graph.Type{}, fmt.Errorf("attribute yarn is %v, want 0 (off) or a finite factor of at least 1", y)
		case at.Int("yarn_context") <= 0:
			return graph.Type{}, fmt.Errorf("attribute yarn_context is %d, want the tokens of the original context", at.Int("yarn_context"))
		case at.Float("linear") != 1:
			return graph.Type{}, fmt.Errorf("attributes linear and yarn are both set, want one of them")
		case at.Float("base") == 1:
			return graph.Type{}, fmt.Errorf("attribute base is 1, want another base with yarn")
		}
	}
	return a[0], nil
}

// RopeParam is what Rope's kernel knows before it runs; backends share it.
type RopeParam struct {
	K, Dims int
	Half    bool
	Freq    []float64 // radians per position, one per pair
	Mscale  float64   // factor of cos and sin
}

func prepareRope(v *graph.Value) (any, error) {
	return newRopeParam(v.Attrs, v.Type.Shape.Last()), nil
}

func newRopeParam(a graph.Attrs, k int) *RopeParam {
	p := &RopeParam{K: k, Dims: a.Int("dims"), Half: a.Bool("half")}
	p.Freq, p.Mscale = ropeFrequencies(a)
	return p
}

// ropeFrequencies returns the angle of each pair per position, before the
// frequency factors, and the factor of cos and sin.
func ropeFrequencies(a graph.Attrs) (freq []float64, mscale float64) {
	dims, base := a.Int("dims"), float64(a.Float("base"))
	freq = make([]float64, dims/2)
	for i := range freq {
		freq[i] = math.Pow(base, -2*float64(i)/float64(dims)) / float64(a.Float("linear"))
	}
	factor := float64(a.Float("yarn"))
	if factor == 0 {
		return freq, 1
	}
	// dim(r) is the element at which a pair turns r times over the original
	// context.
	dim := func(r float32) float64 {
		c := float64(a.Int("yarn_context"))
		return float64(dims) * math.Log(c/(2*math.Pi*float64(r))) / (2 * math.Log(base))
	}
	lo := max(0, math.Floor(dim(a.Float("yarn_fast"))))
	hi := min(float64(dims-1), math.Ceil(dim(a.Float("yarn_slow"))))
	for i := range freq {
		keep := 1 - min(1, max(0, (float64(i)-lo)/max(0.001, hi-lo)))
		freq[i] *= (1-keep)/factor + keep
	}
	return freq, (1 + 0.1*math.Log(factor)) * float64(a.Float("yarn_attn"))
}

func ropeKernel(c *graph.Call, lo, hi int) {
	p := c.Param.(*RopeParam)
	for t := lo; t < hi; t++ {
		p.Turn(c.Out.Row(t), c.In[0].Row(t), int(c.In[1].I32[t]), factorsOf(c, 2))
	}
}

// factorsOf returns the frequency factors, operand i, nil when there are none.
func factorsOf(c *graph.Call, i int) []float32 {
	if i >= len(c.In) {
		return nil
	}
	return c.In[i].F32
}

// Turn writes the heads of x, turned to position pos, to y, which may be x.
// factors may be nil.
func (p *RopeParam) Turn(y, x []float32, pos int, factors []float32) {
	for i, f := range p.Freq {
		if factors != nil {
			f /= float64(factors[i])
		}
		sin, cos := math.Sincos(float64(pos) * f)
		s, k := float32(sin*p.Mscale), float32(cos*p.Mscale)
		first, second := 2*i, 2*i+1
		if p.Half {
			first, second = i, i+p.Dims/2
		}
		for o := 0; o < len(x); o += p.K {
			a, b := x[o+first], x[o+second]
			y[o+first] = a*k - b*s
			y[o+second] = a*s + b*k
		}
	}
	for o := 0; o < len(x); o += p.K {
		copy(y[o+p.Dims:o+p.K], x[o+p.Dims:o+p.K])
	}
}
