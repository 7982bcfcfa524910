package cpu

import (
	"context"
	"maps"
	"runtime/pprof"
	"slices"
	"strconv"

	"graphrun/backends"
	"graphrun/backends/cpu/kern"
	"graphrun/graph"
)

// recorder fills a Timeline. Each worker writes to its own lane: two readings of
// the clock, 40 ns each, for each chunk of work.
type recorder struct {
	*backends.Timeline
	plan     *plan             // whose instructions the Timeline lists
	labels   []context.Context // beside them, nil without Labels
	labelled bool
}

// Record implements backends.Recorder.
func (p *program) Record(t *backends.Timeline) {
	if t == nil {
		p.rec = nil
		return
	}
	if p.recorded == nil || p.recorded.Timeline != t || p.recorded.labelled != t.Labels {
		p.recorded = &recorder{Timeline: t, labelled: t.Labels}
	}
	p.rec = p.recorded
}

// begin is called before the workers start.
func (r *recorder) begin(p *program, begin int64) {
	if r.plan != p.last {
		r.list(p.last)
	}
	most := 0 // that one worker may do
	for i := range r.plan.stages {
		most += len(r.plan.stages[i].serial) + len(r.plan.stages[i].chunks)
	}
	if r.Lanes == nil {
		r.Lanes, r.Dims = make([][]backends.Span, p.team.n), graph.Dims{}
	}
	for w := range r.Lanes {
		r.Lanes[w] = slices.Grow(r.Lanes[w][:0], most)
	}
	maps.Copy(r.Dims, p.dims)
	r.Begin, r.Start = begin, r.Now()
}

// list names the instructions of the plan.
func (r *recorder) list(pl *plan) {
	r.plan = pl
	r.Instrs = make([]backends.Instr, len(r.plan.instrs))
	r.labels = nil
	for i := range r.plan.instrs {
		in := &r.plan.instrs[i]
		c := &in.call
		r.Instrs[i] = backends.Instr{Value: c.Value, Kernel: in.kernelName()}
		if r.Labels {
			layer := "none"
			if c.Value.Layer >= 0 {
				layer = strconv.Itoa(c.Value.Layer)
			}
			r.labels = append(r.labels, pprof.WithLabels(context.Background(), pprof.Labels("layer", layer, "op", c.Value.Op.Name)))
		}
	}
}

// kernelName says what computes an instruction: the operation, the element types
// of weight and activation of a product or of a cache, and the instruction set.
func (in *instr) kernelName() string {
	v := in.call.Value
	name := v.Op.Name
	for _, a := range v.Args {
		if a.Op == graph.OpWeight && len(a.Type.Shape) > 1 {
			name += " " + a.Type.DType.String() + "·" + v.Args[0].Type.DType.String()
			break
		}
		if a.Op == graph.OpCache || a.Op.Is(graph.State) {
			name += " " + a.Type.DType.String()
			break
		}
	}
	if in.plain {
		return name + " go"
	}
	return name + " " + kern.Level()
}

// enter is called when a worker is about to work on instruction i.
func (r *recorder) enter(i int) (begin int64) {
	if r.labels != nil {
		pprof.SetGoroutineLabels(r.labels[i])
	}
	return r.Now()
}

// leave is called when the worker has done so.
func (r *recorder) leave(w, i int, begin int64) {
	r.Lanes[w] = append(r.Lanes[w], backends.Span{Instr: i, Begin: begin, End: r.Now()})
	if r.labels != nil {
		pprof.SetGoroutineLabels(context.Background())
	}
}
