package engine

import (
	"context"
	"fmt"
	"math"
	"testing"

	"graphrun/backends"
	"graphrun/graph"
	"graphrun/loaders"
)

// fake is a backend whose programs keep the tokens themselves in pages, as a
// real one keeps keys and values, and compute logits from what they read back:
// a wrong page, slot or window changes them.
type fake struct {
	vocab int
	// script fills the logits after text; window is its end that windowed
	// layers see (all of it without such layers).
	script func(text, window []int32, logits []float32)
	// layer is called a few times in each run, as a real program looks at ctx.
	layer func()
}

func (f *fake) Name() string { return "fake" }

const fakeWidth = 3

type fakeProgram struct {
	*fake
	g          *graph.Graph
	window     int
	full, ring []int32
	text       []int32
	logits     graph.Tensor
	hidden     graph.Tensor
	closed     bool
}

func (f *fake) Compile(g *graph.Graph, _ backends.Weights, o backends.Options) (backends.Program, error) {
	p := &fakeProgram{fake: f, g: g, full: make([]int32, o.Dims["S"]), ring: make([]int32, o.Dims["SW"]),
		text:   make([]int32, 0, o.Dims["C"]*PageSize),
		logits: floats(o.Dims["R"], f.vocab), hidden: floats(o.Dims["R"], fakeWidth)}
	for i := range p.full {
		p.full[i] = -7
	}
	for i := range p.ring {
		p.ring[i] = -7
	}
	for _, v := range g.Values {
		if v.Op == graph.OpCache {
			p.window = max(p.window, v.Attrs.Int("window"))
		}
	}
	return p, nil
}

func floats(rows, cols int) graph.Tensor {
	return graph.Tensor{DType: graph.F32, Dims: []int{rows, cols}, Stride: cols, F32: make([]float32, rows*cols)}
}

