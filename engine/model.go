package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"graphrun/archs"
	"graphrun/backends"
	"graphrun/backends/cpu"
	"graphrun/backends/ref"
	"graphrun/graph"
	"graphrun/loaders"
	"graphrun/quant"
)

// Options say how a model is opened. The zero value is right for one person
// talking to a model.
type Options struct {
	// Backend is "cpu", the default, or "ref", the slow oracle.
	Backend string
	// Threads is the number of workers; 0 lets the backend choose.
	Threads int
	// Context is the number of positions a sequence may have. 0 is what the
	// model was trained for, but at most 4096, because each position costs
	// memory whether it is used or not. More than the model was trained for is
	// allowed and gives a warning.
	Context int
	// Chunk is the number of tokens a step takes at most, 0 is 512; never more
	// than Context times MaxSeqs.
	Chunk int
	// KV is the element type of keys and values: f16 (the default; f32 for the
	// backend "ref"), f32 or q8_0.
	KV graph.DType
	// MaxSeqs is the number of sequences that fit the KV cache at full length
	// (see Positions) and that a step can mix, 0 is 1.
	MaxSeqs int
	// Positions is the number of positions that all sequences share in the
	// layers that keep every position. 0 is Context times MaxSeqs, so that a
	// sequence always finds room; fewer save memory, and steps may then return a
	// *PagesError. It is at least Context, and rounded up to whole pages.
	Positions int
	// Windows is the room in windowed layers beside that of the sequences: for
	// so many windows, which a prefix cache can keep of texts that nobody is
	// writing.
	Windows int
	// MaxRows is the number of rows of logits a step gives at most. 0 is as
	// many as 16 MiB hold, at least MaxSeqs, at most Chunk. More make Score and
	// Perplexity faster.
	MaxRows int
	// Off names compiler passes to leave out, OnPass watches them.
	Off    []string
	OnPass func(s graph.PassStat, g *graph.Graph)
	// Check verifies the graph between passes, and the weights for numbers that
	// are not finite, which reads the whole file.
	Check bool
	// Finite looks at every value when it is computed: steps return a
	// *backends.ValueError for the first that is not finite, and take up to twice
	// as long.
	Finite bool
	// Keep lets the values inside the graph be looked at after a step: the
	// program is then a backends.Inspector. It costs the memory of all of them.
	Keep bool
	// Deterministic makes logits independent, bit for bit, of how a text is cut
	// into chunks and of what else is in the batch, as they are anyway for
	// models with quantized matrices. Models of F32, F16 or BF16 alone write
	// tokens at about half the speed with it.
	Deterministic bool
	// TokensOnly is for callers that hardly need text. A model that has no
	// tokenizer opens, which is an error otherwise: Tokenizer is nil then. That of
	// a Hugging Face folder is not read and nil, too; for others the tables for
	// encoding are not made before they are used.
	TokensOnly bool
	// Quantize gives the matrices of a Hugging Face folder a type of blocks while
	// they are loaded. The zero value uses them as they lie in the files.
	Quantize graph.DType
	// Read reads the weights into memory instead of mapping their files: for
	// disks over a network, where single pages come slowly.
	Read bool
	// OnPhase, if not nil, is called whenever a part of opening a model ends:
	// "check" (that the memory is enough, before reading), "map" (or read),
	// "parse", "detect", "build", "compile", "tokenizer" (what of it was not made
	// beside the two before). A phase may end several times.
	OnPhase func(name string)
	// Drop names parts that are left out, see Parts: their tensors are never
	// touched, so that no page of them is read.
	Drop []string
	// Graph is run instead of the one the architecture builds: that one with
	// changes, as a rule, read by graph.Parse. It must take inputs and give
	// outputs of the same names and types.
	Graph *graph.Graph
	// Taps read or replace values of the graph in every step.
	Taps []Tap
	// Overcommit opens a model that the machine cannot hold, with a warning.
	Overcommit bool
}

const (
	defaultContext = 4096
	defaultChunk   = 512
	rowsBytes      = 16 << 20
	probeAbove     = 1 << 30 // bytes that the system is asked for before they are taken
)

// Backends returns the names that Options.Backend knows.
func Backends() []string { return []string{"cpu", "ref"} }

func (o *Options) backend() (backends.Backend, error) {
	switch o.Backend {
	case "", "cpu":
		return cpu.Backend{}, nil
	case "ref":
		return ref.Backend{}, nil
	}
	return nil, &loaders.UnsupportedError{What: "backend", Name: fmt.Sprintf("%q", o.Backend), Known: Backends()}
}

