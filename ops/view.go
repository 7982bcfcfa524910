package ops

import (
	"fmt"

	"graphrun/graph"
)

var (
	opReshape = graph.Register(&graph.Op{
		Name: "reshape", Doc: "the same rows with other dimensions inside",
		MinArgs: 1, MaxArgs: 1, Flags: graph.Pure | graph.View,
		Attrs: []graph.AttrSpec{{Name: "shape", Default: []int(nil), Required: true}},
		Infer: inferReshape, Prepare: prepareView, Kernel: viewKernel,
	})
	opCols = graph.Register(&graph.Op{
		Name: "cols", Doc: "y[t,i] = x[t,from+i], i < to-from",
		MinArgs: 1, MaxArgs: 1, Flags: graph.Pure | graph.View,
		Attrs: []graph.AttrSpec{{Name: "from", Default: 0, Required: true}, {Name: "to", Default: 0, Required: true}},
		Infer: inferCols, Prepare: prepareView, Kernel: viewKernel,
	})
)

// Reshape regroups the elements of each row.
//
//	y[t, ...] = x[t, ...] in row-major order
//
// x is f32 [T, ...], sizes are the dimensions of the result after the first,
// which stays. The result shares x's storage.
// The builder records ErrShape if the sizes do not multiply to x's row.
func Reshape(b *graph.Builder, x *graph.Value, sizes ...int) *graph.Value {
	return b.Op(opReshape, graph.MakeAttrs("shape", sizes), x)
}

// Cols takes a range of columns.
//
//	y[t,i] = x[t,from+i]
//
// x is f32 [T,D], the result is f32 [T,to-from] and shares x's storage: its
// rows are as far apart as x's.
// The builder records ErrShape unless 0 <= from < to <= D.
func Cols(b *graph.Builder, x *graph.Value, from, to int) *graph.Value {
	return b.Op(opCols, graph.MakeAttrs("from", from, "to", to), x)
}

// Slice takes index i of the second dimension.
//
//	y[t,p] = x[t,i,p]
//
// x is f32 [T,L,P], the result is f32 [T,P] and shares x's storage. It is a
// Reshape and a Cols.
// The builder records ErrShape if x has not three dimensions or i is not below L.
func Slice(b *graph.Builder, x *graph.Value, i int) *graph.Value {
	if b.Err() == nil && len(x.Type.Shape) != 3 {
		b.Fail(fmt.Errorf("ops: slice of %s: want three dimensions: %w", x.Type, graph.ErrShape))
	}
	n := x.Type.Shape.Last()
	return Cols(b, Reshape(b, x, x.Type.Shape.RowElems()), i*n, (i+1)*n)
}

func inferReshape(a []graph.Type, at graph.Attrs) (graph.Type, error) {
	if err := checkRows(0, "x", a[0], 1); err != nil {
		return graph.Type{}, err
	}
	sizes, n := at.Ints("shape"), 1
	for _, s := range sizes {
		if s <= 0 {
			return graph.Type{}, fmt.Errorf("attribute shape is %v, want sizes of at least 1", sizes)
		}
		n *= s
	}
	if want := a[0].Shape.RowElems(); n != want {
		return graph.Type{}, fmt.Errorf("attribute shape is %v, %d elements, want the %d of a row of operand 0 %s", sizes, n, want, a[0])
	}
	return rows(graph.F32, a[0].Shape, sizes...), nil
}

func inferCols(a []graph.Type, at graph.Attrs) (graph.Type, error) {
	if !isF32(a[0], 2) || !fixedTail(a[0].Shape) {
		return graph.Type{}, misfit(0, "x", a[0], "f32[T,D]")
	}
	from, to, n := at.Int("from"), at.Int("to"), a[0].Shape.Last()
	if from < 0 || from >= to || to > n {
		return graph.Type{}, fmt.Errorf("columns %d to %d of operand 0 %s, want a range within 0 to %d", from, to, a[0], n)
	}
	return rows(graph.F32, a[0].Shape, to-from), nil
}

// ViewOffset returns the element of argument 0 a view starts at. The rows of a
// view are as far apart as those of its argument.
func ViewOffset(v *graph.Value) int { return v.Attrs.Int("from") }

func prepareView(v *graph.Value) (any, error) { return ViewOffset(v), nil }

// viewKernel copies, for programs that give views storage of their own. Where
// Out shows the storage of In[0] already it changes nothing.
func viewKernel(c *graph.Call, lo, hi int) {
	from := c.Param.(int)
	for t := lo; t < hi; t++ {
		copy(c.Out.Row(t), c.In[0].Row(t)[from:])
	}
}
