package graph

import "slices"

// DCE removes the values that nobody needs. Needed are the outputs, every value
// with an effect (a cache after a write), inputs and caches, and what those use
// in turn. In other words a value goes when it is pure or a view and no needed
// value uses it.
func DCE(g *Graph) error {
	needed := needed(g)
	if slices.ContainsFunc(g.Values, func(v *Value) bool { return !needed[v.ID] }) {
		g.dropPlan()
		g.Values = slices.DeleteFunc(g.Values, func(v *Value) bool { return !needed[v.ID] })
	}
	return nil
}

// needed says by id which values DCE keeps.
func needed(g *Graph) []bool {
	needed := make([]bool, g.nextID)
	todo := make([]*Value, 0, len(g.Values))
	need := func(v *Value) {
		if !needed[v.ID] {
			needed[v.ID] = true
			todo = append(todo, v)
		}
	}
	for _, o := range g.Outputs {
		need(o.Value)
	}
	for _, v := range g.Values {
		if !droppable(v.Op) {
			need(v)
		}
	}
	for len(todo) > 0 {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, a := range v.Args {
			need(a)
		}
	}
	return needed
}

// droppable reports whether values of the operation may go when unused.
func droppable(op *Op) bool { return op.Is(Pure) || op.Is(View) }
