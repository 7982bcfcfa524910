package loaders

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// maxTokenizerJSON is the most bytes of a tokenizer.json file, unpacked, that
// are read. The largest published ones have 40 MB.
const maxTokenizerJSON = 512 << 20

// VocabFromJSON reads a Hugging Face tokenizer.json file, plain or packed with
// gzip, and what lies beside it: tokenizer_config.json, generation_config.json
// and chat_template.jinja, each if it is there. In a file name like
// gemma3.tokenizer.json the part before tokenizer.json leads their names too.
//
// Only BPE is read: byte-level with a splitting pattern that PreTokenizers
// lists, or over characters with spaces as U+2581. What would change ids and is
// not known, a normalizer, a pattern, a post-processor, is an error.
//
// BOS and EOS are added if the post-processor adds them; add_bos_token and
// add_eos_token of tokenizer_config.json, where they are given, decide instead.
// Added tokens marked special become control tokens, the others user-defined.
func VocabFromJSON(path string) (*Vocab, error) {
	data, err := readJSON(path)
	if err != nil {
		return nil, err
	}
	v, err := parseTokenizerJSON(data)
	if err != nil {
		return nil, &FormatError{Format: "tokenizer", File: path, Err: err}
	}
	if err := v.readConfigs(path); err != nil {
		return nil, err
	}
	v.finish()
	return v, nil
}

// readJSON reads a file, unpacking it if it begins like gzip.
func readJSON(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var head [2]byte
	n, _ := io.ReadFull(f, head[:])
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	var r io.Reader = f
	size := 0
	if info, err := f.Stat(); err == nil {
		size = int(min(info.Size(), maxTokenizerJSON))
	}
	if n == 2 && head == [2]byte{0x1f, 0x8b} {
		z, err := gzip.NewReader(f)
		if err != nil {
			return nil, &FormatError{Format: "tokenizer", File: path, Err: err}
		}
		r, size = z, min(8*size, maxTokenizerJSON/8)
	}
	var buf bytes.Buffer
	buf.Grow(size + bytes.MinRead)
	if _, err := buf.ReadFrom(io.LimitReader(r, maxTokenizerJSON+1)); err != nil {
		return nil, &FormatError{Format: "tokenizer", File: path, Err: err}
	}
	if buf.Len() > maxTokenizerJSON {
		return nil, &FormatError{Format: "tokenizer", File: path,
			Err: fmt.Errorf("found more than %d bytes, expected at most that many", maxTokenizerJSON)}
	}
	return buf.Bytes(), nil
}

// hfFile is a tokenizer.json file, its small parts not decoded yet.
type hfFile struct {
	added                                []hfAdded
	normalizer, pre, post, model, addRaw []byte

	texts  textList // vocabulary, in the file's order
	ids    []int32
	merges textList // "left right"
}

