package cpu

import (
	"graphrun/graph"
)

// kernel computes units lo to hi-1 of a call. scratch belongs to the worker.
type kernel func(c *graph.Call, lo, hi int, scratch []byte)

// instr is one step of the instruction list.
type instr struct {
	call graph.Call
	run  kernel
	// countUnits and countGrain say how the work divides, given the sizes of
	// the step.
	countUnits func(c *graph.Call) int
	countGrain func(c *graph.Call) int
	out        region
	in         []region
	layerStart bool
	exclusive  bool // see lowered

	// Set by plan.bind for the sizes of the step.
	units, grain int
	serial       bool // worker 0 does all of it
	barrier      bool // wait for all workers before
}

// region is a piece of storage: bytes [lo,hi) of a space. Space 0 is the arena,
// -1 is memory that no instruction writes, others are caches.
type region struct{ space, lo, hi int }

func (r region) overlaps(o region) bool {
	return r.space >= 0 && r.space == o.space && r.lo < o.hi && o.lo < r.hi
}

// plan is an instruction list with the tensors it works on, for steps of up to
// maxT tokens and maxR rows.
type plan struct {
	limit   graph.Dims
	instrs  []instr
	names   []string // of the named dimensions, in the order of sizes
	sizes   []int
	sized   []sized
	inputs  []*graph.Tensor
	outputs []*graph.Tensor
	kept    map[int]*graph.Tensor // by value id, under Options.Keep
}

// sized is a dimension of a tensor that changes from step to step.
type sized struct {
	t   *graph.Tensor
	dim int // index in Tensor.Dims
	of  int // index in plan.sizes
}

// fits reports whether a step of these sizes can run under the plan.
func (pl *plan) fits(dims graph.Dims) bool {
	for i, name := range pl.names {
		if dims[name] > pl.limit[pl.names[i]] {
			return false
		}
	}
	return true
}

// bind gives the tensors the sizes and inputs of this step, and the
// instructions their division of work.
func (pl *plan) bind(dims graph.Dims, fed []*graph.Tensor) {
	for i, t := range fed {
		copyHeader(pl.inputs[i], t)
	}
	changed := false
	for i, name := range pl.names {
		if n := dims[name]; n != pl.sizes[i] {
			pl.sizes[i] = n
			changed = true
		}
	}
	if !changed {
		return
	}
	for i := range pl.sized {
		s := &pl.sized[i]
		s.t.Dims[s.dim] = pl.sizes[s.of]
	}
	for i := range pl.instrs {
		in := &pl.instrs[i]
		in.units = in.countUnits(&in.call)
		in.grain = in.countGrain(&in.call)
		in.serial = in.units <= in.grain
	}
	pl.placeBarriers()
}

// copyHeader makes dst the tensor src without sharing its Dims slice.
func copyHeader(dst, src *graph.Tensor) {
	dims := append(dst.Dims[:0], src.Dims...)
	*dst = *src
	dst.Dims = dims
}

// placeBarriers sets a barrier before each instruction that touches storage
// which another worker may have written or may still read since the last
// barrier. Two serial instructions never need one: worker 0 does both.
func (pl *plan) placeBarriers() {
	since := 0
	for i := range pl.instrs {
		in := &pl.instrs[i]
		in.barrier = false
		for j := since; j < i && !in.barrier; j++ {
			in.barrier = in.conflicts(&pl.instrs[j])
		}
		if in.barrier {
			since = i
		}
	}
}

func (in *instr) conflicts(o *instr) bool {
	if in.serial && o.serial || in.units == 0 || o.units == 0 {
		return false
	}
	if in.out.overlaps(o.out) || in.exclusive && o.exclusive {
		return true
	}
	for _, r := range in.in {
		if r.overlaps(o.out) {
			return true
		}
	}
	for _, r := range o.in {
		if in.out.overlaps(r) {
			return true
		}
	}
	return false
}
