package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"graphrun/backends"
	"graphrun/backends/cpu"
	"graphrun/backends/cpu/kern"
	"graphrun/engine"
	"graphrun/graph"
	"graphrun/ops"
)

// kernelGroup is the values of a model that one kernel computes in one shape:
// the same operation of all layers.
type kernelGroup struct {
	kernel, shape string
	values        []*graph.Value
}

// kernelResult is the time of a group for steps of T tokens.
type kernelResult struct {
	Kernel string  `json:"kernel"`
	Shape  string  `json:"shape"`
	Calls  int     `json:"calls"` // in one step of the model
	T      int     `json:"t"`
	US     float64 `json:"us"` // per call, median over the runs
	Best   float64 `json:"best_us"`
	GBS    float64 `json:"gb_s"`
	GMACS  float64 `json:"gmac_s"`
	// ReadPct and PeakPct are the shares of the read bandwidth and of the 8-bit
	// multiply-adds measured beside each run; 0 where that is no roof.
	ReadPct float64 `json:"read_pct,omitempty"`
	PeakPct float64 `json:"peak_pct,omitempty"`
}

var kernelOutputs = []string{"md", "json", "go"}

// kernels measures the kernels whose names contain f.kernel, each alone, with
// the shapes and the weights of the model.
func (f *benchFlags) kernels(cmd *cobra.Command, path string) error {
	m, err := f.open(cmd, path, func(o *engine.Options) { o.Chunk, o.MaxRows = f.chunk, 1 })
	if err != nil {
		return err
	}
	defer m.Close()
	groups, names, err := kernelGroups(cmd.Context(), m, f.kernel)
	if err != nil {
		return err
	}
	if len(groups) == 0 {
		return usagef("--kernel: no kernel of this model has %q in its name; it runs %s", f.kernel, strings.Join(names, ", "))
	}
	threads := f.threads
	if threads == 0 {
		threads = defaultThreads()
	}
	var all []kernelResult
	for _, t := range []int{min(f.gen, 1), f.prompt} {
		for i := range groups {
			if t == 0 {
				break
			}
			r, err := f.oneKernel(cmd.Context(), m, &groups[i], t, threads)
			if err != nil {
				return err
			}
			all = append(all, r)
		}
	}
	return writeKernels(cmd.OutOrStdout(), f.output, all)
}

// kernelGroups finds out what the model runs by running a step.
func kernelGroups(ctx context.Context, m *engine.Model, match string) (groups []kernelGroup, names []string, err error) {
	p, ok := m.Program().(backends.Recorder)
	if !ok {
		return nil, nil, usagef("--kernel needs --backend cpu")
	}
	timeline := &backends.Timeline{Epoch: time.Now()}
	p.Record(timeline)
	s := m.NewSession()
	defer s.Close()
	err = s.Append(ctx, 0)
	p.Record(nil)
	if err != nil {
		return nil, nil, err
	}
	for _, in := range timeline.Instrs {
		v := in.Value
		if !slices.Contains(names, in.Kernel) {
			names = append(names, in.Kernel)
		}
		if match != "all" && !strings.Contains(in.Kernel, match) {
			continue
		}
		shape := kernelShape(v)
		i := slices.IndexFunc(groups, func(g kernelGroup) bool { return g.kernel == in.Kernel && g.shape == shape })
		if i < 0 {
			i = len(groups)
			groups = append(groups, kernelGroup{kernel: in.Kernel, shape: shape})
		}
		groups[i].values = append(groups[i].values, v)
	}
	return groups, names, nil
}

// kernelShape names what sets the cost of a value: the sizes of its weight, or
// else of its rows.
func kernelShape(v *graph.Value) string {
	for _, a := range v.Args {
		if (a.Op == graph.OpWeight || a.Storage().Op == graph.OpCache) && len(a.Type.Shape) > 1 {
			return strings.Trim(a.Type.Shape.String(), "[]")
		}
	}
	return strings.Trim(v.Type.Shape.String(), "[]")
}

// alone returns a graph of the group's values, whose operands are inputs,
// weights and caches.
func (k *kernelGroup) alone() *graph.Graph {
	g := graph.New(k.kernel)
	leaves := map[string]*graph.Value{}
	leaf := func(key string, v graph.Value) *graph.Value {
		if leaves[key] == nil {
			v.Mem = nil
			leaves[key] = g.Add(&v)
		}
		return leaves[key]
	}
	for i, v := range k.values {
		w := *v
		w.Args, w.Mem = nil, nil
		for j, a := range v.Args {
			a := *a
			if root := a.Storage(); root.Op == graph.OpCache {
				a = *root
			}
			if !a.Op.Is(graph.Leaf) {
				a = graph.Value{Op: graph.OpInput, Name: fmt.Sprintf("operand %d", j), Type: a.Type, Layer: -1}
			}
			key := a.Op.Name + " " + a.Name
			if a.Op == graph.OpConst || a.Op == graph.OpCache {
				key += fmt.Sprint(" ", a.ID)
			}
			w.Args = append(w.Args, leaf(key, a))
		}
		g.Outputs = append(g.Outputs, graph.Output{Name: fmt.Sprint(i), Value: g.Add(&w)})
	}
	return g
}

