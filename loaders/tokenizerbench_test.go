package loaders

import (
	"path/filepath"
	"strings"
	"testing"

	"graphrun/internal/shared"
)

// BenchmarkEncode encodes about 1 MB: prose, and runs without a place to split.
func BenchmarkEncode(b *testing.B) {
	texts := []struct{ name, text string }{
		{"prose", strings.Repeat("The quick brown fox, jumps over 123 lazy dogs' tails.\nIt's ", 17500)},
		{"letter", strings.Repeat("a", 1<<20)},
		{"space", strings.Repeat(" ", 1<<20)},
		{"newline", strings.Repeat("\n", 1<<20)},
		{"emoji", strings.Repeat("😀", 1<<18)},
		{"invalid", strings.Repeat("\xff", 1<<20)},
	}
	for _, file := range []string{"gemma3.tokenizer.json.gz", "llama3.tokenizer.json.gz", "qwen3.tokenizer.json.gz", "llama-spm.vocab.gguf", "gpt-2.vocab.gguf"} {
		name, _, _ := strings.Cut(file, ".")
		for _, c := range texts {
			b.Run(name+"/"+c.name, func(b *testing.B) {
				tok := published(b, file)
				var ids []int32
				b.SetBytes(int64(len(c.text)))
				for b.Loop() {
					ids = tok.AppendEncode(ids[:0], c.text, EncodeOptions{})
				}
			})
		}
	}
}

// BenchmarkOpen reads the largest vocabulary, 33 MB of JSON packed to 5.
func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(shared.Dir(b), "tokenizers", "gemma3.tokenizer.json.gz")
	v, err := OpenVocab(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("vocab", func(b *testing.B) {
		for b.Loop() {
			if _, err := OpenVocab(path); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("tokenizer", func(b *testing.B) {
		for b.Loop() {
			if _, err := NewTokenizer(v); err != nil {
				b.Fatal(err)
			}
		}
	})
}
