package cpu

import (
	"fmt"
	"math"
	"slices"

	"graphrun/backends/cpu/kern"
	"graphrun/graph"
	"graphrun/ops"
)

// vectorLowerings are operations with kernels over vectors. Without them the
// plain-Go kernels run.
var vectorLowerings = map[string]lowering{
	"add": lowerBinary(kern.Add, kern.AddScalar),
	"mul": lowerBinary(kern.Mul2, kern.Scale),
	"scale": lowerElements(func(c *graph.Call) elements {
		by := c.Param.(float32)
		return func(y, x []float32) { kern.Scale(y, x, by) }
	}),
	"silu":        lowerElements(func(*graph.Call) elements { return kern.SiLU }),
	"gelu":        lowerElements(func(*graph.Call) elements { return kern.GELU }),
	"softcap":     lowerElements(softcap),
	"gated":       lowerGated,
	"gatedhalves": lowerGatedHalves,
	"rmsnorm":     lowerRMSNorm,
	"softmax":     lowerSoftmax,
	"rope":        lowerRope,
	"kvwrite":     lowerKVWrite,
	"ropewrite":   lowerRopeWrite,
	"rmsnormadd":  lowerRMSNormAdd,
}

func init() {
	for name, low := range vectorLowerings {
		lowerings[name] = func(l *lowered, c *graph.Call) error {
			if !kern.VectorsSupported() || c.Out.RowElems() == 0 {
				return nil
			}
			return low(l, c)
		}
	}
}

// pieceElems is the number of elements of a row that make a unit, so that the
// few long rows of a large vocabulary are divided as well.
const pieceElems = 8192

// pieces divides rows into units of up to pieceElems elements: f computes
// elements from to to-1 of row t.
func (l *lowered) pieces(c *graph.Call, f func(c *graph.Call, t, from, to int)) {
	n := c.Out.RowElems()
	per := (n + pieceElems - 1) / pieceElems
	l.units = func(c *graph.Call) int { return c.Out.Rows() * per }
	l.run = func(c *graph.Call, lo, hi int, _ []byte) {
		for u := lo; u < hi; u++ {
			from := u % per * pieceElems
			f(c, u/per, from, min(n, from+pieceElems))
		}
	}
}

// rowwise runs f for each row.
func (l *lowered) rowwise(f func(c *graph.Call, t int)) {
	l.run = func(c *graph.Call, lo, hi int, _ []byte) {
		for t := lo; t < hi; t++ {
			f(c, t)
		}
	}
}

type elements func(y, x []float32)

func lowerElements(of func(c *graph.Call) elements) lowering {
	return func(l *lowered, c *graph.Call) error {
		f := of(c)
		if f == nil {
			return nil
		}
		l.pieces(c, func(c *graph.Call, t, from, to int) { f(c.Out.Row(t)[from:to], c.In[0].Row(t)[from:to]) })
		return nil
	}
}

func softcap(c *graph.Call) elements {
	limit := c.Param.(float32)
	if limit < 1e-30 { // its inverse would overflow
		return nil
	}
	return func(y, x []float32) { kern.Softcap(y, x, limit) }
}

// lowerBinary is for a commutative operation: both computes with two vectors,
// one with a vector and a number.
func lowerBinary(both func(y, x, z []float32), one func(y, x []float32, c float32)) lowering {
	return func(l *lowered, c *graph.Call) error {
		wide, small := 0, 1
		out := c.Value.Type
		if !c.Value.Args[0].Type.Equal(out) {
			wide, small = 1, 0
		}
		last := out.Shape.Last()
		switch s := c.Value.Args[small].Type; {
		case s.Equal(out):
			l.pieces(c, func(c *graph.Call, t, from, to int) {
				both(c.Out.Row(t)[from:to], c.In[wide].Row(t)[from:to], c.In[small].Row(t)[from:to])
			})
		case s.Shape.Last() == last:
			l.rowwise(func(c *graph.Call, t int) {
				y, x, z := c.Out.Row(t), c.In[wide].Row(t), c.In[small].F32[:last]
				for o := 0; o < len(y); o += last {
					both(y[o:o+last], x[o:o+last], z)
				}
			})
		default:
			l.pieces(c, func(c *graph.Call, t, from, to int) {
				one(c.Out.Row(t)[from:to], c.In[wide].Row(t)[from:to], c.In[small].F32[0])
			})
		}
		return nil
	}
}

