package ops

import "graphrun/graph"

// fuseRules are the rewrites that make one operation of several.
var fuseRules = []graph.Rule{
	{
		// The gain is one product call instead of two and no [T,F] values for
		// gate and up: a barrier and two sweeps over memory less.
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
	},
}

// FuseGated is the pass "fuse-gated": the gate and up products of a feed-forward
// block and the gate between them become one gatedmatmul, where nothing else
// uses the two products.
func FuseGated(g *graph.Graph) error { return graph.Rules(fuseRules...)(g) }

// quantizeRules give each product of f32 rows with block weights quantized rows.
var quantizeRules = []graph.Rule{
	quantizeRule("matmul"),
	quantizeRule("gatedmatmul"),
	quantizeRule("expertmatmul"),
}

// quantizeRule is the rewrite for one operation whose operand 0 are the rows and
// operand 1 are the weights.
func quantizeRule(op string) graph.Rule {
	return graph.Rule{
		Name:  "quantize-" + op,
		Doc:   op + "(x,w) = " + op + "(quantize(x),w) for block weights",
		Match: graph.Pat(op),
		If: func(m *graph.Match) bool {
			x, w := m.Root.Args[0], m.Root.Args[1]
			return x.Type.DType == graph.F32 && ActType(w.Type.DType) != graph.F32
		},
		Make: func(m *graph.Match) *graph.Value {
			x, to := m.Root.Args[0], ActType(m.Root.Args[1].Type.DType)
			q := m.New(opQuantize, graph.MakeAttrs("to", to.String()), x)
			if x.Name != "" {
				q.Name = x.Name + "." + to.String()
			}
			args := append([]*graph.Value{q}, m.Root.Args[1:]...)
			return m.New(m.Root.Op, m.Root.Attrs, args...)
		},
	}
}

// QuantizeActivations is the pass "quantize": before every product with block
// weights the rows are quantized to the type the weights are multiplied by, q8
// or q8k. Each product gets a quantize of its own; cse then makes products of
// the same rows share one. Fusions of products run before it, since they look
// for products of the same value.
func QuantizeActivations(g *graph.Graph) error { return graph.Rules(quantizeRules...)(g) }
