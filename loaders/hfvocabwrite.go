package loaders

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// tokenizer writes the files of the model's tokenizer, if it has one.
func (w *HFWriter) tokenizer(dir string) error {
	if !w.model.HasVocab() {
		w.Note("the model has no tokenizer, and so has the folder")
		return nil
	}
	v, err := w.model.Vocab()
	if err != nil {
		return err
	}
	if v.Model == "llama" && len(v.Merges) == 0 {
		err = os.WriteFile(filepath.Join(dir, "tokenizer.model"), v.spm(), 0o666)
	} else {
		err = writeJSON(filepath.Join(dir, "tokenizer.json"), v.json())
	}
	if err != nil {
		return err
	}
	config := map[string]any{"add_bos_token": v.AddBOS, "add_eos_token": v.AddEOS, "tokenizer_class": "PreTrainedTokenizerFast"}
	if v.Model == "llama" && len(v.Merges) == 0 {
		config["tokenizer_class"], config["legacy"] = "LlamaTokenizer", true
		config["add_prefix_space"] = v.AddSpacePrefix
	}
	for _, k := range []struct {
		key string
		id  int32
	}{{"bos_token", v.BOS}, {"eos_token", v.EOS}, {"unk_token", v.UNK}, {"pad_token", v.PAD}} {
		if k.id >= 0 {
			config[k.key] = v.Tokens[k.id]
		}
	}
	if v.ChatTemplate != "" {
		config["chat_template"] = v.ChatTemplate
	}
	if err := writeJSON(filepath.Join(dir, "tokenizer_config.json"), config); err != nil {
		return err
	}
	gen := map[string]any{}
	if v.BOS >= 0 {
		gen["bos_token_id"], w.Config["bos_token_id"] = v.BOS, v.BOS
	}
	if v.EOS >= 0 {
		w.Config["eos_token_id"] = v.EOS
	}
	if len(v.EOG) > 0 {
		gen["eos_token_id"] = v.EOG
	}
	if len(v.Suppress) > 0 {
		gen["suppress_tokens"] = v.Suppress
	}
	return writeJSON(filepath.Join(dir, "generation_config.json"), gen)
}

// spm returns the vocabulary as a SentencePiece model.
func (v *Vocab) spm() []byte {
	var out []byte
	varint := func(b []byte, field int, n uint64) []byte {
		return binary.AppendUvarint(binary.AppendUvarint(b, uint64(field)<<3), n)
	}
	message := func(b []byte, field int, m []byte) []byte {
		b = binary.AppendUvarint(b, uint64(field)<<3|2)
		return append(binary.AppendUvarint(b, uint64(len(m))), m...)
	}
	for i, text := range v.Tokens {
		p := message(nil, 1, []byte(text))
		p = append(p, 2<<3|5)
		p = binary.LittleEndian.AppendUint32(p, math.Float32bits(v.Scores[i]))
		out = message(out, 1, varint(p, 3, uint64(v.Types[i])))
	}
	trainer := varint(nil, 3, 2) // BPE
	trainer = varint(trainer, 4, uint64(len(v.Tokens)))
	trainer = varint(trainer, 35, uint64(flag(slices.Contains(v.Types, TokenByte))))
	for field, id := range []int32{v.UNK, v.BOS, v.EOS, v.PAD} {
		trainer = varint(trainer, 40+field, uint64(int64(id)))
	}
	out = message(out, 2, trainer)
	norm := message(nil, 1, []byte("identity"))
	norm = varint(norm, 3, uint64(flag(v.AddSpacePrefix)))
	return message(out, 3, varint(varint(norm, 4, 0), 5, 1))
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	key   string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		for j, x := range []any{m.key, m.value} {
			part, err := json.Marshal(x)
			if err != nil {
				return nil, err
			}
			if j == 1 {
				b = append(b, ':')
			}
			b = append(b, part...)
		}
	}
	return append(b, '}'), nil
}

