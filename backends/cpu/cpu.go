package cpu

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"graphrun/backends"
	"graphrun/backends/cpu/kern"
	"graphrun/graph"
)

// Backend compiles graphs for this processor.
type Backend struct{}

// Name returns "cpu".
func (Backend) Name() string { return "cpu" }

// smallStep bounds the tokens and rows of the plan for decoding.
const smallStep = 16

// Compile implements backends.Backend: it optimizes a copy of g, plans memory
// for steps of up to smallStep tokens and for the largest, and starts the
// workers.
func (Backend) Compile(g *graph.Graph, w backends.Weights, o backends.Options) (backends.Program, error) {
	if err := kern.LevelError(); err != nil {
		return nil, err
	}
	dims := maps.Clone(o.Dims)
	if err := checkDims(g, dims); err != nil {
		return nil, err
	}
	o.Stop = ""
	opt, err := Optimize(g, o)
	if err != nil {
		return nil, err
	}
	store := &storage{}
	p, err := compile(opt, store, w, o, dims)
	if err != nil {
		return nil, errors.Join(err, store.free())
	}
	return p, nil
}

// compile makes the program of an optimized graph.
func compile(opt *graph.Graph, store *storage, w backends.Weights, o backends.Options, dims graph.Dims) (*program, error) {
	mem, err := store.fill(opt, w, dims)
	if err != nil {
		return nil, err
	}
	store.uniform = o.Deterministic || quantizes(opt)
	threads := o.Threads
	if threads <= 0 {
		threads = DefaultThreads()
	}
	store.threads = threads
	p := &program{finite: o.Finite, g: opt, max: dims, dims: maps.Clone(dims), mem: mem, store: store}
	for _, v := range opt.Values {
		if v.Op == graph.OpInput {
			p.inputs = append(p.inputs, v)
		}
	}
	p.fed = make([]*graph.Tensor, len(p.inputs))
	p.checks = newChecks(opt, p.inputs, dims)

	graphs := []*graph.Graph{opt}
	if small := smallDims(dims); !maps.Equal(small, dims) {
		g, err := replan(opt, small)
		if err != nil {
			return nil, err
		}
		graphs = []*graph.Graph{g, opt}
	}
	if o.Keep {
		for _, g := range graphs {
			spread(g)
		}
	}
	arena, scratch := 0, 0
	for _, g := range graphs {
		arena = max(arena, g.Arena)
	}
	if store.arena, err = store.bytes(arena, "activations"); err != nil {
		return nil, err
	}
	for _, g := range graphs {
		pl, need, err := newPlan(g, store, p.inputs, o.Keep)
		if err != nil {
			return nil, err
		}
		scratch = max(scratch, need)
		p.plans = append(p.plans, pl)
	}
	for _, t := range store.ropes {
		t.input = slices.IndexFunc(p.inputs, func(v *graph.Value) bool { return v.Name == t.from })
	}
	for range threads {
		b, err := store.bytes(scratch, "workers")
		if err != nil {
			return nil, err
		}
		store.scratch = append(store.scratch, b)
	}
	p.mem.Arena, p.mem.Scratch = arena, scratch*threads
	for _, pl := range p.plans {
		pl.workers = threads
	}
	p.cursors = make([]cursor, threads)
	p.team = newTeam(threads, p)
	return p, nil
}

// checkDims reports a named dimension that has no maximum.
func checkDims(g *graph.Graph, dims graph.Dims) error {
	for _, v := range g.Values {
		for _, d := range v.Type.Shape {
			if d.Name == "" {
				continue
			}
			if n, ok := dims[d.Name]; !ok || n < 0 {
				return fmt.Errorf("cpu: dimension %s of %s %s has no maximum in Options.Dims", d.Name, v, v.Label())
			}
		}
	}
	return nil
}

// smallDims returns the maxima of the plan for decoding: everything that
// counts tokens is bounded by smallStep, everything else stays.
func smallDims(dims graph.Dims) graph.Dims {
	small := maps.Clone(dims)
	for _, name := range []string{"T", "R"} {
		if n, ok := small[name]; ok {
			small[name] = min(n, smallStep)
		}
	}
	return small
}

// quantizes reports whether g rounds an activation to 8 bits. In such a graph
// the last bit of a product decides now and then between two steps of the
// quantizer, and a logit moves by what quantizing moves it at all. So all its
// products, those with the few plain matrices too, add in one order.
func quantizes(g *graph.Graph) bool {
	return slices.ContainsFunc(g.Values, func(v *graph.Value) bool { return v.Type.DType == graph.Q8 || v.Type.DType == graph.Q8K })
}
