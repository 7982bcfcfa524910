package loaders

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// OpenTokenizer reads the vocabulary of a model and makes its tokenizer. path
// is a GGUF file, a tokenizer.json file, plain or packed with gzip, a
// tokenizer.model file, or a folder that holds one of them.
func OpenTokenizer(path string) (*Tokenizer, error) {
	v, err := OpenVocab(path)
	if err != nil {
		return nil, err
	}
	t, err := NewTokenizer(v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", oneLine(path), err)
	}
	return t, nil
}

// OpenVocab reads the vocabulary of a model; see OpenTokenizer.
func OpenVocab(path string) (*Vocab, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		for _, name := range []string{"tokenizer.json", "tokenizer.json.gz"} {
			file := filepath.Join(path, name)
			if _, err := os.Stat(file); err == nil {
				return VocabFromJSON(file)
			} else if !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
		if file := filepath.Join(path, "tokenizer.model"); isFile(file) {
			return VocabFromSPM(file)
		}
		if found, _ := filepath.Glob(filepath.Join(escapeGlob(path), "*.gguf")); len(found) == 0 {
			return nil, fmt.Errorf("tokenizer: %s holds neither tokenizer.json nor tokenizer.model", oneLine(path))
		}
	}
	if strings.HasSuffix(path, ".model") {
		return VocabFromSPM(path)
	}
	if strings.HasSuffix(path, ".json") || strings.HasSuffix(path, ".json.gz") {
		return VocabFromJSON(path)
	}
	m, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return VocabFromGGUF(m.Meta, path)
}
