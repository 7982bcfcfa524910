package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"time"

	"github.com/spf13/cobra"

	"graphrun/backends/cpu/kern"
	"graphrun/engine"
)

// benchFlags are the flags of graphrun bench.
type benchFlags struct {
	modelFlags
	prompt, gen, reps, depth, chunk int
	parallel                        int
	output                          string
	profile                         string
	kernel                          string
	load                            bool
	ablation                        bool
}

var benchOutputs = []string{"md", "json", "csv"}

func benchCmd() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench [MODEL]",
		Short: "Measure speed, and how far it is from what the machine can do",
		Long: `bench computes a prompt of P tokens and then N tokens one by one, and repeats
that R times after a run that does not count. Prompt and generation are timed
apart; nothing is sampled. With -d the prompt begins at that depth: the tokens
before it are computed and not timed.

With --parallel K each repetition also generates N tokens in each of K texts at
once, as a server does for K clients. Weights are then read once for K tokens.

The machine is measured in the same process and with as many threads: how fast
the weights that a token needs can be read, the roof of generation, between the
tokens of each run, and how many 8-bit multiply-adds it can do, the roof of
prompts, after it.

With --load the time and the memory of each phase of opening a model are printed
instead, mapped and read: mapping or reading the files, parsing their headers,
finding the architecture, the tokenizer, building the graph, compiling it, and
the first token.

With --ablate the model is measured with each compiler pass off in turn that can
be switched off, a run without it beside a run with it, R pairs: what is each
worth on this machine?

Token ids are made up. graphrun synth writes models to measure.`,
		Example: `  graphrun bench model.gguf
  graphrun bench model.gguf --ablate -p 128 -n 32
  graphrun bench model.gguf -t 2 -p 512 -n 64 -r 5 -o json
  graphrun bench model.gguf --parallel 8
  graphrun bench model.gguf --load`,
		Args: args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.modelFlags.register(cmd)
	fs := cmd.Flags()
	fs.IntVarP(&f.prompt, "prompt", "p", 512, "tokens of the prompt; 0 measures generation alone")
	fs.IntVarP(&f.gen, "gen", "n", 64, "tokens to generate; 0 measures the prompt alone")
	fs.IntVarP(&f.reps, "reps", "r", 5, "runs that count")
	fs.IntVarP(&f.depth, "depth", "d", 0, "tokens before the prompt")
	fs.IntVar(&f.chunk, "chunk", 0, "tokens of the prompt in one step; 0 is 512")
	fs.IntVar(&f.parallel, "parallel", 1, "texts to generate at once, beside one alone")
	fs.StringVarP(&f.output, "output", "o", "md", "md: a table; json: an object on one line; csv")
	fs.BoolVar(&f.load, "load", false, "measure opening the model and the first token")
	fs.BoolVar(&f.ablation, "ablate", false, "measure what each pass is worth: the model with each off in turn")
	fs.StringVar(&f.profile, "cpuprofile", "", "write a CPU profile of the runs that count, for go tool pprof")
	fs.StringVar(&f.kernel, "kernel", "", "measure the kernels with this in their name (all: every one), each alone, with the model's shapes and weights (-o go prints lines for benchstat)")
	return cmd
}

func (f *benchFlags) run(cmd *cobra.Command, args []string) error {
	switch {
	case f.kernel != "" && !isOneOf(f.output, kernelOutputs):
		return usagef("-o is %q, want one of %v with --kernel", f.output, kernelOutputs)
	case f.kernel == "" && !isOneOf(f.output, benchOutputs):
		return usagef("-o is %q, want one of %v", f.output, benchOutputs)
	case f.prompt < 0 || f.gen < 0 || f.depth < 0 || f.chunk < 0:
		return usagef("-p, -n, -d and --chunk must not be negative")
	case max(f.prompt, f.gen, f.depth) > 1<<30:
		return usagef("-p, -n and -d must not be above %d", 1<<30)
	case f.parallel < 1 || f.parallel > 1<<10 || f.parallel > 1 && f.gen == 0:
		return usagef("--parallel is %d, want 1 to %d, and -n above 0 with more than 1", f.parallel, 1<<10)
	case f.ablation && f.kernel != "" && !f.load:
		return usagef("--ablate measures the model, --kernel its kernels alone; leave one of them out")
	case f.ablation && (f.profile != "" || f.backend == "ref" || f.parallel > 1):
		return usagef("--ablate switches off passes of the cpu backend; leave --cpuprofile, --parallel and --backend=ref out")
	case f.prompt+f.gen == 0 || f.reps < 1:
		return usagef("nothing to measure: want -r of at least 1, and -p or -n above 0")
	}
	path, err := modelArg(cmd, args)
	if err != nil {
		return err
	}
	if f.load {
		return f.runLoad(cmd, path)
	}
	if f.context == 0 {
		f.context = f.depth + f.prompt + f.gen
	}
	if f.kernel != "" {
		return f.kernels(cmd, path)
	}
	if f.ablation {
		return f.ablate(cmd, path)
	}
	open := func() (*engine.Model, time.Duration, error) {
		start := time.Now()
		m, err := f.open(cmd, path, func(o *engine.Options) {
			o.Chunk, o.MaxRows, o.TokensOnly = f.chunk, f.parallel, true
			if f.parallel > 1 {
				o.MaxSeqs = f.parallel + 1 // the one alone waits in the cache
			}
		})
		return m, time.Since(start), err
	}
	m, first, err := open()
	if err != nil {
		return err
	}
	// The second time the file's header and tables are in memory for certain.
	if err := m.Close(); err != nil {
		return err
	}
	debug.FreeOSMemory() // peak_rss_mb is for one model
	warnings := cmd.ErrOrStderr()
	cmd.SetErr(nullWriter{})
	m, warm, err := open()
	cmd.SetErr(warnings)
	if err != nil {
		return err
	}
	defer m.Close()

	res := f.describe(m, path)
	res.LoadMS, res.LoadWarmMS = milliseconds(first), milliseconds(warm)
	if err := f.measure(cmd, m, res); err != nil {
		return err
	}
	return res.write(cmd.OutOrStdout(), f.output)
}

