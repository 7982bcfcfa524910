package ops

import "graphrun/graph"

// FuseGated is the pass "fuse-gated": the gate and up products of a feed-forward
// block and the gate between them become one gatedmatmul, where nothing else
// uses the two products.
var FuseGated = graph.Rules(graph.Rule{
	// One product call instead of two and no [T,F] values for gate and up: a
	// meeting of the workers and two sweeps over memory less.
	Name: "fuse-gated",
	Doc:  "gated(matmul(x,wg), matmul(x,wu)) = gatedmatmul(x,wg,wu)",
	Match: graph.Pat("gated",
		graph.Pat("matmul", graph.Any("x"), graph.Any("wg")).Once(),
		graph.Pat("matmul", graph.Any("x"), graph.Any("wu")).Once()),
	// Both products must read x in the same quantized form.
	If: func(m *graph.Match) bool {
		return ActType(m.Get("wg").Type.DType) == ActType(m.Get("wu").Type.DType)
	},
	Make: func(m *graph.Match) *graph.Value {
		return m.New(opGatedMatMul, m.Root.Attrs, m.Get("x"), m.Get("wg"), m.Get("wu"))
	},
})
