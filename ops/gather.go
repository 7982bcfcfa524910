package ops

import "graphrun/graph"

var (
	opEmbed = graph.Register(&graph.Op{
		Name: "embed", Doc: "y[t,:] = w[tokens[t],:]",
		MinArgs: 2, MaxArgs: 2, Flags: graph.Pure,
		Infer: inferEmbed, Kernel: embedKernel, Cost: embedCost,
	})
	opSelectRows = graph.Register(&graph.Op{
		Name: "selectrows", Doc: "y[r,:] = x[rows[r],:]",
		MinArgs: 2, MaxArgs: 2, Flags: graph.Pure,
		Infer: inferSelectRows, Kernel: selectRowsKernel, Cost: selectRowsCost,
	})
)

// Embed looks up the rows of tokens, decoded to f32.
//
//	y[t,d] = w[tokens[t],d]
//
// tokens is i32 [T], w is [V,D] of any weight type, the result is f32 [T,D].
// The builder records ErrShape if an operand has another form. The kernel
// panics if a token is not below V: the caller of a step checks tokens.
func Embed(b *graph.Builder, tokens, w *graph.Value) *graph.Value {
	return b.Op(opEmbed, nil, tokens, w)
}

// SelectRows takes rows by index.
//
//	y[r,d] = x[rows[r],d]
//
// x is f32 or i32 [T,...], rows is i32 [R], the result is of x's type, [R,...].
// The builder records ErrShape if an operand has another form. The kernel
// panics if a row is not below T: the caller of a step checks rows.
func SelectRows(b *graph.Builder, x, rows *graph.Value) *graph.Value {
	return b.Op(opSelectRows, nil, x, rows)
}

func inferEmbed(a []graph.Type, _ graph.Attrs) (graph.Type, error) {
	if a[0].DType != graph.I32 || len(a[0].Shape) != 1 {
		return graph.Type{}, misfit(0, "tokens", a[0], "i32[T]")
	}
	if err := checkWeight(1, "w", a[1], 2, a[1].Shape.Last()); err != nil {
		return graph.Type{}, err
	}
	return rows(graph.F32, a[0].Shape, a[1].Shape.Last()), nil
}

func inferSelectRows(a []graph.Type, _ graph.Attrs) (graph.Type, error) {
	if a[0].DType != graph.F32 && a[0].DType != graph.I32 || len(a[0].Shape) == 0 || !fixedTail(a[0].Shape) {
		return graph.Type{}, misfit(0, "x", a[0], "f32 or i32 with 1 or more dimensions, fixed but for the first")
	}
	if a[1].DType != graph.I32 || len(a[1].Shape) != 1 {
		return graph.Type{}, misfit(1, "rows", a[1], "i32[R]")
	}
	out := append(graph.Shape{a[1].Shape[0]}, a[0].Shape[1:]...)
	return graph.Type{DType: a[0].DType, Shape: out}, nil
}

func embedKernel(c *graph.Call, lo, hi int) {
	w := c.In[1]
	for t := lo; t < hi; t++ {
		id := int(c.In[0].I32[t])
		if id < 0 || id >= w.Dims[0] {
			panic("ops: embed: token out of range")
		}
		if w.DType == graph.F32 {
			copy(c.Out.Row(t), w.Row(id))
		} else {
			DequantRow(w.DType, c.Out.Row(t), w.RawRow(id))
		}
	}
}

func selectRowsKernel(c *graph.Call, lo, hi int) {
	for r := lo; r < hi; r++ {
		t := int(c.In[1].I32[r])
		if t < 0 || t >= c.In[0].Rows() {
			panic("ops: selectrows: row out of range")
		}
		if c.Out.DType == graph.I32 {
			n := c.Out.RowElems()
			copy(c.Out.I32[r*c.Out.Stride:r*c.Out.Stride+n], c.In[0].I32[t*c.In[0].Stride:])
			continue
		}
		copy(c.Out.Row(r), c.In[0].Row(t))
	}
}

// embedCost counts the rows looked up, not the whole table.
func embedCost(v *graph.Value, b graph.Dims) graph.Cost {
	w := v.Args[1].Type
	n := b.Of(v.Type.Shape[0])
	return graph.Cost{Bytes: v.Type.Bytes(b) + v.Args[0].Type.Bytes(b) + n*w.DType.RowBytes(w.Shape.Last())}
}

func selectRowsCost(v *graph.Value, b graph.Dims) graph.Cost {
	return graph.Cost{Bytes: 2*v.Type.Bytes(b) + v.Args[1].Type.Bytes(b)}
}
