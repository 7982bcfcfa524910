package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"graphrun/graph"
	"graphrun/internal/shared"
	"graphrun/loaders"
)

// sameTensors compares the tensors of two models bit for bit.
func sameTensors(t *testing.T, a, b string) {
	t.Helper()
	x, err := loaders.Open(a)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	y, err := loaders.Open(b)
	if err != nil {
		t.Fatal(err)
	}
	defer y.Close()
	if len(x.Tensors) != len(y.Tensors) {
		t.Errorf("%d tensors, want %d", len(y.Tensors), len(x.Tensors))
	}
	for _, want := range x.Tensors {
		got, ok := y.Tensor(want.Name)
		switch {
		case !ok:
			t.Errorf("tensor %s is lost", want.Name)
		case got.DType != want.DType || !slices.Equal(got.Shape, want.Shape):
			t.Errorf("tensor %s is %s %v, want %s %v", want.Name, got.DType, got.Shape, want.DType, want.Shape)
		case !bytes.Equal(got.Data, want.Data):
			t.Errorf("tensor %s has other bits", want.Name)
		}
	}
}

// TestConvertFolders: twice the same bytes, and back to a folder and again the
// same tensors. That the file computes what the folder does is shown in engine.
func TestConvertFolders(t *testing.T) {
	for _, name := range []string{"llama3-tied", "gemma3-4b-like", "gemma4-e2b-like", "gemma4-31b-like", "gemma4-26b-a4b-like"} {
		t.Run(name, func(t *testing.T) {
			dir, tmp := shared.Path(t, "golden", "hf", name), t.TempDir()
			one, two, back, again := filepath.Join(tmp, "1.gguf"), filepath.Join(tmp, "2.gguf"), filepath.Join(tmp, "back"), filepath.Join(tmp, "3.gguf")
			for _, args := range [][]string{{dir, one}, {dir, two}, {one, back}, {back, again}} {
				must(t, append([]string{"convert"}, args...)...)
			}
			a, _ := os.ReadFile(one)
			b, _ := os.ReadFile(two)
			if len(a) == 0 || !bytes.Equal(a, b) {
				t.Error("converting twice gives other bytes")
			}
			sameTensors(t, one, again)
			sameFolder(t, dir, back)
		})
	}
}