func lowerGated(l *lowered, c *graph.Call) error {
	gate := kern.GateOf(c.Value.Attrs.Str("act"))
	if gate == nil {
		return nil
	}
	l.pieces(c, func(c *graph.Call, t, from, to int) {
		gate(c.Out.Row(t)[from:to], c.In[0].Row(t)[from:to], c.In[1].Row(t)[from:to])
	})
	return nil
}

func lowerGatedHalves(l *lowered, c *graph.Call) error {
	gate := kern.GateOf(c.Value.Attrs.Str("act"))
	if gate == nil {
		return nil
	}
	n := c.Value.Type.Shape.Last()
	l.rowwise(func(c *graph.Call, t int) {
		for x, y := c.In[0].Row(t), c.Out.Row(t); len(y) > 0; x, y = x[2*n:], y[n:] {
			gate(y[:n], x[:n], x[n:2*n])
		}
	})
	return nil
}

func lowerRMSNorm(l *lowered, c *graph.Call) error {
	n, eps := c.Value.Type.Shape.Last(), float64(c.Value.Attrs.Float("eps"))
	l.rowwise(func(c *graph.Call, t int) {
		x, y := c.In[0].Row(t), c.Out.Row(t)
		var w []float32
		if len(c.In) == 2 {
			w = c.In[1].F32[:n]
		}
		for o := 0; o < len(x); o += n {
			kern.RMSNorm(y[o:o+n], x[o:o+n], w, eps)
		}
	})
	return nil
}

func lowerRMSNormAdd(l *lowered, c *graph.Call) error {
	n, eps := c.Value.Type.Shape.Last(), float64(c.Value.Attrs.Float("eps"))
	l.rowwise(func(c *graph.Call, t int) {
		x, z, y := c.In[0].Row(t), c.In[2].Row(t), c.Out.Row(t)
		for o := 0; o < len(x); o += n {
			kern.RMSNorm(y[o:o+n], x[o:o+n], c.In[1].F32[:n], eps)
		}
		kern.Add(y, y, z)
	})
	return nil
}

// lowerRMSNormQuant rounds a normed row while it is in the first cache.
func lowerRMSNormQuant(l *lowered, c *graph.Call) error {
	n, eps := c.Value.Type.Shape.Last(), float64(c.Value.Attrs.Float("eps"))
	norm := ops.NormRow
	if kern.VectorsSupported() {
		norm = kern.RMSNorm
	}
	l.scratch = func(*graph.Call) int { return 4 * n }
	l.run = func(c *graph.Call, lo, hi int, scratch []byte) {
		y := floats(scratch[:4*n])
		var w []float32
		if len(c.In) == 2 {
			w = c.In[1].F32[:n]
		}
		for t := lo; t < hi; t++ {
			norm(y, c.In[0].Row(t), w, eps)
			kern.QuantizeRow(c.Out.DType, c.Out.RawRow(t), y)
		}
	}
	return nil
}

func lowerSoftmax(l *lowered, c *graph.Call) error {
	n := c.Value.Type.Shape.Last()
	l.rowwise(func(c *graph.Call, t int) {
		x, y := c.In[0].Row(t), c.Out.Row(t)
		for o := 0; o < len(x); o += n {
			kern.Softmax(y[o:o+n], x[o:o+n])
		}
	})
	return nil
}

// ropeTable holds cos and sin of the tokens of a step for all rotations with
// equal parameters. It is filled before the workers begin.
type ropeTable struct {
	key      string
	from     string    // the input with the positions
	input    int       // its place among the program's inputs
	freq     []float64 // radians per position, factors included
	mscale   float64
	copies   int     // of each number: 2 where adjacent numbers make a pair
	pos      []int32 // position of a row, -1 for none
	cos, sin []float32
}

