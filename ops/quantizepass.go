package ops

import "graphrun/graph"

// quantizeRules give each product of f32 rows with block weights quantized rows.
var quantizeRules = []graph.Rule{
	quantizeRule("matmul"),
	quantizeRule("matmuls"),
	quantizeRule("matmuladd"),
	quantizeRule("matmulcap"),
	quantizeRule("gatedmatmul"),
	quantizeRule("gatedmatmulquant"),
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
var QuantizeActivations = graph.Rules(quantizeRules...)
