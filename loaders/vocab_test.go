package loaders

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"graphrun/internal/shared"
)

func TestVocabFromGGUFErrors(t *testing.T) {
	base := func() *Metadata {
		meta := spmMeta("a", spaceMark)
		meta.Set("tokenizer.ggml.bos_token_id", uint32(1))
		return meta
	}
	for _, c := range []struct {
		name string
		edit func(*Metadata)
		want string // all parts, separated by |
	}{
		{"no model", func(m *Metadata) { m.Delete("tokenizer.ggml.model") }, "tokenizer.ggml.model|missing"},
		{"family", func(m *Metadata) { m.Set("tokenizer.ggml.model", "bert") }, `"bert"|gemma4, gpt2, llama`},
		{"no tokens", func(m *Metadata) { m.Set("tokenizer.ggml.tokens", []string{}) }, "tokenizer.ggml.tokens|no tokens"},
		{"scores", func(m *Metadata) { m.Set("tokenizer.ggml.scores", []float32{1}) }, "tokenizer.ggml.scores|found 1|261 tokens"},
		{"types", func(m *Metadata) { m.Set("tokenizer.ggml.token_type", []int32{1}) }, "tokenizer.ggml.token_type|found 1|261 tokens"},
		{"type", func(m *Metadata) { m.Set("tokenizer.ggml.token_type", slices.Repeat([]int32{9}, 261)) }, "type 9|0 to 6"},
		{"bos", func(m *Metadata) { m.Set("tokenizer.ggml.bos_token_id", uint32(4000000)) }, "bos_token_id|4000000|0 to 260"},
		{"eos", func(m *Metadata) { m.Set("tokenizer.ggml.eos_token_id", int32(-1)) }, "eos_token_id|-1"},
		{"kind", func(m *Metadata) { m.Set("tokenizer.ggml.tokens", "a") }, "tokenizer.ggml.tokens"},
		{"no scores", func(m *Metadata) { m.Delete("tokenizer.ggml.scores") }, "tokenizer.ggml.scores|missing"},
	} {
		meta := base()
		c.edit(meta)
		_, err := VocabFromGGUF(meta, "m.gguf")
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		for _, part := range strings.Split(c.want, "|") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error %q lacks %q", c.name, err, part)
			}
		}
		if strings.Contains(err.Error(), "\n") || !errors.Is(err, ErrFormat) {
			t.Errorf("%s: error %q is not a one-line format error", c.name, err)
		}
	}
}

func TestPreTokenizerKey(t *testing.T) {
	v, err := VocabFromGGUF(byteMeta("", []string{"a b"}), "m.gguf")
	if err != nil {
		t.Fatal(err)
	}
	if v.Pre != "gpt-2" || len(v.Warnings) == 0 || !strings.Contains(v.Warnings[0], "tokenizer.ggml.pre") {
		t.Errorf("absent key: pre %q, warnings %q", v.Pre, v.Warnings)
	}
	_, err = VocabFromGGUF(byteMeta("no-such", nil), "m.gguf")
	var unsupported *UnsupportedError
	if !errors.As(err, &unsupported) || !slices.Contains(unsupported.Known, "llama-bpe") || !strings.Contains(err.Error(), "no-such") {
		t.Errorf("unknown key: error %v", err)
	}
	for _, pre := range []string{"llama-bpe", "llama3", "llama-v3"} {
		v, err := VocabFromGGUF(byteMeta(pre, nil), "m.gguf")
		if err != nil || !v.AddBOS || !v.IgnoreMerges {
			t.Errorf("%s: %+v, %v", pre, v, err)
		}
	}
	if _, err := VocabFromGGUF(byteMeta("qwen2", nil, token{"ab", 0, TokenNormal}), "m.gguf"); err == nil {
		t.Error("words without merges: no error")
	}
}

