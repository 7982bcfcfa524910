package ops

import (
	"fmt"
	"math"

	"graphrun/graph"
)

var opAttention = graph.Register(&graph.Op{
	Name: "attention", Doc: "softmax of q·k over the positions a token sees, times v",
	MinArgs: 5, MaxArgs: 6,
	Attrs: []graph.AttrSpec{
		{Name: "scale", Default: float32(0), Required: true},
		{Name: "window", Default: 0},
		{Name: "softcap", Default: float32(0)},
	},
	Flags: graph.Pure,
	Infer: inferAttention, Prepare: prepareAttention, Units: attentionUnits, Kernel: attentionKernel, Cost: attentionCost,
})

// MaxHeadWidth is the largest K of caches and attention: kernels keep one head
// on the stack.
const MaxHeadWidth = 512

// AttnParams are the constants of an attention.
type AttnParams struct {
	Scale   float32 // factor of the scores
	Window  int     // positions a token sees, itself included; 0 is all
	Softcap float32 // bound of the scores; 0 is off
}

// Attention mixes the values of the positions each token sees.
//
//	s[p] = Scale · sum_d q[t,h,d]·k[p,g,d],  then Softcap·tanh(s[p]/Softcap)
//	y[t,h,:] = sum_p exp(s[p]-m)·v[p,g,:] / (sum_p exp(s[p]-m) + exp(sinks[h]-m)),  g = h/(H/G)
//
// p runs from max(0, pos[t]-Window+1) to pos[t] of sequence seq[t], and m is the
// largest score. q is f32 [T,H,K]; cache is [S,2,G,K] of f32, f16 or q8_0 and
// holds those positions, the tokens' own included; pos and seq are i32 [T];
// pages is i32 [N,C] as in KVWrite; sinks is f32 [H] or nil, which leaves out
// its term. The result has q's type. A unit is a pair of a token and a kv head.
// The sum runs in blocks of KeyBlock positions from position 0 up, so the result
// depends neither on the step's other tokens nor on the pages.
// The builder records ErrShape if an operand has another form, H is no multiple
// of G, K is above 512 or no multiple of a q8_0 cache's 32.
// Source: Milakov and Gimelshein, 2018 (online softmax).
func Attention(b *graph.Builder, q, cache, pos, seq, pages, sinks *graph.Value, p AttnParams) *graph.Value {
	a := graph.MakeAttrs("scale", p.Scale, "window", p.Window, "softcap", p.Softcap)
	if sinks == nil {
		return b.Op(opAttention, a, q, cache, pos, seq, pages)
	}
	return b.Op(opAttention, a, q, cache, pos, seq, pages, sinks)
}

func inferAttention(a []graph.Type, at graph.Attrs) (graph.Type, error) {
	q, cache := a[0], a[1]
	if !isF32(q, 3) || !fixedTail(q.Shape) {
		return graph.Type{}, misfit(0, "q", q, "f32[T,H,K]")
	}
	if err := checkCache(1, cache, q.Shape.Last()); err != nil {
		return graph.Type{}, err
	}
	h, g := q.Shape[1].Size, cache.Shape[2].Size
	if h%g != 0 {
		return graph.Type{}, misfit(0, "q", q, "a multiple of the %d heads of operand 1 (cache)", g)
	}
	if err := checkPlaces(2, a[2], a[3], a[4], q.Shape); err != nil {
		return graph.Type{}, err
	}
	if len(a) == 6 && !isVector(a[5], h) {
		return graph.Type{}, misfit(5, "sinks", a[5], "f32[%d]", h)
	}
	if w := at.Int("window"); w < 0 {
		return graph.Type{}, fmt.Errorf("attribute window is %d, want 0 (off) or the positions a token sees", w)
	}
	if c := float64(at.Float("softcap")); !(c >= 0) || math.IsInf(c, 0) {
		return graph.Type{}, fmt.Errorf("attribute softcap is %v, want 0 (off) or a positive finite number", c)
	}
	if s := float64(at.Float("scale")); math.IsNaN(s) || math.IsInf(s, 0) {
		return graph.Type{}, fmt.Errorf("attribute scale is %v, want a finite number", s)
	}
	return q, nil
}

// AttentionParam is what Attention's kernel knows before it runs; backends
// share it.
type AttentionParam struct {
	AttnParams
	Layout CacheLayout
	H      int
}

func prepareAttention(v *graph.Value) (any, error) {
	return &AttentionParam{
		AttnParams: AttnParams{v.Attrs.Float("scale"), v.Attrs.Int("window"), v.Attrs.Float("softcap")},
		Layout:     LayoutOf(v.Args[1].Type),
		H:          v.Type.Shape[1].Size,
	}, nil
}

func attentionUnits(c *graph.Call) int {
	return c.Out.Rows() * c.Param.(*AttentionParam).Layout.G
}

// attentionCost takes every token to see all positions the page tables hold, or
// its window: the most a step can cost. The cache is counted once for each
// sequence.
func attentionCost(v *graph.Value, b graph.Dims) graph.Cost {
	l := LayoutOf(v.Args[1].Type)
	pages := v.Args[4].Type
	n := b.Of(pages.Shape[1]) * PageSize
	if w := v.Attrs.Int("window"); w > 0 {
		n = min(n, w)
	}
	return graph.Cost{
		MACs:  2 * v.Type.Shape.Elems(b) * n,
		Bytes: 2*v.Type.Bytes(b) + 2*b.Of(pages.Shape[0])*n*l.G*l.RowBytes(),
	}
}
