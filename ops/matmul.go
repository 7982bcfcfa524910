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
