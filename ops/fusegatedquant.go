package ops

import "graphrun/graph"

// FuseGatedQuantize is the pass "fuse-gated-quantize": a gated product whose
// result is only read by a quantize writes int8 at once, so that its [T,F] f32
// numbers never reach memory and nobody waits for one worker that rounds them.
var FuseGatedQuantize = graph.Rules(graph.Rule{
	Name:  "fuse-gated-quantize",
	Doc:   "quantize(gatedmatmul(x,wg,wu)) = gatedmatmulquant(x,wg,wu)",
	Match: graph.Pat("quantize", graph.Pat("gatedmatmul", graph.Any("x"), graph.Any("wg"), graph.Any("wu")).As("product").Once()),
	Make: func(m *graph.Match) *graph.Value {
		a := m.Root.Attrs.With("act", m.Get("product").Attrs.Str("act"))
		return m.New(opGatedMatMulQuant, a, m.Get("x"), m.Get("wg"), m.Get("wu"))
	},
})
