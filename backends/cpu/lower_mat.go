package cpu

import (
	"fmt"

	"graphrun/backends/cpu/kern"
	"graphrun/graph"
	"graphrun/ops"
)

// matRows is a matrix of which unit i of an instruction reads row i-first, if it
// has that row.
type matRows struct {
	kern.Mat
	first int
}

// finish is what a product does to columns lo to hi-1 of its result while they
// are in a cache.
type finish func(c *graph.Call, lo, hi int)

// lowerMatMul is for products with one matrix, or with several whose results lie
// side by side.
func lowerMatMul(l *lowered, c *graph.Call) error { return lowerProduct(l, c, c.In[1:], nil) }

// lowerMatMulAdd adds a residual or a bias.
func lowerMatMulAdd(l *lowered, c *graph.Call) error {
	bias := len(c.In[2].Dims) == 1
	add := addTo
	if kern.VectorsSupported() {
		add = func(y, z []float32) { kern.Add(y, y, z) }
	}
	return lowerProduct(l, c, c.In[1:2], func(c *graph.Call, lo, hi int) {
		for t := range c.Out.Rows() {
			if bias {
				add(c.Out.Row(t)[lo:hi], c.In[2].F32[lo:hi])
			} else {
				add(c.Out.Row(t)[lo:hi], c.In[2].Row(t)[lo:hi])
			}
		}
	})
}

func addTo(y, z []float32) {
	for i, x := range z {
		y[i] += x
	}
}

// lowerMatMulCap bends the results.
func lowerMatMulCap(l *lowered, c *graph.Call) error {
	bend := softcap(c)
	if bend == nil || !kern.VectorsSupported() {
		limit := c.Param.(float32)
		bend = func(y, x []float32) { ops.SoftcapRow(y, x, limit) }
	}
	return lowerProduct(l, c, c.In[1:], func(c *graph.Call, lo, hi int) {
		for t := range c.Out.Rows() {
			y := c.Out.Row(t)[lo:hi]
			bend(y, y)
		}
	})
}

// lowerProduct multiplies the rows of operand 0 by matrices whose results lie
// side by side. A unit is a column.
func lowerProduct(l *lowered, c *graph.Call, weights []*graph.Tensor, after finish) error {
	mats := make([]kern.Mat, len(weights))
	n := 0
	for i, w := range weights {
		m, err := l.matOf(w)
		if err != nil {
			return err
		}
		if err := checkAct(c.In[0], m); err != nil {
			return err
		}
		mats[i] = m
		l.mats = append(l.mats, matRows{m, n})
		n += m.N
	}
	l.units = func(c *graph.Call) int {
		if c.In[0].Rows() == 0 {
			return 0
		}
		return n
	}
	l.grain = func(c *graph.Call) int {
		g := 1
		for i := range mats {
			g = max(g, kern.Grain(&mats[i], c.In[0].Rows()))
		}
		return g
	}
	l.cost = func(c *graph.Call) float64 {
		sum := 0.0
		for i := range mats {
			sum += float64(mats[i].N) * matCost(&mats[i], c.In[0].Rows())
		}
		return sum / float64(n)
	}
	l.scratch = func(c *graph.Call) int {
		most := 0
		for i := range mats {
			most = max(most, kern.ScratchBytes(&mats[i], c.In[0].Rows()))
		}
		return most
	}
	l.run = func(c *graph.Call, lo, hi int, scratch []byte) {
		x, stride := rows(c.In[0])
		at := 0
		for i := range mats {
			m := &mats[i]
			from, to := max(lo-at, 0), min(hi-at, m.N)
			if from < to {
				kern.Mul(c.Out.F32[at:], c.Out.Stride, m, x, stride, c.In[0].Rows(), from, to, scratch)
			}
			at += m.N
		}
		if after != nil {
			after(c, lo, hi)
		}
	}
	return nil
}

// heldBytes bounds the rows of each product that are held before they meet: in
// the last cache level. A product arranges its activations anew for each piece,
// which is a loss with few rows.
const heldBytes = 1 << 20

