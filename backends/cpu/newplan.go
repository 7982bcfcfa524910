package cpu

import (
	"fmt"
	"slices"

	"graphrun/backends"
	"graphrun/graph"
)

// planner binds the values of a planned graph to storage.
type planner struct {
	plan    *plan
	store   *storage
	dims    graph.Dims
	tensors map[*graph.Value]*graph.Tensor
	regions map[*graph.Value]region
	layer   int
	scratch int
}

// newPlan makes the instruction list of g, which memplan has gone over. It
// returns the scratch bytes a worker needs. keep remembers the tensors of all
// values.
func newPlan(g *graph.Graph, store *storage, inputs []*graph.Value, keep bool) (*plan, int, error) {
	b := &planner{
		plan: &plan{limit: g.Bound}, store: store, dims: g.Bound, layer: -2,
		tensors: map[*graph.Value]*graph.Tensor{}, regions: map[*graph.Value]region{},
	}
	for _, v := range g.Values {
		for _, d := range v.Type.Shape {
			if d.Name != "" && v.Op != graph.OpCache && !slices.Contains(b.plan.names, d.Name) {
				b.plan.names = append(b.plan.names, d.Name)
			}
		}
	}
	slices.Sort(b.plan.names)
	for _, v := range g.Values {
		if err := b.place(v); err != nil {
			return nil, 0, err
		}
	}
	for _, in := range inputs {
		i := slices.IndexFunc(g.Values, func(v *graph.Value) bool { return v.ID == in.ID })
		b.plan.inputs = append(b.plan.inputs, b.tensors[g.Values[i]])
	}
	for _, o := range g.Outputs {
		b.plan.outputs = append(b.plan.outputs, b.tensors[o.Value])
	}
	if keep {
		b.plan.kept = map[int]*graph.Tensor{}
		for v, t := range b.tensors {
			b.plan.kept[v.ID] = t
		}
	}
	b.plan.sizes = make([]int, len(b.plan.names))
	for i := range b.plan.sizes {
		b.plan.sizes[i] = -1
	}
	return b.plan, b.scratch, nil
}

// place gives v its tensor and, if it is computed, its instruction.
func (b *planner) place(v *graph.Value) error {
	b.regions[v] = region{space: -1}
	switch v.Op {
	case graph.OpInput:
		b.tensors[v] = &graph.Tensor{DType: v.Type.DType, Dims: backends.Sizes(v.Type.Shape, b.dims), Stride: v.Type.Shape.RowElems()}
		return nil
	case graph.OpWeight:
		b.tensors[v] = b.store.weights[v.Name]
		return nil
	case graph.OpConst:
		b.tensors[v] = b.store.consts[v.ID]
		return nil
	case graph.OpCache:
		i := b.store.cacheOf(v)
		b.tensors[v] = b.store.caches[i].tensor
		b.regions[v] = region{i + 1, 0, len(b.store.caches[i].tensor.Raw)}
		return nil
	}
	switch {
	case v.Op.Is(graph.View):
		b.tensors[v] = backends.View(v, b.tensors[v.Args[0]], b.dims)
		b.regions[v] = b.regions[v.Args[0]]
		b.watch(v)
		if !b.fed(v) {
			return nil
		}
	case v.Op.Is(graph.State):
		b.tensors[v] = b.tensors[v.Args[0]]
		b.regions[v] = b.regions[v.Args[0]]
	default:
		t, err := b.inArena(v)
		if err != nil {
			return err
		}
		b.tensors[v] = t
		b.watch(v)
	}
	return b.instr(v)
}

// inArena returns the tensor of v where the memory plan put it.
func (b *planner) inArena(v *graph.Value) (*graph.Tensor, error) {
	if v.Mem == nil {
		return nil, fmt.Errorf("cpu: %s %s has no place in the memory plan", v, v.Label())
	}
	bytes := b.store.arena[v.Mem.Offset : v.Mem.Offset+v.Type.Bytes(b.dims)]
	b.regions[v] = region{0, v.Mem.Offset, v.Mem.Offset + v.Mem.Size}
	t := &graph.Tensor{DType: v.Type.DType, Dims: backends.Sizes(v.Type.Shape, b.dims), Stride: v.Type.Shape.RowElems()}
	switch t.DType {
	case graph.F32:
		t.F32 = floats(bytes)
	case graph.I32:
		t.I32 = ints(bytes)
	default:
		t.Raw, t.Stride = bytes, t.DType.RowBytes(t.Stride)
	}
	return t, nil
}

// fed reports whether v is a view of an input, whose storage changes with each
// step: such a view is made anew by an instruction.
func (b *planner) fed(v *graph.Value) bool {
	for v.Op.Is(graph.View) {
		v = v.Args[0]
	}
	return v.Op == graph.OpInput
}

// watch records the dimensions of v's tensor that change from step to step.
func (b *planner) watch(v *graph.Value) {
	for i, d := range v.Type.Shape {
		if d.Name != "" {
			b.plan.sized = append(b.plan.sized, sized{b.tensors[v], i, slices.Index(b.plan.names, d.Name)})
		}
	}
}

func (b *planner) instr(v *graph.Value) error {
	in := instr{call: graph.Call{Value: v, Out: b.tensors[v]}, out: b.regions[v]}
	for _, a := range v.Args {
		in.call.In = append(in.call.In, b.tensors[a])
		in.in = append(in.in, b.regions[a])
	}
	if v.Op.Prepare != nil {
		param, err := v.Op.Prepare(v)
		if err != nil {
			return fmt.Errorf("cpu: %s %s: %w", v, v.Label(), err)
		}
		in.call.Param = param
	}
	l, err := lower(&in.call, b.store)
	if err != nil {
		return err
	}
	in.run, in.countUnits, in.countGrain, in.unitCost, in.exclusive = l.run, l.units, l.grain, l.cost, l.exclusive
	in.plain, in.mats = l.plain, l.mats
	if l.scratch != nil {
		b.scratch = max(b.scratch, l.scratch(&in.call))
	}
	in.layerStart = v.Layer != b.layer
	b.layer = v.Layer
	b.plan.instrs = append(b.plan.instrs, in)
	return nil
}
