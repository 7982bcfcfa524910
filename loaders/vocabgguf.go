package loaders

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// vocabModels are the tokenizer families, as tokenizer.ggml.model names them.
var vocabModels = []string{"gemma4", "gpt2", "llama"}

// VocabFromGGUF reads the vocabulary from the tokenizer.* keys of a GGUF file.
// name is the file, for errors.
//
// It fails if the model or the token list is absent, the family or the
// splitting pattern is unknown, scores or types do not have one entry per
// token, bos or eos lies outside the vocabulary, or a BPE family comes without
// merges. Other ids outside the vocabulary are dropped with a warning.
//
// A "gpt2" vocabulary without tokenizer.ggml.pre is split by the pattern
// "gpt-2", with a warning. To read a file whose pattern is missing, wrong or
// unknown, clone the metadata and set the key.
//
// The families default as follows: "llama" adds BOS and a space before the
// text; "gpt2" adds neither, but BOS if the pattern is one of Llama 3's;
// "gemma4" adds no space and always BOS, whatever the file says.
func VocabFromGGUF(meta *Metadata, name string) (*Vocab, error) {
	r := ggufVocab{meta: meta, file: name}
	v := &Vocab{BOS: -1, EOS: -1, EOT: -1, EOM: -1, UNK: -1, PAD: -1}
	r.v = v

	v.Model = r.text("tokenizer.ggml.model")
	v.Pre = r.text("tokenizer.ggml.pre")
	v.Tokens = r.strings("tokenizer.ggml.tokens")
	v.Scores = r.floats("tokenizer.ggml.scores")
	v.Merges = r.strings("tokenizer.ggml.merges")
	v.ChatTemplate = r.text("tokenizer.chat_template")
	types := r.types("tokenizer.ggml.token_type")
	if r.err != nil {
		return nil, r.err
	}
	if err := r.family(); err != nil {
		return nil, err
	}
	if err := r.lengths(types); err != nil {
		return nil, err
	}
	r.ids()
	r.flags()
	if r.err != nil {
		return nil, r.err
	}
	v.finish()
	return v, nil
}

// ggufVocab reads keys and keeps the first error.
type ggufVocab struct {
	meta *Metadata
	file string
	v    *Vocab
	err  error
}

func (r *ggufVocab) fail(key, format string, args ...any) error {
	err := &FormatError{File: r.file, Field: "key " + key, Err: fmt.Errorf(format, args...)}
	if r.err == nil {
		r.err = err
	}
	return err
}

func (r *ggufVocab) keep(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *ggufVocab) text(key string) string {
	s, _, err := r.meta.String(key)
	r.keep(err)
	return s
}

func (r *ggufVocab) strings(key string) []string {
	s, _, err := r.meta.Strings(key)
	r.keep(err)
	return s
}

func (r *ggufVocab) floats(key string) []float32 {
	s, _, err := r.meta.Floats(key)
	r.keep(err)
	return s
}

func (r *ggufVocab) ints(key string) []int64 {
	s, _, err := r.meta.Ints(key)
	r.keep(err)
	return s
}

// types returns the numbers of token types; those that no type has are -1.
func (r *ggufVocab) types(key string) []int32 {
	v, _ := r.meta.Value(key)
	if list, ok := v.v.([]int32); ok { // as files have it
		return list
	}
	wide := r.ints(key)
	list := make([]int32, len(wide))
	for i, t := range wide {
		if list[i] = int32(t); int64(list[i]) != t {
			list[i] = -1
		}
	}
	return list
}

// bool returns the value of key, or def if it is absent.
func (r *ggufVocab) bool(key string, def bool) bool {
	b, ok, err := r.meta.Bool(key)
	r.keep(err)
	if !ok || err != nil {
		return def
	}
	return b
}

// family settles Model, Pre and what follows from them.
func (r *ggufVocab) family() error {
	v := r.v
	switch v.Model {
	case "":
		return r.fail("tokenizer.ggml.model", "missing; the file holds no vocabulary that can be used")
	case "llama":
		v.AddBOS, v.AddSpacePrefix = true, true
		if v.Pre == "gemma4" { // the spelling of some early Gemma 4 files
			v.Model, v.AddSpacePrefix = "gemma4", false
		}
	case "gemma4":
		v.AddBOS = true
	case "gpt2":
		if v.Pre == "" {
			v.Pre = "gpt-2"
			v.warn("tokenizer.ggml.pre is absent: text is split by the pattern gpt-2; token ids are wrong if the model was trained with another")
		}
		pre, ok := preTokenizers[v.Pre]
		if !ok {
			return &FormatError{File: r.file, Field: "key tokenizer.ggml.pre",
				Err: &UnsupportedError{What: "pre-tokenizer", Name: quoteText(v.Pre), Known: PreTokenizers()}}
		}
		v.AddBOS, v.IgnoreMerges = pre.addBOS, pre.ignoreMerges
	default:
		return &FormatError{File: r.file, Field: "key tokenizer.ggml.model",
			Err: &UnsupportedError{What: "tokenizer", Name: quoteText(v.Model), Known: vocabModels}}
	}
	return nil
}

