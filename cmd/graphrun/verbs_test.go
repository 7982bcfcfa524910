package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"graphrun/internal/shared"
)

// TestPublishedVectors: the command line gives the published ids and texts.
func TestPublishedVectors(t *testing.T) {
	type vector struct {
		Text        string  `json:"text"`
		IDs         []int32 `json:"ids"`
		WithSpecial []int32 `json:"ids_with_special"`
		Decoded     string  `json:"decoded"`

		Plain       []int32 `json:"plain"`
		PlainAdd    []int32 `json:"plain_add_special"`
		Special     []int32 `json:"parse_special"`
		SpecialAdd  []int32 `json:"parse_special_add_special"`
		Detokenized string  `json:"detokenized"`
	}
	dir := shared.Path(t, "tokenizers")
	for _, name := range []string{"gemma3", "llama3", "qwen3", "llama-spm", "gpt-2"} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "llama-spm" {
				t.Skip("reads a large vocabulary")
			}
			var vectors []vector
			readJSON(t, filepath.Join(dir, name+".vectors.json"), &vectors)
			texts := make([]string, len(vectors))
			for i, v := range vectors {
				texts[i] = v.Text
			}
			in, _ := json.Marshal(texts)
			model := filepath.Join(dir, name+".tokenizer.json.gz")
			runs := map[string]func(vector) []int32{
				"--parse-special":               func(v vector) []int32 { return v.IDs },
				"--add-special --parse-special": func(v vector) []int32 { return v.WithSpecial },
			}
			if name == "llama-spm" || name == "gpt-2" {
				model = filepath.Join(dir, name+".vocab.gguf")
				runs = map[string]func(vector) []int32{
					"": func(v vector) []int32 { return v.Plain }, "--add-special": func(v vector) []int32 { return v.PlainAdd },
					"--parse-special":               func(v vector) []int32 { return v.Special },
					"--parse-special --add-special": func(v vector) []int32 { return v.SpecialAdd },
				}
			}
			for flags, want := range runs {
				r := cli(t, string(in), append([]string{"tokenize", model, "--json"}, strings.Fields(flags)...)...)
				var got [][]int32
				if err := json.Unmarshal([]byte(r.out), &got); err != nil || len(got) != len(vectors) {
					t.Fatalf("%s: exit %d, %d lists, %v: %s", flags, r.code, len(got), err, r.err)
				}
				for i, v := range vectors {
					if len(got[i])+len(want(v)) > 0 && !reflect.DeepEqual(got[i], want(v)) {
						t.Errorf("%s %q: %v, want %v", flags, v.Text, got[i], want(v))
					}
				}
				if flags != "--parse-special" || name == "gpt-2" { // llama.cpp cleans up gpt-2's spaces
					continue
				}
				r = cli(t, r.out, "detokenize", model, "--json")
				var back []string
				if err := json.Unmarshal([]byte(r.out), &back); err != nil || len(back) != len(vectors) {
					t.Fatalf("detokenize: exit %d, %v: %s", r.code, err, r.err)
				}
				for i, v := range vectors {
					if want := v.Decoded + v.Detokenized; back[i] != want {
						t.Errorf("text of %v: %q, want %q", got[i], back[i], want)
					}
				}
			}
		})
	}
}

