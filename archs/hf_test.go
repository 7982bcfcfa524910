package archs_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"graphrun/archs"
	"graphrun/graph"
	"graphrun/loaders"
)

// folder is a model of Hugging Face form in memory, to be changed before it is
// written.
type folder struct {
	config  map[string]any
	tensors map[string]*raw
}

type raw struct {
	dtype string
	shape []int
	data  []byte
}

// folderOf makes a folder of a model of testdata/models.
func folderOf(t testing.TB, name string) *folder {
	t.Helper()
	m, err := loaders.Open(filepath.Join("..", "testdata", "models", name+".gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	dir := filepath.Join(t.TempDir(), "dir")
	if _, err := loaders.WriteHF(dir, m, loaders.HFWriteOptions{}); err != nil {
		t.Fatal(err)
	}
	f := &folder{config: map[string]any{}, tensors: map[string]*raw{}}
	data, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &f.config); err != nil {
		t.Fatal(err)
	}
	s, err := loaders.OpenSafetensors(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, x := range s.Tensors {
		f.tensors[x.Name] = &raw{strings.ToUpper(x.DType.String()), x.Shape, slices.Clone(x.Data)}
	}
	return f
}

// write writes the folder, without tokenizer.
func (f *folder) write(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	config, err := json.Marshal(f.config)
	if err != nil {
		t.Fatal(err)
	}
	type entry struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	header, body := map[string]entry{}, []byte{}
	for _, name := range slices.Sorted(maps.Keys(f.tensors)) {
		x := f.tensors[name]
		header[name] = entry{x.dtype, x.shape, [2]int{len(body), len(body) + len(x.data)}}
		body = append(body, x.data...)
	}
	head, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(head)))
	file = append(append(file, head...), body...)
	for name, data := range map[string][]byte{"config.json": config, "model.safetensors": file} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// open opens the folder and checks it against the record.
func (f *folder) open(t testing.TB, o loaders.HFOptions) (*loaders.Model, error) {
	t.Helper()
	m, err := loaders.OpenHF(f.write(t), o)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { m.Close() })
	if _, err := archs.Load(m); err != nil {
		return nil, err
	}
	return m, nil
}

