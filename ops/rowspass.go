package ops

import (
	"slices"

	"graphrun/graph"
)

// Rows is the pass "rows": what is only wanted for some rows is computed for
// those. Values of the last layer that reach the results through one selectrows
// alone, behind its write to the cache, are computed for the rows that
// selectrows takes; with a prompt of 512 tokens that is one row of 512.
//
// A value is narrowed if all its uses are that selectrows or narrowed values and
// its operation treats rows one by one, in the same way however many there are.
// So products of plain weights are narrowed only where others are quantized:
// then their sums do not depend on the number of rows either.
func Rows(g *graph.Graph) error {
	order, err := g.Canonical()
	if err != nil {
		return err
	}
	var todo []*narrower
	quantized := false
	for _, v := range order {
		quantized = quantized || rowOps[v.Op.Name] == rowProduct && ActType(v.Args[1].Type.DType) != graph.F32
		if v.Op != opSelectRows || v.Args[1].Op != graph.OpInput {
			continue
		}
		n := &narrower{rows: v.Args[1], tokens: v.Args[0].Type.Shape[0]}
		if n.tokens == v.Type.Shape[0] || slices.ContainsFunc(todo, func(o *narrower) bool { return o.rows == n.rows && o.tokens == n.tokens }) {
			continue
		}
		todo = append(todo, n)
	}
	for i, n := range todo {
		if i > 0 {
			if order, err = g.Canonical(); err != nil {
				return err
			}
		}
		if n.quantized = quantized; n.find(g, order) {
			n.rewrite(g, order)
		}
	}
	return nil
}

type rowKind int

const (
	rowAny     rowKind = iota + 1 // the bits of a row depend on that row alone
	rowProduct                    // so do those with block weights, operand 1
)

// rowOps are the operations whose rows are independent of each other. Operands
// with the leading dimension of the result are rows, others are not.
var rowOps = map[string]rowKind{
	"add": rowAny, "mul": rowAny, "scale": rowAny, "softcap": rowAny, "silu": rowAny, "gelu": rowAny,
	"gated": rowAny, "gatedhalves": rowAny, "rmsnorm": rowAny, "softmax": rowAny, "reshape": rowAny, "cols": rowAny,
	"topk": rowAny, "topkweights": rowAny, "expertadd": rowAny, "expertsum": rowAny, "gatherscale": rowAny,
	"attention": rowAny,
	"matmul":    rowProduct, "gatedmatmul": rowProduct, "expertmatmul": rowProduct,
}

// narrower narrows what is only wanted for the rows of one input.
type narrower struct {
	rows      *graph.Value
	tokens    graph.Dim
	quantized bool // products have the same bits for any number of rows
	narrow    map[*graph.Value]bool
}

// selects reports whether v takes the wanted rows of its operand.
func (n *narrower) selects(v *graph.Value) bool {
	return v.Op == opSelectRows && v.Args[1] == n.rows && v.Args[0].Type.Shape[0] == n.tokens
}

func (n *narrower) hasTokens(v *graph.Value) bool {
	return len(v.Type.Shape) > 0 && v.Type.Shape[0] == n.tokens
}

// find decides which values are narrowed, from the results up, and reports
// whether one of them is work worth it.
func (n *narrower) find(g *graph.Graph, order []*graph.Value) bool {
	n.narrow = map[*graph.Value]bool{}
	wide, tapped := map[*graph.Value]bool{}, map[*graph.Value]bool{}
	for _, o := range g.Outputs {
		wide[o.Value] = true
	}
	worth := false
	for _, v := range slices.Backward(order) {
		if n.selects(v) {
			tapped[v.Args[0]] = true
			continue
		}
		kind := rowOps[v.Op.Name]
		if !tapped[v] || wide[v] || !n.hasTokens(v) || kind == 0 || kind == rowProduct && !n.quantized {
			for _, a := range v.Args {
				wide[a] = true
			}
			continue
		}
		n.narrow[v] = true
		worth = worth || kind == rowProduct || v.Op == opAttention
		for _, a := range v.Args {
			tapped[a] = true
		}
	}
	return worth
}

func (n *narrower) rewrite(g *graph.Graph, order []*graph.Value) {
	selected := map[*graph.Value]*graph.Value{}
	for _, v := range order {
		if n.selects(v) {
			if n.narrow[v.Args[0]] {
				g.Replace(v, v.Args[0])
			}
			continue
		}
		if !n.narrow[v] {
			continue
		}
		v.Args = slices.Clone(v.Args)
		for i, a := range v.Args {
			if n.narrow[a] || !n.hasTokens(a) {
				continue
			}
			if selected[a] == nil {
				x := &graph.Value{Op: opSelectRows, Args: []*graph.Value{a, n.rows}, Layer: v.Layer, Origin: v.Origin}
				x.Type = graph.Type{DType: a.Type.DType, Shape: n.narrowed(a)}
				if a.Name != "" {
					x.Name = a.Name + ".rows"
				}
				selected[a] = g.Add(x)
			}
			v.Args[i] = selected[a]
		}
	}
	for v := range n.narrow {
		v.Type.Shape = n.narrowed(v)
	}
}

// narrowed is the shape of v with the wanted rows alone.
func (n *narrower) narrowed(v *graph.Value) graph.Shape {
	return append(graph.Shape{n.rows.Type.Shape[0]}, v.Type.Shape[1:]...)
}
