package ops

import "graphrun/graph"

// FuseNormQuantize is the pass "fuse-norm-quantize": a norm that is only read by
// a quantize writes int8 at once.
var FuseNormQuantize = graph.Rules(graph.Rule{
	Name:  "fuse-norm-quantize",
	Doc:   "quantize(rmsnorm(x,w)) = rmsnormquant(x,w)",
	Match: graph.Pat("quantize", graph.Pat("rmsnorm").As("norm").Once()),
	If:    func(m *graph.Match) bool { return len(m.Root.Type.Shape) == 2 },
	Make: func(m *graph.Match) *graph.Value {
		norm := m.Get("norm")
		return m.New(opRMSNormQuant, m.Root.Attrs.With("eps", norm.Attrs.Float("eps")), norm.Args...)
	},
})

// FuseNormResidual is the pass "fuse-norm-residual": a branch that ends in a norm
// is added to the residual by the norm.
var FuseNormResidual = graph.Rules(graph.Rule{
	Name:  "fuse-norm-residual",
	Doc:   "add(z, rmsnorm(x,w)) = rmsnormadd(x,w,z)",
	Match: graph.Pat("add", graph.Any("z"), graph.Pat("rmsnorm", graph.Any("x"), graph.Any("w")).As("norm").Once()),
	If:    func(m *graph.Match) bool { return m.Get("z").Type.Equal(m.Get("norm").Type) },
	Make: func(m *graph.Match) *graph.Value {
		return m.New(opRMSNormAdd, m.Get("norm").Attrs, m.Get("x"), m.Get("w"), m.Get("z"))
	},
})
