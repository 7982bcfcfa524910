package ops

import (
	"fmt"
	"slices"

	"graphrun/graph"
)

// opTap stands between a value and its users and calls Value.Hook. Without one,
// as in a parsed graph, it copies.
var opTap = graph.Register(&graph.Op{
	Name: "tap", Doc: "x, after a function has seen and perhaps changed it",
	MinArgs: 1, MaxArgs: 1,
	Infer: inferTap,
	Units: func(*graph.Call) int { return 1 },
	Kernel: func(c *graph.Call, _, _ int) {
		copyRows(c.Out, c.In[0])
		if v := c.Value; v.Hook != nil {
			if err := v.Hook(v.Args[0], c.Out); err != nil {
				panic(err) // the program makes it the error of the step
			}
		}
	},
})

func inferTap(a []graph.Type, _ graph.Attrs) (graph.Type, error) {
	if d := a[0].DType; d != graph.F32 && d != graph.I32 {
		return graph.Type{}, misfit(0, "x", a[0], "f32 or i32")
	}
	return a[0], nil
}

// InsertTap puts a tap behind v: whatever used v, outputs too, uses the tap. In
// each step f gets v and its elements when all of them are computed and nothing
// has read them, and may change them. f must not keep the tensor. Its error ends
// the step.
//
// No pass merges a tap with anything or looks through it, so v is computed as
// the graph says and not as a part of a fused operation.
//
// v must be a value of f32 or i32 elements that the graph computes: no weight,
// constant, input, cache or state of one.
func InsertTap(g *graph.Graph, v *graph.Value, f func(v *graph.Value, t *graph.Tensor) error) (*graph.Value, error) {
	if v.Op.Is(graph.Leaf) || v.Op.Is(graph.State) {
		return nil, fmt.Errorf("ops: %s %s is not computed by the graph and cannot be tapped", v.Op.Name, v.Label())
	}
	t, err := inferTap([]graph.Type{v.Type}, nil)
	if err != nil {
		return nil, fmt.Errorf("ops: %s cannot be tapped: %w", v.Label(), err)
	}
	tap := g.Add(&graph.Value{Op: opTap, Hook: f, Args: []*graph.Value{v}, Type: t, Layer: v.Layer, Origin: v.Origin})
	g.Replace(v, tap)
	at := slices.Index(g.Values, v)
	n := len(g.Values) - 1
	copy(g.Values[at+2:], g.Values[at+1:n])
	g.Values[at+1] = tap
	return tap, nil
}

// copyRows copies x into y, which has the same sizes.
func copyRows(y, x *graph.Tensor) {
	n := x.RowElems()
	for t := range x.Rows() {
		if x.DType == graph.I32 {
			copy(y.I32[t*y.Stride:t*y.Stride+n], x.I32[t*x.Stride:t*x.Stride+n])
		} else {
			copy(y.Row(t), x.Row(t))
		}
	}
}
