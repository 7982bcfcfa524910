package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Proposals change the speed and nothing else.
func TestDraft(t *testing.T) {
	stories := filepath.Join("..", "..", "testdata", "stories.gguf")
	gemma, tokens := sample(t, "gemma3")
	for _, base := range [][]string{
		{"run", stories, "Once upon a time", "-n", "80", "--temp", "0", "--deterministic", "-o", "json"},
		{"run", stories, "Once upon a time", "-n", "60", "--temp", "0.9", "--seed", "7", "--deterministic", "-o", "json"},
		{"run", gemma, "--tokens", tokens, "-n", "60", "--temp", "0", "--ignore-eog", "--deterministic", "-o", "json"},
	} {
		want := answerOf(t, cli(t, "", base...))
		drafts := [][]string{{"--lookup"}, {"--lookup", "--draft-tokens", "1"}}
		if base[6] == "0" || base[7] == "0" { // drawn drafts give the distribution, not the same draw
			drafts = append(drafts, []string{"--draft", base[1]}, []string{"--draft", base[1], "--draft-tokens", "3"})
		}
		for _, d := range drafts {
			r := cli(t, "", append(slices.Clone(base), d...)...)
			if got := answerOf(t, r); got.Text != want.Text || !slices.Equal(got.IDs, want.IDs) {
				t.Errorf("%v: %q, want %q", d, got.Text, want.Text)
			}
			line := regexp.MustCompile(`(\d+) steps, [\d.]+ tokens each`)
			if !line.MatchString(r.err) {
				t.Errorf("%v: statistics are %q", d, r.err)
			}
			if d[0] == "--draft" && len(d) == 2 && !regexp.MustCompile(`of \d+ proposals right \(100 %\), [\d.]+ times as fast`).MatchString(r.err) {
				t.Errorf("as its own draft a model is always right: %q", r.err)
			}
		}
	}
	if r := cli(t, "", "run", stories, "Once", "-n", "20", "--temp", "1", "--draft", stories); r.code != 0 || !strings.Contains(r.err, "proposals right") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	refused(t, exitFailed, []string{"run", stories, "x", "--draft", gemma}, "vocabulary", "1280", "288")
	refused(t, exitUsage, []string{"run", stories, "x", "--draft", gemma, "--lookup"}, "exclude")
	refused(t, exitUsage, []string{"run", stories, "x", "--lookup", "--draft-tokens", "0"}, "--draft-tokens")
	refused(t, exitFailed, []string{"run", stories, "x", "--draft", "no.gguf"}, "no.gguf")
}