func TestTokenize(t *testing.T) {
	model := newChain().write(t)
	if out := must(t, "tokenize", model, "go g</s>", "--add-special"); out != "      1  \"<s>\"\n    263  \" go\"\n    262  \" g\"\n     63  \"<\"\n     50  \"/\"\n    118  \"s\"\n     65  \">\"\n" {
		t.Errorf("%s", out)
	}
	if out := must(t, "tokenize", model, "</s>", "--parse-special", "-o", "json"); out != `[{"id":2,"piece":"</s>"}]`+"\n" {
		t.Errorf("%s", out)
	}
	if r := cli(t, "a\xe6\xad", "tokenize", model); r.code != 0 || !strings.Contains(r.out, `"\xe6"`) || !strings.Contains(r.out, `"\xad"`) {
		t.Errorf("exit %d, %q", r.code, r.out)
	}
	if r := cli(t, `["", "go"]`, "tokenize", model, "--json"); r.out != "[[],[263]]\n" {
		t.Errorf("%q", r.out)
	}
	if out := must(t, "detokenize", model, "1", "263", "237,188,179"); out != "<s> go\xea\xb9\xb0" {
		t.Errorf("%q", out)
	}
	if out := must(t, "detokenize", model, "1", "263", "--skip-special"); out != "go" {
		t.Errorf("%q", out)
	}
	// Bytes that make no character are U+FFFD in JSON.
	if r := cli(t, "[[237,188,179],[179],[]]", "detokenize", model, "--json"); r.out != "[\"\uae70\",\"\ufffd\",\"\"]\n" {
		t.Errorf("%q", r.out)
	}
	for _, in := range []string{`{"a":1}`, `["a"`, `[1]`, ``, `[] []`} {
		if r := cli(t, in, "tokenize", model, "--json"); r.code != exitFailed || strings.Count(r.err, "\n") != 1 {
			t.Errorf("%s: exit %d, %q", in, r.code, r.err)
		}
	}
	refused(t, exitUsage, []string{"tokenize"}, "argument")
	refused(t, exitUsage, []string{"tokenize", model, "x", "--json"}, "--json")
	refused(t, exitFailed, []string{"tokenize", filepath.Join(t.TempDir(), "no.gguf"), "x"}, "no such")
	refused(t, exitFailed, []string{"detokenize", model, "99999"}, "99999")
	refused(t, exitUsage, []string{"detokenize", model, "x"}, "x")
	refused(t, exitUsage, []string{"detokenize", model}, "--json")
	empty := filepath.Join(t.TempDir(), "tokenizer.json")
	if err := os.WriteFile(empty, []byte("{}"), 0o666); err != nil {
		t.Fatal(err)
	}
	refused(t, exitFailed, []string{"tokenize", empty, "x"}, "tokenizer.json")
}

func TestPerplexityVerb(t *testing.T) {
	path, _ := sample(t, sampleNames(t)[0])
	text := filepath.Join(t.TempDir(), "text.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("Once upon a time there was a cat. ", 40)), 0o666); err != nil {
		t.Fatal(err)
	}
	var p struct {
		Perplexity, Error, KL, Top1 float64
		Tokens, Windows             int
		Base                        *struct{ Perplexity float64 }
	}
	args := []string{"perplexity", path, text, "--window", "32", "-t", "1", "-c", "64", "-o", "json"}
	if err := json.Unmarshal([]byte(must(t, args...)), &p); err != nil {
		t.Fatal(err)
	}
	if !(p.Perplexity > 1) || p.Windows == 0 || p.Tokens < 15*p.Windows || p.Base != nil {
		t.Errorf("%+v", p)
	}
	value := p.Perplexity
	if err := json.Unmarshal([]byte(must(t, append(args, "--base", path)...)), &p); err != nil {
		t.Fatal(err)
	}
	if p.Base == nil || p.Perplexity != value || p.Base.Perplexity != value || p.Top1 != 1 || math.Abs(p.KL) > 1e-6 {
		t.Errorf("a model against itself: %+v", p)
	}
	if out := must(t, args[:len(args)-2]...); !strings.HasPrefix(out, "perplexity ") || !strings.Contains(out, "+-") {
		t.Errorf("%q", out)
	}
	refused(t, exitUsage, []string{"perplexity", path}, "2 arguments")
	refused(t, exitFailed, []string{"perplexity", path, filepath.Join(t.TempDir(), "none.txt")}, "none.txt")
	refused(t, exitUsage, []string{"perplexity", path, text, "--window", "-3"}, "--window")
}

func TestEmbedVerb(t *testing.T) {
	path, _ := sample(t, sampleNames(t)[0])
	var e struct {
		Embedding []float64
		Tokens    int
		Pool      string
	}
	if err := json.Unmarshal([]byte(must(t, "embed", path, "a cat", "-o", "json", "-t", "1", "-c", "64", "--pool", "last")), &e); err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, x := range e.Embedding {
		sum += x * x
	}
	if math.Abs(sum-1) > 1e-4 || e.Pool != "last" || e.Tokens == 0 {
		t.Errorf("length² %g of %d numbers, %s, %d tokens", sum, len(e.Embedding), e.Pool, e.Tokens)
	}
	if out := must(t, "embed", path, "a cat", "-t", "1", "-c", "64"); strings.Count(out, "\n") != len(e.Embedding) {
		t.Errorf("%d lines, want %d", strings.Count(out, "\n"), len(e.Embedding))
	}
	refused(t, exitUsage, []string{"embed", path, "x", "--pool", "max"}, "--pool")
}
