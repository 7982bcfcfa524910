package cpu

import "graphrun/graph"

// kernel computes units lo to hi-1 of a call. scratch belongs to the worker.
type kernel func(c *graph.Call, lo, hi int, scratch []byte)

// instr is one step of the instruction list.
type instr struct {
	call graph.Call
	run  kernel
	// countUnits and countGrain say how the work divides, given the sizes of
	// the step; unitCost how many nanoseconds a unit takes, about.
	countUnits func(c *graph.Call) int
	countGrain func(c *graph.Call) int
	unitCost   func(c *graph.Call) float64
	out        region
	in         []region
	layerStart bool
	exclusive  bool // see lowered
	plain      bool
	mats       []matRows // see lowered

	// Set by plan.bind for the sizes of the step.
	units, grain int
	serial       bool // one worker does all of it
}

// stage is what the workers do between two meetings: one of them executes the
// serial instructions, then all take chunks of the others, which do not depend
// on each other.
type stage struct {
	serial     []int32 // instructions, in order
	parallel   []int32
	chunks     []chunk // of all parallel instructions, by range
	first      []int32 // chunks of range r are first[r] to first[r+1]-1
	layerStart bool
	ahead      ahead
}

// chunk is units lo to hi-1 of an instruction.
type chunk struct{ instr, lo, hi int32 }

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
	stages  []stage
	opened  []int32 // the stages that have chunks
	workers int
	names   []string // of the named dimensions, in the order of sizes
	sizes   []int
	sized   []sized
	inputs  []*graph.Tensor
	outputs []*graph.Tensor
	kept    map[int]*graph.Tensor // by value id, under Options.Keep
	near    [][]byte              // weights by stage, last stage first, and worker; see ahead
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
		in.serial = in.units <= in.grain || float64(in.units)*in.unitCost(&in.call) < serialCost
	}
	pl.makeStages()
}

// copyHeader makes dst the tensor src without sharing its Dims slice.
func copyHeader(dst, src *graph.Tensor) {
	dims := append(dst.Dims[:0], src.Dims...)
	*dst = *src
	dst.Dims = dims
}

const (
	// serialCost is the nanoseconds of work that are not worth a meeting.
	serialCost = 1000
	// chunkCost is the nanoseconds of work a chunk should have, at least. In
	// products with one token that is a hundred kilobytes of weights.
	chunkCost = 4000
)

// makeStages divides the instructions into stages. An instruction begins a new
// one when it touches storage that a parallel instruction of the stage writes,
// or the other way round. A serial instruction that does not is moved before the
// parallel ones.
func (pl *plan) makeStages() {
	stages := pl.stages[:0]
	next := func() *stage {
		if len(stages) < cap(stages) {
			stages = stages[:len(stages)+1] // with the lists of an earlier division
		} else {
			stages = append(stages, stage{})
		}
		st := &stages[len(stages)-1]
		st.serial, st.parallel, st.chunks, st.first, st.layerStart = st.serial[:0], st.parallel[:0], st.chunks[:0], st.first[:0], false
		return st
	}
	st := next()
	for i := range pl.instrs {
		in := &pl.instrs[i]
		if in.units == 0 {
			continue
		}
		for _, j := range st.parallel {
			if in.conflicts(&pl.instrs[j]) {
				st = next()
				break
			}
		}
		st.layerStart = st.layerStart || in.layerStart
		if in.serial {
			st.serial = append(st.serial, int32(i))
		} else {
			st.parallel = append(st.parallel, int32(i))
		}
	}
	pl.opened = pl.opened[:0]
	for i := range stages {
		pl.deal(&stages[i])
		if len(stages[i].chunks) > 0 {
			pl.opened = append(pl.opened, int32(i))
		}
	}
	pl.stages = stages
	pl.listAhead()
}

// deal divides the parallel instructions of a stage into chunks. Each worker
// has one range of units of each, contiguous, so that it reads weights in order
// and the same ones in each step. The first chunk is half of the range, each of
// the others half of what is left: the stream from memory is interrupted a few
// times only, and who is done first finds small chunks to help with.
func (pl *plan) deal(st *stage) {
	for w := range pl.workers {
		st.first = append(st.first, int32(len(st.chunks)))
		for _, i := range st.parallel {
			in := &pl.instrs[i]
			lo, hi := split(in.units, in.grain, w, pl.workers)
			if lo >= hi {
				continue
			}
			least := max(1, int(chunkCost/in.unitCost(&in.call)))
			for lo < hi {
				n := max(least, (hi-lo)/2)
				n = (n + in.grain - 1) / in.grain * in.grain
				if hi-lo-n < least {
					n = hi - lo
				}
				st.chunks = append(st.chunks, chunk{i, int32(lo), int32(lo + n)})
				lo += n
			}
		}
	}
	st.first = append(st.first, int32(len(st.chunks)))
}

// split returns the range of worker w of n: contiguous, multiples of grain
// except at the end.
func split(units, grain, w, n int) (lo, hi int) {
	g := (units + grain - 1) / grain
	return min(units, g*w/n*grain), min(units, g*(w+1)/n*grain)
}

func (in *instr) conflicts(o *instr) bool {
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
