package ops

import "graphrun/graph"

var opMatMul = graph.Register(&graph.Op{
	Name: "matmul", Doc: "y[t,n] = sum_k x[t,k] · w[n,k]",
	MinArgs: 2, MaxArgs: 2, Flags: graph.Pure,
	Infer: inferMatMul, Units: columnUnits, Kernel: matmulKernel, Cost: matmulCost,
})

// MatMul multiplies each row of x by a weight matrix.
//
//	y[t,n] = sum_k x[t,k] · w[n,k]
//
// x is [T,K] f32, or q8 or q8k beside block weights that want it (ActType); w is
// [N,K] of any weight type; the result is f32 [T,N]. A unit is a column n of the
// result. The sum is f32, in blocks of up to 256 elements.
// The builder records ErrShape if the last dimensions differ, K is no multiple
// of w's block, or x's type is not what w's type is multiplied by.
func MatMul(b *graph.Builder, x, w *graph.Value) *graph.Value { return b.Op(opMatMul, nil, x, w) }

func inferMatMul(a []graph.Type, _ graph.Attrs) (graph.Type, error) {
	return inferProduct(a[0], a[1:])
}

// inferProduct checks x against each of the weights, which all have the shape
// of the first, and returns the type of a product.
func inferProduct(x graph.Type, ws []graph.Type) (graph.Type, error) {
	if len(x.Shape) != 2 || !fixedTail(x.Shape) {
		return graph.Type{}, misfit(0, "x", x, "two dimensions [T,K]")
	}
	for i, w := range ws {
		if err := checkWeight(1+i, "w", w, 2, x.Shape.Last()); err != nil {
			return graph.Type{}, err
		}
		if err := checkActivation(0, "x", x, w); err != nil {
			return graph.Type{}, err
		}
		if !w.Shape.Equal(ws[0].Shape) {
			return graph.Type{}, misfit(1+i, "w", w, "the shape of operand 1, %s", ws[0].Shape)
		}
	}
	return rows(graph.F32, x.Shape, ws[0].Shape[0].Size), nil
}

// columnUnits counts the columns of the result.
func columnUnits(c *graph.Call) int { return c.Out.Dims[len(c.Out.Dims)-1] }

// matmulCost counts T·N·K multiply-adds for each weight operand.
func matmulCost(v *graph.Value, b graph.Dims) graph.Cost {
	return graph.Cost{
		MACs:  (len(v.Args) - 1) * v.Type.Shape.Elems(b) * v.Args[0].Type.Shape.Last(),
		Bytes: traffic(v, b),
	}
}

// The plain products decode chunkElems elements of a weight row at a time to
// the stack, a whole number of blocks of every format, and use them for up to
// tileRows rows of x.
const (
	chunkElems = 256
	tileRows   = 64
)

// operand is a list of vectors of k elements as the plain products read it, f32
// or blocks: the rows of a weight, or the vectors of the last dimension of x.
type operand struct {
	dt  graph.DType
	k   int
	f32 []float32
	raw []byte
	// Vectors come in groups, stride elements (bytes of raw) apart, the groups
	// of a strided tensor outer apart.
	group, stride, outer int
}

// vectorsOf returns the vectors of the last dimension of t. For [E,N,K] vector
// e·N+n is row n of matrix e.
func vectorsOf(t *graph.Tensor) operand {
	k := t.Dims[len(t.Dims)-1]
	o := operand{dt: t.DType, k: k, f32: t.F32, raw: t.Raw, group: 1, stride: k}
	for _, d := range t.Dims[1 : len(t.Dims)-1] {
		o.group *= d
	}
	if t.DType != graph.F32 {
		o.stride = t.DType.RowBytes(k)
	}
	o.outer = t.Stride
	return o
}

// weightsOf returns the rows of a weight, which is contiguous.
func weightsOf(w *graph.Tensor) operand {
	o := vectorsOf(w)
	o.outer = o.group * o.stride
	return o
}

// vector returns the storage of vector i: one of the two is nil.
func (o *operand) vector(i int) ([]float32, []byte) {
	at := i/o.group*o.outer + i%o.group*o.stride
	if o.dt == graph.F32 {
		return o.f32[at : at+o.k], nil
	}
	return nil, o.raw[at : at+o.stride]
}

// weights returns elements at to at+n of weight row i as f32, decoded to buf
// unless they are f32 already.
func (o *operand) weights(i, at, n int, buf *[chunkElems]float32) []float32 {
	f32, raw := o.vector(i)
	if f32 != nil {
		return f32[at : at+n]
	}
	DequantRow(o.dt, buf[:n], raw[o.dt.RowBytes(at):])
	return buf[:n]
}

// dotChunk returns the product of the weights w with elements at to at+len(w)
// of activation row i: f32 numbers as they are, int8 numbers by blocks, each
// block's sum times its scale.
func (o *operand) dotChunk(w []float32, i, at int) float32 {
	f32, raw := o.vector(i)
	if f32 != nil {
		return dot(w, f32[at:at+len(w)])
	}
	sum, block := float32(0), o.dt.BlockElems()
	for j := 0; j < len(w); j += block {
		q, scale := actBlock(o.dt, raw, o.k, at+j)
		sum += scale * dotInt8(w[j:j+block], q)
	}
	return sum
}

// dot sums in four lanes, element i in lane i mod 4, and adds the lanes in
// pairs: the order is part of the result.
func dot(w, x []float32) float32 {
	var a, b, c, d float32
	x = x[:len(w)]
	i := 0
	for ; i+4 <= len(w); i += 4 {
		a += w[i] * x[i]
		b += w[i+1] * x[i+1]
		c += w[i+2] * x[i+2]
		d += w[i+3] * x[i+3]
	}
	for ; i < len(w); i++ {
		a += w[i] * x[i]
	}
	return (a + b) + (c + d)
}

// dotInt8 is dot with int8 numbers.
func dotInt8(w []float32, q []byte) float32 {
	var a, b, c, d float32
	q = q[:len(w)]
	for i := 0; i+4 <= len(w); i += 4 {
		a += w[i] * float32(int8(q[i]))
		b += w[i+1] * float32(int8(q[i+1]))
		c += w[i+2] * float32(int8(q[i+2]))
		d += w[i+3] * float32(int8(q[i+3]))
	}
	return (a + b) + (c + d)
}

// dotRows writes the products of weight row n with len(sum) rows of x from row
// t on: sum[i] = sum_k x[t+i,k]·w[n,k].
func dotRows(sum []float32, w, x *operand, n, t int) {
	var buf [chunkElems]float32
	clear(sum)
	for at := 0; at < w.k; at += chunkElems {
		row := w.weights(n, at, min(chunkElems, w.k-at), &buf)
		for i := range sum {
			sum[i] += x.dotChunk(row, t+i, at)
		}
	}
}

func matmulKernel(c *graph.Call, lo, hi int) {
	w := weightsOf(c.In[1])
	productColumns(c, &w, 0, lo, hi)
}

// productColumns writes the products of rows lo to hi-1 of w with the rows of
// operand 0 to the columns of the result from at+lo on.
func productColumns(c *graph.Call, w *operand, at, lo, hi int) {
	x := vectorsOf(c.In[0])
	var sum [tileRows]float32
	total := c.Out.Rows()
	for n := lo; n < hi; n++ {
		for t := 0; t < total; t += tileRows {
			m := min(tileRows, total-t)
			dotRows(sum[:m], w, &x, n, t)
			for i, s := range sum[:m] {
				c.Out.F32[(t+i)*c.Out.Stride+at+n] = s
			}
		}
	}
}
