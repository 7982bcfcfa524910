package archs_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"graphrun/archs"
	"graphrun/graph"
	"graphrun/internal/shared"
	"graphrun/loaders"
)

// wantError checks that err is one line with all the parts.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error %q has more than one line", err)
	}
}

// TestBadFiles loads the malformed files that the reader accepts: what is wrong
// with them is for the architecture, or the tokenizer, to see.
func TestBadFiles(t *testing.T) {
	says := map[string]string{
		"unknown-architecture.gguf": `archs: unknown architecture "nosuch" in `,
		"no-architecture.gguf":      "key general.architecture",
		"no-block-count.gguf":       "key llama.block_count: missing",
		"no-embedding-length.gguf":  "key llama.embedding_length: missing",
		"block-count-string.gguf":   "key llama.block_count",
		"zero-heads.gguf":           "key llama.attention.head_count",
		"heads-not-dividing.gguf":   "key llama.attention.head_count",
		"wrong-shape.gguf":          "tensor blk.0.attn_q.weight: found shape [6,8], expected [HK,D] = [8,8]",
		"missing-tensor.gguf":       "tensor blk.0.ffn_down.weight: missing",
		"tokenizer-no-tokens.gguf":  "key tokenizer.ggml.tokens",
		"context-length-0.gguf":     "key llama.context_length",
		"rope-dim-odd.gguf":         "key llama.rope.dimension_count",
		"eps-nan.gguf":              "key llama.attention.layer_norm_rms_epsilon",
	}
	const tokenizers = "scores-length-mismatch.gguf" // seen when the vocabulary is read
	raw, err := os.ReadFile(shared.Path(t, "golden", "bad", "gguf.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct{ File, What, Expect string }
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.File, func(t *testing.T) {
			f, err := loaders.Open(shared.Path(t, "golden", "bad", "gguf", c.File))
			if err != nil {
				if says[c.File] != "" {
					t.Errorf("the reader refuses it already: %v", err)
				}
				return
			}
			defer f.Close()
			m, err := archs.Load(f)
			switch {
			case says[c.File] != "":
				wantError(t, err, says[c.File])
			case err != nil:
				t.Errorf("%s: %v", c.What, err)
			case c.Expect == "error" && c.File != tokenizers:
				t.Errorf("loaded, want an error: %s", c.What)
			default:
				if _, err := m.Graph(archs.GraphOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestBadKeys gives keys values that no model has.
func TestBadKeys(t *testing.T) {
	for _, c := range []struct {
		key  string
		val  any
		says string
	}{
		{"block_count", 0, ""},
		{"block_count", 513, "the number of layers the file has tensors of"},
		{"block_count", 65536, ""},
		{"block_count", 1 << 31, ""},
		{"block_count", nil, "missing"},
		{"block_count", "two", ""},
		{"context_length", 0, ""},
		{"embedding_length", 0, ""},
		{"embedding_length", uint64(1) << 63, ""},
		{"feed_forward_length", []int{128}, "one for each of 2 layers"},
		{"attention.head_count", 0, ""},
		{"attention.head_count", []int{4, 0}, "for layer 1"},
		{"attention.head_count_kv", 3, "a divisor of the 4 query heads"},
		{"attention.head_count_kv", 0, ""},
		{"attention.key_length", 0, ""},
		{"attention.key_length", 15, ""},
		{"attention.key_length", 1 << 30, ""},
		{"attention.value_length", 8, ""},
		{"rope.dimension_count", 32, ""},
		{"rope.dimension_count", 7, ""},
		{"attention.layer_norm_rms_epsilon", 0.0, ""},
		{"attention.layer_norm_rms_epsilon", -1.0, ""},
		{"attention.layer_norm_rms_epsilon", math.NaN(), ""},
		{"attention.layer_norm_rms_epsilon", math.Inf(1), ""},
		{"attention.layer_norm_rms_epsilon", 1, "expected a float"},
		{"rope.freq_base", 0.0, ""},
		{"rope.scaling.type", "longrope", "one of none, linear, yarn"},
		{"rope.scaling.factor", 0.0, ""},
		{"vocab_size", "many", ""},
	} {
		f := smallLlama(2)
		f.keys[c.key] = c.val
		_, err := f.load(t)
		wantError(t, err, "key llama."+c.key, c.says)
		if !errors.Is(err, loaders.ErrFormat) {
			t.Errorf("%v is no ErrFormat", err)
		}
	}
}

// TestBadTensors changes tensors of a small model.
func TestBadTensors(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *file)
		says   []string
	}{
		"missing":       {func(f *file) { f.drop("blk.1.ffn_up.weight") }, []string{"tensor blk.1.ffn_up.weight: missing", "[F,D] = [128,64]"}},
		"several":       {func(f *file) { f.drop("blk.1.ffn_up.weight", "output_norm.weight") }, []string{"tensor output_norm.weight: missing", "also missing: blk.1.ffn_up.weight"}},
		"no embedding":  {func(f *file) { f.drop("token_embd.weight") }, []string{"tensor token_embd.weight: missing"}},
		"embedding":     {func(f *file) { f.reshape("token_embd.weight", 64, 320) }, []string{"tensor token_embd.weight: found shape [64,320]"}},
		"shape":         {func(f *file) { f.reshape("blk.0.ffn_down.weight", 128, 64) }, []string{"tensor blk.0.ffn_down.weight: found shape [128,64], expected [D,F] = [64,128]"}},
		"head":          {func(f *file) { f.reshape("output.weight", 319, 64) }, []string{"tensor output.weight: found shape [319,64]"}},
		"norm type":     {func(f *file) { f.drop("blk.0.attn_norm.weight"); f.addType("blk.0.attn_norm.weight", graph.F16, 64) }, []string{"tensor blk.0.attn_norm.weight: found f16"}},
		"integers":      {func(f *file) { f.drop("blk.0.attn_q.weight"); f.addType("blk.0.attn_q.weight", graph.I8, 64, 64) }, []string{"tensor blk.0.attn_q.weight: found i8"}},
		"two forms":     {func(f *file) { f.add("blk.0.attn_qkv.weight", 128, 64) }, []string{"tensor blk.0.attn_q.weight", "also has blk.0.attn_qkv.weight"}},
		"unknown bias":  {func(f *file) { f.add("blk.0.attn_norm.bias", 64) }, []string{"tensor blk.0.attn_norm.bias", "would change the result"}},
		"unknown scale": {func(f *file) { f.add("blk.1.ffn_up.scale", 1) }, []string{"tensor blk.1.ffn_up.scale"}},
		"bias shape":    {func(f *file) { f.add("blk.0.attn_k.bias", 64) }, []string{"tensor blk.0.attn_k.bias: found shape [64], expected [GK] = [32]"}},
		"rope_freqs":    {func(f *file) { f.add("rope_freqs.weight", 16) }, []string{"tensor rope_freqs.weight: found shape [16], expected [R/2] = [8]"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := smallLlama(2)
			c.change(f)
			_, err := f.load(t)
			wantError(t, err, append(c.says, "small.gguf")...)
			var te *loaders.TensorError
			if !errors.As(err, &te) {
				t.Errorf("%T, want a TensorError", err)
			}
		})
	}
}

func TestUnknownArch(t *testing.T) {
	f := smallLlama(1)
	f.arch = "lama"
	_, err := f.load(t)
	wantError(t, err, `archs: unknown architecture "lama" in small.gguf; known: gemma2, gemma3, gemma4, `, "; closest: llama")
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Error("no ErrUnsupported")
	}
}

// TestWarnings keeps what is odd but harmless.
func TestWarnings(t *testing.T) {
	f := smallLlama(2)
	f.add("blk.2.attn_q.weight", 64, 64)
	f.add("some.table", 4)
	f.keys["vocab_size"] = 99999
	f.keys["attention.slope"] = 1
	m, err := f.load(t)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(m.Warnings, "\n")
	for _, want := range []string{"2 tensors not used: blk.2.attn_q.weight, some.table", "llama.vocab_size is 99999", "1 keys not used: llama.attention.slope"} {
		if !strings.Contains(got, want) {
			t.Errorf("warnings %q, want %q", got, want)
		}
	}
}

// TestCounts compares numbers and bytes with the golden lists.
func TestCounts(t *testing.T) {
	goldenModels(t, func(t *testing.T, dir string) {
		f, err := loaders.Open(filepath.Join(dir, "model.gguf"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		m, err := archs.Load(f)
		if err != nil {
			t.Fatal(err)
		}
		params, size := 0, 0
		for _, x := range f.Tensors {
			params += x.Elems()
			size += len(x.Data)
		}
		if m.Params != params || m.WeightBytes != size {
			t.Errorf("%d numbers in %d bytes, the file has %d in %d", m.Params, m.WeightBytes, params, size)
		}
	})
}

func TestCacheTypes(t *testing.T) {
	m, err := smallLlama(1).load(t)
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Graph(archs.GraphOptions{KV: graph.Q8_0})
	wantError(t, err, "cache type q8_0", "16 numbers, no multiple of 32")
	_, err = m.Graph(archs.GraphOptions{KV: graph.Q4_0})
	wantError(t, err, "cache type q4_0")
	g, err := m.Graph(archs.GraphOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if kv := g.Find("attn.kv", 0); kv.Type.DType != graph.F16 {
		t.Errorf("the default cache is %s", kv.Type)
	}
}

// FuzzLoad changes bytes of small files of several architectures: whatever the
// reader lets pass must load, or be an error, without a panic.
func FuzzLoad(f *testing.F) {
	gemma4 := smallGemma4(3)
	gemma4.keys["attention.shared_kv_layers"] = 1
	for _, s := range []*file{smallLlama(1), smallGemma3(2), gemma4, smallGPTOSS(1)} {
		for i := range s.tensors {
			s.data[s.tensors[i].Name] = make([]float32, loaderElems(s.tensors[i]))
		}
		f.Add(s.bytes(f))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in, err := loaders.OpenBytes("fuzz.gguf", data)
		if err != nil {
			return
		}
		m, err := archs.Load(in)
		if err != nil {
			return
		}
		g, err := m.Graph(archs.GraphOptions{KV: graph.F16})
		if err != nil {
			return
		}
		if err := graph.Verify(g); err != nil {
			t.Error(err)
		}
	})
}

func loaderElems(t loaders.TensorInfo) int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// BenchmarkGraph loads and builds a model of nine layers.
func BenchmarkGraph(b *testing.B) {
	f, err := loaders.Open(shared.Path(b, "golden", "models", "gemma4-e2b-like", "model.gguf"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for b.Loop() {
		m, err := archs.Load(f)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := m.Graph(archs.GraphOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
