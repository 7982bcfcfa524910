package ops

import "graphrun/graph"

// FuseSoftcap is the pass "fuse-softcap": the head bends its logits itself.
var FuseSoftcap = graph.Rules(graph.Rule{
	Name:  "fuse-softcap",
	Doc:   "softcap(matmul(x,w)) = matmulcap(x,w)",
	Match: graph.Pat("softcap", graph.Pat("matmul", graph.Any("x"), graph.Any("w")).Once()),
	Make: func(m *graph.Match) *graph.Value {
		return m.New(opMatMulCap, m.Root.Attrs, m.Get("x"), m.Get("w"))
	},
})
