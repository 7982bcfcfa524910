package profile

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
)

// Roof is what the machine can do with all threads together, measured beside the
// profile; 0 is unknown.
type Roof struct {
	ReadGB float64 `json:"read_gb_s"` // memory read, GB/s
	GMACs  float64 `json:"gmac_s"`    // 8-bit multiply-adds, G/s
}

// Report is a profile as tables.
type Report struct {
	Model   string  `json:"model"`
	Threads int     `json:"threads"`
	Roof    Roof    `json:"roof"`
	Phases  []Phase `json:"phases"`
}

// Phase is one of the tables: the times of all steps of one kind.
type Phase struct {
	Name   string `json:"name"`
	Steps  int    `json:"steps"`
	Tokens int    `json:"tokens"`
	NS     int64  `json:"ns"` // on the wall
	Ops    []Row  `json:"ops"`
	Layers []Row  `json:"layers"`
	Rest   []Row  `json:"rest"` // barrier, sampling and whatever else is no operation
}

// Row is a line of a table.
type Row struct {
	Name  string `json:"name"`
	Calls int    `json:"calls,omitempty"` // in one step
	NS    int64  `json:"ns"`
	// Busy is the time in which any worker was at it: more than NS where work is
	// not divided among all.
	Busy  int64   `json:"busy_ns,omitempty"`
	Share float64 `json:"share"` // of the phase
	Bytes int     `json:"bytes,omitempty"`
	MACs  int     `json:"macs,omitempty"`
}

// GBs returns the bytes per second in GB/s, while it was at work.
func (r Row) GBs() float64 { return perSecond(r.Bytes, r.Busy) }

// GMACs returns the multiply-adds per second in G/s, while it was
// at work.
func (r Row) GMACs() float64 { return perSecond(r.MACs, r.Busy) }

func perSecond(n int, ns int64) float64 {
	if ns <= 0 {
		return 0
	}
	return float64(n) / float64(ns)
}

// Report makes the tables.
func (c *Collector) Report(roof Roof) *Report {
	r := &Report{Model: c.Model, Threads: c.Threads, Roof: roof, Phases: []Phase{}}
	for _, p := range c.phases {
		r.Phases = append(r.Phases, p.table(c.Threads))
	}
	return r
}

func (p *phase) table(threads int) Phase {
	t := Phase{Name: p.name, Steps: p.steps, Tokens: p.tokens, NS: int64(p.wall)}
	sums := int64(0)
	add := func(rows *[]Row, name string, c *cell) {
		i := slices.IndexFunc(*rows, func(r Row) bool { return r.Name == name })
		if i < 0 {
			i = len(*rows)
			*rows = append(*rows, Row{Name: name})
		}
		r := &(*rows)[i]
		r.Calls++
		r.NS += c.work
		r.Busy += c.busy
		r.Bytes += c.bytes
		r.MACs += c.multiplies
	}
	for i := range p.cells {
		v, c := p.instrs[i].Value, &p.cells[i]
		add(&t.Ops, v.Op.Name, c)
		layer := "outside"
		if v.Layer >= 0 {
			layer = "layer " + strconv.Itoa(v.Layer)
		}
		add(&t.Layers, layer, c)
	}
	for _, rows := range [][]Row{t.Ops, t.Layers} {
		for i := range rows {
			rows[i].NS /= int64(threads)
			rows[i].Share = share(rows[i].NS, p.wall)
		}
	}
	for _, r := range t.Ops {
		sums += r.NS
	}
	slices.SortStableFunc(t.Ops, func(a, b Row) int { return cmp.Compare(b.NS, a.NS) })
	for _, x := range p.rest {
		t.Rest = append(t.Rest, Row{Name: x.name, NS: int64(x.d), Share: share(int64(x.d), p.wall)})
		sums += int64(x.d)
	}
	other := int64(p.wall) - sums
	t.Rest = append(t.Rest, Row{Name: "other", NS: other, Share: share(other, p.wall)})
	return t
}

func share(ns int64, of time.Duration) float64 {
	if of <= 0 {
		return 0
	}
	return float64(ns) / float64(of)
}

// WriteText writes the tables for people. Layers are left out where layers is
// false.
func (r *Report) WriteText(w io.Writer, layers bool) error {
	fmt.Fprintf(w, "%s, %s", r.Model, plural(r.Threads, "thread"))
	if r.Roof.ReadGB > 0 {
		fmt.Fprintf(w, "; this machine reads %.1f GB/s", r.Roof.ReadGB)
	}
	if r.Roof.GMACs > 0 {
		fmt.Fprintf(w, " and does %.0f GMAC/s of bytes", r.Roof.GMACs)
	}
	fmt.Fprintln(w)
	for i := range r.Phases {
		p := &r.Phases[i]
		rate := 0.0
		if p.NS > 0 {
			rate = float64(p.Tokens) / (float64(p.NS) / 1e9)
		}
		fmt.Fprintf(w, "\n%s: %s in %s, %s, %.1f tok/s\n", p.Name, plural(p.Tokens, "token"), plural(p.Steps, "step"), ms(p.NS), rate)
		var b bytes.Buffer
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(t, "operation\tcalls\tms/step\tshare\tGB/s\tof roof\tGMAC/s\tof roof\t")
		for _, row := range p.Ops {
			r.row(t, p, row)
		}
		for _, row := range p.Rest {
			fmt.Fprintf(t, "%s\t\t%.3f\t%.1f %%\t\t\t\t\t\n", row.Name, perStep(row.NS, p), 100*row.Share)
		}
		fmt.Fprintf(t, "total\t\t%.3f\t100.0 %%\t\t\t\t\t\n", perStep(p.NS, p))
		if layers {
			fmt.Fprintln(t, "\t\t\t\t\t\t\t\t")
			fmt.Fprintln(t, "layer\tcalls\tms/step\tshare\tGB/s\tof roof\tGMAC/s\tof roof\t")
			for _, row := range p.Layers {
				r.row(t, p, row)
			}
		}
		if err := t.Flush(); err != nil {
			return err
		}
		if _, err := w.Write(trimLines(b.Bytes())); err != nil {
			return err
		}
	}
	return nil
}

// trimLines takes blanks from the ends of lines, which empty cells leave.
func trimLines(text []byte) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		out = append(append(out, bytes.TrimRight(line, " \n")...), '\n')
	}
	return out
}

func (r *Report) row(w io.Writer, p *Phase, row Row) {
	fmt.Fprintf(w, "%s\t%d\t%.3f\t%.1f %%\t%s\t%s\t%s\t%s\t\n", row.Name, row.Calls, perStep(row.NS, p), 100*row.Share,
		number(row.GBs()), percent(row.GBs(), r.Roof.ReadGB), number(row.GMACs()), percent(row.GMACs(), r.Roof.GMACs))
}

func perStep(ns int64, p *Phase) float64 { return float64(ns) / 1e6 / float64(max(1, p.Steps)) }

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}

func ms(ns int64) string { return strconv.FormatFloat(float64(ns)/1e6, 'f', 1, 64) + " ms" }

func number(x float64) string {
	if x == 0 {
		return ""
	}
	return strconv.FormatFloat(x, 'f', 1, 64)
}

func percent(x, of float64) string {
	if x == 0 || of == 0 {
		return ""
	}
	return strconv.FormatFloat(100*x/of, 'f', 0, 64) + " %"
}
