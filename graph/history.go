package graph

import "maps"

// History keeps a graph as it was built and as each pass left it, for the page
// that WriteHTML writes. The zero value is empty.
//
//	var h graph.History
//	h.Begin(g)
//	pipeline.Run(g, graph.RunOptions{Hook: h.Add})
type History struct {
	states []state
}

// state is the graph after one pass, or after several of which only the first
// changed it.
type state struct {
	passes []PassStat
	graph  *Graph
	print  uint64
}

// Begin puts g, as it was built, before everything else. It may be called after
// the passes have run on a copy of g.
func (h *History) Begin(g *Graph) {
	first := state{[]PassStat{{Pass: "build", Before: len(g.Values), After: len(g.Values), Changed: true}}, g.Clone(), g.Fingerprint()}
	if len(h.states) > 0 && h.states[0].print == first.print {
		h.states[0].passes = append(first.passes, h.states[0].passes...)
		return
	}
	h.states = append([]state{first}, h.states...)
}

// Add appends the graph as a pass left it; it is a hook for RunOptions. It
// keeps a copy, unless the graph is still what it was.
func (h *History) Add(g *Graph, s PassStat) {
	print := g.Fingerprint()
	if n := len(h.states); n > 0 && h.states[n-1].print == print {
		last := &h.states[n-1]
		last.passes = append(last.passes, s)
		return
	}
	h.states = append(h.states, state{[]PassStat{s}, g.Clone(), print})
}

// last returns the graph after the last pass.
func (h *History) last() *Graph { return h.states[len(h.states)-1].graph }

// bound returns the binding of the memory plan, nil when there is none.
func (h *History) bound() Dims { return h.last().Bound }

// oneToken returns b for a step of one token of one sequence.
func oneToken(b Dims) Dims {
	c := maps.Clone(b)
	for _, name := range []string{"T", "R", "N"} {
		if _, ok := c[name]; ok {
			c[name] = 1
		}
	}
	return c
}