// sameFolder compares the tensors of two folders, whatever their prefixes.
func sameFolder(t *testing.T, a, b string) {
	t.Helper()
	tensors := func(dir string) map[string]*loaders.Tensor {
		m, err := loaders.OpenSafetensors(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		all := map[string]*loaders.Tensor{}
		for _, x := range m.Tensors {
			name := x.Name
			for _, p := range []string{"model.language_model.", "language_model.model.", "model."} {
				if rest, ok := strings.CutPrefix(name, p); ok {
					name = rest
					break
				}
			}
			all[name] = x
		}
		return all
	}
	want, got := tensors(a), tensors(b)
	if len(want) != len(got) {
		t.Errorf("%d tensors in the folder, want %d", len(got), len(want))
	}
	for name, x := range want {
		if y := got[name]; y == nil || y.DType != x.DType || !slices.Equal(y.Shape, x.Shape) || !bytes.Equal(y.Data, x.Data) {
			t.Errorf("tensor %s of the folder does not come back", name)
		}
	}
}

// TestConvertBack: every tensor of a GGUF file comes back bit for bit, and text
// is still the same tokens.
func TestConvertBack(t *testing.T) {
	for _, name := range []string{"llama-gqa", "llama3-tied", "gemma3-1b-like", "gemma3-4b-like", "gemma4-e2b-like", "gemma4-31b-like",
		"gemma4-26b-a4b-like", "stories260K-f32", "stories260K-f16", "llama-quant-bf16", "llama-quant-f16"} {
		t.Run(name, func(t *testing.T) {
			file, tmp := shared.Path(t, "golden", "models", name, "model.gguf"), t.TempDir()
			dir, again := filepath.Join(tmp, "dir"), filepath.Join(tmp, "again.gguf")
			must(t, "convert", file, dir)
			must(t, "convert", dir, again)
			sameTensors(t, file, again)
			const text = "Once upon a time, Lily said: 3 apples!\n"
			want := must(t, "tokenize", file, text, "--add-special")
			for _, m := range []string{dir, again} {
				if got := must(t, "tokenize", m, text, "--add-special"); got != want {
					t.Errorf("%s makes tokens %q, want %q", m, got, want)
				}
			}
		})
	}
}

// TestConvertTokenizers: vocabularies of both forms survive both ways.
func TestConvertTokenizers(t *testing.T) {
	base := shared.Path(t, "golden", "models", "stories260K-f32", "model.gguf")
	for _, name := range []string{"spm-512", "gemma4-bpe", "llama3-bpe"} {
		t.Run(name, func(t *testing.T) {
			m, err := loaders.Open(base)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			path := shared.Path(t, "golden", "tokenizer", name+".gguf")
			v, err := loaders.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			tmp := t.TempDir()
			meta := m.Meta.Clone()
			for _, k := range meta.Keys() {
				if strings.HasPrefix(k, "tokenizer.") {
					defer meta.Delete(k)
				}
			}
			full := loaders.NewMetadata()
			for _, k := range m.Meta.Keys() {
				if x, _ := m.Meta.Value(k); !strings.HasPrefix(k, "tokenizer.") {
					full.Set(k, x)
				}
			}
			tokens, _, _ := v.Meta.Strings("tokenizer.ggml.tokens")
			for _, k := range v.Meta.Keys() {
				if x, _ := v.Meta.Value(k); strings.HasPrefix(k, "tokenizer.") {
					full.Set(k, x)
				}
			}
			// An embedding with a row for each token.
			tensors := slices.Clone(m.Tensors)
			for i, x := range tensors {
				if x.Name == "token_embd.weight" || x.Name == "output.weight" {
					data := bytes.Repeat(x.Data, len(tokens)*4*x.Shape[1]/len(x.Data)+1)
					tensors[i] = &loaders.Tensor{Name: x.Name, DType: graph.F32, Shape: []int{len(tokens), x.Shape[1]}, Data: data[:len(tokens)*4*x.Shape[1]]}
				}
			}
			file, dir, again := filepath.Join(tmp, "m.gguf"), filepath.Join(tmp, "dir"), filepath.Join(tmp, "again.gguf")
			if err := loaders.WriteFile(file, full, tensors); err != nil {
				t.Fatal(err)
			}
			must(t, "convert", file, dir)
			must(t, "convert", dir, again)
			raw, err := os.ReadFile(shared.Path(t, "golden", "tokenizer", name+".cases.json"))
			if err != nil {
				t.Fatal(err)
			}
			var cases []struct {
				Text string  `json:"text"`
				IDs  []int32 `json:"ids"`
			}
			if err := json.Unmarshal(raw, &cases); err != nil {
				t.Fatal(err)
			}
			for _, at := range []string{dir, again} {
				tok, err := loaders.OpenTokenizer(at)
				if err != nil {
					t.Fatal(err)
				}
				bad := 0
				for _, c := range cases {
					if got := tok.Encode(c.Text, loaders.EncodeOptions{AddSpecial: true}); !slices.Equal(got, c.IDs) {
						if bad++; bad == 1 {
							t.Errorf("%s: %q is %v, want %v", at, c.Text, got, c.IDs)
						}
					}
				}
				if bad > 0 {
					t.Errorf("%s: %d of %d texts differ", at, bad, len(cases))
				}
			}
		})
	}
}

// TestConvertArchitectures: a model of each architecture becomes a folder and a
// file again with every bit, and the folder computes the same.
func TestConvertArchitectures(t *testing.T) {
	for _, name := range sampleNames(t) {
		t.Run(name, func(t *testing.T) {
			file, tokens := sample(t, name)
			tmp := t.TempDir()
			dir, again := filepath.Join(tmp, "dir"), filepath.Join(tmp, "again.gguf")
			if name == "gemma4-e2b" { // its feed-forward widths follow no rule
				refused(t, exitFailed, []string{"convert", file, dir}, file, "no config.json can say", "mlp.gate_proj", filepath.Join(dir, "model.safetensors"))
				return
			}
			if r := cli(t, "", "convert", file, dir); strings.Contains(name, "-q") {
				refused(t, exitFailed, []string{"convert", file, dir}, file, "tensor", "--type bf16, f16 or f32")
				if names := left(t, tmp); len(names) > 0 {
					t.Errorf("left behind %v", names)
				}
				must(t, "convert", file, dir, "--type", "f32")
			} else if r.code != 0 {
				t.Fatalf("exit %d: %s", r.code, r.err)
			} else {
				must(t, "convert", dir, again)
				sameTensors(t, file, again)
			}
			// The additions are in another order; activations are not quantized.
			if d := worst(t, logitsOf(t, dir, tokens, "--backend", "ref"), logitsOf(t, file, tokens, "--backend", "ref")); !(d <= 1e-4) {
				t.Errorf("the logits of the folder differ by %g, want at most 1e-4", d)
			}
		})
	}
}

// TestConvertNames: a GGUF file does not become a folder with the name of a file,
// and the folder that is read stays as it is.
func TestConvertNames(t *testing.T) {
	tmp := t.TempDir()
	file, dir := filepath.Join("..", "..", "testdata", "models", "llama-gqa.gguf"), filepath.Join(tmp, "dir")
	there := filepath.Join(tmp, "there")
	if err := os.WriteFile(there, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	refused(t, exitFailed, []string{"convert", file, file}, file, "is a file, but a GGUF file becomes a folder")
	refused(t, exitFailed, []string{"convert", file, there}, there, "is a file, but a GGUF file becomes a folder")
	refused(t, exitFailed, []string{"convert", file, filepath.Join(tmp, "new.gguf")}, "is the name of a file")
	must(t, "convert", file, dir)
	for _, model := range []string{dir, filepath.Join(dir, "model.safetensors")} {
		refused(t, exitFailed, []string{"convert", model, filepath.Join(dir, "out.gguf")}, "lies in the folder that is read")
	}
	must(t, "inspect", dir)
	refused(t, exitFailed, []string{"split", dir, filepath.Join(tmp, "part"), "--size", "1M"}, dir, "graphrun convert makes one")
	nowhere := filepath.Join(tmp, "no", "out.gguf")
	refused(t, exitFailed, []string{"convert", dir, nowhere}, "create "+nowhere+": ")
}
