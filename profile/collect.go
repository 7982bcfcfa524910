package profile

import (
	"maps"
	"slices"
	"strings"
	"time"

	"graphrun/backends"
	"graphrun/graph"
	"graphrun/ops"
)

// Collector sums what the steps of a program did, apart for each phase.
type Collector struct {
	Model   string
	Threads int
	// Events keeps the events of the first so many steps of each phase for
	// WriteTrace.
	Events int

	prog   backends.Recorder
	line   backends.Timeline
	phases []*phase
	blocks map[*graph.Value]string
	costs  map[costKey][]graph.Cost
	// share is the work of one worker on each instruction of the step, most that
	// of the worker which had most.
	share, most []int64
}

// phase is what the steps of one kind did together.
type phase struct {
	name          string
	steps, tokens int
	wall          time.Duration
	instrs        []backends.Instr
	cells         []cell   // beside instrs
	rest          []part   // what is no instruction, in order of appearance
	events        []record // for the trace
}

// cell is the sum of one instruction. Times are those of all workers together,
// in nanoseconds.
type cell struct {
	calls             int
	work              int64
	busy              int64 // of the worker that took longest
	bytes, multiplies int
}

// part is time that no instruction took.
type part struct {
	name string
	d    time.Duration
}

// record is the timeline of a step, kept.
type record struct {
	begin, start, end int64
	instrs            []backends.Instr
	lanes             [][]backends.Span
}

// costKey is what the costs of a step depend on.
type costKey struct {
	first                     *backends.Instr // of the plan's list
	tokens, rows, seqs, pages int
}

// New returns a Collector for steps of the program.
func New(p backends.Recorder, model string, threads int) *Collector {
	return &Collector{Model: model, Threads: threads, prog: p, costs: map[costKey][]graph.Cost{}}
}

// Start makes the program record; labels gives the workers pprof labels. Stop
// ends it.
func (c *Collector) Start(labels bool) {
	if c.line.Epoch.IsZero() {
		c.line.Epoch = time.Now()
	}
	c.line.Labels = labels
	c.prog.Record(&c.line)
}

// Stop makes the program record no more.
func (c *Collector) Stop() { c.prog.Record(nil) }

func (c *Collector) phase(name string) *phase {
	for _, p := range c.phases {
		if p.name == name {
			return p
		}
	}
	p := &phase{name: name}
	c.phases = append(c.phases, p)
	return p
}

// Step adds the step the program has just run, of the given number of tokens,
// the first at the given position, to a phase.
func (c *Collector) Step(name string, tokens, position int) {
	p, t := c.phase(name), &c.line
	if p.cells == nil {
		p.instrs, p.cells = t.Instrs, make([]cell, len(t.Instrs))
	}
	p.steps++
	p.tokens += tokens
	for i, cost := range c.costOf(tokens, position) {
		p.cells[i].bytes += cost.Bytes
		p.cells[i].multiplies += cost.MACs
	}
	n := int64(len(t.Lanes))
	var start, wait int64
	if c.most == nil {
		c.most, c.share = make([]int64, len(p.cells)), make([]int64, len(p.cells))
	}
	clear(c.most)
	for _, lane := range t.Lanes {
		last := t.Start
		for k, x := range lane {
			if k == 0 {
				start += x.Begin - last
			} else {
				wait += x.Begin - last
			}
			p.cells[x.Instr].work += x.End - x.Begin
			c.share[x.Instr] += x.End - x.Begin
			last = x.End
		}
		wait += t.End - last
		for _, x := range lane {
			c.most[x.Instr] = max(c.most[x.Instr], c.share[x.Instr])
			c.share[x.Instr] = 0
		}
	}
	for i := range p.cells {
		p.cells[i].calls++
		p.cells[i].busy += c.most[i]
	}
	if n == 1 {
		p.add("between operations", time.Duration(wait)) // nobody to wait for
	} else {
		p.add("barrier", time.Duration(wait/n))
	}
	p.add("waking workers", time.Duration(start/n))
	p.add("binding inputs", time.Duration(t.Start-t.Begin))
	if p.steps <= c.Events {
		p.events = append(p.events, keep(t))
	}
}

// keep copies the timeline of a step.
func keep(t *backends.Timeline) record {
	r := record{begin: t.Begin, start: t.Start, end: t.End, instrs: t.Instrs}
	for _, l := range t.Lanes {
		r.lanes = append(r.lanes, slices.Clone(l))
	}
	return r
}

// Last returns how long the program took for the last step.
func (c *Collector) Last() time.Duration { return time.Duration(c.line.End - c.line.Begin) }

// Rest adds time of a phase that was not spent inside the program, under a name.
func (c *Collector) Rest(name, what string, d time.Duration) { c.phase(name).add(what, d) }

// Wall says how long the phase took, all together.
func (c *Collector) Wall(name string, d time.Duration) { c.phase(name).wall += d }

func (p *phase) add(what string, d time.Duration) {
	for i := range p.rest {
		if p.rest[i].name == what {
			p.rest[i].d += d
			return
		}
	}
	p.rest = append(p.rest, part{what, d})
}

// costOf returns the cost of each instruction of the last step. Page tables of
// the step have room for the whole context; here they count as many pages as a
// token sees on average.
func (c *Collector) costOf(tokens, position int) []graph.Cost {
	t := &c.line
	seen := position + (tokens+1)/2
	pages := (seen + ops.PageSize - 1) / ops.PageSize
	key := costKey{&t.Instrs[0], tokens, t.Dims["R"], t.Dims["N"], pages}
	if costs, ok := c.costs[key]; ok {
		return costs
	}
	dims := maps.Clone(t.Dims)
	for _, name := range []string{"C", "CW"} {
		if n, ok := dims[name]; ok {
			dims[name] = min(n, pages)
		}
	}
	costs := make([]graph.Cost, len(t.Instrs))
	for i := range t.Instrs {
		costs[i] = graph.CostOf(t.Instrs[i].Value, dims)
	}
	c.costs[key] = costs
	return costs
}

// blockOf returns the part of a layer that a value belongs to, the first word of
// its role: attn, ffn. A value without a role belongs where the one before it in
// its layer does.
func (c *Collector) blockOf(v *graph.Value) string {
	if c.blocks == nil {
		c.blocks = map[*graph.Value]string{}
	}
	if b, ok := c.blocks[v]; ok {
		return b
	}
	block, layer := "", -2
	for _, p := range c.phases {
		for _, in := range p.instrs {
			u := in.Value
			if u.Layer != layer {
				block, layer = "", u.Layer
			}
			if name, _, _ := strings.Cut(u.Name, "."); name != "" {
				block = name
			}
			if block == "" {
				block = u.Op.Name
			}
			c.blocks[u] = block
		}
	}
	return c.blocks[v]
}
