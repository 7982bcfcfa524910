package ops

import (
	"math"

	"graphrun/graph"
)

// algebraRules are equations that hold bit for bit.
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
		Doc:   "scale(scale(x, a), b) = scale(x, a·b) where one is a power of two",
		Match: graph.Pat("scale", graph.Pat("scale", graph.Any("x")).As("inner").Once()),
		// Otherwise the product of the two rounds where x·a did.
		If: func(m *graph.Match) bool {
			a, b := m.Root.Attrs.Float("by"), m.Get("inner").Attrs.Float("by")
			by := math.Abs(float64(a) * float64(b))
			return (powerOfTwo(a) || powerOfTwo(b)) && by > 1e-30 && by < 1e30
		},
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
var Algebra = graph.Rules(algebraRules...)

// powerOfTwo reports whether x is ±2^n, with n small enough that no product of a
// sensible number leaves the normal range.
func powerOfTwo(x float32) bool {
	frac, exp := math.Frexp(math.Abs(float64(x)))
	return frac == 0.5 && exp > -32 && exp < 32
}