type nullWriter struct{}

func (nullWriter) Write(p []byte) (int, error) { return len(p), nil }

func milliseconds(d time.Duration) float64 { return round(float64(d.Microseconds())/1e3, 3) }

// describe fills what is known before anything runs.
func (f *benchFlags) describe(m *engine.Model, path string) *benchResult {
	name := filepath.Base(path)
	if path == "" {
		name = m.File.Path
	}
	threads := f.threads
	if threads == 0 {
		threads = defaultThreads()
	}
	r := &benchResult{
		Engine: "graphrun", Model: name, Arch: m.Arch.Arch.Name, Params: m.Arch.Params, WeightBytes: m.Arch.WeightBytes,
		Type: commonType(m.File), Backend: f.backend, CPU: cpuName(), Level: kern.Level(), OS: runtime.GOOS + "/" + runtime.GOARCH,
		Threads: threads, Prompt: f.prompt, Gen: f.gen, Depth: f.depth, Chunk: m.Limits().Step, Reps: f.reps, Parallel: f.parallel,
		Time: time.Now().UTC().Format(time.RFC3339),
	}
	return r
}

// measure runs the repetitions.
func (f *benchFlags) measure(cmd *cobra.Command, m *engine.Model, res *benchResult) (err error) {
	ctx := cmd.Context()
	roof := newRoof(m, res.Threads)
	res.BytesPerToken, res.MACsPerToken = roof.bytes, roof.macs
	bar := newProgress(cmd, "runs", f.reps+1)
	defer bar.done()
	var reads, peaks []float64
	for rep := range f.reps + 1 {
		if rep == 1 && f.profile != "" {
			stop, err2 := startProfile(m, f.profile)
			if err2 != nil {
				return err2
			}
			defer func() { err = errors.Join(err, stop(err == nil)) }()
		}
		one, err := f.once(ctx, m, roof)
		if err != nil {
			return err
		}
		bar.add(1)
		if rep == 0 {
			res.FirstStepMS = milliseconds(one.firstStep)
			continue
		}
		peak, err := roof.measurePeak()
		if err != nil {
			return err
		}
		reads, peaks = append(reads, one.readGB), append(peaks, peak)
		if f.prompt > 0 {
			res.prefill = append(res.prefill, float64(f.prompt)/one.prompt.Seconds())
			res.prefillCPU = append(res.prefillCPU, 1e3*one.promptCPU.Seconds()/float64(f.prompt))
		}
		if f.gen > 0 {
			res.decode = append(res.decode, float64(f.gen)/one.gen.Seconds())
			res.decodeCPU = append(res.decodeCPU, 1e3*one.genCPU.Seconds()/float64(f.gen))
			res.AllocsPerToken = float64(one.allocs) / float64(max(1, one.counted))
		}
		if f.parallel > 1 {
			res.parallel = append(res.parallel, float64(f.parallel*f.gen)/one.parallel.Seconds())
			res.parallelCPU = append(res.parallelCPU, 1e3*one.parallelCPU.Seconds()/float64(f.parallel*f.gen))
		}
	}
	res.PeakRSSMB = peakRSS()
	if m.File.Size > 0 {
		res.LargePagesPct = 100 * filesInLargePages() / float64(m.File.Size)
	}
	res.sum(reads, peaks, roof.promptMACs(f.prompt))
	return nil
}

// benchRun is what one repetition took.
type benchRun struct {
	firstStep, prompt, gen time.Duration
	promptCPU, genCPU      time.Duration // of all threads
	allocs                 uint64        // while generating counted tokens
	counted                int
	readGB                 float64       // GB/s of reading weights, between the tokens
	parallel, parallelCPU  time.Duration // generating in many texts at once
}

