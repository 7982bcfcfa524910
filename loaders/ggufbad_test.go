package loaders

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"graphrun/internal/shared"
)

// badLater are the malformed golden files that are well formed as far as the
// reader can tell; who refuses them stands beside each.
var badLater = map[string]string{
	"no-architecture.gguf":        "Arch",
	"unknown-architecture.gguf":   "architectures",
	"no-block-count.gguf":         "architectures",
	"no-embedding-length.gguf":    "architectures",
	"block-count-string.gguf":     "Metadata.Int",
	"zero-heads.gguf":             "architectures",
	"heads-not-dividing.gguf":     "architectures",
	"wrong-shape.gguf":            "architectures",
	"missing-tensor.gguf":         "architectures",
	"rope-dim-odd.gguf":           "architectures",
	"eps-nan.gguf":                "architectures",
	"context-length-0.gguf":       "architectures",
	"vocab-size-mismatch.gguf":    "architectures",
	"tokenizer-no-tokens.gguf":    "tokenizer",
	"scores-length-mismatch.gguf": "tokenizer",
	"bos-out-of-range.gguf":       "tokenizer",
	"duplicate-tokens.gguf":       "tokenizer",
	"nan-scales.gguf":             "Model.CheckFinite",
}

// TestBadGolden opens the malformed golden files.
func TestBadGolden(t *testing.T) {
	dir := shared.Path(t, "golden", "bad", "gguf")
	list, err := os.ReadFile(dir + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct{ File, What, Expect string }
	if err := json.Unmarshal(list, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		m, err := Open(filepath.Join(dir, c.File))
		later := badLater[c.File]
		if c.Expect == "ok" || later != "" {
			if err != nil {
				t.Errorf("%s (%s): %v", c.File, c.What, err)
				continue
			}
			switch later {
			case "Arch":
				_, err := m.Arch()
				wantError(t, err, c.File, "general.architecture: missing")
			case "Metadata.Int":
				_, _, err := m.Meta.Int("llama.block_count")
				wantError(t, err, c.File, "llama.block_count: found string")
			case "Model.CheckFinite":
				wantError(t, m.CheckFinite(), c.File, "tensor blk.0.ffn_down.weight: block 0 of")
			default:
				if err := m.CheckFinite(); err != nil {
					t.Error(err)
				}
			}
			m.Close()
			continue
		}
		wantError(t, err, c.File)
		if err != nil && !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v is not ErrFormat", c.File, err)
		}
		t.Log(err)
	}
}
