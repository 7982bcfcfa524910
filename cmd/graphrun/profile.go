package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"graphrun/backends"
	"graphrun/engine"
	"graphrun/graph"
	"graphrun/profile"
)

// profileFlags are the flags of graphrun profile.
type profileFlags struct {
	modelFlags
	prompt, tokens int
	out            string
	trace          string
	cpu            string
	base           string
	json           bool
	noLayers       bool
}

func profileCmd() *cobra.Command {
	var f profileFlags
	cmd := &cobra.Command{
		Use:   "profile [MODEL]",
		Short: "Show what the time goes to: operations, layers, kernels, waiting",
		Long: `profile computes a prompt of P tokens and then N tokens one by one, and prints for
both what each kind of operation and each layer took: time, share, bytes and
multiply-adds per second, and how far these are from what this machine can do,
which is measured first. What is no operation is named: waiting at barriers,
sampling, the engine's own work, other. The rows add up to the time that passed.

-o writes the same for go tool pprof, with stacks of model, layer, block,
operation and kernel, and the values time, bytes and macs. --trace writes the
first steps for ui.perfetto.dev, a lane for each worker. --cpuprofile writes Go's
CPU profile with the labels layer and op, so that assembly is found by the
operation it serves. --base compares with a profile written earlier.

Token ids are made up. Every other step runs without recording, to say what
recording costs.`,
		Example: `  graphrun profile model.gguf -o ops.pb.gz
  go tool pprof -top ops.pb.gz
  graphrun profile model.gguf --base ops.pb.gz --trace trace.json`,
		Args: args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.modelFlags.register(cmd)
	fs := cmd.Flags()
	fs.IntVarP(&f.prompt, "prompt", "p", 256, "tokens of the prompt")
	fs.IntVarP(&f.tokens, "tokens", "n", 32, "tokens to generate")
	fs.StringVarP(&f.out, "output", "o", "", "write a profile for go tool pprof")
	fs.StringVar(&f.trace, "trace", "", "write a trace of the first steps for ui.perfetto.dev")
	fs.StringVar(&f.cpu, "cpuprofile", "", "write a CPU profile with the labels layer and op")
	fs.StringVar(&f.base, "base", "", "compare with a profile that -o wrote")
	fs.BoolVar(&f.json, "json", false, "print the tables as JSON")
	fs.BoolVar(&f.noLayers, "no-layers", false, "leave the tables of layers out")
	return cmd
}

// traceSteps bounds the steps of each phase in a trace: 64 layers and two
// workers are some 200 kB a step.
const traceSteps = 16

func (f *profileFlags) run(cmd *cobra.Command, args []string) error {
	if f.prompt < 1 || f.tokens < 1 {
		return usagef("-p is %d and -n is %d, want 1 or more", f.prompt, f.tokens)
	}
	if isOneOf("head", f.drop) {
		return usagef("--drop head: a profile generates tokens, which needs logits")
	}
	path, err := modelArg(cmd, args)
	if err != nil {
		return err
	}
	var base []byte
	if f.base != "" {
		if base, err = os.ReadFile(f.base); err != nil {
			return err
		}
	}
	if f.context == 0 {
		f.context = f.prompt + 2*f.tokens
	}
	m, err := f.open(cmd, path, func(o *engine.Options) { o.MaxRows, o.TokensOnly = 1, true })
	if err != nil {
		return err
	}
	defer m.Close()
	prog, ok := m.Program().(backends.Recorder)
	if !ok {
		return usagef("--backend %s cannot be profiled, cpu can", f.backend)
	}
	for _, path := range []string{f.out, f.trace, f.cpu} { // before the work
		if path != "" {
			out, err := createOutput(io.Discard, path, modelFiles(m)...)
			if err != nil {
				return err
			}
			out.discard()
		}
	}
	threads := f.threads
	if threads == 0 {
		threads = defaultThreads()
	}
	p := &profiler{profileFlags: f, m: m, c: profile.New(prog, m.Graph.Name, threads)}
	if f.trace != "" {
		p.c.Events = traceSteps
	}
	roof := newRoof(m, threads)
	read, peak, err := roof.measure()
	if err != nil {
		return err
	}
	if err := p.measure(cmd); err != nil {
		return err
	}
	read2, peak2, err := roof.measure() // a neighbour may have been busy the first time
	if err != nil {
		return err
	}
	read, peak = max(read, read2), max(peak, peak2)
	r := p.c.Report(profile.Roof{ReadGB: read, GMACs: peak})
	if err := p.write(cmd.OutOrStdout(), r, base); err != nil {
		return err
	}
	return p.files(cmd)
}

// profiler runs the steps of a profile.
type profiler struct {
	*profileFlags
	m       *engine.Model
	c       *profile.Collector
	b       *engine.Batch
	seq     *engine.Sequence
	items   []engine.Item
	on, off []time.Duration // decode steps with and without recording
	changes []profile.Change
}

// measure runs everything once without and once with recording: the first time
// reads the file and warms up.
func (p *profiler) measure(cmd *cobra.Command) error {
	ctx := cmd.Context()
	b, err := p.m.Acquire(ctx)
	if err != nil {
		return err
	}
	defer b.Release()
	p.b, p.items = b, make([]engine.Item, 1)
	p.seq = p.m.Cache().NewSequence()
	defer p.seq.Drop()
	bar := newProgress(cmd, "tokens", 2*p.prompt+2*p.tokens)
	defer bar.done()
	ids := madeUp(p.prompt, 300, 37, p.m.Limits().Vocab)
	if err := p.feed(ctx, ids, false); err != nil {
		return err
	}
	bar.add(p.prompt)
	p.seq.Drop()
	p.seq = p.m.Cache().NewSequence()
	if p.cpu != "" {
		out, err := createOutput(io.Discard, p.cpu, modelFiles(p.m)...)
		if err != nil {
			return err
		}
		defer out.discard()
		if err := pprof.StartCPUProfile(out); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		stop := func() error {
			pprof.StopCPUProfile()
			return out.commit()
		}
		if err := p.record(ctx, ids, bar); err != nil {
			pprof.StopCPUProfile()
			return err
		}
		return stop()
	}
	return p.record(ctx, ids, bar)
}

// record runs prompt and generation.
func (p *profiler) record(ctx context.Context, ids []int32, bar *progress) error {
	p.c.Start(p.cpu != "")
	defer p.c.Stop()
	begin := time.Now()
	if err := p.feed(ctx, ids, true); err != nil {
		return err
	}
	p.c.Wall("prefill", time.Since(begin))
	bar.add(len(ids))
	return p.generate(ctx, ids, bar)
}

// step runs one step and says how long it took.
func (p *profiler) step(ctx context.Context, ids []int32, rows engine.Rows) (time.Duration, error) {
	p.items[0] = engine.Item{Seq: p.seq, Tokens: ids, Rows: rows}
	start := time.Now()
	err := p.b.Step(ctx, p.items)
	return time.Since(start), err
}

// feed computes a prompt in steps.
func (p *profiler) feed(ctx context.Context, ids []int32, record bool) error {
	for at := 0; at < len(ids); {
		n := min(p.m.Limits().Step, len(ids)-at)
		rows := engine.RowsNone
		if at+n == len(ids) {
			rows = engine.RowsLast
		}
		d, err := p.step(ctx, ids[at:at+n], rows)
		if err != nil {
			return err
		}
		if record {
			p.took("prefill", d, n, at)
		}
		at += n
	}
	return nil
}

// took adds a step to a phase. The time for that is a row of its own.
func (p *profiler) took(phase string, d time.Duration, tokens, position int) {
	start := time.Now()
	p.c.Rest(phase, "engine", d-p.c.Last())
	p.c.Step(phase, tokens, position)
	p.c.Rest(phase, "adding up", time.Since(start))
}

// generate computes tokens one by one, every other one without recording.
func (p *profiler) generate(ctx context.Context, ids []int32, bar *progress) error {
	history := slices.Clone(ids)
	a, err := p.m.NewAnswer(history, engine.GenerateOptions{IgnoreEOG: true})
	if err != nil {
		return err
	}
	wall := time.Duration(0)
	for i := range 2 * p.tokens {
		record := i%2 == 0
		if record {
			p.c.Start(p.cpu != "")
		} else {
			p.c.Stop()
		}
		begin := time.Now()
		tok, err := a.Next(p.b.Logits(&p.items[0], 0), history)
		if err != nil {
			return err
		}
		sampled := time.Since(begin)
		if tok.ID == engine.NoToken {
			break // the context is full
		}
		history = append(history, tok.ID)
		d, err := p.step(ctx, history[len(history)-1:], engine.RowsLast)
		if err != nil {
			return err
		}
		if !record {
			p.off = append(p.off, d)
			continue
		}
		p.on = append(p.on, d)
		p.c.Rest("decode", "sampling", sampled)
		p.took("decode", d, 1, len(history)-1)
		wall += time.Since(begin)
		bar.add(2)
	}
	p.c.Wall("decode", wall)
	return nil
}

// overhead returns by how much steps are slower for being recorded: the ratio of
// the medians less 1.
func (p *profiler) overhead() float64 {
	if len(p.on) == 0 || len(p.off) == 0 {
		return 0
	}
	slices.Sort(p.on)
	slices.Sort(p.off)
	return float64(p.on[len(p.on)/2])/float64(p.off[len(p.off)/2]) - 1
}

// profileResult is what --json prints.
type profileResult struct {
	*profile.Report
	MACsPerToken          int              `json:"macs_per_token"`
	AttentionMACsPerToken int              `json:"attention_macs_per_token"`
	Overhead              float64          `json:"recording_overhead"`
	Changes               []profile.Change `json:"changes,omitempty"`
}

// write prints the tables.
func (p *profiler) write(w io.Writer, r *profile.Report, base []byte) (err error) {
	if base != nil {
		if p.changes, err = p.c.Compare(bytes.NewReader(base)); err != nil {
			return fmt.Errorf("%s: %w", p.base, err)
		}
	}
	products, attention := profile.MACsOf(p.m.Program().Graph(), graph.Dims{"T": 1, "R": 1, "N": 1, "C": 1, "CW": 1, "S": 64, "SW": 64})
	if p.json {
		return json.NewEncoder(w).Encode(profileResult{r, products, attention, p.overhead(), p.changes})
	}
	if err := r.WriteText(w, !p.noLayers); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%.1f million multiply-adds per token at an empty cache, attention apart\na recorded decode step took %+.1f %% longer than one that is not (medians of %d and %d)\n",
		float64(products)/1e6, 100*p.overhead(), len(p.on), len(p.off))
	if p.changes == nil {
		return nil
	}
	fmt.Fprintf(w, "\ncompared with %s\n", p.base)
	return profile.WriteChanges(w, p.changes)
}

// files writes the profile and the trace.
func (p *profiler) files(cmd *cobra.Command) error {
	for _, f := range []struct {
		path  string
		write func(io.Writer) error
	}{{p.out, p.c.WritePprof}, {p.trace, p.c.WriteTrace}} {
		if f.path == "" {
			continue
		}
		var b bytes.Buffer
		if err := f.write(&b); err != nil {
			return err
		}
		if err := writeOutput(cmd, f.path, b.Bytes(), modelFiles(p.m)...); err != nil {
			return err
		}
	}
	return nil
}