// json returns the vocabulary as a tokenizer.json.
func (v *Vocab) json() object {
	vocab, added := object{}, []object{}
	rules := map[int32]AddedToken{}
	for _, a := range v.Added {
		rules[a.ID] = a
	}
	for i, text := range v.Tokens {
		id := int32(i)
		if v.Types[i] == TokenControl || v.Types[i] == TokenUserDefined || v.Types[i] == TokenUnknown && v.Model == "gpt2" {
			a := rules[id]
			added = append(added, object{{"id", id}, {"content", text}, {"single_word", a.SingleWord}, {"lstrip", a.LStrip}, {"rstrip", a.RStrip},
				{"normalized", a.Normalized}, {"special", v.Types[i] != TokenUserDefined}})
			continue
		}
		if text != "" && !(v.Types[i] == TokenUnused && text == fmt.Sprintf("[PAD%d]", i)) {
			vocab = append(vocab, member{text, id})
		}
	}
	model := object{{"type", "BPE"}, {"dropout", nil}, {"unk_token", nil}, {"continuing_subword_prefix", nil}, {"end_of_word_suffix", nil},
		{"fuse_unk", v.Model != "gpt2"}, {"byte_fallback", v.Model != "gpt2"}, {"ignore_merges", v.IgnoreMerges}, {"vocab", vocab}, {"merges", v.Merges}}
	if v.UNK >= 0 && v.Model != "gpt2" {
		model[2].value = v.Tokens[v.UNK]
	}
	out := object{{"version", "1.0"}, {"truncation", nil}, {"padding", nil}, {"added_tokens", added}}
	var normalizer, pre, post, decoder any
	if v.Model == "gpt2" {
		if v.NFC {
			normalizer = object{{"type", "NFC"}}
		}
		pre = v.jsonSplit()
		decoder = object{{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}
	} else {
		replace := object{{"type", "Replace"}, {"pattern", object{{"String", " "}}}, {"content", spaceMark}}
		normalizer = replace
		if v.AddSpacePrefix {
			normalizer = object{{"type", "Sequence"}, {"normalizers", []any{object{{"type", "Prepend"}, {"prepend", spaceMark}}, replace}}}
		}
		if v.Model == "gemma4" {
			pre = object{{"type", "Split"}, {"pattern", object{{"Regex", newlineRuns}}}, {"behavior", "Isolated"}, {"invert", false}}
		}
		decoder = object{{"type", "Sequence"}, {"decoders", []any{
			object{{"type", "Replace"}, {"pattern", object{{"String", spaceMark}}}, {"content", " "}},
			object{{"type", "ByteFallback"}}, object{{"type", "Fuse"}}}}}
	}
	if v.AddBOS && v.BOS >= 0 || v.AddEOS && v.EOS >= 0 {
		post = v.jsonTemplate()
	}
	return append(out, member{"normalizer", normalizer}, member{"pre_tokenizer", pre}, member{"post_processor", post}, member{"decoder", decoder}, member{"model", model})
}

// jsonSplit is the pre-tokenizer of a byte-level vocabulary.
func (v *Vocab) jsonSplit() any {
	name := preTokenizers[v.Pre].pattern
	bytes := func(regex bool) object {
		return object{{"type", "ByteLevel"}, {"add_prefix_space", v.AddSpacePrefix}, {"trim_offsets", true}, {"use_regex", regex}}
	}
	sequence := func(first object, regex bool) object {
		return object{{"type", "Sequence"}, {"pretokenizers", []any{first, bytes(regex)}}}
	}
	switch name {
	case "gpt-2":
		return bytes(true)
	case "smollm":
		return sequence(object{{"type", "Digits"}, {"individual_digits", true}}, true)
	}
	regex := ""
	for r, n := range hfPatterns { // of several spellings the first in order
		if n == name && (regex == "" || r < regex) {
			regex = r
		}
	}
	return sequence(object{{"type", "Split"}, {"pattern", object{{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}}, false)
}

// jsonTemplate is the post-processor that adds tokens to a text.
func (v *Vocab) jsonTemplate() object {
	special := object{}
	part := func(id int32) object {
		text := v.Tokens[id]
		special = append(special, member{text, object{{"id", text}, {"ids", []int32{id}}, {"tokens", []string{text}}}})
		return object{{"SpecialToken", object{{"id", text}, {"type_id", 0}}}}
	}
	var single []object
	if v.AddBOS && v.BOS >= 0 {
		single = append(single, part(v.BOS))
	}
	single = append(single, object{{"Sequence", object{{"id", "A"}, {"type_id", 0}}}})
	if v.AddEOS && v.EOS >= 0 {
		single = append(single, part(v.EOS))
	}
	return object{{"type", "TemplateProcessing"}, {"single", single}, {"pair", []any{}}, {"special_tokens", special}}
}
