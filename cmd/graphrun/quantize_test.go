package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"graphrun/graph"
	"graphrun/internal/shared"
	"graphrun/loaders"
)

// TestQuantize runs the whole way: importance matrix, quantized model, a story
// from it that is still the model's.
func TestQuantize(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join("..", "..", "testdata", "stories.gguf")
	text := filepath.Join("..", "..", "testdata", "stories.txt")
	im, out := filepath.Join(dir, "stories.imatrix"), filepath.Join(dir, "small.gguf")
	r := cli(t, "", "imatrix", in, text, "-o", im, "--window", "128", "-t", "2")
	if r.code != 0 || !strings.Contains(r.err, "28 matrices") {
		t.Fatalf("imatrix: exit %d: %s", r.code, r.err)
	}
	r = cli(t, "", "quantize", in, out, "q4_k_m", "--requantize", "--imatrix", im, "--tensor", "blk.0.=keep", "-o", "json")
	if r.code != 0 {
		t.Fatalf("quantize: exit %d: %s", r.code, r.err)
	}
	var report struct {
		Tensors []struct {
			Name, Type, Wanted string
			Bytes              int
		}
		Bytes     int
		Fallbacks map[string]int
		Bits      float64 `json:"bits_per_weight"`
	}
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatal(err)
	}
	if report.Fallbacks["q4_k as q5_0"] == 0 || report.Fallbacks["q6_k as q8_0"] == 0 {
		t.Errorf("fallbacks %v", report.Fallbacks)
	}
	for _, part := range []string{"rows that do not divide: q4_k as q5_0", "% of the weights", "bits per weight", "says nothing of"} {
		if !strings.Contains(r.err, part) != (part == "says nothing of") {
			t.Errorf("standard error does, or does not, say %q: %s", part, r.err)
		}
	}
	m, err := loaders.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for name, want := range map[string]graph.DType{"blk.0.attn_q.weight": graph.Q8_0, "blk.1.attn_q.weight": graph.Q5_0, "blk.3.ffn_down.weight": graph.Q8_0} {
		if w, ok := m.Tensor(name); !ok || w.DType != want {
			t.Errorf("%s is %v, want %s", name, w, want)
		}
	}
	if v, _, _ := m.Meta.String("quantize.imatrix.dataset"); v != "stories.txt" {
		t.Errorf("dataset %q", v)
	}
	if story := must(t, "run", out, "Once upon a time", "-n", "20", "--temp", "0"); !strings.Contains(story, "there was a") {
		t.Errorf("the story is %q", story)
	}
}