// limits resolves the sizes for a model with the given vocabulary and training
// length.
func (o *Options) limits(vocab, trained int) (Limits, error) {
	for _, f := range []struct {
		name string
		n    int
	}{{"context", o.Context}, {"chunk", o.Chunk}, {"number of sequences", o.MaxSeqs}, {"number of rows", o.MaxRows},
		{"number of positions", o.Positions}, {"number of windows", o.Windows}} {
		if f.n < 0 || f.n > 1<<30 {
			return Limits{}, fmt.Errorf("engine: the %s is %d, want 0 (the default) to %d", f.name, f.n, 1<<30)
		}
	}
	l := Limits{Vocab: vocab, Context: o.Context, Step: o.Chunk, Rows: o.MaxRows, Seqs: max(o.MaxSeqs, 1)}
	if l.Context == 0 {
		l.Context = defaultContext
		if trained > 0 {
			l.Context = min(trained, defaultContext)
		}
	}
	if l.Step == 0 {
		l.Step = defaultChunk
	}
	l.Step = max(min(l.Step, l.Context*l.Seqs), l.Seqs)
	if l.Rows == 0 {
		l.Rows = rowsBytes / (4 * vocab)
	}
	l.Rows = min(max(l.Rows, l.Seqs), l.Step)
	if o.Positions != 0 && o.Positions < l.Context {
		return Limits{}, fmt.Errorf("engine: a KV cache of %d positions cannot hold one text of the context, %d; ask for more positions or a smaller context", o.Positions, l.Context)
	}
	return l, nil
}

// Model is an opened model: file, architecture, tokenizer, compiled program
// and KV cache.
type Model struct {
	File      *loaders.Model
	Arch      *archs.Model
	Tokenizer *loaders.Tokenizer
	Graph     *graph.Graph // as built, before any pass

	o        Options
	backend  backends.Backend
	limits   Limits
	cache    *Cache
	batch    *Batch
	memory   MemoryReport
	warnings []string
	pager    *pager    // nil: no pages are mapped ahead
	scratch  sync.Pool // of samplers

	mu       sync.Mutex
	embedder *Batch // the program without head that Embed compiles
	closed   bool
}

// Open opens a model and compiles it: a GGUF file, or a folder as Hugging Face
// has them. The error of a machine too small is
// a *MemoryError, and comes before the memory is taken.
func Open(path string, o Options) (*Model, error) {
	if o.Read && !o.Overcommit {
		if err := o.roomFor(path); err != nil {
			return nil, err
		}
		o.mark("check")
	}
	f, err := loaders.OpenModel(path, o.Folder())
	if err != nil {
		return nil, err
	}
	if o.Quantize != graph.Invalid && !f.IsHF() {
		f.Close()
		return nil, fmt.Errorf("engine: %s is a GGUF file; only folders of safetensors are quantized while they are loaded (graphrun quantize makes another GGUF file)", path)
	}
	return open(f, o)
}

// roomFor looks at a model before it is read into memory.
func (o Options) roomFor(path string) error {
	o.Read, o.OnPhase, o.TokensOnly = false, nil, true
	f, err := loaders.OpenModel(path, o.Folder())
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := Estimate(f, o)
	if err == nil && !r.fits() {
		err = &MemoryError{Report: r}
	}
	return err
}

// Folder returns how a Hugging Face folder is opened under the options.
func (o *Options) Folder() loaders.HFOptions {
	load := loaders.HFOptions{NoVocab: o.TokensOnly, Quantize: o.Quantize, Opening: loaders.Opening{Read: o.Read, Phase: o.OnPhase}}
	if t := o.Quantize; t != graph.Invalid {
		load.Encode = func(dst []byte, row []float32) error { return quant.Row(dst, row, t, nil) }
	}
	return load
}

// OpenBytes opens a model that is in memory, such as an embedded one. name
// stands for the path in errors. data must not change until Close.
func OpenBytes(name string, data []byte, o Options) (*Model, error) {
	f, err := loaders.OpenBytes(name, data)
	if err != nil {
		return nil, err
	}
	return open(f, o)
}

func open(f *loaders.Model, o Options) (*Model, error) {
	m := &Model{File: f, o: o}
	if err := f.Guard(m.build); err != nil {
		m.pager.end()
		if m.batch != nil {
			m.batch.prog.Close()
		}
		f.Close()
		return nil, err
	}
	return m, nil
}

