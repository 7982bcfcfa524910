package ops

import "graphrun/graph"

// FuseQKV is the pass "fuse-qkv": products of the same rows by two and more
// matrices, in one layer, become one product, and each of them a view of its
// columns. Matrices of different types go together if they are multiplied by
// rows of the same type. The two products of a gate stay as they are: fuse-gated
// does better.
func FuseQKV(g *graph.Graph) error {
	type key struct {
		x     *graph.Value
		layer int
		act   graph.DType
	}
	groups := map[key][]*graph.Value{}
	var keys []key // in the order of ids of their first product
	order, err := g.Canonical()
	if err != nil {
		return err
	}
	halves := map[*graph.Value]bool{}
	for _, v := range order {
		if v.Op == opGated {
			halves[v.Args[0]], halves[v.Args[1]] = true, true
		}
	}
	for _, v := range order {
		if v.Op != opMatMul || halves[v] || v.Args[0].Type.DType != graph.F32 {
			continue
		}
		k := key{v.Args[0], v.Layer, ActType(v.Args[1].Type.DType)}
		if groups[k] == nil {
			keys = append(keys, k)
		}
		groups[k] = append(groups[k], v)
	}
	for _, k := range keys {
		if len(groups[k]) > 1 {
			joinProducts(g, groups[k])
		}
	}
	return nil
}

// joinProducts adds a product for all of the list and makes each a view of it.
func joinProducts(g *graph.Graph, list []*graph.Value) {
	first := list[0]
	args := []*graph.Value{first.Args[0]}
	name, n := "", 0
	for _, v := range list {
		args = append(args, v.Args[1])
		n += v.Type.Shape.Last()
		if name += "+" + v.Name; v.Name == "" {
			name = ""
		}
	}
	if name != "" {
		name = name[1:]
	}
	all := g.Add(&graph.Value{
		Op: opMatMuls, Args: args, Type: rows(graph.F32, first.Type.Shape, n),
		Name: name, Layer: first.Layer, Origin: first.Origin,
	})
	at := 0
	for _, v := range list {
		n := v.Type.Shape.Last()
		v.Op, v.Args, v.Attrs = opCols, []*graph.Value{all}, graph.MakeAttrs("from", at, "to", at+n)
		at += n
	}
}
