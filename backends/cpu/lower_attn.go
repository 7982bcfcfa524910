package cpu

import (
	"graphrun/backends/cpu/kern"
	"graphrun/graph"
	"graphrun/ops"
)

// attnShares is the number of units of an attention: parts of equal cost, so
// that workers get equal work although later tokens see more positions.
const attnShares = 1 << 10

// lowerAttention divides an attention by cost. Few tokens over few heads share
// partial results through memory that all attentions of a program use in turn.
func lowerAttention(l *lowered, c *graph.Call) error {
	p := c.Param.(*ops.AttentionParam)
	a := &kern.Attention{
		Type: p.Layout.DType, H: p.H, G: p.Layout.G, K: p.Layout.K,
		Window: p.Window, Scale: p.Scale, Softcap: p.Softcap,
	}
	if !kern.AttentionSupported(a.Type, a.K) {
		// Narrower heads are those of toy models, which are fast anyway.
		if kern.Level() != "generic" && a.K >= 32 {
			l.store.notice("attention runs in plain Go and is slow: a %s cache with heads of %d numbers has no kernel, multiples of 16 have (of 32 for q8_0)", a.Type, a.K)
		}
		return nil
	}
	var shared *kern.AttnShared
	if l.store.threads > 1 {
		shared = &l.store.attention
		shared.Grow(a)
		l.exclusive = true
	}
	l.units = func(c *graph.Call) int {
		if c.Out.Rows() == 0 {
			return 0
		}
		return attnShares
	}
	l.cost = func(c *graph.Call) float64 { return attentionCost(c) / attnShares }
	l.scratch = func(*graph.Call) int { return a.ScratchBytes() }
	l.run = func(c *graph.Call, lo, hi int, scratch []byte) {
		q, pages := c.In[0], c.In[4]
		st := kern.AttnStep{
			T: c.Out.Rows(), Q: q.F32, LdQ: q.Stride, Y: c.Out.F32, LdY: c.Out.Stride, Pool: c.In[1].Raw,
			Pos: c.In[2].I32, Seq: c.In[3].I32, Pages: pages.I32, LdPages: pages.Stride, Ring: pages.Dims[1],
		}
		if len(c.In) == 6 {
			st.Sinks = c.In[5].F32
		}
		a.Attend(&st, lo, hi, attnShares, shared, scratch)
	}
	return nil
}

// attentionCost is the cost of an attention whose tokens see only each other;
// what came before the step is not known when the work is divided.
func attentionCost(c *graph.Call) float64 {
	q := c.In[0] // [T,H,K]
	return 2000 + float64(q.Dims[0]*q.Dims[0]*q.Dims[1]*q.Dims[2])/80
}