// lengths checks that the arrays fit the token list, and sets Types.
func (r *ggufVocab) lengths(types []int32) error {
	v := r.v
	n := len(v.Tokens)
	if n == 0 {
		return r.fail("tokenizer.ggml.tokens", "found no tokens, expected at least one")
	}
	if n > math.MaxInt32 {
		return r.fail("tokenizer.ggml.tokens", "found %d tokens, expected at most %d", n, math.MaxInt32)
	}
	if len(v.Scores) != 0 && len(v.Scores) != n {
		return r.fail("tokenizer.ggml.scores", "found %d entries, expected one for each of %d tokens", len(v.Scores), n)
	}
	if len(types) != 0 && len(types) != n {
		return r.fail("tokenizer.ggml.token_type", "found %d entries, expected one for each of %d tokens", len(types), n)
	}
	if len(types) != 0 {
		v.Types = largeSlice[TokenType](n)
	}
	for i, t := range types {
		if t < 0 || t > int32(TokenByte) {
			return r.fail("tokenizer.ggml.token_type", "found type %d at token %d, expected 0 to 6", t, i)
		}
		v.Types[i] = TokenType(t)
	}
	switch {
	case v.Model != "llama" && len(v.Merges) == 0 && v.hasWords():
		return r.fail("tokenizer.ggml.merges", "missing, expected the merges of the %q vocabulary", v.Model)
	case v.Model == "llama" && len(v.Merges) == 0 && len(v.Scores) == 0:
		return r.fail("tokenizer.ggml.scores", "missing, expected a score for each of %d tokens", n)
	}
	return nil
}

// ids reads the special ids. Wrong bos and eos are errors, because a model
// quietly degrades without them; wrong others are dropped.
func (r *ggufVocab) ids() {
	v := r.v
	n := int64(len(v.Tokens))
	for _, k := range []struct {
		key  string
		id   *int32
		must bool
	}{
		{"bos_token_id", &v.BOS, true},
		{"eos_token_id", &v.EOS, true},
		{"eot_token_id", &v.EOT, false},
		{"eom_token_id", &v.EOM, false},
		{"unknown_token_id", &v.UNK, false},
		{"padding_token_id", &v.PAD, false},
	} {
		key := "tokenizer.ggml." + k.key
		id, ok, err := r.meta.Int(key)
		switch {
		case err != nil:
			r.keep(err)
		case !ok:
		case id >= 0 && id < n:
			*k.id = int32(id)
		case k.must:
			r.fail(key, "found %d, expected a token from 0 to %d", id, n-1)
		default:
			v.warn("%s is %d, outside the %d tokens; taken as absent", key, id, n)
		}
	}
	for _, id := range r.ints("tokenizer.ggml.suppress_tokens") {
		if id < 0 || id >= n {
			v.warn("tokenizer.ggml.suppress_tokens names %d, outside the %d tokens; left out", id, n)
			continue
		}
		v.Suppress = append(v.Suppress, int32(id))
	}
}

func (r *ggufVocab) flags() {
	v := r.v
	v.AddBOS = r.bool("tokenizer.ggml.add_bos_token", v.AddBOS) || v.Model == "gemma4"
	v.AddEOS = r.bool("tokenizer.ggml.add_eos_token", false)
	v.AddSpacePrefix = r.bool("tokenizer.ggml.add_space_prefix", v.AddSpacePrefix)
	if v.Model != "llama" {
		v.AddSpacePrefix = false
	}
}

// hasWords reports whether some ordinary token has more than one character, so
// that encoding cannot do without merges.
func (v *Vocab) hasWords() bool {
	for i, text := range v.Tokens {
		if len(v.Types) > 0 && v.Types[i] != TokenNormal && v.Types[i] != TokenUndefined {
			continue
		}
		if _, isByte := byteToken(text); !isByte && utf8.RuneCountInString(text) > 1 {
			return true
		}
	}
	return false
}
