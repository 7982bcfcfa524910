package engine

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"graphrun/graph"
	"graphrun/internal/shared"
	"graphrun/loaders"
)

type golden struct {
	Tokens []int32 `json:"tokens"`
	Greedy struct {
		Tokens  []int32   `json:"tokens_dequant_f32"`
		Margins []float64 `json:"margins_dequant_f32"`
	} `json:"greedy"`
	Story struct {
		Prompt string  `json:"prompt"`
		IDs    []int32 `json:"prompt_ids"`
		Tokens []int32 `json:"continuation_ids"`
		Text   string  `json:"text"`
	} `json:"story"`

	logits []float32 // [T,V], float64 computation
}

func openGolden(t testing.TB, name string, o Options) (*Model, golden) {
	t.Helper()
	m, g, err := tryGolden(t, name, o)
	if err != nil {
		t.Fatal(err)
	}
	return m, g
}

// tryGolden opens a golden model and returns the error of Open.
func tryGolden(t testing.TB, name string, o Options) (*Model, golden, error) {
	t.Helper()
	var g golden
	b, err := os.ReadFile(shared.Path(t, "golden", "models", name, "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	if b, err = os.ReadFile(shared.Path(t, "golden", "models", name, "logits_ref64.bin")); err != nil {
		t.Fatal(err)
	}
	g.logits = make([]float32, len(b)/4)
	for i := range g.logits {
		g.logits[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	m, err := Open(shared.Path(t, "golden", "models", name, "model.gguf"), o)
	if err != nil {
		return nil, g, err
	}
	t.Cleanup(func() { m.Close() })
	return m, g, nil
}

// all returns the logits after each token of a text, appended in chunks.
func all(t testing.TB, s *Session, tokens []int32, chunk int) []float32 {
	t.Helper()
	var out []float32
	for len(tokens) > 0 {
		n := min(chunk, len(tokens))
		err := s.each(t.Context(), tokens[:n], func(_ int, logits []float32) error {
			out = append(out, logits...)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		tokens = tokens[n:]
	}
	return out
}

// worst returns the largest difference of two lists of logits.
func worst(t testing.TB, got, want []float32) float64 {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d logits, want %d", len(got), len(want))
	}
	d := 0.0
	for i := range got {
		d = max(d, math.Abs(float64(got[i])-float64(want[i])))
	}
	return d
}

// TestStory: the text of the README of the golden models, token by token.
func TestStory(t *testing.T) {
	for _, c := range []struct{ model, backend string }{
		{"stories260K-f32", "ref"}, {"stories260K-f32", "cpu"}, {"stories260K-f16", "cpu"}, {"stories260K-q8_0", "ref"},
	} {
		t.Run(c.model+"/"+c.backend, func(t *testing.T) {
			m, g := openGolden(t, c.model, Options{Backend: c.backend, Threads: 1})
			prompt := m.Encode(g.Story.Prompt)
			s := m.NewSession()
			if _, err := s.Prompt(t.Context(), prompt); err != nil {
				t.Fatal(err)
			}
			text, toks, err := answer(t, s, GenerateOptions{MaxTokens: 100})
			if err != nil {
				t.Fatal(err)
			}
			if want := g.Story.Text; text != strings.TrimPrefix(want, g.Story.Prompt) || !slices.Equal(prompt, g.Story.IDs) || !slices.Equal(idsOf(toks), g.Story.Tokens) {
				t.Errorf("%d tokens: %q, want the end of %q", len(toks), text, want)
			}
		})
	}
}

// TestEmbedGolden: the embedding of one token, not pooled with others, gives the
// logits again through the head, here that of a tied F32 model.
func TestEmbedGolden(t *testing.T) {
	m, g := openGolden(t, "stories260K-f32", Options{Backend: "cpu", Threads: 1, KV: graph.F32, Chunk: 16})
	n := len(g.Tokens)
	h, err := m.Embed(t.Context(), g.Tokens, EmbedOptions{Pool: PoolLast, Raw: true})
	if err != nil {
		t.Fatal(err)
	}
	name := "output.weight"
	if _, ok := m.File.Tensor(name); !ok {
		name = "token_embd.weight"
	}
	w, err := weights{m.File}.Weight(name)
	if err != nil {
		t.Fatal(err)
	}
	v := m.limits.Vocab
	for i := range v {
		sum := 0.0
		for k, x := range w.Row(i) {
			sum += float64(x) * float64(h[k])
		}
		if d := math.Abs(sum - float64(g.logits[(n-1)*v+i])); d > 1e-3 {
			t.Fatalf("logit %d differs by %g", i, d)
		}
	}
	unit, err := m.Embed(t.Context(), g.Tokens, EmbedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, x := range unit {
		sum += float64(x) * float64(x)
	}
	if math.Abs(sum-1) > 1e-5 || m.EmbedMemory() == 0 {
		t.Errorf("the squared length is %v, memory %d", sum, m.EmbedMemory())
	}
}

// TestPerplexityGolden compares the two backends, and a quantized model with
// the one it was made from.
func TestPerplexityGolden(t *testing.T) {
	if testing.Short() {
		t.Skip("about numbers, and minutes long under the race detector")
	}
	o := Options{Threads: 1, KV: graph.F32}
	base, g := openGolden(t, "stories260K-f32", o)
	text := base.Encode(strings.Repeat(g.Story.Text+"\n", 3))
	p, err := base.Perplexity(t.Context(), text, PerplexityOptions{Window: 64})
	if err != nil || p.Value < 1 || p.Value > 10 || p.Error <= 0 {
		t.Errorf("%+v, %v: the model wrote the text itself", p, err)
	}
	o.Backend = "ref"
	oracle, _ := openGolden(t, "stories260K-f32", o)
	d, err := oracle.Compare(t.Context(), base, text, PerplexityOptions{Window: 64})
	if err != nil || d.KLMax > 1e-6 || d.Top1 != 1 || math.Abs(d.Base.Value-p.Value) > 1e-4 {
		t.Errorf("ref against cpu: %+v, %v", d, err)
	}
	quant, _ := openGolden(t, "stories260K-q4_0", o)
	d, err = quant.Compare(t.Context(), base, text, PerplexityOptions{Window: 64})
	if err != nil || d.KL <= 1e-4 || d.KL > 0.5 || d.Top1 < 0.7 || d.Top1 > 1 {
		t.Errorf("q4_0 against f32: %+v, %v", d, err)
	}
}

// TestStepAllocatesGolden: a step of a real program allocates nothing.
func TestStepAllocatesGolden(t *testing.T) {
	m, g := openGolden(t, "stories260K-q8_0", Options{Threads: 1})
	s := promptOf(t, m, g.Tokens...)
	b, err := m.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	items := []Item{{Seq: s.seq, Tokens: []int32{5}, Rows: RowsLast}}
	ctx := t.Context()
	if n := testing.AllocsPerRun(50, func() {
		if err := b.Step(ctx, items); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("a step allocates %v times", n)
	}
}

// TestOpenBytes: a model in memory gives what the file gives.
func TestOpenBytes(t *testing.T) {
	data, err := os.ReadFile(shared.Path(t, "golden", "models", "stories260K-f32", "model.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := OpenBytes("stories", data, Options{Threads: 1, Check: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	_, g := openGolden(t, "stories260K-f32", Options{Threads: 1})
	text, _, err := answer(t, promptOf(t, m, g.Story.IDs...), GenerateOptions{MaxTokens: 30})
	if err != nil || !strings.HasPrefix(g.Story.Text, g.Story.Prompt+text) {
		t.Errorf("%q, %v", text, err)
	}
	if r := m.Memory(); r.Weights < 900_000 || r.KVBytes() == 0 || r.Arena == 0 || r.Total <= r.Weights {
		t.Errorf("the report is incomplete:\n%s", &r)
	}
	if _, err := OpenBytes("nothing", []byte("GGUF"), Options{}); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("four bytes: %v", err)
	}
	if _, err := OpenBytes("big", data, Options{Context: 1 << 28}); err == nil {
		t.Error("a context that no machine holds is accepted")
	} else if e := new(MemoryError); !errors.As(err, &e) {
		t.Errorf("got %v", err)
	}
}

// TestWindowReport: a windowed model keeps its windows only.
func TestWindowReport(t *testing.T) {
	m, _ := openGolden(t, "gemma3-1b-like", Options{Threads: 1, Context: 32768, Chunk: 64})
	r := m.Memory()
	if len(r.KV) != 2 || r.KV[0].Window != 0 || r.KV[1].Window != 8 || r.KV[0].Positions != 32768 || r.KV[1].Positions != 3*PageSize {
		t.Errorf("the report is\n%s", &r)
	}
	if r.KV[1].Layers != 6 || r.KV[0].Layers != 1 {
		t.Errorf("%d windowed layers, %d others", r.KV[1].Layers, r.KV[0].Layers)
	}
}

// chunkBound is the difference that cutting a text may make: none, but where
// single tokens of models with plain weights alone add in an order of their
// own, or where the reference multiplies by blocks.
func chunkBound(m *Model, backend string) float64 {
	if backend == "ref" || backend == "cpu" && !plainKernels && !m.quantized() {
		return 1e-3
	}
	return 0
}

func (m *Model) quantized() bool {
	return slices.ContainsFunc(m.File.Tensors, func(t *loaders.Tensor) bool { return t.DType.Quantized() })
}

// TestChunks: the same logits however a text is cut, after a cut to the middle,
// and with a second text in the batch.
func TestChunks(t *testing.T) {
	if testing.Short() {
		t.Skip("about numbers, and minutes long under the race detector")
	}
	for _, name := range []string{"stories260K-f32", "llama-gqa", "llama-quant-q4_k-pure", "llama-quant-q6_k", "stories260K-q8_0", "gemma3-1b-like", "gemma4-e2b-like", "gemma4-26b-a4b-like"} {
		for _, backend := range []string{"ref", "cpu", "cpu, deterministic"} {
			t.Run(name+"/"+backend, func(t *testing.T) {
				kind, deterministic := strings.CutSuffix(backend, ", deterministic")
				o := Options{Backend: kind, Deterministic: deterministic, Threads: 1, Context: 512, MaxRows: 512, MaxSeqs: 3, KV: graph.F32}
				m, g := openGolden(t, name, o)
				one := m.NewSession()
				defer one.Close()
				want := all(t, one, g.Tokens, 1)
				if backend == "ref" {
					if d := worst(t, want, g.logits); d > 1e-3 {
						t.Errorf("the largest difference from the float64 logits is %g", d)
					}
				}
				bound := chunkBound(m, backend)
				off := map[string]float64{}
				check := func(what string, got, want []float32) {
					t.Helper()
					off[what] = max(off[what], worst(t, got, want))
				}
				defer func() {
					for what, d := range off {
						if d > bound {
							t.Errorf("%s: the largest difference is %g", what, d)
						} else if d > 0 {
							t.Logf("%s: not the same bits, the largest difference is %g", what, d)
						}
					}
				}()
				v := m.limits.Vocab
				for _, chunk := range []int{3, 7, 8, 40, 512} {
					s := m.NewSession()
					check(fmt.Sprintf("chunks of %d", chunk), all(t, s, g.Tokens, chunk), want)
					half := len(g.Tokens) / 2
					if err := s.Rewind(half); err != nil {
						t.Fatal(err)
					}
					check("after a cut to the middle", all(t, s, g.Tokens[half:], chunk), want[half*v:])
					s.Close()
				}
				// Two texts in one batch, in pieces of different lengths.
				a, b := m.cache.NewSequence(), m.cache.NewSequence()
				defer a.Drop()
				defer b.Drop()
				second := slices.Clone(g.Tokens)
				slices.Reverse(second)
				s := m.NewSession()
				wantB := all(t, s, second, 1)
				s.Close()
				bt, err := m.Acquire(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer bt.Release()
				for i, k := 0, 1; a.Len() < len(g.Tokens); i, k = i+1, k%9+1 {
					items := []Item{{Seq: a, Tokens: g.Tokens[a.Len():min(a.Len()+k, len(g.Tokens))], Rows: RowsAll}}
					if n := min(b.Len()+1+i%3, len(second)); n > b.Len() {
						items = append([]Item{{Seq: b, Tokens: second[b.Len():n], Rows: RowsAll}}, items...)
					}
					if err := bt.Step(t.Context(), items); err != nil {
						t.Fatal(err)
					}
					for j := range items {
						w := want
						if items[j].Seq == b {
							w = wantB
						}
						for r := range items[j].Tokens {
							at := items[j].Seq.Len() - len(items[j].Tokens) + r
							check("two texts in a batch", bt.Logits(&items[j], r), w[at*v:(at+1)*v])
						}
					}
				}
			})
		}
	}
}
