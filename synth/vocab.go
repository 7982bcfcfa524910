package synth

import (
	"fmt"

	"graphrun/loaders"
)

// vocabulary sets the tokenizer keys of a vocabulary of n tokens.
type vocabulary func(meta *loaders.Metadata, n int)

// words collects tokens: pieces grow by one letter at a time, so that each is
// the merge of two tokens before it.
type words struct {
	tokens []string
	types  []int32
	scores []float32
	merges []string
}

func (w *words) add(text string, t loaders.TokenType) {
	w.tokens = append(w.tokens, text)
	w.types = append(w.types, int32(t))
	w.scores = append(w.scores, 0)
}

// grow adds pieces up to n tokens: all strings of letters by length, those that
// begin a word, marked by space, after those that do not.
func (w *words) grow(n int, space string) {
	const letters = "etaoinshrdlucmfwypvbgkqjxz"
	starts := []string{space}
	for _, c := range letters {
		starts = append(starts, string(c))
	}
	for level := starts; len(w.tokens) < n; {
		var next []string
		for _, left := range level {
			for _, c := range letters {
				if len(w.tokens) == n {
					return
				}
				right := string(c)
				w.add(left+right, loaders.TokenNormal)
				w.scores[len(w.scores)-1] = -float32(len(w.merges))
				w.merges = append(w.merges, left+" "+right)
				next = append(next, left+right)
			}
		}
		level = next
	}
}

func (w *words) set(meta *loaders.Metadata, model, pre string, scores, merges bool) {
	meta.Set("tokenizer.ggml.model", model)
	meta.Set("tokenizer.ggml.pre", pre)
	meta.Set("tokenizer.ggml.tokens", w.tokens)
	if scores {
		meta.Set("tokenizer.ggml.scores", w.scores)
	}
	meta.Set("tokenizer.ggml.token_type", w.types)
	if merges {
		meta.Set("tokenizer.ggml.merges", w.merges)
	}
}

// byteTexts returns the characters that byte-level vocabularies write for
// bytes: printable ones stand for themselves, the others follow at U+0100.
func byteTexts() []string {
	texts := make([]string, 256)
	other := rune(0x100)
	for b := range texts {
		r := rune(b)
		if b <= ' ' || 0x7f <= b && b <= 0xa0 || b == 0xad {
			r = other
			other++
		}
		texts[b] = string(r)
	}
	return texts
}

func smollm(meta *loaders.Metadata, n int) {
	w := &words{}
	w.add("<|endoftext|>", loaders.TokenControl)
	w.add("<|im_start|>", loaders.TokenControl)
	w.add("<|im_end|>", loaders.TokenControl)
	for i := range 14 {
		w.add(fmt.Sprintf("<reserved_%d>", i), loaders.TokenControl)
	}
	for _, t := range byteTexts() {
		w.add(t, loaders.TokenNormal)
	}
	w.grow(n, "Ġ")
	w.set(meta, "gpt2", "smollm", false, true)
	meta.Set("tokenizer.ggml.bos_token_id", uint32(1))
	meta.Set("tokenizer.ggml.eos_token_id", uint32(2))
	meta.Set("tokenizer.ggml.unknown_token_id", uint32(0))
	meta.Set("tokenizer.ggml.padding_token_id", uint32(2))
	meta.Set("tokenizer.ggml.add_bos_token", false)
	meta.Set("tokenizer.ggml.add_space_prefix", false)
}

func llama3(meta *loaders.Metadata, n int) {
	w := &words{}
	for _, t := range byteTexts() {
		w.add(t, loaders.TokenNormal)
	}
	const reserved = 256
	first := n - reserved
	w.grow(first, "Ġ")
	named := map[int]string{0: "<|begin_of_text|>", 1: "<|end_of_text|>", 6: "<|start_header_id|>", 7: "<|end_header_id|>", 8: "<|eom_id|>", 9: "<|eot_id|>"}
	for i := range reserved {
		text, ok := named[i]
		if !ok {
			text = fmt.Sprintf("<|reserved_special_token_%d|>", i)
		}
		w.add(text, loaders.TokenControl)
	}
	w.set(meta, "gpt2", "llama-bpe", false, true)
	meta.Set("tokenizer.ggml.bos_token_id", uint32(first))
	meta.Set("tokenizer.ggml.eos_token_id", uint32(first+1))
	meta.Set("tokenizer.ggml.eot_token_id", uint32(first+9))
}

// gemma adds the tokens that the vocabularies of Gemma begin with.
func gemma(n int, turn func(i int) string) *words {
	w := &words{}
	for i, t := range []string{"<pad>", "<eos>", "<bos>", "<unk>", "<mask>"} {
		kind := loaders.TokenControl
		if i == 3 {
			kind = loaders.TokenUnknown
		}
		w.add(t, kind)
	}
	for len(w.tokens) < 238 {
		text, kind := fmt.Sprintf("<unused%d>", len(w.tokens)), loaders.TokenUnused
		if t := turn(len(w.tokens)); t != "" {
			text, kind = t, loaders.TokenControl
		}
		w.add(text, kind)
	}
	for b := range 256 {
		w.add(fmt.Sprintf("<0x%02X>", b), loaders.TokenByte)
	}
	w.add("▁", loaders.TokenNormal)
	w.add("\n", loaders.TokenNormal)
	for c := '!'; c <= '~'; c++ {
		w.add(string(c), loaders.TokenNormal)
	}
	w.grow(n, "▁")
	return w
}

func gemmaIDs(meta *loaders.Metadata, eot uint32) {
	meta.Set("tokenizer.ggml.bos_token_id", uint32(2))
	meta.Set("tokenizer.ggml.eos_token_id", uint32(1))
	meta.Set("tokenizer.ggml.unknown_token_id", uint32(3))
	meta.Set("tokenizer.ggml.padding_token_id", uint32(0))
	meta.Set("tokenizer.ggml.eot_token_id", eot)
	meta.Set("tokenizer.ggml.add_bos_token", true)
	meta.Set("tokenizer.ggml.add_space_prefix", false)
}

func gemma3(meta *loaders.Metadata, n int) {
	w := gemma(n, func(i int) string { return map[int]string{105: "<start_of_turn>", 106: "<end_of_turn>"}[i] })
	w.set(meta, "llama", "default", true, false)
	gemmaIDs(meta, 106)
}

func gemma4(meta *loaders.Metadata, n int) {
	w := gemma(n, func(i int) string { return map[int]string{105: "<|turn>", 106: "<turn|>"}[i] })
	w.set(meta, "gemma4", "gemma4", true, true)
	gemmaIDs(meta, 106)
}
