package loaders

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// IsHF reports whether the model is a folder of Hugging Face form.
func (m *Model) IsHF() bool { return m.source != nil }

// HasVocab reports whether the model has a vocabulary.
func (m *Model) HasVocab() bool {
	if m.vocab != nil {
		return true
	}
	for _, key := range []string{"tokenizer.ggml.model", "tokenizer.ggml.tokens"} {
		if _, ok := m.Meta.Value(key); ok {
			return true
		}
	}
	return false
}

// Vocab returns the vocabulary of the model.
func (m *Model) Vocab() (*Vocab, error) {
	if m.vocab != nil {
		return m.vocab, nil
	}
	return VocabFromGGUF(m.Meta, m.Path)
}

// vocabulary reads the tokenizer of a folder, if it has one, into the model.
func (f *hfFolder) vocabulary(m *Model) error {
	found := false
	for _, name := range []string{"tokenizer.json", "tokenizer.json.gz", "tokenizer.model"} {
		_, err := os.Stat(filepath.Join(f.dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		found = found || err == nil
	}
	if !found {
		return nil
	}
	v, err := OpenVocab(f.dir)
	if err != nil {
		return err
	}
	if f.hf.Vocab != "" && v.Model == "llama" && len(v.Merges) > 0 {
		v.Model, v.AddBOS, v.AddSpacePrefix = f.hf.Vocab, true, false
	}
	rows := 0
	if t, ok := m.Tensor("token_embd.weight"); ok && len(t.Shape) == 2 {
		rows = t.Shape[0]
	}
	if err := v.fit(f.dir, rows); err != nil {
		return err
	}
	m.vocab = v
	if !f.o.GGUF {
		// What loading looks at.
		m.Meta.Set("tokenizer.ggml.model", v.Model)
		m.Meta.Set("tokenizer.ggml.tokens", v.Tokens)
		if v.ChatTemplate != "" {
			m.Meta.Set("tokenizer.chat_template", v.ChatTemplate)
		}
		return nil
	}
	if err := v.scoresBeside(filepath.Join(f.dir, "tokenizer.model")); err != nil {
		return err
	}
	v.put(m.Meta, rows)
	m.Notes = append(m.Notes, v.lostIn(m.Meta)...)
	return nil
}

// fit leaves out tokens that the embedding has no row for: markers of images
// and the like, which a model of text shares with its larger relatives.
func (v *Vocab) fit(file string, rows int) error {
	n := len(v.Tokens)
	if n <= rows || rows == 0 {
		return nil
	}
	gone := func(id int32) bool { return int(id) >= rows }
	for _, id := range []int32{v.BOS, v.EOS} {
		if gone(id) {
			return &FormatError{Format: "tokenizer", File: file, Err: fmt.Errorf("token %d, %s, is bos or eos, but the embedding has %d rows", id, quoteText(v.Tokens[id]), rows)}
		}
	}
	for i := rows; i < n; i++ {
		if v.isPiece(int32(i)) && v.Types[i] != TokenUserDefined && v.Tokens[i] != "" {
			return &FormatError{Format: "tokenizer", File: file, Err: fmt.Errorf("found %d tokens, but the embedding has %d rows, and token %d, %s, is text", n, rows, i, quoteText(v.Tokens[i]))}
		}
	}
	v.warn("%d tokens have no row in the embedding and are left out, from %s on", n-rows, quoteText(v.Tokens[rows]))
	v.Tokens, v.Types = v.Tokens[:rows:rows], v.Types[:rows:rows]
	if len(v.Scores) > 0 {
		v.Scores = v.Scores[:rows:rows]
	}
	for _, id := range []*int32{&v.EOT, &v.EOM, &v.UNK, &v.PAD} {
		if gone(*id) {
			*id = -1
		}
	}
	v.EOG, v.Suppress = slices.DeleteFunc(v.EOG, gone), slices.DeleteFunc(v.Suppress, gone)
	v.Added = slices.DeleteFunc(v.Added, func(a AddedToken) bool { return gone(a.ID) })
	return nil
}

// scoresBeside takes the scores of a tokenizer.model, if it lies beside a
// tokenizer.json of the same tokens.
func (v *Vocab) scoresBeside(path string) error {
	if v.Model != "llama" || len(v.Scores) > 0 || !isFile(path) {
		return nil
	}
	spm, err := VocabFromSPM(path)
	if err != nil {
		return err
	}
	n := min(len(v.Tokens), len(spm.Tokens))
	scores := make([]float32, len(v.Tokens))
	for i := range n {
		if v.Tokens[i] != spm.Tokens[i] && v.isPiece(int32(i)) && spm.isPiece(int32(i)) {
			v.warn("tokenizer.model and tokenizer.json disagree on token %d; scores are made from the merges", i)
			return nil
		}
		scores[i] = spm.Scores[i]
	}
	v.Scores = scores
	return nil
}

// mergeScores gives tokens scores that join pieces in the order of the merges:
// the rank of the first merge that makes a token, below 0.
func (v *Vocab) mergeScores() []float32 {
	scores := make([]float32, len(v.Tokens))
	ids := make(map[string]int, len(v.Tokens))
	for i, text := range v.Tokens {
		if _, ok := ids[text]; !ok {
			ids[text] = i
		}
		if v.isPiece(int32(i)) {
			scores[i] = -1e9 // no merge makes it
		}
	}
	for rank, m := range v.Merges {
		cut := strings.IndexByte(m[min(1, len(m)):], ' ')
		if cut < 0 {
			continue
		}
		if i, ok := ids[m[:cut+1]+m[cut+2:]]; ok && scores[i] == -1e9 {
			scores[i] = -float32(rank)
		}
	}
	return scores
}

// put writes the vocabulary as the tokenizer keys of a GGUF file, with a token
// for each of rows.
func (v *Vocab) put(meta *Metadata, rows int) {
	set := func(key string, val any) { meta.Set("tokenizer.ggml."+key, val) }
	tokens, types, scores := v.Tokens, make([]int32, 0, rows), v.Scores
	for _, t := range v.Types {
		types = append(types, int32(t))
	}
	if v.Model == "llama" && len(scores) == 0 {
		scores = v.mergeScores()
	}
	if n := rows - len(tokens); n > 0 {
		tokens, scores = slices.Clone(tokens), slices.Clone(scores)
	}
	for i := len(tokens); i < rows; i++ {
		tokens = append(tokens, fmt.Sprintf("[PAD%d]", i))
		types = append(types, int32(TokenUnused))
		if len(scores) > 0 {
			scores = append(scores, -1e9)
		}
	}
	set("model", v.Model)
	if v.Pre != "" {
		set("pre", v.Pre)
	}
	set("tokens", tokens)
	if len(scores) > 0 {
		set("scores", scores)
	}
	set("token_type", types)
	if len(v.Merges) > 0 {
		set("merges", v.Merges)
	}
	eot := v.EOT
	for _, id := range v.EOG { // an end of turn that nothing else tells
		if eot < 0 && id != v.EOS && id != v.EOM && !endNames[v.Tokens[id]] {
			eot = id
		}
	}
	for _, k := range []struct {
		key string
		id  int32
	}{{"bos_token_id", v.BOS}, {"eos_token_id", v.EOS}, {"eot_token_id", eot}, {"eom_token_id", v.EOM}, {"unknown_token_id", v.UNK}, {"padding_token_id", v.PAD}} {
		if k.id >= 0 {
			set(k.key, uint32(k.id))
		}
	}
	set("add_bos_token", v.AddBOS)
	set("add_eos_token", v.AddEOS)
	if v.Model == "llama" {
		set("add_space_prefix", v.AddSpacePrefix)
	}
	if len(v.Suppress) > 0 {
		set("suppress_tokens", v.Suppress)
	}
	if v.ChatTemplate != "" {
		meta.Set("tokenizer.chat_template", v.ChatTemplate)
	}
}

// lostIn tells what the keys do not say of the vocabulary.
func (v *Vocab) lostIn(meta *Metadata) []string {
	back, err := VocabFromGGUF(meta, "")
	if err != nil {
		return []string{fmt.Sprintf("the tokenizer cannot be read from a GGUF file: %v", err)}
	}
	lost := map[string]bool{
		"Unicode form NFC":                              v.NFC && !back.NFC,
		"which white space added tokens take":           len(v.Added) > 0,
		"a space before the text":                       v.AddSpacePrefix != back.AddSpacePrefix || v.PrefixFirstOnly != back.PrefixFirstOnly || v.AddSpacePrefix && v.PrefixUnlessSpace != back.PrefixUnlessSpace,
		"that whole tokens are not merged":              v.IgnoreMerges != back.IgnoreMerges,
		"tokens that end a generation":                  !slices.Equal(v.EOG, back.EOG),
		"tokens added before and after a text":          v.AddBOS != back.AddBOS || v.AddEOS != back.AddEOS,
		"types of tokens, as their names say otherwise": !slices.Equal(v.Types, back.Types[:min(len(back.Types), len(v.Types))]),
	}
	var notes []string
	for _, what := range slices.Sorted(maps.Keys(lost)) {
		if lost[what] {
			notes = append(notes, "a GGUF file cannot say of the tokenizer: "+what)
		}
	}
	return notes
}
