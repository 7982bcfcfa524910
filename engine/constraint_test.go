package engine_test

import (
	"testing"

	"graphrun/engine"
	"graphrun/grammar"
)

// A real model under a schema: what it writes is valid, cold and drawn, with
// and without text before it, which decides about the first space.
func TestSchemaOnModel(t *testing.T) {
	m, err := engine.Open("../testdata/stories.gguf", engine.Options{Threads: 1, Context: 256})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	v := grammar.NewVocab(m.Tokenizer)
	g, err := grammar.FromSchema([]byte(`{"type":"object","properties":{"name":{"type":"string","maxLength":12},"age":{"type":"integer","minimum":1,"maximum":99},"kind":{"enum":["cat","dog"]}},"required":["name","age","kind"],"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	spaced, err := grammar.ParseGBNF(`root ::= " "{2} [a-z]+ "."`)
	if err != nil {
		t.Fatal(err)
	}
	for _, prompt := range []string{"", "Once upon a time"} {
		for seed := range uint64(4) {
			for _, gr := range []*grammar.Grammar{g, spaced} {
				s := m.NewSession()
				if _, err := s.Prompt(t.Context(), m.Encode(prompt)); err != nil {
					t.Fatal(err)
				}
				o := engine.GenerateOptions{MaxTokens: 150}
				o.Temperature, o.Seed, o.Constraint = float64(seed), seed, gr.Matcher(v)
				text := ""
				for tok, err := range s.Generate(t.Context(), o) {
					if err != nil {
						t.Fatalf("after %q: %v", text, err)
					}
					text += tok.Text
				}
				if r := s.StopReason(); r != engine.StopString && r != engine.StopEOG {
					if gr == g || r != engine.StopLength {
						t.Errorf("%q after %q: ended by %q", text, prompt, r)
					}
					continue
				}
				if !gr.Match(text) {
					t.Errorf("%q after %q does not match", text, prompt)
				}
				s.Close()
			}
		}
	}
}