func (f *folder) mustOpen(t testing.TB) *loaders.Model {
	t.Helper()
	m, err := f.open(t, loaders.HFOptions{GGUF: true})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// refused opens a folder that must not open, and looks for parts in the error.
func (f *folder) refused(t testing.TB, parts ...string) {
	t.Helper()
	_, err := f.open(t, loaders.HFOptions{})
	if err == nil {
		t.Errorf("opens, want an error with %q", parts)
		return
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("%q does not speak of %q", err, p)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%q is more than a line", err)
	}
}

// sameContent compares keys and tensors.
func sameContent(t testing.TB, got, want *loaders.Model) {
	t.Helper()
	for _, k := range want.Meta.Keys() {
		a, _ := got.Meta.Value(k)
		b, _ := want.Meta.Value(k)
		if a.String() != b.String() {
			t.Errorf("key %s is %s, want %s", k, a, b)
		}
	}
	if got.Meta.Len() != want.Meta.Len() || len(got.Tensors) != len(want.Tensors) {
		t.Errorf("%d keys and %d tensors, want %d and %d", got.Meta.Len(), len(got.Tensors), want.Meta.Len(), len(want.Tensors))
	}
	for _, b := range want.Tensors {
		a, ok := got.Tensor(b.Name)
		if !ok {
			t.Errorf("tensor %s is missing", b.Name)
			continue
		}
		x, err := a.Load()
		y, err2 := b.Load()
		if err != nil || err2 != nil || a.DType != b.DType || !bytes.Equal(x, y) {
			t.Errorf("tensor %s differs (%v, %v)", b.Name, err, err2)
		}
	}
}

// TestHFPrefixes is ST-04: all spellings of the names give the same model, and
// the parts for images are left out with one line.
func TestHFPrefixes(t *testing.T) {
	want := folderOf(t, "gemma3").mustOpen(t)
	for _, prefix := range []string{"model.", "model.language_model.", "language_model.model.", "language_model."} {
		f := folderOf(t, "gemma3")
		moved := map[string]*raw{}
		for name, x := range f.tensors {
			if rest, ok := strings.CutPrefix(name, "model."); ok {
				name = prefix + rest
			}
			moved[name] = x
		}
		tower := map[bool]string{true: "model.", false: ""}[strings.HasPrefix(prefix, "model.language")] + "vision_tower.encoder.layers.0.self_attn.q_proj.weight"
		moved[tower] = &raw{"F32", []int{1}, make([]byte, 4)}
		f.tensors = moved
		inner := f.config
		f.config = map[string]any{"model_type": "gemma3", "text_config": inner}
		m := f.mustOpen(t)
		sameContent(t, m, want)
		if !slices.ContainsFunc(m.Notes, func(n string) bool { return strings.HasPrefix(n, "1 tensors of vision_tower are not used") }) {
			t.Errorf("%s: notes are %q", prefix, m.Notes)
		}
	}
	f := folderOf(t, "gemma3")
	for name, x := range maps.Clone(f.tensors) {
		f.tensors["other."+name] = x
		delete(f.tensors, name)
	}
	f.refused(t, "model.embed_tokens.weight", "language_model.model.embed_tokens.weight", "other.model.")
}

// TestHFHead is the other half of ST-04: what tie_word_embeddings and lm_head
// say together.
func TestHFHead(t *testing.T) {
	f := folderOf(t, "llama-gqa") // has a head of its own
	head := "lm_head.weight"
	if f.tensors[head] == nil || f.config["tie_word_embeddings"] != false {
		t.Fatalf("the folder has no %s", head)
	}
	untied := f.mustOpen(t)
	if _, ok := untied.Tensor("output.weight"); !ok {
		t.Error("the head is lost")
	}
	f.config["tie_word_embeddings"] = true
	if m := f.mustOpen(t); len(m.Notes) != 1 || !strings.Contains(m.Notes[0], head) {
		t.Errorf("notes are %q, want one of the unused head", m.Notes)
	} else if _, ok := m.Tensor("output.weight"); ok {
		t.Error("the head is used although the embedding is")
	}
	delete(f.tensors, head)
	if m := f.mustOpen(t); len(m.Notes) != 0 {
		t.Errorf("notes are %q", m.Notes)
	}
	f.config["tie_word_embeddings"] = false
	f.refused(t, head, "missing", "tie_word_embeddings")
	delete(f.config, "tie_word_embeddings") // llama: false
	f.refused(t, head, "missing", "tie_word_embeddings")
	f.config["tie_word_embeddings"] = true
	delete(f.tensors, "model.layers.1.mlp.up_proj.weight")
	delete(f.tensors, "model.layers.0.self_attn.q_proj.weight")
	f.refused(t, "model.layers.0.self_attn.q_proj.weight", "model.layers.1.mlp.up_proj.weight", "missing")
}

// TestHFRopeStyles is NU-16: older and newer spelling give the same keys, and a
// config with neither says what was taken.
func TestHFRopeStyles(t *testing.T) {
	t.Run("llama", func(t *testing.T) {
		f := folderOf(t, "llama-tied-freqs")
		delete(f.tensors, "model.rope_freqs.weight")
		f.config["rope_theta"] = 500000.0
		scaling := map[string]any{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
		f.config["rope_scaling"] = scaling
		want := f.mustOpen(t)
		scaling["type"] = scaling["rope_type"]
		delete(scaling, "rope_type")
		sameContent(t, f.mustOpen(t), want)
		delete(f.config, "rope_scaling")
		delete(f.config, "rope_theta")
		scaling["rope_theta"] = 500000.0
		f.config["rope_parameters"] = scaling
		sameContent(t, f.mustOpen(t), want)

		f.config["rope_theta"] = 10000.0
		f.refused(t, "field rope_parameters.rope_theta", "found 500000", "rope_theta")
		delete(f.config, "rope_theta")
		scaling["type"] = "dynamic"
		f.refused(t, "rope_parameters.type", `"dynamic"`, "llama3")
		scaling["type"] = "llama3"
		delete(scaling, "factor")
		delete(scaling, "original_max_position_embeddings")
		f.refused(t, "missing", "rope_parameters.factor", "rope_parameters.original_max_position_embeddings")
		delete(f.config, "rope_parameters")
		m := f.mustOpen(t)
		if x, _, _ := m.Meta.Float("llama.rope.freq_base"); x != 10000 || len(m.Notes) != 1 || !strings.Contains(m.Notes[0], "rope_theta") {
			t.Errorf("base %v with notes %q, want 10000 and a note", x, m.Notes)
		}
	})
	t.Run("gemma3", func(t *testing.T) {
		f := folderOf(t, "gemma3")
		f.config["rope_theta"], f.config["rope_local_base_freq"] = 1e6, 1e4
		f.config["rope_scaling"] = map[string]any{"rope_type": "linear", "factor": 8.0}
		delete(f.config, "sliding_window_pattern")
		want := f.mustOpen(t) // by layer_types
		for _, k := range []string{"rope_theta", "rope_local_base_freq", "rope_scaling"} {
			delete(f.config, k)
		}
		f.config["rope_parameters"] = map[string]any{
			"full_attention":    map[string]any{"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
			"sliding_attention": map[string]any{"rope_type": "default", "rope_theta": 1e4},
		}
		sameContent(t, f.mustOpen(t), want)
		delete(f.config, "rope_parameters")
		if m := f.mustOpen(t); len(m.Notes) != 2 {
			t.Errorf("notes are %q, want one for each base", m.Notes)
		}
		f.config["query_pre_attn_scalar"] = 168
		f.refused(t, "query_pre_attn_scalar", "168")
	})
}

// TestHFDivisors is NU-05: the numbers that published files have.
func TestHFDivisors(t *testing.T) {
	for _, c := range []struct {
		width  int
		factor float64
		from   int
		want   []float64
	}{
		{64, 32, 14, []float64{1, 1.651329, 3.292262, 9.666729, 32}},
		{128, 8, 28, []float64{1, 1.207484, 1.553415, 2.026313, 2.694530, 3.684253, 5.257327, 8}},
	} {
		got, err := loaders.RopeDivisors(c.width, 500000, c.factor, 1, 4, 8192)
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range got {
			want := 1.0
			if i >= c.from {
				want = c.want[min(i-c.from, len(c.want)-1)]
			}
			if math.Abs(float64(x)/want-1) > 1e-5 {
				t.Errorf("width %d factor %v: pair %d is divided by %v, want %v", c.width, c.factor, i, x, want)
			}
		}
	}
}

// TestHFNorms is NU-13: 1 is added once to the norms of Gemma 2 and 3, never to
// those of Gemma 4 and others.
func TestHFNorms(t *testing.T) {
	for name, plus := range map[string]float32{"gemma2": 1, "gemma3": 1, "gemma4-moe": 0, "qwen3": 0, "llama-gqa": 0} {
		f := folderOf(t, name)
		m := f.mustOpen(t)
		for gguf, hf := range map[string]string{"output_norm.weight": "model.norm.weight", "blk.0.attn_norm.weight": "model.layers.0.input_layernorm.weight"} {
			x := f.tensors[hf]
			if x.dtype != "F32" {
				continue
			}
			got, _ := m.Tensor(gguf)
			for i := range got.Elems() {
				a, b := f32At(x.data, i), f32At(got.Data, i)
				if a+plus != b {
					t.Fatalf("%s: number %d of %s is %v, in the folder %v, want %v more", name, i, gguf, b, a, plus)
				}
			}
		}
	}
}

func f32At(b []byte, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
}

// TestWriteHFNames: a folder that programs work in is no name of a new one.
func TestWriteHFNames(t *testing.T) {
	m := folderOf(t, "llama-gqa").mustOpen(t)
	t.Chdir(t.TempDir())
	for _, dir := range []string{"", ".", "x/.."} {
		_, err := loaders.WriteHF(dir, m, loaders.HFWriteOptions{})
		if err == nil || !strings.Contains(err.Error(), "give the name of a new folder") {
			t.Errorf("%q: error %v", dir, err)
		}
	}
}

// TestWriteHFTwice: of two that write the same folder at once the second says
// which folder is there.
func TestWriteHFTwice(t *testing.T) {
	m := folderOf(t, "llama-gqa").mustOpen(t)
	dir := filepath.Join(t.TempDir(), "dir")
	_, err := loaders.WriteHF(dir, m, loaders.HFWriteOptions{Verify: func(string) error {
		return os.MkdirAll(filepath.Join(dir, "other"), 0o700)
	}})
	if err == nil || !strings.HasPrefix(err.Error(), "hf: create "+dir+": ") {
		t.Errorf("error %v", err)
	}
}

// TestHFMissing: all fields that are missing in one error, by their paths.
func TestHFMissing(t *testing.T) {
	f := folderOf(t, "llama-gqa")
	for _, k := range []string{"hidden_size", "num_hidden_layers", "rms_norm_eps"} {
		delete(f.config, k)
	}
	f.config["intermediate_size"] = nil
	f.refused(t, "config.json", "missing", "hidden_size", "num_hidden_layers", "rms_norm_eps", "intermediate_size", "model_type llama")

	f = folderOf(t, "gemma4-moe")
	inner := f.config
	f.config = map[string]any{"model_type": "gemma4", "text_config": inner}
	delete(inner, "layer_types")
	f.refused(t, "text_config.layer_types")
	delete(f.config, "text_config")
	f.refused(t, "text_config", "missing")
}

// TestWrittenMeanwhile: a model that was written to gives no copy of itself, one
// that was only deleted does.
func TestWrittenMeanwhile(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "testdata", "models", "llama-gqa.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := loaders.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	dir := t.TempDir()
	copies := map[string]func() error{
		"folder": func() error {
			_, err := loaders.WriteHF(filepath.Join(dir, "folder"), m, loaders.HFWriteOptions{})
			return err
		},
		"whole": func() error { return m.WriteWhole(t.Context(), filepath.Join(dir, "whole.gguf")) },
		"split": func() error {
			_, err := m.WriteSplit(t.Context(), filepath.Join(dir, "part"), loaders.SplitLimit{Tensors: 5})
			return err
		},
	}
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	later := st.ModTime().Add(time.Hour)
	if err := os.Chtimes(path, later, later); err != nil {
		t.Fatal(err)
	}
	for name, write := range copies {
		if err := write(); err == nil || !strings.Contains(err.Error(), "m.gguf: file was written to while open") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if runtime.GOOS == "windows" {
		return // an open file cannot be removed here
	}
	if err := errors.Join(os.Chtimes(path, st.ModTime(), st.ModTime()), os.Remove(path)); err != nil {
		t.Fatal(err)
	}
	for name, write := range copies {
		if err := write(); err != nil {
			t.Errorf("%s of a deleted file: %v", name, err)
		}
	}
}

// TestHFDeleted: what is said of a file that is gone has the tensor's name in it.
func TestHFDeleted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be removed here")
	}
	m := folderOf(t, "llama-gqa").mustOpen(t)
	if err := os.Remove(m.Files[0]); err != nil {
		t.Fatal(err)
	}
	if err := m.Check(); err == nil || !strings.Contains(err.Error(), "model.safetensors: tensor lm_head.weight: file was deleted") {
		t.Errorf("error %v", err)
	}
}

// llama3 is a scaling of rotary pairs with one field changed.
func llama3(change ...any) map[string]any {
	m := map[string]any{"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 32}
	if len(change) > 0 {
		m[change[0].(string)] = change[1]
	}
	return m
}

// TestHFRefused: what would compute something else is refused, by name.
func TestHFRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		model  string
		change func(f *folder)
		parts  []string
	}{
		{"unknown type", "qwen3", func(f *folder) { f.config["model_type"] = "qwen4" }, []string{`"qwen4"`, "closest: qwen", "known", "gemma3_text"}[:2]},
		{"no type", "qwen3", func(f *folder) { delete(f.config, "model_type") }, []string{"model_type", "missing", "gemma3"}},
		{"type of another kind", "qwen3", func(f *folder) { f.config["model_type"] = 3 }, []string{"model_type", "found 3", "a string"}},
		{"activation", "llama-gqa", func(f *folder) { f.config["hidden_act"] = "relu" }, []string{"hidden_act", `"relu"`, `"silu"`}},
		{"window", "qwen2", func(f *folder) { f.config["use_sliding_window"] = true }, []string{"use_sliding_window", "true"}},
		{"bidirectional", "gemma3", func(f *folder) { f.config["use_bidirectional_attention"] = true }, []string{"use_bidirectional_attention"}},
		{"text for a number", "llama-gqa", func(f *folder) { f.config["hidden_size"] = "64" }, []string{"hidden_size", `"64"`, "an integer"}},
		{"huge number", "llama-gqa", func(f *folder) { f.config["num_hidden_layers"] = 1e12 }, []string{"num_hidden_layers", "1000000000000"}},
		{"layer too many", "llama-gqa", func(f *folder) { f.config["num_hidden_layers"] = 1 }, []string{"model.layers.1.", "1 layers of num_hidden_layers"}},
		{"layer too few", "llama-gqa", func(f *folder) { f.config["num_hidden_layers"] = 40 }, []string{"config.json: field num_hidden_layers: found 40,"}},
		{"odd heads", "llama-gqa", func(f *folder) { f.config["num_attention_heads"] = 7; delete(f.config, "head_dim") }, []string{"config.json: field num_attention_heads: found 7, expected a divisor of hidden_size ", "as head_dim is absent"}},
		{"no heads", "llama-gqa", func(f *folder) { f.config["num_attention_heads"] = 0 }, []string{"config.json: field num_attention_heads: found 0, expected a number from 1"}},
		{"odd width of heads", "llama-gqa", func(f *folder) { f.config["head_dim"] = 7 }, []string{"config.json: field head_dim: found 7, expected an even number"}},
		{"groups that do not divide", "llama-gqa", func(f *folder) { f.config["num_key_value_heads"] = 5 }, []string{"config.json: field num_key_value_heads: found 5, expected a divisor of"}},
		{"eps", "llama-gqa", func(f *folder) { f.config["rms_norm_eps"] = 0 }, []string{"config.json: field rms_norm_eps: found 0, expected a finite number above 0"}},
		{"base", "gemma3", func(f *folder) {
			f.config = map[string]any{"model_type": "gemma3", "text_config": f.config}
			f.config["text_config"].(map[string]any)["rope_theta"] = -2.5
			delete(f.config["text_config"].(map[string]any), "rope_parameters")
		}, []string{"config.json: field text_config.rope_theta: found -2.5, expected"}},
		{"base of llama3", "llama-gqa", func(f *folder) { f.config["rope_theta"], f.config["rope_scaling"] = 0, llama3() }, []string{"field rope_theta: found 0, expected a number above 0"}},
		{"width of llama3", "llama-gqa", func(f *folder) { f.config["head_dim"], f.config["rope_scaling"] = 1, llama3() }, []string{"field head_dim: found 1, expected an even number"}},
		{"factor", "llama-gqa", func(f *folder) { f.config["rope_scaling"] = llama3("factor", 0) }, []string{"field rope_scaling.factor: found 0, expected a number of at least 1"}},
		{"low factor", "llama-gqa", func(f *folder) { f.config["rope_scaling"] = llama3("low_freq_factor", 0) }, []string{"field rope_scaling.low_freq_factor: found 0, expected a number above 0"}},
		{"high factor", "llama-gqa", func(f *folder) { f.config["rope_scaling"] = llama3("high_freq_factor", 0.5) }, []string{"field rope_scaling.high_freq_factor: found 0.5, expected a number above low_freq_factor, 1"}},
		{"old context", "llama-gqa", func(f *folder) { f.config["rope_scaling"] = llama3("original_max_position_embeddings", 0) }, []string{"field rope_scaling.original_max_position_embeddings: found 0"}},
		{"factor without type", "llama-gqa", func(f *folder) { f.config["rope_scaling"] = llama3("rope_type", nil) }, []string{"missing", "rope_scaling.rope_type"}},
		{"scaling is no object", "llama-gqa", func(f *folder) { f.config["rope_scaling"] = "llama3" }, []string{`field rope_scaling: found "llama3", expected an object or null`}},
		{"scaling is a list", "gemma3", func(f *folder) { f.config["rope_parameters"] = []int{} }, []string{"field rope_parameters: found [], expected an object or null"}},
		{"another shape", "llama-gqa", func(f *folder) { f.config["intermediate_size"] = 5 }, []string{"tensor model.layers.0.mlp.gate_proj.weight: found shape", "[F,D]"}},
		{"unknown tensor", "llama-gqa", func(f *folder) {
			f.tensors["model.layers.0.self_attn.k_bias_x"] = &raw{"F32", []int{1}, make([]byte, 4)}
		}, []string{"model.layers.0.self_attn.k_bias_x", "no place"}},
		{"bias without a place", "qwen3", func(f *folder) {
			f.tensors["model.layers.0.self_attn.q_proj.bias"] = &raw{"F32", []int{1}, make([]byte, 4)}
		}, []string{"bias"}},
		{"bias missing", "llama-gqa", func(f *folder) { f.config["attention_bias"] = true }, []string{"model.layers.0.self_attn.q_proj.bias: missing", "attention_bias is true"}},
		{"bias missing in a later layer", "llama-gqa", func(f *folder) {
			f.config["attention_bias"] = true
			for _, p := range []string{"q", "k", "v", "o"} {
				w := f.tensors["model.layers.0.self_attn."+p+"_proj.weight"]
				f.tensors["model.layers.0.self_attn."+p+"_proj.bias"] = &raw{"F32", w.shape[:1], make([]byte, 4*w.shape[0])}
			}
		}, []string{"model.layers.1.self_attn.q_proj.bias: missing", "attention_bias is true"}},
		{"bias of the feed-forward missing", "llama-gqa", func(f *folder) { f.config["mlp_bias"] = true }, []string{"model.layers.0.mlp.gate_proj.bias: missing", "mlp_bias is true in config.json"}},
		{"gptq", "llama-gqa", func(f *folder) { f.config["quantization_config"] = map[string]any{"quant_method": "gptq", "bits": 4} }, []string{"quantization_config.quant_method", `"gptq"`, "fp8, mxfp4"}},
		{"awq", "llama-gqa", func(f *folder) { f.config["quantization_config"] = map[string]any{"quant_method": "awq"} }, []string{`"awq"`}},
		{"bitsandbytes", "llama-gqa", func(f *folder) {
			f.config["quantization_config"] = map[string]any{"quant_method": "bitsandbytes"}
		}, []string{`"bitsandbytes"`}},
		{"no method", "llama-gqa", func(f *folder) { f.config["quantization_config"] = map[string]any{"bits": 4} }, []string{"quantization_config.quant_method", "missing"}},
		{"mlx", "llama-gqa", func(f *folder) { f.config["quantization"] = map[string]any{"bits": 4, "group_size": 64} }, []string{"MLX"}},
		{"integers", "llama-gqa", func(f *folder) {
			x := f.tensors["model.layers.0.mlp.up_proj.weight"]
			x.dtype, x.data = "I8", x.data[:len(x.data)/4]
		}, []string{"model.layers.0.mlp.up_proj.weight", "i8", "mxfp4 as _blocks and _scales"}},
		{"half a pair", "gptoss-mxfp4", func(f *folder) { delete(f.tensors, "model.layers.0.mlp.experts.down_proj_scales") }, []string{"model.layers.0.mlp.experts.down_proj", "_blocks and _scales"}},
		{"pair that does not fit", "gptoss-mxfp4", func(f *folder) {
			x := f.tensors["model.layers.0.mlp.experts.down_proj_scales"]
			x.shape, x.data = []int{1}, x.data[:1]
		}, []string{"down_proj_scales", "u8"}},
		{"expert missing", "llama-moe", func(f *folder) { delete(f.tensors, "model.layers.0.block_sparse_moe.experts.1.w1.weight") }, []string{"expert 1 is missing"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := folderOf(t, c.model)
			c.change(f)
			f.refused(t, c.parts...)
		})
	}
}

// TestHFTypes is ST-06: plain types may be mixed, and f8 with factors is
// decoded.
func TestHFTypes(t *testing.T) {
	f := folderOf(t, "llama-gqa")
	name := "model.layers.0.mlp.up_proj.weight"
	x := f.tensors[name]
	n, k := x.shape[0], x.shape[1]
	half := make([]byte, 2*n*k) // bf16, cut
	for i := range n * k {
		copy(half[2*i:], x.data[4*i+2:4*i+4])
	}
	f.tensors[name] = &raw{"BF16", x.shape, half}
	m := f.mustOpen(t)
	if got, _ := m.Tensor("blk.0.ffn_up.weight"); got.DType != graph.BF16 || !bytes.Equal(got.Data, half) || got.Made() {
		t.Errorf("a bf16 matrix among f32 ones is %s, made %v", got.DType, got.Made())
	}

	const tile = 16
	f8, scales := make([]byte, n*k), make([]byte, 0)
	for i := range f8 {
		f8[i] = byte(i*7) & 0xfe // no NaN
	}
	for i := range (n + tile - 1) / tile * ((k + tile - 1) / tile) {
		scales = binary.LittleEndian.AppendUint32(scales, math.Float32bits(float32(i+1)/4))
	}
	f.tensors[name] = &raw{"F8_E4M3", x.shape, f8}
	f.tensors[name+"_scale_inv"] = &raw{"F32", []int{(n + tile - 1) / tile, (k + tile - 1) / tile}, scales}
	f.config["quantization_config"] = map[string]any{"quant_method": "fp8", "weight_block_size": []int{tile, tile}}
	m = f.mustOpen(t)
	got, _ := m.Tensor("blk.0.ffn_up.weight")
	data, err := got.Load()
	if err != nil || got.DType != graph.BF16 || !got.Made() {
		t.Fatalf("an f8 matrix is %s, made %v (%v)", got.DType, got.Made(), err)
	}
	for i := range n * k {
		e, frac := int(f8[i]>>3&15), float64(f8[i]&7)
		want := (8 + frac) * math.Pow(2, float64(e-10))
		if e == 0 {
			want = frac * math.Pow(2, -9)
		}
		if f8[i] >= 128 {
			want = -want
		}
		want *= float64(f32At(scales, i/k/tile*((k+tile-1)/tile)+i%k/tile))
		have := float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(data[2*i:])) << 16))
		if math.Abs(have-want) > math.Abs(want)/256 {
			t.Fatalf("number %d is %v, want %v", i, have, want)
		}
	}
	delete(f.tensors, name+"_scale_inv")
	f.refused(t, name, "f8_e4m3", "without factors")
	f.tensors[name+"_scale_inv"] = &raw{"F32", []int{3, 1}, make([]byte, 12)}
	f.refused(t, name, "_scale_inv", "[3 1]")
}