// TestQuantizeDryRun prints every tensor and writes nothing.
func TestQuantizeDryRun(t *testing.T) {
	model, _ := sample(t, "llama-gqa")
	out := filepath.Join(t.TempDir(), "out.gguf")
	for _, args := range [][]string{{"quantize", model, out, "Q4_0", "--dry-run"}, {"quantize", model, "Q4_0", "--dry-run"}} {
		text := must(t, args...)
		for _, part := range []string{"blk.0.attn_q.weight", "q4_0", "4.50", "instead of q6_k", "bits per weight\n"} {
			if !strings.Contains(text, part) {
				t.Errorf("the table has no %q:\n%s", part, text)
			}
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a file was written")
	}
}

// TestQuantizeRefused: each mistake is one line that says what to do.
func TestQuantizeRefused(t *testing.T) {
	model, _ := sample(t, "llama-gqa")
	quantized, _ := sample(t, "llama-q8_0")
	dir := t.TempDir()
	out := filepath.Join(dir, "out.gguf")
	own := filepath.Join(dir, "own.gguf")
	data, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own, data, 0o600); err != nil {
		t.Fatal(err)
	}
	noMatrix := filepath.Join(dir, "bad.imatrix")
	if err := os.WriteFile(noMatrix, []byte{1, 2, 3}, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code  int
		args  []string
		parts []string
	}{
		{exitUsage, []string{"quantize", model, out}, []string{"3 arguments"}},
		{exitUsage, []string{"quantize", model, out, "q4_k_n"}, []string{"q4_k_n", "Q4_K_M", "closest"}},
		{exitUsage, []string{"quantize", model, out, "iq3_s"}, []string{"IQ3_S", "Q3_K_M"}},
		{exitUsage, []string{"quantize", model, out, "q4_0", "--tensor", "("}, []string{"--tensor", "PATTERN=TYPE"}},
		{exitUsage, []string{"quantize", model, out, "q4_0", "--tensor", "(=q8_0"}, []string{"--tensor", "missing closing"}},
		{exitUsage, []string{"quantize", model, out, "q4_0", "--tensor", "attn_q=q9"}, []string{"q9", "Q8_0"}},
		{exitUsage, []string{"quantize", model, out, "q4_0", "--tensor", "nosuch=q8_0"}, []string{"nosuch", "no tensor"}},
		{exitUsage, []string{"quantize", model, out, "q4_0", "-t", "-1"}, []string{"--threads"}},
		{exitUsage, []string{"quantize", model, out, "q4_0", "-o", "xml"}, []string{"xml"}},
		{exitFailed, []string{"quantize", filepath.Join(dir, "nosuch.gguf"), out, "q4_0"}, []string{"nosuch.gguf", "no such file"}},
		{exitFailed, []string{"quantize", quantized, out, "q4_0"}, []string{"quantized already", "--requantize"}},
		{exitFailed, []string{"quantize", model, out, "q4_k", "--no-fallback"}, []string{"token_embd.weight", "do not divide", "--no-fallback"}},
		{exitFailed, []string{"quantize", model, out, "q8_0", "--imatrix", noMatrix}, []string{"bad.imatrix", "imatrix"}},
		{exitFailed, []string{"quantize", model, out, "q8_0", "--imatrix", model}, []string{"may be a model"}},
		{exitFailed, []string{"quantize", own, own, "f16"}, []string{"own.gguf", "another name"}},
		{exitFailed, []string{"quantize", model, dir, "f16"}, []string{"not a regular file"}},
		{exitFailed, []string{"quantize", model, filepath.Join(dir, "no", "out.gguf"), "f16"}, []string{"no such file"}},
		{exitUsage, []string{"imatrix", model, own}, []string{"-o FILE"}},
		{exitFailed, []string{"imatrix", model, filepath.Join(dir, "nosuch.txt"), "-o", out}, []string{"nosuch.txt"}},
		{exitFailed, []string{"imatrix", own, noMatrix, "-o", out}, []string{"one window needs"}},
		{exitUsage, []string{"split", model, out}, []string{"--size"}},
		{exitUsage, []string{"split", model, out, "--size", "big"}, []string{"big", "2G"}},
		{exitFailed, []string{"split", model, out, "--size", "2G"}, []string{"fit one part"}},
		{exitFailed, []string{"merge", own, own}, []string{"another name"}},
	} {
		refused(t, c.code, c.args, c.parts...)
	}
	if after, err := os.ReadFile(own); err != nil || !bytes.Equal(after, data) {
		t.Errorf("the model was changed (%v)", err)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a refused command wrote a file")
	}
}

// TestSplitMerge: split and merged again, the logits' file is the same.
func TestSplitMerge(t *testing.T) {
	model, _ := sample(t, "llama-gqa")
	dir := t.TempDir()
	r := cli(t, "", "split", model, filepath.Join(dir, "p"), "--size", "20K")
	if r.code != 0 || !strings.Contains(r.err, "p-00001-of-000") {
		t.Fatalf("exit %d: %s", r.code, r.err)
	}
	out := filepath.Join(t.TempDir(), "whole.gguf")
	must(t, "merge", dir, out)
	a, err := loaders.Open(model)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := loaders.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if len(a.Tensors) != len(b.Tensors) || a.Meta.Len() != b.Meta.Len() {
		t.Errorf("%d tensors and %d keys, want %d and %d", len(b.Tensors), b.Meta.Len(), len(a.Tensors), a.Meta.Len())
	}
	for _, x := range a.Tensors {
		if y, ok := b.Tensor(x.Name); !ok || !bytes.Equal(x.Data, y.Data) {
			t.Errorf("%s differs", x.Name)
		}
	}
}

// TestQuantizeFolder: a Hugging Face folder gives the file that converting it
// first gives.
func TestQuantizeFolder(t *testing.T) {
	folders := shared.Path(t, "golden", "hf")
	dir := t.TempDir()
	direct, gguf, second := filepath.Join(dir, "a.gguf"), filepath.Join(dir, "b.gguf"), filepath.Join(dir, "c.gguf")
	for _, name := range []string{"llama3-tied", "gemma4-26b-a4b-like"} {
		in := filepath.Join(folders, name)
		must(t, "quantize", in, direct, "Q4_K_M")
		must(t, "convert", in, gguf)
		must(t, "quantize", gguf, second, "Q4_K_M")
		a, err := os.ReadFile(direct)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(second)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s: %d bytes straight from the folder, %d by way of a file, not the same", name, len(a), len(b))
		}
	}
}
