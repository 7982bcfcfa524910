package loaders

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"graphrun/internal/shared"
)

func openTokenizer(t testing.TB, path string) *Tokenizer {
	t.Helper()
	tok, err := OpenTokenizer(path)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func readCases[T any](t *testing.T, path string) []T {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var cases []T
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) == 0 {
		t.Fatalf("%s has no cases", path)
	}
	return cases
}

func sameIDs(t *testing.T, what, text string, got, want []int32) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	t.Errorf("%s of %q: first difference at %d\n got %d %v\nwant %d %v", what, text, i, len(got), got, len(want), want)
}

// TestGoldenCases compares with the ids and texts of llama.cpp.
func TestGoldenCases(t *testing.T) {
	type golden struct {
		Text         string  `json:"text"`
		IDs          []int32 `json:"ids"`
		NoSpecial    []int32 `json:"ids_no_special"`
		ParseSpecial []int32 `json:"ids_parse_special"`
		Detokenized  string  `json:"detokenized"`
	}
	dir := shared.Path(t, "golden", "tokenizer")
	for _, name := range []string{"gemma4-bpe", "llama3-bpe", "spm-512"} {
		t.Run(name, func(t *testing.T) {
			tok := openTokenizer(t, filepath.Join(dir, name+".gguf"))
			for _, c := range readCases[golden](t, filepath.Join(dir, name+".cases.json")) {
				ids := tok.Encode(c.Text, EncodeOptions{AddSpecial: true})
				sameIDs(t, "ids", c.Text, ids, c.IDs)
				sameIDs(t, "ids without special", c.Text, tok.Encode(c.Text, EncodeOptions{}), c.NoSpecial)
				sameIDs(t, "ids with special parsed", c.Text, tok.Encode(c.Text, EncodeOptions{AddSpecial: true, ParseSpecial: true}), c.ParseSpecial)
				// llama.cpp keeps the added space where it removed BOS.
				if got := tok.Decode(c.IDs, DecodeOptions{KeepPrefix: true}); got != c.Detokenized {
					t.Errorf("text of %v: got %q, want %q", c.IDs, got, c.Detokenized)
				}
				want := c.Text
				if tok.v.Model != "gpt2" {
					want = strings.ReplaceAll(want, spaceMark, " ")
				}
				if got := tok.Decode(c.IDs, DecodeOptions{}); got != want {
					t.Errorf("round trip of %q gives %q", want, got)
				}
			}
		})
	}
}

// TestVectorsJSON compares with the ids and texts of Hugging Face's tokenizers.
func TestVectorsJSON(t *testing.T) {
	type vector struct {
		Text        string  `json:"text"`
		IDs         []int32 `json:"ids"`
		WithSpecial []int32 `json:"ids_with_special"`
		Decoded     string  `json:"decoded"`
	}
	dir := shared.Path(t, "tokenizers")
	for _, name := range []string{"gemma3", "llama3", "qwen3"} {
		t.Run(name, func(t *testing.T) {
			tok := published(t, name+".tokenizer.json.gz")
			for _, c := range readCases[vector](t, filepath.Join(dir, name+".vectors.json")) {
				sameIDs(t, "ids", c.Text, tok.Encode(c.Text, EncodeOptions{ParseSpecial: true}), c.IDs)
				sameIDs(t, "ids with special", c.Text, tok.Encode(c.Text, EncodeOptions{AddSpecial: true, ParseSpecial: true}), c.WithSpecial)
				if got := tok.Decode(c.IDs, DecodeOptions{Special: true}); got != c.Decoded {
					t.Errorf("text of %v: got %q, want %q", c.IDs, got, c.Decoded)
				}
			}
		})
	}
}

// TestVectorsGGUF compares with the ids and texts of llama.cpp on vocabularies
// of published models.
func TestVectorsGGUF(t *testing.T) {
	type vector struct {
		Text       string  `json:"text"`
		Plain      []int32 `json:"plain"`
		PlainAdd   []int32 `json:"plain_add_special"`
		Special    []int32 `json:"parse_special"`
		SpecialAdd []int32 `json:"parse_special_add_special"`
		Decoded    string  `json:"detokenized"`
	}
	dir := shared.Path(t, "tokenizers")
	for _, name := range []string{"llama-spm", "gpt-2"} {
		t.Run(name, func(t *testing.T) {
			tok := published(t, name+".vocab.gguf")
			for _, c := range readCases[vector](t, filepath.Join(dir, name+".vectors.json")) {
				sameIDs(t, "plain", c.Text, tok.Encode(c.Text, EncodeOptions{}), c.Plain)
				sameIDs(t, "plain+add", c.Text, tok.Encode(c.Text, EncodeOptions{AddSpecial: true}), c.PlainAdd)
				sameIDs(t, "special", c.Text, tok.Encode(c.Text, EncodeOptions{ParseSpecial: true}), c.Special)
				sameIDs(t, "special+add", c.Text, tok.Encode(c.Text, EncodeOptions{AddSpecial: true, ParseSpecial: true}), c.SpecialAdd)
				// llama.cpp leaves out spaces before punctuation for gpt-2.
				opt := DecodeOptions{Special: true, CleanSpaces: name == "gpt-2"}
				if got := tok.Decode(c.Special, opt); got != c.Decoded {
					t.Errorf("text of %v: got %q, want %q", c.Special, got, c.Decoded)
				}
			}
		})
	}
}
