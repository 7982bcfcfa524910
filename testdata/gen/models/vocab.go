package main

import (
	"fmt"
	"strings"

	"graphrun/loaders"
)

// vocabulary is what the tokenizer.* keys say.
type vocabulary struct {
	tokens []string
	first  int // the token texts begin with
	set    func(meta *loaders.Metadata)
}

// pieces are the words of both vocabularies, the frequent ones first.
var pieces = strings.Fields("e t a o i n s h r d l u he in er an on th the and ing")

// sentencePieces is a vocabulary of the family "llama": three control tokens,
// all bytes, and pieces with scores.
func sentencePieces() vocabulary {
	tokens := []string{"<unk>", "<s>", "</s>"}
	types := []int32{int32(loaders.TokenUnknown), int32(loaders.TokenControl), int32(loaders.TokenControl)}
	scores := []float32{0, 0, 0}
	add := func(text string, kind loaders.TokenType, score int) {
		tokens, types, scores = append(tokens, text), append(types, int32(kind)), append(scores, float32(score))
	}
	for b := range 256 {
		add(fmt.Sprintf("<0x%02X>", b), loaders.TokenByte, 0)
	}
	list := append([]string{"▁", "▁t", "▁a", "▁th", "▁the", "▁and", ".", ","}, pieces...)
	for i, p := range list {
		add(p, loaders.TokenNormal, -1-i)
	}
	return vocabulary{tokens, 1, func(meta *loaders.Metadata) {
		meta.Set("tokenizer.ggml.model", "llama")
		meta.Set("tokenizer.ggml.pre", "default")
		meta.Set("tokenizer.ggml.tokens", tokens)
		meta.Set("tokenizer.ggml.scores", scores)
		meta.Set("tokenizer.ggml.token_type", types)
		meta.Set("tokenizer.ggml.bos_token_id", uint32(1))
		meta.Set("tokenizer.ggml.eos_token_id", uint32(2))
		meta.Set("tokenizer.ggml.unknown_token_id", uint32(0))
		meta.Set("tokenizer.ggml.add_bos_token", true)
		meta.Set("tokenizer.ggml.add_eos_token", false)
		meta.Set("tokenizer.ggml.add_space_prefix", true)
	}}
}

// byteLevel is a vocabulary of the family "gpt2": all bytes as characters,
// merges, and two control tokens. pre names the pattern that splits text.
func byteLevel(pre string) vocabulary {
	var tokens, merges []string
	var types []int32
	add := func(text string, kind loaders.TokenType) {
		tokens, types = append(tokens, text), append(types, int32(kind))
	}
	for b := range 256 {
		add(string(byteChar(b)), loaders.TokenNormal)
	}
	for _, p := range append([]string{"Ġt", "Ġa", "Ġth"}, pieces...) {
		r := []rune(p)
		if len(r) < 2 {
			continue
		}
		merges = append(merges, string(r[:len(r)-1])+" "+string(r[len(r)-1:]))
		add(p, loaders.TokenNormal)
	}
	// "and" and "ing" are merged from "an d" and "in g", "the" from "th e":
	// every left part is a token that stands before.
	add("<|endoftext|>", loaders.TokenControl)
	add("<|im_end|>", loaders.TokenControl)
	end := uint32(len(tokens) - 2)
	return vocabulary{tokens, int(end), func(meta *loaders.Metadata) {
		meta.Set("tokenizer.ggml.model", "gpt2")
		meta.Set("tokenizer.ggml.pre", pre)
		meta.Set("tokenizer.ggml.tokens", tokens)
		meta.Set("tokenizer.ggml.token_type", types)
		meta.Set("tokenizer.ggml.merges", merges)
		meta.Set("tokenizer.ggml.bos_token_id", end)
		meta.Set("tokenizer.ggml.eos_token_id", end)
		meta.Set("tokenizer.ggml.add_bos_token", false)
	}}
}

// byteChar is the character that stands for a byte: itself where it prints,
// else one from U+0100 on, in order.
func byteChar(b int) rune {
	prints := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae }
	if prints(b) {
		return rune(b)
	}
	n := 0
	for i := range b {
		if !prints(i) {
			n++
		}
	}
	return rune(256 + n)
}
