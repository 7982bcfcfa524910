package cpu

import (
	"fmt"

	"graphrun/backends"
	"graphrun/graph"
	"graphrun/ops"
)

// check bounds the numbers of an integer input of a step: kernels use them as
// indexes.
type check struct {
	input int    // index in program.inputs
	dim   string // numbers are below the size of this dimension, or
	limit int    // below this number when dim is ""
	least int32  // and not below this
	what  string
}

// newChecks derives the bounds from the operations that use each input.
func newChecks(g *graph.Graph, inputs []*graph.Value, dims graph.Dims) []check {
	index := map[int]int{}
	for i, v := range inputs {
		index[v.ID] = i
	}
	seen := map[string]bool{}
	var out []check
	add := func(v *graph.Value, dim string, limit int, least int32, what string) {
		i, ok := index[v.ID]
		if key := v.Name + " " + what; ok && !seen[key] {
			seen[key] = true
			out = append(out, check{i, dim, limit, least, what})
		}
	}
	for _, v := range g.Values {
		switch v.Op.Name {
		case "embed":
			add(v.Args[0], "", v.Args[1].Type.Shape[0].Size, 0, "the vocabulary")
		case "selectrows":
			add(v.Args[1], v.Args[0].Type.Shape[0].Name, 0, 0, "the tokens of the step")
		case "kvwrite", "ropewrite":
			add(v.Args[3], "", 1<<31-1, 0, "positions")
			add(v.Args[4], v.Args[5].Type.Shape[0].Name, 0, 0, "the sequences of the step")
			add(v.Args[5], "", dims.Of(v.Type.Shape[0])/ops.PageSize, -1, "the cache pages")
		}
	}
	return out
}

func (c *check) run(p *program) error {
	t := p.fed[c.input]
	limit := c.limit
	if c.dim != "" {
		limit = p.dims[c.dim]
	}
	for i, n := range t.I32 {
		if n < c.least || int(n) >= limit {
			return fmt.Errorf("cpu: input %q: element %d is %d, outside of %s (%d to %d): %w",
				p.inputs[c.input].Name, i, n, c.what, c.least, limit-1, backends.ErrStep)
		}
	}
	return nil
}
