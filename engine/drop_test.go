package engine

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"graphrun/graph"
)

// sampleModels are the files of testdata/models.
func sampleModels(t *testing.T) []string {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join("..", "testdata", "models", "*.gguf"))
	if len(files) < 10 {
		t.Fatalf("found only %v", files)
	}
	return files
}

// What is dropped is not in the graph, and all the rest is, for every
// architecture.
func TestDropNames(t *testing.T) {
	ofPart := func(name string) string {
		switch {
		case name == "token_embd.weight":
			return "embed"
		case strings.HasPrefix(name, "output."):
			return "head"
		case strings.HasPrefix(name, "blk.") && (strings.Contains(name, ".attn") || strings.Contains(name, ".post_attention_norm") || strings.Contains(name, "rope")):
			return "attn"
		case strings.HasPrefix(name, "blk.") && (strings.Contains(name, ".ffn") || strings.Contains(name, "_ffw_norm") || strings.Contains(name, ".moe")):
			return "ffn"
		}
		return ""
	}
	for _, file := range sampleModels(t) {
		base := filepath.Base(file)
		weights := func(drop ...string) (names []string, r MemoryReport) {
			t.Helper()
			m, err := Open(file, Options{Drop: drop, Threads: 1})
			if err != nil {
				t.Fatalf("%s without %v: %v", base, drop, err)
			}
			defer m.Close()
			for _, v := range m.Graph.Values {
				if v.Op == graph.OpWeight {
					names = append(names, v.Name)
				}
			}
			slices.Sort(names)
			est, err := Estimate(m.File, Options{Drop: drop})
			if err != nil || !slices.Equal(est.Dropped, m.Memory().Dropped) {
				t.Errorf("%s: estimate %+v, %v", base, est.Dropped, err)
			}
			return slices.Compact(names), m.Memory()
		}
		all, full := weights()
		tied := !slices.Contains(all, "output.weight")
		for _, part := range Parts() {
			left, r := weights(part)
			saved := full.Weights - r.Weights
			if len(r.Dropped) != 1 || r.Dropped[0].Part != part || r.Dropped[0].Bytes != saved {
				t.Errorf("%s without %s: %d bytes less, the report says %+v", base, part, saved, r.Dropped)
			}
			if part == "attn" && r.KVBytes() != 0 {
				t.Errorf("%s without attention has a KV cache of %d bytes", base, r.KVBytes())
			}
			for _, name := range all {
				// A gpt-oss feed-forward begins with the norm called
				// post_attention_norm.
				p := ofPart(name)
				if strings.HasPrefix(base, "gptoss") && strings.Contains(name, "post_attention_norm") {
					p = "ffn"
				}
				if p == "embed" && tied { // it is the head too
					p = ""
				}
				gone := !slices.Contains(left, name)
				if name == "rope_freqs.weight" {
					p = "attn"
				}
				if gone != (p == part) {
					t.Errorf("%s without %s: tensor %s is gone: %v", base, part, name, gone)
				}
			}
		}
		if left, _ := weights("embed", "head"); slices.Contains(left, "token_embd.weight") {
			t.Errorf("%s without embed and head still has the table", base)
		}
	}
}

// Without a part both backends compute the same.
func TestDropBackends(t *testing.T) {
	file := filepath.Join("..", "testdata", "models", "gemma3.gguf")
	for _, drop := range [][]string{{"ffn"}, {"attn"}, {"ffn", "attn"}} {
		var got [2][]float32
		for i, backend := range Backends() {
			m, err := Open(file, Options{Backend: backend, Drop: drop, Threads: 1, KV: graph.F32})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			s := m.NewSession()
			defer s.Close()
			got[i] = all(t, s, []int32{1, 15, 27, 33, 4}, 3)
		}
		for i := range got[0] {
			if math.Abs(float64(got[0][i]-got[1][i])) > 1e-3 {
				t.Fatalf("without %v: logit %d is %g and %g", drop, i, got[0][i], got[1][i])
			}
		}
	}
}

// Embeddings need no head, and nothing else than them is left.
func TestDropHead(t *testing.T) {
	file := filepath.Join("..", "testdata", "models", "llama-gqa.gguf")
	whole, err := Open(file, Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	m, err := Open(file, Options{Threads: 1, Drop: []string{"head"}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	tokens := []int32{1, 15, 27, 33}
	want, err := whole.Embed(t.Context(), tokens, EmbedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.Embed(t.Context(), tokens, EmbedOptions{})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("embedding %v…, want %v… (%v)", got[:3], want[:3], err)
	}
	s := m.NewSession()
	if err := s.Append(t.Context(), tokens...); !errors.Is(err, ErrNoHead) {
		t.Errorf("append: %v", err)
	}
	if _, err := m.Perplexity(t.Context(), tokens, PerplexityOptions{Window: 4}); !errors.Is(err, ErrNoHead) {
		t.Errorf("perplexity: %v", err)
	}
	if _, err := s.Score(t.Context(), tokens, 0); !errors.Is(err, ErrNoHead) {
		t.Errorf("score: %v", err)
	}
}

// A model without its table takes states and computes the same logits.
func TestDropEmbed(t *testing.T) {
	file := filepath.Join("..", "testdata", "models", "llama-gqa.gguf")
	whole, err := Open(file, Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	table, err := weights{whole.File}.Weight("token_embd.weight")
	if err != nil || table.DType != graph.F32 {
		t.Fatal(table.DType, err)
	}
	m, err := Open(file, Options{Threads: 1, Drop: []string{"embed"}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	tokens := []int32{1, 15, 27, 33}
	var states []float32
	for _, id := range tokens {
		states = append(states, table.Row(int(id))...)
	}
	step := func(m *Model, states []float32) ([]float32, error) {
		b, err := m.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer b.Release()
		seq := m.Cache().NewSequence()
		defer seq.Drop()
		items := []Item{{Seq: seq, Tokens: tokens, States: states, Rows: RowsLast}}
		if err := b.Step(t.Context(), items); err != nil {
			return nil, err
		}
		return slices.Clone(b.Logits(&items[0], 0)), nil
	}
	want, err := step(whole, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := step(m, states); err != nil || !slices.Equal(got, want) {
		t.Errorf("logits differ (%v)", err)
	}
	if _, err := step(m, nil); err == nil || !strings.Contains(err.Error(), "without its token embeddings") {
		t.Errorf("tokens alone: %v", err)
	}
	if _, err := step(whole, states); err == nil || !strings.Contains(err.Error(), "looks tokens up") {
		t.Errorf("states for a whole model: %v", err)
	}
}

func TestDropRefused(t *testing.T) {
	file := filepath.Join("..", "testdata", "models", "llama-gqa.gguf")
	for _, c := range []struct {
		drop []string
		want string
	}{
		{[]string{"norms"}, "supported: ffn, attn, head, embed"},
		{[]string{"ffn", "ffn"}, "twice"},
	} {
		if _, err := Open(file, Options{Drop: c.drop}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c.drop, err)
		}
	}
}
