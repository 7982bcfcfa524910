package synth

import (
	"bytes"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"graphrun/archs"
	"graphrun/backends/cpu/kern"
	"graphrun/graph"
	"graphrun/loaders"
)

func TestLookup(t *testing.T) {
	if s, err := Lookup("Llama-3.2-1B"); err != nil || s.Name != "llama-3.2-1b" {
		t.Errorf("Llama-3.2-1B: got %q, %v", s.Name, err)
	}
	_, err := Lookup("llama-9")
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "smollm2-135m") {
		t.Errorf("unknown shape: got %v, want ErrUnsupported with the known shapes", err)
	}
	_, err = NewPlan(shapes[0], Options{Type: "q9_9"})
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "q4_k_m") {
		t.Errorf("unknown type: got %v, want ErrUnsupported with the known types", err)
	}
}

// TestParams compares the number of weights with that of the published models.
func TestParams(t *testing.T) {
	for name, want := range map[string]int{
		"smollm2-135m": 134515008,
		"llama-3.2-1b": 1235814432, // rope_freqs included
		"llama-3.1-8b": 8030261312,
		"gemma-3-1b":   999885952,
	} {
		s, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewPlan(s, Options{Type: "q8_0"})
		if err != nil {
			t.Fatal(err)
		}
		if p.Params != want {
			t.Errorf("%s: got %d weights, want %d", name, p.Params, want)
		}
	}
}

// TestFillers decodes random blocks of every type: mean 0, the spread asked
// for, f16 scales normal.
func TestFillers(t *testing.T) {
	for dt := range fillers {
		for _, k := range []int{256, 2048, 14336} {
			sigma := 1 / math.Sqrt(float64(k))
			r := random(1)
			raw := make([]byte, dt.RowBytes(1<<16))
			fillers[dt](&r, raw, sigma)
			x := make([]float32, 1<<16)
			kern.DequantRow(dt, x, raw)
			sum, squares := 0.0, 0.0
			for _, v := range x {
				sum += float64(v)
				squares += float64(v) * float64(v)
			}
			n := float64(len(x))
			mean, rms := sum/n/sigma, math.Sqrt(squares/n)/sigma
			if math.Abs(mean) > 0.05 || !(rms > 0.8 && rms < 1.3) {
				t.Errorf("%s, k=%d: mean %.3f, rms %.3f times sigma, want 0 and 1", dt, k, mean, rms)
			}
		}
	}
}

// TestMixtures checks which types the matrices of medium mixtures get.
func TestMixtures(t *testing.T) {
	for _, c := range []struct {
		shape, typ, tensor string
		want               graph.DType
	}{
		{"llama-3.2-1b", "q4_k_m", "token_embd.weight", graph.Q6_K}, // tied: it is the head
		{"llama-3.2-1b", "q4_0", "token_embd.weight", graph.Q6_K},
		{"llama-3.2-1b", "q8_0", "token_embd.weight", graph.Q8_0},
		{"llama-3.1-8b", "q4_k_m", "token_embd.weight", graph.Q4_K},
		{"llama-3.1-8b", "q4_k_m", "output.weight", graph.Q6_K},
		{"llama-3.1-8b", "Q4_K_M", "blk.3.ffn_down.weight", graph.Q6_K},
		{"llama-3.1-8b", "q4_k_m", "blk.4.ffn_down.weight", graph.Q4_K},
		{"llama-3.1-8b", "q4_k_m", "blk.4.attn_v.weight", graph.Q4_K},
		{"llama-3.1-8b", "q4_k_m", "blk.6.attn_v.weight", graph.Q6_K},
		{"llama-3.1-8b", "q2_k", "blk.6.attn_v.weight", graph.Q4_K},
		{"llama-3.1-8b", "q2_k", "blk.6.ffn_down.weight", graph.Q3_K},
		{"smollm2-135m", "q4_k_m", "blk.10.attn_q.weight", graph.Q5_0}, // rows of 576
		{"smollm2-135m", "q4_0", "token_embd.weight", graph.Q8_0},
		{"gemma-4-26b-a4b", "q4_k", "blk.0.ffn_down_exps.weight", graph.Q5_0}, // rows of 704
		{"gemma-4-e2b", "q4_k_m", "per_layer_model_proj.weight", graph.BF16},
		{"gemma-4-26b-a4b", "q4_0", "blk.0.ffn_gate_inp.weight", graph.F32},
	} {
		s, err := Lookup(c.shape)
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewPlan(s, Options{Type: c.typ})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(p.Tensors, func(t loaders.TensorInfo) bool { return t.Name == c.tensor })
		if i < 0 {
			t.Errorf("%s %s: no tensor %s", c.shape, c.typ, c.tensor)
		} else if got := p.Tensors[i].DType; got != c.want {
			t.Errorf("%s %s %s: got %s, want %s", c.shape, c.typ, c.tensor, got, c.want)
		}
	}
}

