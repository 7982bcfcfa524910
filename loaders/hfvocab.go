package loaders

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
		return m.vocab()
	}
	return VocabFromGGUF(m.Meta, m.Path)
}

// vocabulary reads the tokenizer of a folder, if it has one, into the model.
func (f *hfFolder) vocabulary(m *Model) error { return nil }