func (p *fakeProgram) Run(ctx context.Context, feeds []backends.Feed) error {
	var tokens, pos, seq, rows, pages, ring *graph.Tensor
	for _, f := range feeds {
		switch f.Name {
		case "tokens":
			tokens = f.Tensor
		case "pos":
			pos = f.Tensor
		case "seq":
			seq = f.Tensor
		case "rows":
			rows = f.Tensor
		case "pages":
			pages = f.Tensor
		case "pages.window":
			ring = f.Tensor
		}
	}
	place := func(table *graph.Tensor, t int, at int) int {
		page := table.I32[int(seq.I32[t])*table.Stride+at/PageSize%table.Dims[1]]
		return int(page)*PageSize + at%PageSize
	}
	for range 4 {
		if p.layer != nil {
			p.layer()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		for t, id := range tokens.I32 {
			p.full[place(pages, t, int(pos.I32[t]))] = id
			if ring != nil {
				p.ring[place(ring, t, int(pos.I32[t]))] = id
			}
		}
	}
	p.logits.Dims[0], p.hidden.Dims[0] = len(rows.I32), len(rows.I32)
	for r, t := range rows.I32 {
		p.text = p.text[:0]
		last := int(pos.I32[t])
		for at := 0; at <= last; at++ {
			p.text = append(p.text, p.full[place(pages, int(t), at)])
		}
		window := p.text
		if ring != nil {
			n := min(last+1, p.window)
			window = make([]int32, n)
			for i := range window {
				window[i] = p.ring[place(ring, int(t), last+1-n+i)]
			}
		}
		p.script(p.text, window, p.logits.Row(r))
		h := p.hidden.Row(r)
		for i := range h {
			h[i] = float32(p.text[len(p.text)-1]) * float32(i+1)
		}
	}
	return nil
}

func (p *fakeProgram) Output(name string) *graph.Tensor {
	if p.g.Output(name) == nil {
		return nil
	}
	switch name {
	case "logits":
		return &p.logits
	case "hidden":
		return &p.hidden
	}
	return nil
}

func (p *fakeProgram) CopyPage(windowed bool, dst, src int) {
	s := p.full
	if windowed {
		s = p.ring
	}
	copy(s[dst*PageSize:(dst+1)*PageSize], s[src*PageSize:])
}

func (p *fakeProgram) Graph() *graph.Graph { return p.g }
func (p *fakeProgram) Memory() backends.Memory {
	return backends.Memory{Cache: 8 * (len(p.full) + len(p.ring)), Arena: 4 * len(p.logits.F32)}
}
func (p *fakeProgram) Close() error { p.closed = true; return nil }

// hashed gives logits that depend on every token of text and window.
func hashed(text, window []int32, logits []float32) {
	h := uint64(14695981039346656037)
	for _, id := range text {
		h = (h ^ uint64(id+9)) * 1099511628211
	}
	for _, id := range window {
		h = (h ^ uint64(id+17)) * 1099511628211
	}
	for i := range logits {
		h = h*6364136223846793005 + 1442695040888963407
		logits[i] = float32(h>>40)/(1<<22) - 2
	}
}

// chain makes each token follow the one before it: next[t] gets logit 10.
// Tokens without an entry are followed by token 0.
func chain(next map[int32]int32) func(text, window []int32, logits []float32) {
	return func(text, _ []int32, logits []float32) {
		clear(logits)
		logits[next[text[len(text)-1]]] = 10
	}
}

// fakeModel opens a model of the fake backend with a small vocabulary.
func fakeModel(t testing.TB, f *fake, window int, o Options) *Model {
	t.Helper()
	v := fakeVocab()
	f.vocab = len(v.Tokens)
	tok, err := loaders.NewTokenizer(v)
	if err != nil {
		t.Fatal(err)
	}
	b := graph.NewBuilder("fake")
	b.Input("tokens", graph.I32, graph.Rows("T"))
	b.Input("pos", graph.I32, graph.Rows("T"))
	b.Input("seq", graph.I32, graph.Rows("T"))
	b.Input("rows", graph.I32, graph.Rows("R"))
	b.Input("pages", graph.I32, graph.Shape{graph.Named("N"), graph.Named("C")})
	b.Cache("kv", graph.Type{DType: graph.F16, Shape: graph.Rows("S", 2, 1, 16)}, 0)
	if window > 0 {
		b.Input("pages.window", graph.I32, graph.Shape{graph.Named("N"), graph.Named("CW")})
		b.Cache("kv", graph.Type{DType: graph.F16, Shape: graph.Rows("SW", 2, 1, 16)}, window)
	}
	w := b.Weight("w", graph.F32, graph.ShapeOf(f.vocab, fakeWidth))
	b.Output("logits", w)
	b.Output("hidden", w)
	g, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	m := &Model{Tokenizer: tok, Graph: g, o: o, backend: f}
	if m.limits, err = o.limits(f.vocab, 0); err != nil {
		t.Fatal(err)
	}
	if m.batch, m.memory, err = m.compile(g, m.limits, o.cacheSize(g, m.limits)); err != nil {
		t.Fatal(err)
	}
	m.cache = m.batch.cache
	t.Cleanup(func() { m.Close() })
	return m
}

// The fake vocabulary: specials, the 256 bytes, letters a to z, words.
const (
	tokBOS   = 1
	tokEOS   = 2
	tokEOT   = 3
	tokBytes = 4
	tokA     = tokBytes + 256
	tokWords = tokA + 26
)

var fakeWords = []string{"▁Hello", "▁world", "END", "<stop>", "▁"}

func fakeVocab() *loaders.Vocab {
	v := &loaders.Vocab{Model: "llama", BOS: tokBOS, EOS: tokEOS, EOT: tokEOT, EOM: -1, UNK: 0, PAD: -1,
		AddBOS: true, AddSpacePrefix: true, EOG: []int32{tokEOS, tokEOT}}
	add := func(text string, typ loaders.TokenType) {
		v.Tokens = append(v.Tokens, text)
		v.Types = append(v.Types, typ)
		v.Scores = append(v.Scores, -float32(len(v.Tokens)))
	}
	add("<unk>", loaders.TokenUnknown)
	add("<s>", loaders.TokenControl)
	add("</s>", loaders.TokenControl)
	add("<|eot|>", loaders.TokenControl)
	for b := range 256 {
		add(fmt.Sprintf("<0x%02X>", b), loaders.TokenByte)
	}
	for c := 'a'; c <= 'z'; c++ {
		add(string(c), loaders.TokenNormal)
	}
	for _, w := range fakeWords {
		add(w, loaders.TokenNormal)
	}
	return v
}

// letters returns the tokens of a text of a to z; other bytes are byte tokens.
func letters(s string) []int32 {
	var ids []int32
	for i := range len(s) {
		if c := s[i]; c >= 'a' && c <= 'z' {
			ids = append(ids, tokA+int32(c-'a'))
		} else {
			ids = append(ids, tokBytes+int32(c))
		}
	}
	return ids
}

// script is a fake that answers with the given tokens whatever the prompt of
// length n was, and then with end.
func scripted(n int, answer []int32, end int32) *fake {
	return &fake{script: func(text, _ []int32, logits []float32) {
		clear(logits)
		id := end
		if i := len(text) - n; i >= 0 && i < len(answer) {
			id = answer[i]
		}
		logits[id] = 10
	}}
}

// text returns n tokens that look random.
func randomText(n int, seed uint32) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		seed = seed*1664525 + 1013904223
		ids[i] = int32(seed>>16) % tokWords
	}
	return ids
}

func sameLogits(a, b []float32) error {
	if len(a) != len(b) {
		return fmt.Errorf("%d logits, want %d", len(a), len(b))
	}
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return fmt.Errorf("logit %d of %d is %v, want %v", i, len(a), a[i], b[i])
		}
	}
	return nil
}