func write(t *testing.T, name string, o Options) []byte {
	t.Helper()
	s, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlan(s, o)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := p.WriteTo(t.Context(), &b, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestLoads opens a small file of each architecture: every key and tensor is
// there, no weight is NaN, the vocabulary encodes and decodes.
func TestLoads(t *testing.T) {
	for _, s := range shapes {
		if !strings.HasPrefix(s.Name, "tiny") {
			continue
		}
		for _, typ := range []string{"q4_k_m", "f16", "q2_k"} {
			f, err := loaders.OpenBytes(s.Name, write(t, s.Name, Options{Type: typ}))
			if err != nil {
				t.Fatal(err)
			}
			if err := f.CheckFinite(); err != nil {
				t.Error(err)
			}
			m, err := archs.Load(f)
			if err != nil {
				t.Fatalf("%s %s: %v", s.Name, typ, err)
			}
			if len(m.Warnings) > 0 {
				t.Errorf("%s %s: %q", s.Name, typ, m.Warnings)
			}
			v, err := loaders.VocabFromGGUF(f.Meta, s.Name)
			if err != nil {
				t.Fatal(err)
			}
			if len(v.Tokens) != s.vocab {
				t.Errorf("%s: %d tokens, want %d", s.Name, len(v.Tokens), s.vocab)
			}
			tok, err := loaders.NewTokenizer(v)
			if err != nil {
				t.Fatal(err)
			}
			const text = "The theatre, ünder 12 trees\n"
			ids := tok.Encode(text, loaders.EncodeOptions{})
			if got := tok.Decode(ids, loaders.DecodeOptions{}); got != text {
				t.Errorf("%s: %q comes back as %q", s.Name, text, got)
			}
			if len(ids) >= len(text) {
				t.Errorf("%s: %d tokens for %d bytes, want some merges", s.Name, len(ids), len(text))
			}
			f.Close()
		}
	}
}

// TestSame writes with different numbers of workers and seeds.
func TestSame(t *testing.T) {
	one := write(t, "tiny-llama", Options{Type: "f32", Workers: 1})
	if !bytes.Equal(one, write(t, "tiny-llama", Options{Type: "f32", Workers: 3})) {
		t.Error("another number of workers gives other bytes")
	}
	if bytes.Equal(one, write(t, "tiny-llama", Options{Type: "f32", Seed: 1})) {
		t.Error("another seed gives the same bytes")
	}
}

// TestManyChunks writes a tensor of several chunks, and stops in the middle.
func TestManyChunks(t *testing.T) {
	s := Shape{Name: "wide", arch: "llama", layers: 1, width: 1024, ffn: 1 << 13, heads: 2, kvHeads: 1, headWidth: 512, vocab: 2048, context: 8, eps: 1, theta: 1, words: smollm}
	p, err := NewPlan(s, Options{Type: "f32"})
	if err != nil {
		t.Fatal(err)
	}
	var a, b bytes.Buffer
	for _, c := range []struct {
		to      *bytes.Buffer
		workers int
	}{{&a, 1}, {&b, 4}} {
		if err := p.WriteTo(t.Context(), c.to, Options{Type: "f32", Workers: c.workers}); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("another number of workers gives other bytes")
	}
	want := errors.New("full")
	if err := p.WriteTo(t.Context(), &limited{left: 5 << 20, err: want}, Options{Type: "f32", Workers: 2}); !errors.Is(err, want) {
		t.Errorf("a writer that fails: got %v, want %v", err, want)
	}
	path := filepath.Join(t.TempDir(), "small.gguf")
	if err := p.Write(t.Context(), path, Options{Type: "f32"}); err != nil {
		t.Error(err)
	}
}

type limited struct {
	left int
	err  error
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, l.err
	}
	return len(p), nil
}

func BenchmarkFill(b *testing.B) {
	for dt, fill := range fillers {
		b.Run(dt.String(), func(b *testing.B) {
			buf := make([]byte, dt.RowBytes(1<<20))
			b.SetBytes(int64(len(buf)))
			r := random(1)
			for b.Loop() {
				fill(&r, buf, 0.02)
			}
		})
	}
}