// once computes depth, prompt and generation in a new sequence. The ids are
// those of other programs' benchmarks, so that files with experts take the
// same ones.
func (f *benchFlags) once(ctx context.Context, m *engine.Model, roof *roof) (benchRun, error) {
	var run benchRun
	b, err := m.Acquire(ctx)
	if err != nil {
		return run, err
	}
	defer b.Release()
	seq := m.Cache().NewSequence()
	defer seq.Drop()
	vocab := m.Limits().Vocab
	items := make([]engine.Item, 1)
	feed := func(ids []int32) error {
		for step := m.Limits().Step; len(ids) > 0; {
			n := min(step, len(ids))
			items[0] = engine.Item{Seq: seq, Tokens: ids[:n]}
			items[0].Rows = engine.RowsNone
			if n == len(ids) {
				items[0].Rows = engine.RowsLast
			}
			start := time.Now()
			if err := b.Step(ctx, items); err != nil {
				return err
			}
			if run.firstStep == 0 {
				run.firstStep = time.Since(start)
			}
			ids = ids[n:]
		}
		return nil
	}
	if err := feed(madeUp(f.depth, 500, 41, vocab)); err != nil {
		return run, err
	}
	ids := madeUp(f.prompt, 300, 37, vocab)
	start, cpu := time.Now(), cpuTime()
	if err := feed(ids); err != nil {
		return run, err
	}
	run.prompt, run.promptCPU = time.Since(start), cpuTime()-cpu

	ids = madeUp(f.gen, 17, 31, vocab)
	if f.parallel > 1 {
		cpu := cpuTime()
		if run.parallel, err = f.together(ctx, b, seq, ids); err != nil {
			return run, err
		}
		run.parallelCPU = cpuTime() - cpu
	}
	// What others leave of the memory changes within a second, so the weights are
	// read again and again between the tokens.
	var read stopwatch
	for len(ids) > 0 || read.n == 0 {
		n, err := f.generate(ctx, b, seq, ids, &run)
		if err != nil {
			return run, err
		}
		ids = ids[n:]
		took, err := roof.readAfterStep()
		if err != nil {
			return run, err
		}
		read.add(took)
	}
	if roof.bytes > 0 && read.total > 0 {
		run.readGB = float64(read.n) * float64(roof.bytes) / read.total.Seconds() / 1e9
	}
	return run, nil
}

// generate computes tokens one by one for about readEvery, or all of them, and
// adds what that took to run. It returns their number. The allocations of the
// first do not count, unless there is no other: the runtime makes one or two
// itself when workers that slept meanwhile have to be woken.
func (f *benchFlags) generate(ctx context.Context, b *engine.Batch, seq *engine.Sequence, ids []int32, run *benchRun) (n int, err error) {
	const readEvery, least = 100 * time.Millisecond, 3
	uncounted := 1
	if len(ids) == 1 && run.counted == 0 {
		uncounted = 0
	}
	items := make([]engine.Item, 1)
	var before, after runtime.MemStats
	start, cpu := time.Now(), cpuTime()
	stop := func() { run.gen, run.genCPU = run.gen+time.Since(start), run.genCPU+cpuTime()-cpu }
	for end := start.Add(readEvery); n < len(ids) && (n < least || time.Now().Before(end)); n++ {
		if n == uncounted {
			stop()
			runtime.ReadMemStats(&before)
			start, cpu = time.Now(), cpuTime()
		}
		items[0] = engine.Item{Seq: seq, Tokens: ids[n : n+1], Rows: engine.RowsLast}
		if err := b.Step(ctx, items); err != nil {
			return n, err
		}
	}
	stop()
	if n > uncounted {
		runtime.ReadMemStats(&after)
		run.allocs, run.counted = run.allocs+after.Mallocs-before.Mallocs, run.counted+n-uncounted
	}
	return n, nil
}

// A stopwatch adds up times.
type stopwatch struct {
	n     int
	total time.Duration
}

func (s *stopwatch) add(d time.Duration) { s.n, s.total = s.n+1, s.total+d }

// together generates tokens in several texts that begin like seq, a step for a
// token of each.
func (f *benchFlags) together(ctx context.Context, b *engine.Batch, seq *engine.Sequence, ids []int32) (time.Duration, error) {
	items := make([]engine.Item, f.parallel)
	for k := range items {
		fork, err := seq.Fork(seq.Len())
		if err != nil {
			return 0, err
		}
		defer fork.Drop()
		items[k] = engine.Item{Seq: fork, Rows: engine.RowsLast}
	}
	start := time.Now()
	for i := range ids {
		for k := range items {
			items[k].Tokens = ids[(i+k)%len(ids):][:1]
		}
		if err := b.Step(ctx, items); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// madeUp returns n token ids.
func madeUp(n, from, step, vocab int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32((from + i*step) % vocab)
	}
	return ids
}

func startProfile(m *engine.Model, path string) (stop func(ok bool) error, err error) {
	out, err := createOutput(io.Discard, path, modelFiles(m)...)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(out); err != nil {
		out.discard()
		return nil, fmt.Errorf("profile: %w", err)
	}
	return func(ok bool) error {
		pprof.StopCPUProfile()
		if ok {
			return out.commit()
		}
		out.discard()
		return nil
	}, nil
}
