package chain

import (
	"testing"

	"graphrun/engine"
)

// Two scripts of one model, each begun by its key.
func TestScripts(t *testing.T) {
	m := New()
	first := m.Say("▁one", "<0xEA>", "<0xB9>", "<0xB0>", "x", "</s>")
	second := m.Say("▁two", "x", "<0xEA>", "</s>")
	loop := m.Loop("a", "b")
	data, err := m.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.OpenBytes("chain", data, engine.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for key, want := range map[string]string{first: " one\uae70x", "go " + second: " twox\ufffd", loop: "ababab"} {
		s := e.NewSession()
		if err := s.Append(t.Context(), e.Encode(key)...); err != nil {
			t.Fatal(err)
		}
		got := ""
		for tok, err := range s.Generate(t.Context(), engine.GenerateOptions{MaxTokens: 6}) {
			if err != nil {
				t.Fatal(err)
			}
			got += tok.Text
		}
		if got != want {
			t.Errorf("after %q: %q, want %q", key, got, want)
		}
		s.Close()
	}
}
