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

// sameVocab compares what encoding depends on.
func sameVocab(t *testing.T, what string, got, want *Vocab) {
	t.Helper()
	if !slices.Equal(got.Tokens, want.Tokens) || !slices.Equal(got.Types, want.Types) || !slices.Equal(got.Scores, want.Scores) || !slices.Equal(got.Merges, want.Merges) {
		t.Errorf("%s: tokens, types, scores or merges differ", what)
	}
	if got.Model != want.Model || got.BOS != want.BOS || got.EOS != want.EOS || got.UNK != want.UNK || got.AddBOS != want.AddBOS || got.AddEOS != want.AddEOS || got.AddSpacePrefix != want.AddSpacePrefix ||
		got.IgnoreMerges != want.IgnoreMerges || !slices.Equal(got.EOG, want.EOG) {
		t.Errorf("%s: %s %d %d %d %v %v %v %v %v, want %s %d %d %d %v %v %v %v %v", what,
			got.Model, got.BOS, got.EOS, got.UNK, got.AddBOS, got.AddEOS, got.AddSpacePrefix, got.IgnoreMerges, got.EOG,
			want.Model, want.BOS, want.EOS, want.UNK, want.AddBOS, want.AddEOS, want.AddSpacePrefix, want.IgnoreMerges, want.EOG)
	}
}

// TestSentencePiece: a vocabulary with scores survives as a tokenizer.model.
func TestSentencePiece(t *testing.T) {
	want := published(t, "llama-spm.vocab.gguf").Vocab()
	dir := t.TempDir()
	file := filepath.Join(dir, "tokenizer.model")
	if err := os.WriteFile(file, want.spm(), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, file} {
		got, err := OpenVocab(path)
		if err != nil {
			t.Fatal(err)
		}
		sameVocab(t, path, got, want)
	}
	// Tokens that only the configuration knows.
	n := len(want.Tokens)
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("tokenizer_config.json", `{"add_bos_token": false, "add_eos_token": true, "chat_template": "A",
		"added_tokens_decoder": {"`+itoa(n+1)+`": {"content": "<|im_end|>", "special": true}, "1": {"content": "<s>", "special": true}}}`)
	write("chat_template.json", `{"chat_template": "B"}`)
	got, err := OpenVocab(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Tokens) != n+2 || got.Tokens[n+1] != "<|im_end|>" || got.Types[n+1] != TokenControl || got.Types[n] != TokenUnused || !slices.Contains(got.EOG, int32(n+1)) || got.AddBOS || !got.AddEOS || got.ChatTemplate != "B" {
		t.Errorf("%d tokens, the last %q, ends %v, bos %v, eos %v, template %q", len(got.Tokens), got.Tokens[n+1], got.EOG, got.AddBOS, got.AddEOS, got.ChatTemplate)
	}
	write("tokenizer_config.json", `{"added_tokens_decoder": {"99999999": {"content": "x"}}}`)
	if _, err := OpenVocab(dir); err == nil || !strings.Contains(err.Error(), "99999999") {
		t.Errorf("an id far away: %v", err)
	}
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

// TestSentencePieceRefused: other algorithms and broken files are named.
func TestSentencePieceRefused(t *testing.T) {
	small := &Vocab{Tokens: []string{"<unk>", "a"}, Types: []TokenType{TokenUnknown, TokenNormal}, Scores: []float32{0, 0}, BOS: -1, EOS: -1, UNK: 0, PAD: -1}
	good := small.spm()
	if _, err := parseSPM(good); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		data []byte
		want string
	}{
		"cut":        {good[:len(good)-3], "cut short"},
		"empty":      {nil, "empty"},
		"unigram":    {append(slices.Clone(good), 18, 2, 3<<3, 1), "unigram"},
		"characters": {append(slices.Clone(good), 26, 3, 2<<3|2, 1, 'x'), "normalizer"},
		"wire type":  {[]byte{11}, "wire type 3"},
		"text":       {[]byte("version https://git-lfs.github.com/spec/v1\n"), "Git LFS"},
		"token type": {append(slices.Clone(good), 10, 2, 3<<3, 9), "type 9"},
	} {
		if _, err := parseSPM(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", what, err, c.want)
		}
	}
}

// TestVocabKeys: published tokenizer.json files as the keys of a GGUF file, and
// written again, make the same tokens.
func TestVocabKeys(t *testing.T) {
	type vector struct {
		Text        string  `json:"text"`
		WithSpecial []int32 `json:"ids_with_special"`
	}
	for _, name := range []string{"gemma3", "llama3", "qwen3"} {
		t.Run(name, func(t *testing.T) {
			v, err := OpenVocab(shared.Path(t, "tokenizers", name+".tokenizer.json.gz"))
			if err != nil {
				t.Fatal(err)
			}
			meta := NewMetadata()
			v.put(meta, len(v.Tokens)+3)
			t.Log(v.lostIn(meta))
			keys, err := VocabFromGGUF(meta, name)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(v.json())
			if err != nil {
				t.Fatal(err)
			}
			again, err := parseTokenizerJSON(text)
			if err != nil {
				t.Fatal(err)
			}
			again.AddBOS, again.BOS = v.AddBOS, v.BOS
			again.finish()
			// Scores alone, as programs without merges read them.
			scores := *keys
			scores.Merges = nil
			all := map[string]*Vocab{"keys": keys, "written again": again}
			if name == "gemma3" {
				all["scores"] = &scores
			}
			for what, v := range all {
				tok, err := NewTokenizer(v)
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range readCases[vector](t, shared.Path(t, "tokenizers", name+".vectors.json")) {
					if what == "keys" && len(c.Text) > 0 && !asciiOnly(c.Text) && name == "qwen3" {
						continue // NFC, which a GGUF file cannot say
					}
					sameIDs(t, what, c.Text, tok.Encode(c.Text, EncodeOptions{AddSpecial: true, ParseSpecial: true}), c.WithSpecial)
				}
			}
		})
	}
}

func asciiOnly(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > 127 }) < 0
}

func FuzzTokenizerModel(f *testing.F) {
	small := &Vocab{Tokens: []string{"<unk>", "<s>", "</s>", "<0x41>", "▁", "a", "b", "ab"}, Scores: make([]float32, 8),
		Types: []TokenType{TokenUnknown, TokenControl, TokenControl, TokenByte, TokenNormal, TokenNormal, TokenNormal, TokenNormal}, BOS: 1, EOS: 2, PAD: -1}
	f.Add(small.spm())
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := parseSPM(data)
		if err != nil {
			return
		}
		v.finish()
		tok, err := NewTokenizer(v)
		if err != nil {
			return
		}
		tok.Decode(tok.Encode("ab <s>é\xff", EncodeOptions{AddSpecial: true, ParseSpecial: true}), DecodeOptions{Special: true})
		if _, err := parseSPM(v.spm()); err != nil {
			t.Errorf("written again: %v", err)
		}
	})
}