// TestDetect: every model_type, and nothing allocated.
func TestDetect(t *testing.T) {
	for typ, want := range map[string]string{"llama": "llama", "mistral": "llama", "mixtral": "llama", "qwen2": "qwen2", "qwen3": "qwen3",
		"gemma2": "gemma2", "gemma3": "gemma3", "gemma3_text": "gemma3", "gemma4": "gemma4", "gemma4_text": "gemma4", "gpt_oss": "gpt-oss"} {
		c, err := loaders.ParseHFConfig("config.json", []byte(`{"model_type": "`+typ+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		got, err := loaders.Detect(c)
		if err != nil || got != want {
			t.Errorf("%s is %q (%v), want %q", typ, got, err, want)
		}
		if n := testing.AllocsPerRun(100, func() { loaders.Detect(c) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", typ, n)
		}
	}
	for typ, closest := range map[string]string{"lama": "llama", "gemma5": "gemma", "gpt-oss": "gpt_oss", "qwen3_5": "qwen3"} {
		c, _ := loaders.ParseHFConfig("x/config.json", []byte(`{"model_type": "`+typ+`"}`))
		_, err := loaders.Detect(c)
		if err == nil || !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "closest: "+closest) || !strings.Contains(err.Error(), "x/config.json") {
			t.Errorf("%s: %v, want the closest, %s", typ, err, closest)
		}
	}
	for _, text := range []string{"", "[]", "{", `{"a": {"a": 1}, "a": 2}`, `{"a": nul}`, `{"model_type": "llama"} x`, `{"a": 1 "b": 2}`, "version https://git-lfs.github.com/spec/v1",
		strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)} {
		if _, err := loaders.ParseHFConfig("config.json", []byte(text)); !errors.Is(err, loaders.ErrFormat) {
			t.Errorf("%.40q: %v, want an error of the format", text, err)
		}
	}
}

// realConfig has the size of the largest published configs: text, images and
// sound.
func realConfig() []byte {
	part := map[string]any{}
	for i := range 40 {
		part[fmt.Sprintf("some_field_of_the_decoder_%d", i)] = i * 1000
	}
	kinds := make([]string, 60)
	for i := range kinds {
		kinds[i] = "sliding_attention"
	}
	part["layer_types"] = kinds
	part["rope_parameters"] = map[string]any{"full_attention": map[string]any{"rope_theta": 1e6}, "sliding_attention": map[string]any{"rope_theta": 1e4}}
	data, _ := json.MarshalIndent(map[string]any{"model_type": "gemma4", "text_config": part, "vision_config": part, "audio_config": part}, "", "  ")
	return data
}

func BenchmarkDetect(b *testing.B) {
	data := realConfig()
	file := filepath.Join(b.TempDir(), "config.json")
	if err := os.WriteFile(file, data, 0o666); err != nil {
		b.Fatal(err)
	}
	b.Run("parsed", func(b *testing.B) {
		c, err := loaders.ParseHFConfig(file, data)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := loaders.Detect(c); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("file", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if _, err := loaders.DetectFile(file); err != nil {
				b.Fatal(err)
			}
		}
	})
}
