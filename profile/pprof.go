package profile

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"

	"graphrun/graph"
)

// Pprof returns the profile for go tool pprof. Samples have the values time
// (nanoseconds), bytes and macs, under stacks of model, layer, block, operation
// and kernel, and the labels phase and op. What is no operation is a frame of
// its own below the model.
func (c *Collector) Pprof() *profile.Profile {
	b := &pprofBuilder{p: &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "time", Unit: "nanoseconds"}, {Type: "bytes", Unit: "bytes"}, {Type: "macs", Unit: "count"}},
		PeriodType: &profile.ValueType{Type: "time", Unit: "nanoseconds"}, Period: 1,
		DefaultSampleType: "time", TimeNanos: c.line.Epoch.UnixNano(),
	}, at: map[string]*profile.Location{}}
	for _, p := range c.phases {
		b.p.DurationNanos += int64(p.wall)
		b.p.Comments = append(b.p.Comments, phaseComment(p))
		for i := range p.cells {
			v, x := p.instrs[i].Value, &p.cells[i]
			layer := "outside of layers"
			if v.Layer >= 0 {
				layer = "layer " + strconv.Itoa(v.Layer)
			}
			op := v.Op.Name
			if v.Name != "" {
				op += " " + v.Name
			}
			b.sample(map[string][]string{"phase": {p.name}, "op": {v.Op.Name}},
				[]int64{x.work / int64(c.Threads), int64(x.bytes), int64(x.multiplies)},
				[]frame{{p.instrs[i].Kernel, ""}, {op, v.Origin}, {c.blockOf(v), ""}, {layer, ""}, {c.Model, ""}})
		}
		for _, r := range p.table(c.Threads).Rest {
			if r.NS > 0 {
				b.sample(map[string][]string{"phase": {p.name}, "op": {r.Name}}, []int64{r.NS, 0, 0}, []frame{{r.Name, ""}, {c.Model, ""}})
			}
		}
	}
	return b.p
}

// WritePprof writes the profile, compressed, as go tool pprof reads it.
func (c *Collector) WritePprof(w io.Writer) error {
	p := c.Pprof()
	if err := p.CheckValid(); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return p.Write(w)
}

func phaseComment(p *phase) string {
	return fmt.Sprintf("phase %s steps=%d tokens=%d", p.name, p.steps, p.tokens)
}

// frame is a level of a stack.
type frame struct {
	name   string
	origin string // "file.go:12"
}

type pprofBuilder struct {
	p  *profile.Profile
	at map[string]*profile.Location
}

func (b *pprofBuilder) sample(labels map[string][]string, values []int64, stack []frame) {
	s := &profile.Sample{Value: values, Label: labels}
	for _, f := range stack {
		s.Location = append(s.Location, b.location(f))
	}
	b.p.Sample = append(b.p.Sample, s)
}

// location returns the one location of a frame.
func (b *pprofBuilder) location(f frame) *profile.Location {
	key := f.name + "\x00" + f.origin
	if l := b.at[key]; l != nil {
		return l
	}
	file, line, _ := strings.Cut(f.origin, ":")
	n, _ := strconv.ParseInt(line, 10, 64)
	fn := &profile.Function{ID: uint64(len(b.p.Function) + 1), Name: f.name, SystemName: f.name, Filename: file}
	b.p.Function = append(b.p.Function, fn)
	l := &profile.Location{ID: uint64(len(b.p.Location) + 1), Line: []profile.Line{{Function: fn, Line: n}}}
	b.p.Location = append(b.p.Location, l)
	b.at[key] = l
	return l
}

// MACsOf returns the multiply-adds of one step of the graph under a binding,
// those of attention apart.
func MACsOf(g *graph.Graph, dims graph.Dims) (products, attention int) {
	for _, v := range g.Values {
		if v.Op.Is(graph.Leaf) {
			continue
		}
		n := graph.CostOf(v, dims).MACs
		if v.Op.Name == "attention" {
			attention += n
		} else {
			products += n
		}
	}
	return products, attention
}
