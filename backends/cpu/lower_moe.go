package cpu

import (
	"graphrun/backends/cpu/kern"
	"graphrun/graph"
)

// expertProduct multiplies tokens with the matrices of their chosen experts: E
// matrices of n rows.
type expertProduct struct {
	all      kern.Mat
	n        int
	rowBytes int
}

// expertRows is the number of rows of an expert that make a unit where tokens
// are grouped, and that are held before they go to their tokens: few enough to
// stay in the second cache level.
const expertRows = 64

// lowerExpertMatMul has two ways. With one token the units are rows, the same
// ones of each chosen expert. With more, tokens are grouped by expert, so that
// each expert's rows are read and unpacked once for all tokens that chose it;
// units are pieces of an expert.
func lowerExpertMatMul(l *lowered, c *graph.Call) error {
	all, err := l.matOf(c.In[1])
	if err != nil {
		return err
	}
	if err := checkAct(c.In[0], all); err != nil {
		return err
	}
	experts, n := c.In[1].Dims[0], c.In[1].Dims[1]
	p := &expertProduct{all, n, all.Type.RowBytes(all.K)}
	one := kern.Mat{Type: all.Type, Data: all.Data, N: n, K: all.K, Uniform: all.Uniform}
	l.units = func(c *graph.Call) int {
		switch c.Out.Rows() {
		case 0:
			return 0
		case 1:
			return n
		}
		return experts * p.pieces()
	}
	l.grain = func(c *graph.Call) int {
		if c.Out.Rows() == 1 {
			return kern.Grain(&one, 1)
		}
		return 1
	}
	l.cost = func(c *graph.Call) float64 {
		pairs := c.Out.Rows() * c.In[2].Dims[1]
		if c.Out.Rows() == 1 {
			return float64(pairs) * matCost(&one, 1)
		}
		each := matCost(&one, (pairs+experts-1)/experts)
		return float64(min(experts, pairs)) / float64(experts) * each * expertRows
	}
	l.scratch = func(c *graph.Call) int {
		most := p.most(c)
		return p.groupBytes(most) + max(kern.ScratchBytes(&one, 1), kern.ScratchBytes(&one, most))
	}
	l.run = func(c *graph.Call, lo, hi int, scratch []byte) {
		if c.Out.Rows() == 1 {
			p.single(c, lo, hi, scratch)
		} else {
			p.grouped(c, lo, hi, scratch)
		}
	}
	return nil
}

// pieces is the number of units of an expert.
func (p *expertProduct) pieces() int { return (p.n + expertRows - 1) / expertRows }

// rows returns rows lo to hi-1 of expert e.
func (p *expertProduct) rows(e, lo, hi int) kern.Mat {
	return kern.Mat{Type: p.all.Type, Data: p.all.Data[(e*p.n+lo)*p.rowBytes : (e*p.n+hi)*p.rowBytes], N: hi - lo, K: p.all.K, Uniform: p.all.Uniform}
}

// activation returns the row of token t for its u-th expert: its own, or the
// token's only one.
func activation(c *graph.Call, t, u int) []byte {
	x, used := c.In[0], c.In[2].Dims[1]
	row := rowBytesOf(x, t)
	if len(x.Dims) == 3 {
		step := len(row) / used
		return row[u*step : (u+1)*step]
	}
	return row
}

// single computes rows lo to hi-1 of each chosen expert of the only token.
func (p *expertProduct) single(c *graph.Call, lo, hi int, scratch []byte) {
	for u := range c.In[2].Dims[1] {
		w := p.rows(int(c.In[2].I32[u]), 0, p.n)
		x := activation(c, 0, u)
		kern.Mul(c.Out.Row(0)[u*p.n:(u+1)*p.n], p.n, &w, x, len(x), 1, lo, hi, scratch)
	}
}

// most is the number of pairs of a token and an expert that are multiplied
// together: all of an expert, as a token chooses it once.
func (p *expertProduct) most(c *graph.Call) int { return c.Out.Rows() + c.In[2].Dims[1] }

// xBytes is the size of an activation.
func (p *expertProduct) xBytes() int { return kern.ActType(p.all.Type).RowBytes(p.all.K) }

// groupBytes is the size of what grouped keeps for up to most pairs: their
// numbers, their activations and a tile of results.
func (p *expertProduct) groupBytes(most int) int {
	return aligned(4*most) + aligned(most*p.xBytes()) + 4*most*expertRows
}

func aligned(n int) int { return (n + 63) &^ 63 }

// grouped computes units lo to hi-1: for each expert it gathers the activations
// of the tokens that chose it and multiplies them together.
func (p *expertProduct) grouped(c *graph.Call, lo, hi int, scratch []byte) {
	ids, used, most := c.In[2], c.In[2].Dims[1], p.most(c)
	g := expertGroup{pairs: ints(scratch[:4*most]), xBytes: p.xBytes(), used: used}
	mem := scratch[aligned(4*most):]
	g.x, mem = mem[:most*g.xBytes], mem[aligned(most*g.xBytes):]
	g.tile, g.scratch = floats(mem[:4*most*expertRows]), mem[4*most*expertRows:]
	for u := lo; u < hi; {
		e, first := u/p.pieces(), u%p.pieces()
		last := min(p.pieces(), first+hi-u)
		u += last - first
		for t := 0; t < c.Out.Rows(); {
			n := 0
			for ; t < c.Out.Rows() && n+used <= most; t++ {
				for i, id := range ids.I32[t*ids.Stride : t*ids.Stride+used] {
					if int(id) == e {
						g.pairs[n] = int32(t*used + i)
						copy(g.x[n*g.xBytes:(n+1)*g.xBytes], activation(c, t, i))
						n++
					}
				}
			}
			if n > 0 {
				p.multiply(c, &g, n, e, first*expertRows, min(p.n, last*expertRows))
			}
		}
	}
}

// expertGroup is the memory of grouped.
type expertGroup struct {
	pairs   []int32 // token times used plus number of its choice
	x       []byte
	xBytes  int
	used    int
	tile    []float32
	scratch []byte
}

// multiply computes rows lo to hi-1 of expert e for the first n pairs.
func (p *expertProduct) multiply(c *graph.Call, g *expertGroup, n, e, lo, hi int) {
	for r := lo; r < hi; r += expertRows {
		end := min(hi, r+expertRows)
		w := p.rows(e, r, end)
		kern.Mul(g.tile, expertRows, &w, g.x, g.xBytes, n, 0, end-r, g.scratch)
		for j, pair := range g.pairs[:n] {
			t, i := int(pair)/g.used, int(pair)%g.used
			copy(c.Out.Row(t)[i*p.n+r:i*p.n+end], g.tile[j*expertRows:])
		}
	}
}
