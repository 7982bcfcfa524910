package cpu

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"

	"graphrun/backends"
	"graphrun/backends/cpu/kern"
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
	rec   *recorder // nil: nothing is recorded
	// recorded is the last recorder, kept for when recording goes on.
	recorded *recorder
	finite   bool // look at every value

	inputs []*graph.Value
	fed    []*graph.Tensor
	checks []check

	// State of the step that runs now.
	ctx     context.Context
	at      int   // stage; belongs to the worker that opens it
	procs   int32 // GOMAXPROCS
	runs    uint32
	cursors []cursor // by worker
	stop    atomic.Bool
	failed  atomic.Pointer[error]
}

// busy is the number of workers of all programs that run a step.
var busy atomic.Int32

// Run implements backends.Program.
func (p *program) Run(ctx context.Context, feeds []backends.Feed) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	begin := int64(0)
	if p.rec != nil {
		begin = p.rec.Now()
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
	for _, t := range p.store.ropes {
		t.fill(p.fed[t.input].I32)
	}

	p.ctx = ctx
	p.stop.Store(false)
	p.failed.Store(nil)
	p.at = -1
	p.runs++
	if p.rec != nil {
		p.rec.begin(p, begin)
	}
	p.procs = int32(runtime.GOMAXPROCS(0))
	busy.Add(int32(p.team.n))
	p.team.run()
	busy.Add(int32(-p.team.n))
	if p.rec != nil {
		p.rec.End = p.rec.Now()
	}
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

// next implements job: it executes the serial instructions of the next stage.
func (p *program) next(w int, counts []int) bool {
	pl := p.last
	if p.finite && p.at >= 0 {
		p.verify(pl.stages[p.at].parallel)
	}
	p.at++
	if p.at >= len(pl.stages) || p.lost() {
		return false
	}
	st := &pl.stages[p.at]
	if st.layerStart && p.ctx.Err() != nil {
		p.stop.Store(true)
		return false
	}
	for k, i := range st.serial {
		if !p.exec(int(i), 0, pl.instrs[i].units, w) {
			return false
		}
		if p.finite {
			p.verify(st.serial[k : k+1])
		}
	}
	for r := range counts {
		counts[r] = int(st.first[r+1] - st.first[r])
	}
	return true
}

// chunk implements job.
func (p *program) chunk(w, rng, i int) {
	st := &p.last.stages[p.at]
	c := st.chunks[int(st.first[rng])+i]
	if w == 0 && i == 0 && st.layerStart && busy.Load() >= p.procs {
		// Once in a layer timers and the network get a turn, which they do not
		// have otherwise while all processors are busy. While one is free they do,
		// and yielding would cost 14 µs: it wakes that one to look for work.
		runtime.Gosched()
	}
	if !p.lost() {
		p.exec(int(c.instr), int(c.lo), int(c.hi), w)
	}
}

// verify looks at the results of instructions, in order, unless the step is lost
// already.
func (p *program) verify(instrs []int32) {
	for _, i := range instrs {
		if p.lost() {
			return
		}
		if err := backends.CheckCall(&p.last.instrs[i].call, kern.Finite); err != nil {
			p.failed.CompareAndSwap(nil, &err)
		}
	}
}

// lost reports whether the result of the step is of no use any more.
func (p *program) lost() bool { return p.stop.Load() || p.failed.Load() != nil }

// exec computes units of instruction i. A panic in the kernel (a fault in the
// mapped file, say) becomes the error of the step.
func (p *program) exec(i, lo, hi, w int) (ok bool) {
	in := &p.last.instrs[i]
	defer func() {
		if r := recover(); r != nil {
			err := fmt.Errorf("cpu: %s %s %s: %w", in.call.Value, in.call.Value.Op.Name, in.call.Value.Label(), backends.PanicError(r))
			p.failed.CompareAndSwap(nil, &err)
		}
	}()
	if p.rec == nil {
		in.run(&in.call, lo, hi, p.store.scratch[w])
		return true
	}
	begin := p.rec.enter(i)
	in.run(&in.call, lo, hi, p.store.scratch[w])
	p.rec.leave(w, i, begin)
	return true
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

// Notices implements backends.Reporter.
func (p *program) Notices() []string { return p.store.notices }

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

// Close implements backends.Program. Outputs and values must not be read after it.
func (p *program) Close() error {
	p.team.close()
	return p.store.free()
}
