package ops

import (
	"encoding/binary"
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

func attentionKernel(c *graph.Call, lo, hi int) {
	p := c.Param.(*AttentionParam)
	l, group := &p.Layout, p.H/p.Layout.G
	pos, seq, pages := c.In[2].I32, c.In[3].I32, c.In[4]
	var acc [MaxHeadWidth]float32
	for u := lo; u < hi; u++ {
		t, g := u/l.G, u%l.G
		last := int(pos[t])
		first := 0
		if p.Window > 0 {
			first = max(0, last-p.Window+1)
		}
		q, y := c.In[0].Row(t), c.Out.Row(t)
		for h := g * group; h < (g+1)*group; h++ {
			a := onlineSoftmax{max: math.Inf(-1), acc: acc[:l.K]}
			if len(c.In) == 6 { // the sink: a score without a value
				a.max, a.sum = float64(c.In[5].F32[h]), 1
			}
			clear(a.acc)
			for b := first / KeyBlock; b*KeyBlock <= last; b++ {
				p.attendBlock(&a, c.In[1].Raw, pages, int(seq[t]), g, b, first, last, q[h*l.K:(h+1)*l.K])
			}
			for d, s := range a.acc {
				y[h*l.K+d] = float32(float64(s) / a.sum)
			}
		}
	}
}

// onlineSoftmax is a softmax under way: acc and sum are relative to the largest
// score so far, and are scaled when a larger one comes.
type onlineSoftmax struct {
	max, sum float64
	acc      []float32
}

// attendBlock adds positions 16b to 16b+15 as far as they lie in first to last.
func (p *AttentionParam) attendBlock(a *onlineSoftmax, pool []byte, pages *graph.Tensor, s, g, b, first, last int, q []float32) {
	l := &p.Layout
	var scores [KeyBlock]float32
	page := PageOf(pages, s, b*KeyBlock)
	slot := b * KeyBlock % PageSize
	l.scoreBlock(&scores, pool[l.Keys(page, g, slot/KeyBlock):], q)
	lo, hi := max(first-b*KeyBlock, 0), min(last-b*KeyBlock, KeyBlock-1)
	top := a.max
	for i := lo; i <= hi; i++ {
		scores[i] *= p.Scale
		if p.Softcap > 0 {
			scores[i] = softcap(scores[i], p.Softcap)
		}
		top = max(top, float64(scores[i]))
	}
	if top > a.max {
		f := math.Exp(a.max - top) // 0 at the first block
		a.max, a.sum = top, a.sum*f
		for d := range a.acc {
			a.acc[d] *= float32(f)
		}
	}
	for i := lo; i <= hi; i++ {
		// Numerator and denominator use the same rounded number.
		e := float32(math.Exp(float64(scores[i]) - a.max))
		a.sum += float64(e)
		l.addValue(a.acc, pool[l.Values(page, g, slot+i):], e)
	}
}

// scoreBlock computes q·k for the 16 keys of a block: positions are lanes, so
// the sums of all 16 grow side by side. Rows of lanes are arrays, for the
// compiler to know their length.
func (l *CacheLayout) scoreBlock(scores *[KeyBlock]float32, block []byte, q []float32) {
	var sum [KeyBlock]float32
	switch l.DType {
	case graph.F32:
		for d, x := range q {
			k := (*[4 * KeyBlock]byte)(block[d*4*KeyBlock:])
			for i := range sum {
				sum[i] += x * math.Float32frombits(binary.LittleEndian.Uint32(k[4*i:]))
			}
		}
	case graph.F16:
		for d, x := range q {
			k := (*[2 * KeyBlock]byte)(block[d*2*KeyBlock:])
			for i := range sum {
				sum[i] += x * fromF16(binary.LittleEndian.Uint16(k[2*i:]))
			}
		}
	case graph.Q8_0:
		for j := range l.K / 32 {
			var part [KeyBlock]float32
			group := block[l.KeyElem(32*j, 0):]
			for d, x := range q[32*j : 32*j+32] {
				k := (*[KeyBlock]byte)(group[d*KeyBlock:])
				for i := range part {
					part[i] += x * float32(int8(k[i]))
				}
			}
			for i := range sum {
				sum[i] += part[i] * f16At(block, l.KeyScale(j, i))
			}
		}
	}
	*scores = sum
}

// addValue adds e times a value row to acc.
func (l *CacheLayout) addValue(acc []float32, row []byte, e float32) {
	switch l.DType {
	case graph.F32:
		row = row[:4*len(acc)]
		for d := range acc {
			acc[d] += e * math.Float32frombits(binary.LittleEndian.Uint32(row[4*d:]))
		}
	case graph.F16:
		row = row[:2*len(acc)]
		for d := range acc {
			acc[d] += e * fromF16(binary.LittleEndian.Uint16(row[2*d:]))
		}
	case graph.Q8_0:
		for j := range l.K / 32 {
			f := e * f16At(row, 34*j)
			q, y := (*[32]byte)(row[34*j+2:]), (*[32]float32)(acc[32*j:])
			for d := range y {
				y[d] += f * float32(int8(q[d]))
			}
		}
	}
}
