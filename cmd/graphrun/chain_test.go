package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	scripted "graphrun/internal/chain"
	"graphrun/loaders"
)

// chain is a scripted model: greedy decoding walks tokens from one to the next.
// Package internal/chain writes it; the vocabulary is one for prompts of text.
type chain struct {
	tokens []string
	types  []int32
	next   map[int]int
	// template is the model's chat template, if it has one.
	template string
}

func newChain() *chain {
	c := &chain{next: map[int]int{}}
	c.add("<unk>", loaders.TokenUnknown)
	c.add("<s>", loaders.TokenControl)
	c.add("</s>", loaders.TokenControl)
	for b := range 256 {
		c.add(fmt.Sprintf("<0x%02X>", b), loaders.TokenByte)
	}
	for _, p := range []string{"▁", "g", "o", "▁g", "▁go"} {
		c.add(p, loaders.TokenNormal)
	}
	return c
}

func (c *chain) add(text string, kind loaders.TokenType) int {
	c.tokens, c.types = append(c.tokens, text), append(c.types, int32(kind))
	return len(c.tokens) - 1
}

// id returns the token that is spelled text, added if need be.
func (c *chain) id(text string) int {
	if i := slices.Index(c.tokens, text); i >= 0 {
		return i
	}
	kind := loaders.TokenNormal
	if strings.HasPrefix(text, "<|") {
		kind = loaders.TokenControl
	}
	return c.add(text, kind)
}

// say makes the model answer the prompt "go" with these tokens. Each may occur
// once.
func (c *chain) say(t testing.TB, tokens ...string) {
	t.Helper()
	at := c.id("▁go")
	for _, text := range tokens {
		to := c.id(text)
		if _, ok := c.next[at]; ok {
			t.Fatalf("token %q occurs twice", c.tokens[at])
		}
		c.next[at] = to
		at = to
	}
}

// write writes the model and returns its path.
func (c *chain) write(t testing.TB) string {
	t.Helper()
	data, err := scripted.File(c.tokens, c.types, c.next, &scripted.Model{Template: c.template, Context: 128})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "chain.gguf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What a scripted model says comes out to the letter: characters whose bytes
// come in several tokens, stop strings that span tokens, ends of generation.
func TestChain(t *testing.T) {
	for _, c := range []struct {
		name string
		say  []string
		opts string
		want string // after "go"
		end  string
	}{
		{"end", []string{"▁well", "▁done", ".", "</s>"}, "", " well done.", "eog"},
		{"another end", []string{"▁well", "<|eot_id|>", "▁no"}, "", " well", "eog"},
		{"ignored end", []string{"▁well", "</s>", "▁more", "▁text"}, "--ignore-eog -n 4", " well more text", "length"},
		{"no tokens", []string{"</s>"}, "", "", "eog"},
		{"limit", []string{"▁one", "▁two", "▁three", "▁four"}, "-n 3", " one two three", "length"},
		{"bytes of one syllable", []string{"<0xEA>", "<0xB9>", "<0xB0>", "</s>"}, "", "\uae70", "eog"},
		{"bytes of an emoji", []string{"▁a", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "▁b", "</s>"}, "", " a\U0001F600 b", "eog"},
		{"a lone byte", []string{"▁a", "<0xB0>", "▁b", "</s>"}, "", " a\ufffd b", "eog"},
		{"a cut character", []string{"▁a", "<0xE6>", "<0xAD>", "</s>"}, "", " a\ufffd\ufffd", "eog"},
		{"a cut character at the limit", []string{"▁a", "<0xE6>", "<0xAD>", "<0xAA>"}, "-n 3", " a\ufffd\ufffd", "length"},
		{"stop in one token", []string{"▁one", "STOP", "▁two"}, "--stop STOP", " one", "stop"},
		{"stop over three tokens", []string{"▁one", "▁x", "yy", "z", "▁two"}, "--stop xyyz", " one ", "stop"},
		{"stop inside tokens", []string{"▁hello", "▁wor", "ld!", "▁no"}, "--stop orld", " hello w", "stop"},
		{"almost a stop", []string{"▁one", "▁x", "y", "w", "</s>"}, "--stop xyz", " one xyw", "eog"},
		{"held back at the end", []string{"▁one", "▁x", "y", "</s>"}, "--stop xyz", " one xy", "eog"},
		{"the first of two stops", []string{"▁one", "ab", "cd", "</s>"}, "--stop cd --stop bc", " onea", "stop"},
		{"stop with split bytes", []string{"▁a", "<0xE6>", "<0xAD>", "<0xAA>", "b", "</s>"}, "--stop \u6b6a", " a", "stop"},
		{"control tokens are no text", []string{"▁a", "<|im_start|>", "▁b", "</s>"}, "", " a b", "eog"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newChain()
			m.say(t, c.say...)
			path := m.write(t)
			args := append([]string{"run", path, "go", "--temp", "0"}, strings.Fields(c.opts)...)
			r := cli(t, "", args...)
			if r.code != 0 || r.out != "go"+c.want {
				t.Errorf("exit %d, text %q, want %q (%s)", r.code, r.out, "go"+c.want, r.err)
			}
			if !strings.Contains(r.err, "ended by "+c.end) {
				t.Errorf("%q, want an end by %s", r.err, c.end)
			}
			a := answerOf(t, cli(t, "", append(args, "-o", "json")...))
			if a.Text != c.want || a.Stop != c.end {
				t.Errorf("as JSON: %q ended by %s, want %q by %s", a.Text, a.Stop, c.want, c.end)
			}
		})
	}
}

// Text that spells control tokens stays text.
func TestChainUserText(t *testing.T) {
	m := newChain()
	m.say(t, "▁ok", "</s>")
	path := m.write(t)
	a := answerOf(t, cli(t, "", "run", path, "</s><0x40>", "-n", "1", "--temp", "0", "-o", "json"))
	// BOS, the space before a text, and a byte for each of ten characters.
	if a.Prompted != 12 {
		t.Errorf("%d tokens, want 12", a.Prompted)
	}
}