type hfAdded struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	Special    bool   `json:"special"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	SingleWord bool   `json:"single_word"`
	Normalized bool   `json:"normalized"`
}

type hfModel struct {
	Type         string `json:"type"`
	Unk          string `json:"unk_token"`
	Prefix       string `json:"continuing_subword_prefix"`
	Suffix       string `json:"end_of_word_suffix"`
	IgnoreMerges bool   `json:"ignore_merges"`
}

// parseTokenizerJSON reads the text of a tokenizer.json file. The result still
// lacks what finish adds.
func parseTokenizerJSON(data []byte) (*Vocab, error) {
	var f hfFile
	s := &jsonScanner{data: data}
	s.object(func(key string) {
		switch key {
		case "added_tokens":
			f.addRaw = s.value()
		case "normalizer":
			f.normalizer = s.value()
		case "pre_tokenizer":
			f.pre = s.value()
		case "post_processor":
			f.post = s.value()
		case "model":
			f.scanModel(s)
		default:
			s.value()
		}
	})
	if c := s.peek(); s.err == nil && c != 0 {
		s.failFound(c, "the end")
	}
	if s.err != nil {
		return nil, s.err
	}
	if f.addRaw != nil {
		if err := json.Unmarshal(f.addRaw, &f.added); err != nil {
			return nil, fmt.Errorf("added_tokens: %w", jsonError(err))
		}
	}
	return f.vocab()
}

// scanModel reads the model object: vocabulary and merges into f, the rest as
// an object of its own.
func (f *hfFile) scanModel(s *jsonScanner) {
	if s.peek() != '{' {
		s.failFound(s.peek(), "the model object")
		return
	}
	rest := []byte("{")
	s.object(func(key string) {
		switch {
		case key == "vocab" && s.peek() == '{':
			s.list('{', '}', func() {
				f.texts.block = s.appendString(f.texts.block)
				f.texts.end()
				s.expect(':')
				f.ids = append(f.ids, s.id())
			})
		case key == "merges" && s.peek() == '[':
			s.list('[', ']', func() { f.scanMerge(s) })
		default:
			name, _ := json.Marshal(key)
			value := s.value()
			if key == "vocab" { // Unigram: an array; the type refuses it
				return
			}
			if len(rest) > 1 {
				rest = append(rest, ',')
			}
			rest = append(append(append(rest, name...), ':'), value...)
		}
	})
	f.model = append(rest, '}')
}

// scanMerge reads "left right" or ["left", "right"].
func (f *hfFile) scanMerge(s *jsonScanner) {
	if s.peek() != '[' {
		f.merges.block = s.appendString(f.merges.block)
		f.merges.end()
		return
	}
	parts := 0
	s.list('[', ']', func() {
		if parts > 0 {
			f.merges.block = append(f.merges.block, ' ')
		}
		f.merges.block = s.appendString(f.merges.block)
		parts++
	})
	if parts != 2 {
		s.fail("found a merge of %d texts, expected 2", parts)
	}
	f.merges.end()
}

// vocab builds the vocabulary.
func (f *hfFile) vocab() (*Vocab, error) {
	if f.model == nil {
		return nil, errors.New("model: missing; the file is not a tokenizer.json")
	}
	var model hfModel
	if err := json.Unmarshal(f.model, &model); err != nil {
		return nil, fmt.Errorf("model: %w", jsonError(err))
	}
	if model.Type != "BPE" && !(model.Type == "" && len(f.merges.ends) > 0) {
		return nil, &UnsupportedError{What: "tokenizer model", Name: quoteName(model.Type), Known: []string{"BPE"}}
	}
	if model.Prefix != "" || model.Suffix != "" {
		return nil, &UnsupportedError{What: "BPE", Name: "with continuing_subword_prefix or end_of_word_suffix", Known: []string{"without"}}
	}
	v := &Vocab{
		BOS: -1, EOS: -1, EOT: -1, EOM: -1, UNK: -1, PAD: -1,
		Merges: f.merges.strings(), IgnoreMerges: model.IgnoreMerges,
	}
	if err := f.place(v); err != nil {
		return nil, err
	}
	if model.Unk != "" {
		for i, text := range v.Tokens {
			if text == model.Unk {
				v.UNK, v.Types[i] = int32(i), TokenUnknown
				break
			}
		}
	}
	if err := f.pipeline(v); err != nil {
		return nil, err
	}
	return v, nil
}

// maxHoles is the most ids without a token that a vocabulary may have.
const maxHoles = 1 << 16

// place puts the tokens at their ids. Ids that are left out become unused
// tokens without text. An added token at the id of another text replaces it.
func (f *hfFile) place(v *Vocab) error {
	size, count := 0, len(f.ids)+len(f.added)
	for _, id := range f.ids {
		size = max(size, int(id)+1)
	}
	for _, a := range f.added {
		if a.ID < 0 || a.Content == "" {
			return fmt.Errorf("added_tokens: found id %d with text %s, expected an id from 0 and a text", a.ID, quoteText(a.Content))
		}
		size = max(size, int(a.ID)+1)
	}
	if count == 0 {
		return errors.New("model: vocab: found no tokens, expected at least one")
	}
	if size > count+maxHoles {
		return fmt.Errorf("model: vocab: found id %d with %d tokens, expected at most %d ids without a token", size-1, count, maxHoles)
	}
	v.Tokens, v.Types = make([]string, size), make([]TokenType, size)
	for i := range v.Types {
		v.Types[i] = TokenUnused
	}
	for i, text := range f.texts.strings() {
		id := f.ids[i]
		if v.Types[id] != TokenUnused {
			return fmt.Errorf("model: vocab: found id %d for %s and %s, expected an id for each", id, quoteText(v.Tokens[id]), quoteText(text))
		}
		v.Tokens[id], v.Types[id] = text, TokenNormal
	}
	for _, a := range f.added {
		v.place(a.ID, a)
	}
	if !slices.ContainsFunc(v.Tokens, func(text string) bool { return text != "" }) {
		return errors.New("model: vocab: found no token with a text, expected at least one")
	}
	return nil
}
