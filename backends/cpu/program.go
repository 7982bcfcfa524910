package cpu

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"graphrun/backends"
	"graphrun/graph"
)

// program is a compiled graph: two plans over the same weights, caches and
// arena. The small one serves steps of a few tokens, whose activations then lie
// close together; the large one serves chunks of a prompt.
type program struct {
	g     *graph.Graph // as run, planned for the largest step
	plans []*plan      // by growing size
	last  *plan        // the plan of the last step
	max   graph.Dims
	dims  graph.Dims // of this step
	mem   backends.Memory
	store *storage
	team  *team

	inputs []*graph.Value
	fed    []*graph.Tensor
	checks []check

	// State of the step that runs now.
	ctx    context.Context
	walk   func(worker int)
	stop   atomic.Bool
	failed atomic.Pointer[error]
}

// Run implements backends.Program.
func (p *program) Run(ctx context.Context, feeds []backends.Feed) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := backends.BindFeeds(p.inputs, feeds, p.max, p.dims, p.fed); err != nil {
		return err
	}
	for i := range p.checks {
		if err := p.checks[i].run(p); err != nil {
			return err
		}
	}
	pl := p.plans[len(p.plans)-1]
	for _, q := range p.plans {
		if q.fits(p.dims) {
			pl = q
			break
		}
	}
	p.last = pl
	pl.bind(p.dims, p.fed)

	p.ctx = ctx
	p.stop.Store(false)
	p.failed.Store(nil)
	p.team.run(p.walk)
	p.ctx = nil
	if err := p.failed.Load(); err != nil {
		p.store.attention.Reset()
		return *err
	}
	if p.stop.Load() {
		p.store.attention.Reset()
		return ctx.Err()
	}
	return nil
}

// walkPlan executes the instruction list as one worker of the team. A panic in
// a kernel (a fault in the mapped file, say) becomes the error of the step; the
// worker then only keeps its appointments at the barriers.
func (p *program) walkPlan(w int) {
	old := debug.SetPanicOnFault(true)
	for i := 0; i < len(p.last.instrs); {
		i = p.walkFrom(w, i)
	}
	debug.SetPanicOnFault(old)
}

// walkFrom executes instructions from i on and returns the next to execute. It
// returns before the end only after a panic.
func (p *program) walkFrom(w, i int) (next int) {
	pl := p.last
	defer func() {
		if r := recover(); r != nil {
			in := &pl.instrs[i]
			err := fmt.Errorf("cpu: %s %s %s: %v", in.call.Value, in.call.Value.Op.Name, in.call.Value.Label(), r)
			p.failed.CompareAndSwap(nil, &err)
			next = i + 1
		}
	}()
	for ; i < len(pl.instrs); i++ {
		in := &pl.instrs[i]
		if in.barrier {
			p.team.bar.wait()
		}
		if in.layerStart && w == 0 && p.ctx.Err() != nil {
			p.stop.Store(true)
		}
		if p.stop.Load() || p.failed.Load() != nil {
			continue // the step is lost, but the others wait at barriers
		}
		if in.serial {
			if w == 0 && in.units > 0 {
				in.run(&in.call, 0, in.units, p.store.scratch[0])
			}
			continue
		}
		lo, hi := split(in.units, in.grain, w, p.team.n)
		if lo < hi {
			in.run(&in.call, lo, hi, p.store.scratch[w])
		}
	}
	return i
}

// split returns the range of worker w of n: contiguous, multiples of grain
// except at the end.
func split(units, grain, w, n int) (lo, hi int) {
	g := (units + grain - 1) / grain
	return min(units, g*w/n*grain), min(units, g*(w+1)/n*grain)
}

// Output implements backends.Program.
func (p *program) Output(name string) *graph.Tensor {
	if p.last == nil {
		return nil
	}
	for i, o := range p.g.Outputs {
		if o.Name == name {
			return p.last.outputs[i]
		}
	}
	return nil
}

// Value implements backends.Inspector.
func (p *program) Value(v *graph.Value) *graph.Tensor {
	if p.last == nil {
		return nil
	}
	return p.last.kept[v.ID]
}

// Graph implements backends.Program.
func (p *program) Graph() *graph.Graph { return p.g }

// Memory implements backends.Program.
func (p *program) Memory() backends.Memory { return p.mem }

// CopyPage implements backends.Program.
func (p *program) CopyPage(windowed bool, dst, src int) {
	for _, c := range p.store.caches {
		if (c.value.Attrs.Int("window") > 0) == windowed {
			c.copyPage(dst, src)
		}
	}
}

// Close implements backends.Program.
func (p *program) Close() error {
	p.team.close()
	return nil
}
