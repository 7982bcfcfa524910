package loaders

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestJSONTypes: a value of another type is told in words of the file.
func TestJSONTypes(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:                         "found array, expected an object",
		`{"eos_token_id":"x"}`:       "eos_token_id: found string, expected an integer",
		`{"eos_token_id":[1,true]}`:  "eos_token_id: found bool, expected an integer",
		`{"eos_token_id":1e10}`:      "eos_token_id: found number, expected an integer of 32 bits",
		`{"suppress_tokens":{"a":1}`: "unexpected end",
	} {
		file := filepath.Join(t.TempDir(), "generation_config.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var into struct {
			EOS      hfIDs `json:"eos_token_id"`
			Suppress hfIDs `json:"suppress_tokens"`
		}
		err := readConfig(file, &into)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}
