package ops

import "graphrun/graph"

// FuseResidual is the pass "fuse-residual": a product that is added to the
// residual, or that has a bias added, adds it to each part of the result while
// that is in the first cache.
var FuseResidual = graph.Rules(graph.Rule{
	Name:  "fuse-residual",
	Doc:   "add(z, matmul(x,w)) = matmuladd(x,w,z)",
	Match: graph.Pat("add", graph.Any("z"), graph.Pat("matmul", graph.Any("x"), graph.Any("w")).As("product").Once()),
	If: func(m *graph.Match) bool {
		z, y := m.Get("z"), m.Get("product")
		return z.Type.Equal(y.Type) || isVector(z.Type, y.Type.Shape.Last())
	},
	Make: func(m *graph.Match) *graph.Value {
		return m.New(opMatMulAdd, nil, m.Get("x"), m.Get("w"), m.Get("z"))
	},
})
