package loaders

import (
	"maps"
	"slices"
)

// preTokenizer splits text for byte-level BPE: no merge crosses a split.
type preTokenizer struct {
	// pattern is the name of the pattern in hfPatterns.
	pattern string
	// next returns the length of the first piece of s, which is not empty.
	next func(s string) int
	// digitsApart cuts out each digit before next sees what lies between.
	digitsApart bool
	// ignoreMerges and addBOS are what GGUF files with this name imply.
	ignoreMerges, addBOS bool
}

// The patterns, as the regular expressions that published tokenizers give. \s
// is Unicode white space, (?!\S) holds at the end of the text.
//
//	gpt-2     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//	smollm    \p{N} first, then gpt-2 on what lies between
//	llama-bpe (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
//	          ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//	qwen2     as llama-bpe with \p{N} for \p{N}{1,3}
//	qwen35    as qwen2 with [\p{L}\p{M}] for \p{L}, and [^\s\p{L}\p{M}\p{N}]
//	gpt-4o    words by case, UPPERlower or UPPER, marks count as letters, the
//	          contraction belongs to the word; \p{N}{1,3}; / ends punctuation
//	          like a newline
//	tekken    as gpt-4o with \p{N} and without contractions
//
// Source: the tokenizer.json files of GPT-2, SmolLM, Llama 3, Qwen 2 and 3.5,
// gpt-oss and Mistral NeMo.
var (
	preGPT2   = preTokenizer{pattern: "gpt-2", next: nextGPT2}
	preDigits = preTokenizer{pattern: "smollm", next: nextGPT2, digitsApart: true}
	preLlama3 = preTokenizer{pattern: "llama-bpe", next: wordRule{digits: 3}.next, ignoreMerges: true, addBOS: true}
	preWord3  = preTokenizer{pattern: "llama-bpe", next: wordRule{digits: 3}.next}
	preQwen2  = preTokenizer{pattern: "qwen2", next: wordRule{digits: 1}.next}
	preQwen35 = preTokenizer{pattern: "qwen35", next: wordRule{digits: 1, marks: true}.next}
	preGPT4o  = preTokenizer{pattern: "gpt-4o", next: caseRule{digits: 3, contractions: true}.next}
	preTekken = preTokenizer{pattern: "tekken", next: caseRule{digits: 1}.next, ignoreMerges: true, addBOS: true}
)

// preTokenizers maps the names that tokenizer.ggml.pre takes to patterns.
// Models often have a name of their own for a pattern that others use too.
var preTokenizers = map[string]preTokenizer{
	"default": preGPT2, "gpt-2": preGPT2, "phi-2": preGPT2, "mpt": preGPT2,
	"olmo": preGPT2, "jais": preGPT2, "trillion": preGPT2, "gigachat": preGPT2,
	"granite-docling": preGPT2, "exaone4": preGPT2, "mellum": preGPT2,
	"modern-bert": preGPT2, "a.x-4.0": preGPT2,

	"smollm": preDigits, "starcoder": preDigits, "refact": preDigits,
	"command-r": preDigits, "codeshell": preDigits, "exaone": preDigits,
	"minerva-7b": preDigits,

	"llama-bpe": preLlama3, "llama3": preLlama3, "llama-v3": preLlama3,
	"falcon3": preLlama3, "falcon-h1": preLlama3, "pixtral": preLlama3,
	"midm-2.0": preLlama3, "lfm2": preLlama3,

	"dbrx": preWord3, "smaug-bpe": preWord3, "glm4": preWord3, "chatglm-bpe": preWord3,

	"qwen2": preQwen2, "deepseek-r1-qwen": preQwen2, "stablelm2": preQwen2,
	"hunyuan": preQwen2, "megrez": preQwen2, "grok-2": preQwen2, "kormo": preQwen2,

	"qwen35": preQwen35,

	"gpt-4o": preGPT4o, "llama4": preGPT4o, "kanana2": preGPT4o, "minimax-m2": preGPT4o,

	"tekken": preTekken,
}

// PreTokenizers returns the names of the splitting patterns that byte-level
// vocabularies can ask for, sorted.
func PreTokenizers() []string {
	return slices.Sorted(maps.Keys(preTokenizers))
}

// split calls emit with the pieces of s in order; joined they are s.
func (p *preTokenizer) split(s string, emit func(piece string)) {
	if !p.digitsApart {
		for len(s) > 0 {
			n := p.next(s)
			emit(s[:n])
			s = s[n:]
		}
		return
	}
	for len(s) > 0 {
		gap, digit := nextDigit(s)
		for rest := s[:gap]; len(rest) > 0; {
			n := p.next(rest)
			emit(rest[:n])
			rest = rest[n:]
		}
		if digit > 0 {
			emit(s[gap : gap+digit])
		}
		s = s[gap+digit:]
	}
}

// nextDigit returns the length of what precedes the first digit of s and the
// length of that digit, 0 if there is none.
func nextDigit(s string) (gap, digit int) {
	for gap < len(s) {
		c, n := classAt(s, gap)
		if c&isNumber != 0 {
			return gap, n
		}
		gap += n
	}
	return gap, 0
}