// ropeTable returns the table for rotations of c's rows, nil if positions or
// factors, operands pos and factors, are the result of a computation.
func (s *storage) ropeTable(c *graph.Call, p *ops.RopeParam, pos, factors int) *ropeTable {
	freq := slices.Clone(p.Freq)
	if factors < len(c.In) {
		if op := c.Value.Args[factors].Op; op != graph.OpWeight && op != graph.OpConst {
			return nil
		}
		for i, f := range c.In[factors].F32[:len(freq)] {
			freq[i] /= float64(f)
		}
	}
	from := c.Value.Args[pos]
	if from.Op != graph.OpInput {
		return nil
	}
	key := fmt.Sprint(from.Name, p.Half, p.Mscale, freq)
	i := slices.IndexFunc(s.ropes, func(t *ropeTable) bool { return t.key == key })
	if i < 0 {
		i = len(s.ropes)
		s.ropes = append(s.ropes, &ropeTable{key: key, from: from.Name, freq: freq, mscale: p.Mscale, copies: 2})
		if p.Half {
			s.ropes[i].copies = 1
		}
	}
	t := s.ropes[i]
	if rows := c.In[pos].Rows(); rows > len(t.pos) {
		t.pos = make([]int32, rows)
		for i := range t.pos {
			t.pos[i] = -1
		}
		t.cos, t.sin = make([]float32, rows*t.width()), make([]float32, rows*t.width())
	}
	return t
}

func (t *ropeTable) width() int { return t.copies * len(t.freq) }

// row returns cos and sin of token i.
func (t *ropeTable) row(i int) (cos, sin []float32) {
	n := t.width()
	return t.cos[i*n : (i+1)*n], t.sin[i*n : (i+1)*n]
}

// fill computes the rows of tokens that are not at the positions of the last
// step.
func (t *ropeTable) fill(pos []int32) {
	for i, p := range pos {
		if t.pos[i] == p {
			continue
		}
		cos, sin := t.row(i)
		for j, f := range t.freq {
			s, c := math.Sincos(float64(p) * f)
			for k := range t.copies {
				cos[t.copies*j+k], sin[t.copies*j+k] = float32(c*t.mscale), float32(s*t.mscale)
			}
		}
		t.pos[i] = p
	}
}

// turner returns what turns the heads of row t, x, to y by the table.
func (t *ropeTable) turner(p *ops.RopeParam) func(y, x []float32, row int) {
	turn := kern.RopeAdjacent
	if p.Half {
		turn = kern.RopeHalf
	}
	return func(y, x []float32, row int) {
		cos, sin := t.row(row)
		turn(y, x, cos, sin, p.K)
		if p.Dims < p.K && &x[0] != &y[0] {
			for o := 0; o < len(x); o += p.K {
				copy(y[o+p.Dims:o+p.K], x[o+p.Dims:o+p.K])
			}
		}
	}
}

func lowerRope(l *lowered, c *graph.Call) error {
	p := c.Param.(*ops.RopeParam)
	table := l.store.ropeTable(c, p, 1, 2)
	if table == nil {
		return nil
	}
	turn := table.turner(p)
	l.rowwise(func(c *graph.Call, t int) { turn(c.Out.Row(t), c.In[0].Row(t), t) })
	return nil
}

// storer writes the keys k and values of token t to the cache.
type storer func(c *graph.Call, t int, k []float32, scratch []byte)

// cacheStorer returns the storer for a layout and the scratch memory it needs.
func cacheStorer(p *ops.CacheLayout) (storer, int) {
	var key func(block []byte, lane int, x []float32, scratch []byte)
	var value func(row []byte, x []float32, scratch []byte)
	need := 0
	switch {
	case p.DType == graph.F16 && p.K%16 == 0:
		key = func(block []byte, lane int, x []float32, _ []byte) { kern.StoreKeyF16(block[p.KeyElem(0, lane):], x) }
		value = func(row []byte, x []float32, _ []byte) { kern.StoreF16(row, x) }
	case p.DType == graph.Q8_0:
		key, value = q8Key, q8Value
		need = graph.Q8.RowBytes(p.K) + p.K/16
	default:
		return nil, 0
	}
	return func(c *graph.Call, t int, k []float32, scratch []byte) {
		pool, at := c.Out.Raw, int(c.In[3].I32[t])
		page, slot := ops.PageOf(c.In[5], int(c.In[4].I32[t]), at), at%ops.PageSize
		v := c.In[2].Row(t)
		for g := range p.G {
			key(pool[p.Keys(page, g, slot/ops.KeyBlock):], slot%ops.KeyBlock, k[g*p.K:(g+1)*p.K], scratch)
			value(pool[p.Values(page, g, slot):], v[g*p.K:(g+1)*p.K], scratch)
		}
	}, need
}

