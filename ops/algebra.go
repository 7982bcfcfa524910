package ops

import "graphrun/graph"

// algebraRules are equations that hold exactly or, for products of constants,
// but for one rounding.
var algebraRules = []graph.Rule{
	{
		Name:  "scale-one",
		Doc:   "scale(x, 1) = x",
		Match: graph.Pat("scale", graph.Any("x")),
		If:    func(m *graph.Match) bool { return m.Root.Attrs.Float("by") == 1 },
		Make:  func(m *graph.Match) *graph.Value { return m.Get("x") },
	},
	{
		Name:  "scale-scale",
		Doc:   "scale(scale(x, a), b) = scale(x, a·b)",
		Match: graph.Pat("scale", graph.Pat("scale", graph.Any("x")).As("inner").Once()),
		Make: func(m *graph.Match) *graph.Value {
			by := m.Root.Attrs.Float("by") * m.Get("inner").Attrs.Float("by")
			return m.New(opScale, graph.MakeAttrs("by", by), m.Get("x"))
		},
	},
	{
		Name:  "reshape-reshape",
		Doc:   "reshape(reshape(x)) = reshape(x)",
		Match: graph.Pat("reshape", graph.Pat("reshape", graph.Any("x"))),
		Make: func(m *graph.Match) *graph.Value {
			return m.New(opReshape, m.Root.Attrs, m.Get("x"))
		},
	},
	{
		Name:  "reshape-same",
		Doc:   "reshape(x) = x where the shape is x's",
		Match: graph.Pat("reshape", graph.Any("x")),
		If:    func(m *graph.Match) bool { return m.Root.Type.Equal(m.Get("x").Type) },
		Make:  func(m *graph.Match) *graph.Value { return m.Get("x") },
	},
}

// Algebra is the pass "algebra": it applies equations that make the graph
// smaller.
func Algebra(g *graph.Graph) error { return graph.Rules(algebraRules...)(g) }
