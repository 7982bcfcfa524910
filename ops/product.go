package ops

import "graphrun/graph"

// Products with something before or behind them, made by fusions.
var (
	opMatMuls = graph.Register(&graph.Op{
		Name: "matmuls", Doc: "y[t,:] = x·w0ᵀ, x·w1ᵀ, … side by side",
		MinArgs: 3, MaxArgs: -1, Flags: graph.Pure,
		Infer: inferMatMuls, Units: columnUnits, Kernel: matmulsKernel, Cost: matmulsCost,
	})
	opMatMulAdd = graph.Register(&graph.Op{
		Name: "matmuladd", Doc: "y[t,n] = z[t,n] + sum_k x[t,k] · w[n,k], z also [n]",
		MinArgs: 3, MaxArgs: 3, Flags: graph.Pure,
		Infer: inferMatMulAdd, Units: columnUnits, Kernel: matmulAddKernel, Cost: matmulsCost,
	})
	opMatMulCap = graph.Register(&graph.Op{
		Name: "matmulcap", Doc: "y[t,n] = cap · tanh(sum_k x[t,k] · w[n,k] / cap)",
		MinArgs: 2, MaxArgs: 2, Flags: graph.Pure,
		Attrs: []graph.AttrSpec{{Name: "cap", Default: float32(0), Required: true}},
		Infer: inferMatMulCap, Prepare: func(v *graph.Value) (any, error) { return v.Attrs.Float("cap"), nil },
		Units: columnUnits, Kernel: matmulCapKernel, Cost: matmulsCost,
	})
)

// MatMuls multiplies the same rows by several matrices, made by the pass
// fuse-qkv.
//
//	y[t,:] = x[t]·w0ᵀ, x[t]·w1ᵀ, …
//
// x is as in MatMul, each w is [N_i,K] of a weight type that x fits; the types
// may differ. The result is f32 [T, N_0+N_1+…]: Cols takes one product out of it
// without a copy. A unit is a column of the result.
// The builder records ErrShape as MatMul.
func MatMuls(b *graph.Builder, x *graph.Value, ws ...*graph.Value) *graph.Value {
	return b.Op(opMatMuls, nil, append([]*graph.Value{x}, ws...)...)
}

// MatMulAdd is a product that is added to the residual, or a bias, made by the
// pass fuse-residual.
//
//	y[t,n] = z[t,n] + sum_k x[t,k]·w[n,k]    or  z[n] + …
//
// x and w are as in MatMul, z is f32 [T,N] or [N], the result f32 [T,N]. A unit
// is a column n of the result. The sum over k is complete before z is added.
// The builder records ErrShape as MatMul and if z has another form.
func MatMulAdd(b *graph.Builder, x, w, z *graph.Value) *graph.Value {
	return b.Op(opMatMulAdd, nil, x, w, z)
}

// MatMulCap is a product whose result is bent into the range -cap to cap, made
// by the pass fuse-softcap.
//
//	y[t,n] = cap · tanh(sum_k x[t,k]·w[n,k] / cap)
//
// x and w are as in MatMul, the result is f32 [T,N]. A unit is a column n.
// The builder records ErrShape as MatMul, and an error unless cap is positive
// and finite.
func MatMulCap(b *graph.Builder, x, w *graph.Value, cap float32) *graph.Value {
	return b.Op(opMatMulCap, graph.MakeAttrs("cap", cap), x, w)
}

func inferMatMuls(a []graph.Type, _ graph.Attrs) (graph.Type, error) {
	n := 0
	for i := range a[1:] {
		t, err := inferProduct(a[0], a[1+i:2+i])
		if err != nil {
			return graph.Type{}, err
		}
		n += t.Shape.Last()
	}
	return rows(graph.F32, a[0].Shape, n), nil
}

func inferMatMulAdd(a []graph.Type, _ graph.Attrs) (graph.Type, error) {
	t, err := inferProduct(a[0], a[1:2])
	if err == nil && !a[2].Equal(t) && !isVector(a[2], t.Shape.Last()) {
		err = misfit(2, "z", a[2], "%s or f32[%d]", t, t.Shape.Last())
	}
	return t, err
}

func inferMatMulCap(a []graph.Type, at graph.Attrs) (graph.Type, error) {
	t, err := inferProduct(a[0], a[1:])
	if err != nil {
		return graph.Type{}, err
	}
	return inferSoftcap([]graph.Type{t}, at)
}

// matmulsCost counts T·K multiply-adds for each column.
func matmulsCost(v *graph.Value, b graph.Dims) graph.Cost {
	return graph.Cost{MACs: v.Type.Shape.Elems(b) * v.Args[0].Type.Shape.Last(), Bytes: traffic(v, b)}
}

func matmulsKernel(c *graph.Call, lo, hi int) {
	at := 0
	for _, t := range c.In[1:] {
		w, n := weightsOf(t), t.Dims[0]
		productColumns(c, &w, at, min(max(lo-at, 0), n), min(max(hi-at, 0), n))
		at += n
	}
}

func matmulAddKernel(c *graph.Call, lo, hi int) {
	matmulKernel(c, lo, hi)
	for t := range c.Out.Rows() {
		z := c.In[2].F32
		if len(c.In[2].Dims) == 2 {
			z = c.In[2].Row(t)
		}
		y := c.Out.Row(t)
		for n := lo; n < hi; n++ {
			y[n] += z[n]
		}
	}
}

func matmulCapKernel(c *graph.Call, lo, hi int) {
	matmulKernel(c, lo, hi)
	limit := c.Param.(float32)
	for t := range c.Out.Rows() {
		y := c.Out.Row(t)[lo:hi]
		SoftcapRow(y, y, limit)
	}
}