// oneKernel times steps of t tokens at the depth of the flags.
func (f *benchFlags) oneKernel(ctx context.Context, m *engine.Model, k *kernelGroup, t, threads int) (kernelResult, error) {
	r := kernelResult{Kernel: k.kernel, Shape: k.shape, Calls: len(k.values), T: t}
	g := k.alone()
	pages := (f.depth+t+ops.PageSize-1)/ops.PageSize + 1
	dims := graph.Dims{"T": t, "R": t, "N": 1, "C": pages, "CW": pages, "S": pages * ops.PageSize, "SW": pages * ops.PageSize}
	var off []string
	for _, p := range cpu.Passes().Passes() {
		if !p.Required {
			off = append(off, p.Name)
		}
	}
	p, err := cpu.Backend{}.Compile(g, engine.Weights(m.File), backends.Options{Threads: threads, Dims: dims, Off: off, Deterministic: f.deterministic})
	if err != nil {
		return r, err
	}
	defer p.Close()
	feeds := kernelFeeds(g, dims, f.depth)
	cost := graph.Cost{}
	roof := &roof{threads: threads, file: m.File}
	for _, v := range g.Values {
		if v.Op == graph.OpWeight && len(v.Type.Shape) > 1 {
			if w, ok := m.File.Tensor(v.Name); ok {
				roof.parts = append(roof.parts, w.Data)
				roof.bytes += len(w.Data)
				roof.plain = !w.DType.Quantized()
			}
		}
		cost = cost.Add(graph.CostOf(v, dims))
	}
	calls := float64(len(k.values))
	var took, shares []float64
	peak := 0.0
	for rep := range f.reps + 1 {
		start := time.Now()
		if err := p.Run(ctx, feeds); err != nil {
			return r, err
		}
		d := time.Since(start).Seconds()
		if rep == 0 {
			continue
		}
		took = append(took, d)
		switch {
		case roof.bytes == 0:
		case t == 1:
			read, err := roof.measureRead()
			if err != nil {
				return r, err
			}
			shares = append(shares, 100*float64(cost.Bytes)/d/1e9/read)
		case !roof.plain:
			if peak == 0 {
				if peak, err = roof.measurePeak(); err != nil {
					return r, err
				}
			}
			shares = append(shares, 100*float64(cost.MACs)/d/1e9/peak)
		}
	}
	slices.Sort(took)
	mid := took[len(took)/2]
	r.US, r.Best = round(1e6*mid/calls, 2), round(1e6*took[0]/calls, 2)
	r.GBS, r.GMACS = round(float64(cost.Bytes)/mid/1e9, 2), round(float64(cost.MACs)/mid/1e9, 2)
	if t == 1 {
		r.ReadPct = round(median(shares), 1)
	} else {
		r.PeakPct = round(median(shares), 1)
	}
	return r, nil
}

// kernelFeeds makes operands: positions from depth on, pages in order, numbers
// of a wave for the rest.
func kernelFeeds(g *graph.Graph, dims graph.Dims, depth int) []backends.Feed {
	var feeds []backends.Feed
	for _, v := range g.Values {
		if v.Op != graph.OpInput {
			continue
		}
		x := graph.NewTensor(v.Type, dims)
		switch {
		case x.I32 != nil:
			n := x.RowElems()
			for i := range x.I32 {
				switch v.Name {
				case "pos":
					x.I32[i] = int32(depth + i)
				case "tokens", "seq":
				case "rows":
					x.I32[i] = int32(i)
				default: // pages, or chosen experts
					x.I32[i] = int32(i % n)
				}
			}
		case x.F32 != nil:
			wave(x.F32)
		default:
			row := make([]float32, x.RowElems())
			for i := range x.Rows() {
				wave(row)
				kern.QuantizeRow(x.DType, x.RawRow(i), row)
			}
		}
		feeds = append(feeds, backends.Feed{Name: v.Name, Tensor: x})
	}
	return feeds
}

func wave(x []float32) {
	for i := range x {
		x[i] = float32(math.Sin(12.9898 * float64(i+1)))
	}
}

// writeKernels prints a table, JSON, or lines as go test -bench prints them, for
// benchstat.
func writeKernels(w io.Writer, format string, all []kernelResult) error {
	switch format {
	case "json":
		return json.NewEncoder(w).Encode(all)
	case "go":
		for _, r := range all {
			name := strings.NewReplacer(" ", "_", ",", "x").Replace(r.Kernel + "/" + r.Shape)
			fmt.Fprintf(w, "BenchmarkKernel/%s/T%d \t%d\t%.0f ns/op\t%.2f GB/s\t%.2f GMAC/s\n", name, r.T, r.Calls, 1e3*r.US, r.GBS, r.GMACS)
		}
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "kernel\tshape\tcalls\tT\tµs/call\tbest\tGB/s\tof read\tGMAC/s\tof peak\t")
	for _, r := range all {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%.2f\t%.2f\t%.1f\t%s\t%.1f\t%s\t\n", r.Kernel, r.Shape, r.Calls, r.T, r.US, r.Best, r.GBS, share(r.ReadPct), r.GMACS, share(r.PeakPct))
	}
	return t.Flush()
}

func share(pct float64) string {
	if pct == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f %%", pct)
}