func lowerKVWrite(l *lowered, c *graph.Call) error {
	store, need := cacheStorer(c.Param.(*ops.CacheLayout))
	if store == nil {
		return nil
	}
	l.cost = writeCost
	l.scratch = func(*graph.Call) int { return need }
	l.run = func(c *graph.Call, lo, hi int, scratch []byte) {
		for t := lo; t < hi; t++ {
			store(c, t, c.In[1].Row(t), scratch)
		}
	}
	return nil
}

// writeCost is the cost of storing a token: the result is the cache, whose size
// says nothing.
func writeCost(c *graph.Call) float64 { return float64(c.In[1].RowElems()) }

// lowerRopeWrite does what lowerRope and lowerKVWrite do, in their ways.
func lowerRopeWrite(l *lowered, c *graph.Call) error {
	p := c.Param.(*ops.RopeWriteParam)
	store, need := cacheStorer(&p.Layout)
	if store == nil {
		store = func(c *graph.Call, t int, k []float32, _ []byte) { p.Layout.Store(c, t, k) }
	}
	turn := func(y, x []float32, t int) {
		var factors []float32
		if len(c.In) > 6 {
			factors = c.In[6].F32
		}
		p.Rope.Turn(y, x, int(c.In[3].I32[t]), factors)
	}
	if table := l.store.ropeTable(c, p.Rope, 3, 6); table != nil {
		turn = table.turner(p.Rope)
	}
	n := p.Layout.G * p.Layout.K
	l.cost = writeCost
	l.scratch = func(*graph.Call) int { return aligned(4*n) + need }
	l.run = func(c *graph.Call, lo, hi int, scratch []byte) {
		k, scratch := floats(scratch[:4*n]), scratch[aligned(4*n):]
		for t := lo; t < hi; t++ {
			turn(k, c.In[1].Row(t), t)
			store(c, t, k, scratch)
		}
	}
	return nil
}

// quantizeQ8 returns the int8 numbers of x and the f16 scales of blocks of 32,
// both in scratch.
func quantizeQ8(x []float32, scratch []byte) (q, scales []byte) {
	n := len(x)
	row := scratch[:graph.Q8.RowBytes(n)]
	kern.QuantizeRow(graph.Q8, row, x)
	scales = scratch[len(row) : len(row)+n/16]
	kern.StoreF16(scales, floats(row[n:n+n/8]))
	return row[:n], scales
}

// q8Key writes a lane of a q8_0 block of keys, q8Value a row of q8_0 values;
// package ops has the layout.
func q8Key(block []byte, lane int, x []float32, scratch []byte) {
	q, scales := quantizeQ8(x, scratch)
	for j := 0; len(q) > 0; j++ {
		group := block[j*34*ops.KeyBlock : (j+1)*34*ops.KeyBlock]
		group[2*lane], group[2*lane+1] = scales[2*j], scales[2*j+1]
		lanes := group[2*ops.KeyBlock+lane:]
		for d, b := range q[:32] {
			lanes[d*ops.KeyBlock] = b
		}
		q = q[32:]
	}
}

func q8Value(row []byte, x []float32, scratch []byte) {
	q, scales := quantizeQ8(x, scratch)
	for j := 0; len(q) > 0; j++ {
		block := row[34*j : 34*j+34]
		block[0], block[1] = scales[2*j], scales[2*j+1]
		copy(block[2:], q[:32])
		q = q[32:]
	}
}