// build makes everything that a model has beside its file. The tokenizer is made
// beside the program: neither needs the other.
func (m *Model) build() (err error) {
	if m.backend, err = m.o.backend(); err != nil {
		return err
	}
	if m.o.Check {
		if err := m.File.CheckFinite(); err != nil {
			return err
		}
	}
	if m.Arch, err = archs.Load(m.File); err != nil {
		return err
	}
	m.o.mark("detect")
	if !m.File.HasVocab() {
		if !m.o.TokensOnly {
			return &NoTokenizerError{m.File.Path}
		}
		return m.buildProgram()
	}
	var words sync.WaitGroup
	var failed error
	words.Go(func() { failed = m.openTokenizer() })
	defer func() { // also when reading the file faults
		words.Wait()
		m.o.mark("tokenizer")
		if failed != nil {
			err = failed
		} else if err == nil {
			m.warnings = append(m.warnings, m.Tokenizer.Warnings()...)
			if !m.o.TokensOnly {
				go m.Tokenizer.Prepare() // beside what the caller does before the first prompt
			}
		}
	}()
	return m.buildProgram()
}

// buildProgram makes the graph and compiles it.
func (m *Model) buildProgram() (err error) {
	kv := m.o.KV
	if kv == graph.Invalid && m.o.Backend == "ref" {
		kv = graph.F32
	}
	if m.Graph, err = m.Arch.Graph(archs.GraphOptions{KV: kv}); err != nil {
		return err
	}
	if err := m.changeGraph(); err != nil {
		return err
	}
	dropped, err := dropParts(m.Graph, m.o.Drop)
	if err != nil {
		return err
	}
	m.leaveUnused()
	m.mapAhead(m.Graph)
	if m.limits, err = m.o.limits(m.Arch.V, m.Arch.ContextLength); err != nil {
		return err
	}
	if m.headless() {
		m.limits.Rows = m.limits.Step // a row of D numbers costs little
	}
	m.warnings = append(slices.Clone(m.File.Notes), m.Arch.Warnings...)
	m.o.mark("build")
	if t := m.Arch.ContextLength; t > 0 && m.limits.Context > t {
		m.warn("the context of %d is longer than the %d positions the model was trained for", m.limits.Context, t)
	}
	m.batch, m.memory, err = m.compile(m.Graph, m.limits, m.o.cacheSize(m.Graph, m.limits))
	if err != nil {
		return err
	}
	m.o.mark("compile")
	m.memory.Dropped, m.memory.Read = dropped, m.o.Read
	m.cache = m.batch.cache
	if m.headless() {
		m.embedder = m.batch
	}
	return nil
}

func (o *Options) mark(phase string) {
	if o.OnPhase != nil {
		o.OnPhase(phase)
	}
}

// openTokenizer makes the tokenizer of the model.
func (m *Model) openTokenizer() error {
	v, err := m.File.Vocab()
	if err != nil {
		return err
	}
	m.Tokenizer, err = loaders.NewTokenizer(v)
	return err
}

func (m *Model) warn(format string, args ...any) {
	m.warnings = append(m.warnings, fmt.Sprintf(format, args...))
}

// compile makes a program of g with a KV cache of its own.
func (m *Model) compile(g *graph.Graph, l Limits, z CacheSize) (*Batch, MemoryReport, error) {
	dims := stepDims(l, z)
	r := estimate(g, dims)
	r.Made = madeBytes(g, m.File)
	if !r.fits() {
		err := &MemoryError{Report: r}
		if !m.o.Overcommit {
			return nil, r, err
		}
		m.warn("%v; opened all the same", err)
	}
	if n := r.KVBytes() + r.Arena; n > probeAbove {
		if err := canTake(n); err != nil {
			return nil, r, &MemoryError{Report: r, Refused: err}
		}
	}
	var prog backends.Program
	compile := func() (err error) {
		prog, err = m.backend.Compile(g, weights{m.File}, m.o.compile(dims))
		return err
	}
	guard := func(fn func() error) error { return fn() }
	if m.File != nil {
		guard = m.File.Guard // some weights are read while compiling
	}
	if err := guard(compile); err != nil {
		return nil, r, err
	}
	if p, ok := prog.(backends.Reporter); ok {
		for _, n := range p.Notices() {
			if !slices.Contains(m.warnings, n) {
				m.warnings = append(m.warnings, n)
			}
		}
	}
	if mem := prog.Memory(); mem.Arena > 0 {
		r.Arena = mem.Arena + mem.Scratch
		r.sum()
	}
	b, err := newBatch(prog, g, NewCache(z), l)
	if err != nil {
		return nil, r, errors.Join(err, prog.Close())
	}
	b.file = m.File
	return b, r, nil
}