// Byte tokens with wrong spellings are ordinary text; no index leaves 0 to 255.
func TestByteSpelling(t *testing.T) {
	var tokens []token
	for _, text := range []string{"<0x-1>", "<0xZZ>", "<0x100>", "<0x4>", "<0x41>", "<0x41>", "<0xab>", "", "<0x"} {
		tokens = append(tokens, token{text, 0, TokenByte})
	}
	tokens = append(tokens, token{"<0x42>", 0, TokenNormal}, token{"<0x41>", 0, TokenNormal})
	meta := vocabMeta("llama", "", tokens, nil)
	meta.Set("tokenizer.ggml.add_space_prefix", false)
	tok := newTokenizer(t, meta)
	for text, want := range map[string][]int32{"A": {4}, "\xab": {6}, "B": {9}, "C": nil} {
		if got := tok.Encode(text, EncodeOptions{}); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	for id, want := range []string{"<0x-1>", "<0xZZ>", "<0x100>", "<0x4>", "A", "A", "\xab", "", "<0x", "B"} {
		if got := string(tok.Piece(int32(id))); got != want {
			t.Errorf("piece %d: got %q, want %q", id, got, want)
		}
	}
	if len(tok.Warnings()) < 2 { // spellings, duplicates
		t.Errorf("warnings: %q", tok.Warnings())
	}
}

func TestDuplicateTokens(t *testing.T) {
	meta := vocabMeta("llama", "", slices.Repeat([]token{{"a", 0, TokenNormal}}, 12), nil)
	meta.Set("tokenizer.ggml.add_space_prefix", false)
	tok := newTokenizer(t, meta)
	if got := tok.Encode("aa", EncodeOptions{}); !slices.Equal(got, []int32{0, 0}) {
		t.Errorf("got %v, want the lowest id", got)
	}
	if got := tok.Decode([]int32{11, -1, 12, 1 << 30}, DecodeOptions{}); got != "a" {
		t.Errorf("decoded %q", got)
	}
}

func TestEndOfGeneration(t *testing.T) {
	names := []string{"<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|im_end|>", "<|endoftext|>", "<end_of_turn>",
		"<turn|>", "<|tool_response>", "<|end|>", "<|other|>"}
	var special []token
	for _, n := range names {
		special = append(special, token{n, 0, TokenControl})
	}
	special = append(special, token{"stop", 0, TokenNormal}, token{"</s>", 0, TokenUserDefined})
	meta := byteMeta("gpt-2", nil, special...)
	meta.Delete("tokenizer.ggml.token_type")
	meta = byteMeta("gpt-2", []string{"s t"}, special...)
	meta.Set("tokenizer.ggml.eos_token_id", uint32(257+10))
	meta.Set("tokenizer.ggml.suppress_tokens", []int32{5, 100000, -3, 7})
	tok := newTokenizer(t, meta)
	for i, n := range names[:9] {
		if !tok.IsEOG(int32(257 + i)) {
			t.Errorf("%s does not end a generation", n)
		}
	}
	if tok.IsEOG(257+9) || !tok.IsEOG(257+10) || tok.IsEOG(257+11) || tok.IsEOG(-1) {
		t.Errorf("ends of generation are %v", tok.Vocab().EOG)
	}
	if tok.EOT() != 257 || tok.EOS() != 267 || tok.Vocab().EOM != 258 {
		t.Errorf("eot %d, eos %d, eom %d", tok.EOT(), tok.EOS(), tok.Vocab().EOM)
	}
	if got := tok.Vocab().Suppress; !slices.Equal(got, []int32{5, 7}) {
		t.Errorf("suppressed %v", got)
	}

	// gpt-oss closes messages with <|end|> and turns with <|return|>.
	special[9].text = "<|return|>"
	tok = newTokenizer(t, byteMeta("gpt-4o", nil, special[8], special[9]))
	if tok.IsEOG(256) || !tok.IsEOG(257) {
		t.Errorf("with <|return|>: ends are %v", tok.Vocab().EOG)
	}
}

func TestVocabWithoutTypes(t *testing.T) {
	meta := spmMeta("a", spaceMark)
	meta.Delete("tokenizer.ggml.token_type")
	meta.Set("tokenizer.ggml.bos_token_id", uint32(1))
	meta.Set("tokenizer.ggml.eos_token_id", uint32(2))
	meta.Set("tokenizer.ggml.unknown_token_id", uint32(0))
	tok := newTokenizer(t, meta)
	if !tok.IsControl(1) || !tok.IsControl(0) || tok.Type(3) != TokenByte || tok.Type(259) != TokenNormal {
		t.Errorf("types %v %v %v %v", tok.Type(0), tok.Type(1), tok.Type(3), tok.Type(259))
	}
	wantTexts(t, tok, "a", EncodeOptions{AddSpecial: true}, "<s>", spaceMark, "a")
}

func TestMalformedMerges(t *testing.T) {
	meta := byteMeta("gpt-2", []string{"a b"})
	meta.Set("tokenizer.ggml.merges", []string{"", " ", "  ", "ab", "a ", " b", "a b", "a b", "x y z", "é é"})
	tok := newTokenizer(t, meta)
	wantTexts(t, tok, "abxy z", EncodeOptions{}, "ab", "x", "y", "Ġ", "z")
	if len(tok.Warnings()) == 0 {
		t.Error("no warning")
	}
}

// The vocabularies of malformed files must give an error or a tokenizer that
// works.
func TestBadVocabularies(t *testing.T) {
	for file, mustFail := range map[string]bool{
		"tokenizer-no-tokens.gguf": true, "scores-length-mismatch.gguf": true,
		"bos-out-of-range.gguf": false, "duplicate-tokens.gguf": false, "vocab-size-mismatch.gguf": false, "valid-control.gguf": false,
	} {
		path := shared.Path(t, "golden", "bad", file)
		tok, err := OpenTokenizer(path)
		if err == nil && mustFail {
			t.Errorf("%s: no error", file)
		}
		if err != nil {
			if file == "valid-control.gguf" {
				t.Error(err)
			}
			continue
		}
		ids := tok.Encode("hello <0x41>\xff", EncodeOptions{AddSpecial: true, ParseSpecial: true})
		tok.Decode(ids, DecodeOptions{Special: true})
	}
}