// heldRows returns the number of rows held for t tokens, a multiple of block,
// itself a power of two.
func heldRows(t, block int) int {
	return max(64, block, min(4096, heldBytes/(4*t)&^(max(64, block)-1)))
}

// lowerGatedMatMul multiplies by gate and up and joins the results. Where the
// operation is the quantizing one they are joined in scratch memory and rounded
// from there; a unit is a column all the same, in multiples of a block.
func lowerGatedMatMul(l *lowered, c *graph.Call) error {
	gate, err := l.matOf(c.In[1])
	if err != nil {
		return err
	}
	up, err := l.matOf(c.In[2])
	if err != nil {
		return err
	}
	for _, w := range []kern.Mat{gate, up} {
		if err := checkAct(c.In[0], w); err != nil {
			return err
		}
	}
	gateOf, ok := c.Param.(func(gate, up float32) float32)
	if !ok {
		return fmt.Errorf("the operation's parameter is a %T, not a gate function", c.Param)
	}
	join := kern.GateOf(c.Value.Attrs.Str("act"))
	if join == nil {
		join = func(y, x, z []float32) {
			for i := range y {
				y[i] = gateOf(x[i], z[i])
			}
		}
	}
	to := c.Out.DType
	block := to.BlockElems() // 1 for f32
	l.units = func(c *graph.Call) int {
		if c.In[0].Rows() == 0 {
			return 0
		}
		return gate.N
	}
	l.mats = []matRows{{up, 0}, {gate, 0}}
	l.grain = func(c *graph.Call) int {
		g := max(kern.Grain(&gate, c.In[0].Rows()), kern.Grain(&up, c.In[0].Rows()))
		return (g + block - 1) / block * block
	}
	l.cost = func(c *graph.Call) float64 { return matCost(&gate, c.In[0].Rows()) + matCost(&up, c.In[0].Rows()) }
	// Rows lie a cache line further apart than they are long: at a distance of a
	// power of two they would fall on each other in the caches.
	const apart = 16
	held := func(t int) int { return aligned(4 * t * (heldRows(t, block) + apart)) }
	l.scratch = func(c *graph.Call) int {
		t := c.In[0].Rows()
		// One token may hold most rows, many tokens most bytes.
		n := max(held(1), held(t), heldBytes+aligned(4*apart*t))
		if to != graph.F32 {
			n += n
		}
		return n + max(kern.ScratchBytes(&gate, t), kern.ScratchBytes(&up, t))
	}
	upRow := up.Type.RowBytes(up.K)
	l.run = func(c *graph.Call, lo, hi int, scratch []byte) {
		t := c.In[0].Rows()
		x, stride := rows(c.In[0])
		most, size := heldRows(t, block), held(t)
		ups, scratch := floats(scratch[:size]), scratch[size:]
		var gates []float32
		if to != graph.F32 {
			gates, scratch = floats(scratch[:size]), scratch[size:]
		}
		for n := lo; n < hi; n += most {
			b := min(most, hi-n)
			ld := b + apart
			part := kern.Mat{Type: up.Type, Data: up.Data[n*upRow:], N: b, K: up.K, Uniform: up.Uniform}
			kern.Mul(ups, ld, &part, x, stride, t, 0, b, scratch)
			if to == graph.F32 {
				kern.Mul(c.Out.F32, c.Out.Stride, &gate, x, stride, t, n, n+b, scratch)
				for i := range t {
					y := c.Out.Row(i)[n : n+b]
					join(y, y, ups[i*ld:i*ld+b])
				}
				continue
			}
			gatePart := part
			gatePart.Type, gatePart.Data = gate.Type, gate.Data[n*gate.Type.RowBytes(gate.K):]
			kern.Mul(gates, ld, &gatePart, x, stride, t, 0, b, scratch)
			for i := range t {
				y := gates[i*ld : i*ld+b]
				join(y, y, ups[i*ld:i*ld+b])
				kern.QuantizePart(to, c.Out.RawRow(i), gate.N, n, y)
			}
		}
	}
	return nil
}