// compile returns what a backend compiles with.
func (o *Options) compile(dims graph.Dims) backends.Options {
	return backends.Options{Threads: o.Threads, Dims: dims, Off: o.Off, Check: o.Check, Keep: o.Keep, Finite: o.Finite,
		Deterministic: o.Deterministic, OnPass: o.OnPass}
}

// History takes the graph of the model through its passes once more, with the
// passes that are off left out, and returns each state. The backend "ref" has no
// passes: it runs the graph as it is built.
func (m *Model) History() (*graph.History, error) {
	h := new(graph.History)
	h.Begin(m.Graph)
	if m.backend.Name() != (cpu.Backend{}).Name() {
		return h, nil
	}
	o := m.o.compile(m.batch.prog.Graph().Bound)
	o.OnPass = func(s graph.PassStat, g *graph.Graph) { h.Add(g, s) }
	_, err := cpu.Optimize(m.Graph, o)
	return h, err
}

// stepDims returns the largest sizes of the graph's named dimensions.
func stepDims(l Limits, z CacheSize) graph.Dims {
	return graph.Dims{"T": l.Step, "R": l.Rows, "N": l.Seqs, "C": z.C(), "CW": z.CW(),
		"S": z.Full * PageSize, "SW": z.Ring * PageSize}
}

// cacheSize finds what the graph's caches need.
func (o *Options) cacheSize(g *graph.Graph, l Limits) CacheSize {
	z := CacheSize{Context: l.Context, Step: min(l.Step, l.Context)}
	full := false
	for _, v := range g.Values {
		if v.Op == graph.OpCache {
			w := v.Attrs.Int("window")
			z.Window = max(z.Window, w)
			full = full || w == 0
		}
	}
	if full {
		z.Full = l.Seqs * z.C()
		if o.Positions != 0 {
			z.Full = pages(o.Positions)
		}
	}
	if z.Window > 0 {
		z.Ring = l.Seqs*z.CW() + o.Windows*min(pages(z.Window)+1, z.C())
	}
	return z
}

// Check reports whether the files of the model are as they were opened: if not,
// every step from now on fails with this error. It is nil for a closed model.
func (m *Model) Check() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.File == nil {
		return nil
	}
	return m.File.Check()
}

// Close stops the workers and unmaps the file. No session may be in use.
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	m.pager.end()
	err := m.batch.prog.Close()
	if m.embedder != nil && m.embedder != m.batch {
		err = errors.Join(err, m.embedder.prog.Close())
	}
	if m.File != nil {
		err = errors.Join(err, m.File.Close())
	}
	return err
}

// Acquire waits until no other goroutine runs steps, and lends the model's
// batch until Release. It fails only when ctx ends first.
func (m *Model) Acquire(ctx context.Context) (*Batch, error) { return m.batch.acquire(ctx) }

// Threads returns the number of workers that run steps.
func (m *Model) Threads() int {
	if m.o.Threads > 0 {
		return m.o.Threads
	}
	return cpu.DefaultThreads()
}

// Limits returns the largest sizes of steps and sequences.
func (m *Model) Limits() Limits { return m.limits }

// Memory returns the memory report.
func (m *Model) Memory() MemoryReport { return m.memory }

// Cache returns the KV cache, for sequences of one's own.
func (m *Model) Cache() *Cache { return m.cache }

// Program returns the compiled program, for its graph and its memory. Steps are
// run through Acquire.
func (m *Model) Program() backends.Program { return m.batch.prog }

// Warnings returns what was odd about file, vocabulary and options, and the
// rules that were followed, one sentence each.
func (m *Model) Warnings() []string { return m.warnings }

// Encode returns the tokens of a prompt as the vocabulary wants it: with one
// BOS if it adds one. Control tokens spelled in the text are text.
func (m *Model) Encode(text string) []int32 {
	return m.Tokenizer.Encode(text, loaders.EncodeOptions{AddSpecial: true, OneBOS: true})
}

// Weights gives the tensors of a file to a backend where they lie, for graphs
// that are compiled by hand. The file must stay open as long as the program.
func Weights(f *loaders.Model) backends.Weights { return weights{f} }

type weights struct{ f *loaders.Model }

// Weight implements backends.Weights.
func (w weights) Weight(name string) (*graph.Tensor, error) {
	t, ok := w.f.Tensor(name)
	if !ok {
		return nil, &loaders.TensorError{Format: "engine", File: w.f.Path, Name: name, Err: errors.New("not in the file")}
	}
	if _, err := t.Load(); err != nil {
		return nil, err
	}
	return tensor(t)
}
