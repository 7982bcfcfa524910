package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The known story of the golden model comes out to the letter.
func TestStory(t *testing.T) {
	for _, name := range []string{"stories260K-f32", "stories260K-f16", "stories260K-q8_0"} {
		g := openGolden(t, name)
		r := cli(t, "", "run", g.model, g.Story.Prompt, "--temp", "0", "-n", "100")
		if r.code != 0 || r.out != g.Story.Text {
			t.Errorf("%s: exit %d, %q, want %q", name, r.code, r.out, g.Story.Text)
		}
		if strings.Count(r.err, "\n") != 1 || !strings.Contains(r.err, "generated 100 tokens") || !strings.Contains(r.err, "ended by length") {
			t.Errorf("%s: statistics are %q", name, r.err)
		}
	}
}

// A prompt comes as argument, from a file or from standard input.
func TestPromptSources(t *testing.T) {
	path, _ := sample(t, "llama-gqa")
	file := filepath.Join(t.TempDir(), "prompt.txt")
	if err := os.WriteFile(file, []byte("the end"), 0o600); err != nil {
		t.Fatal(err)
	}
	opts := []string{"--temp", "0", "-n", "5", "-o", "json"}
	want := answerOf(t, cli(t, "", append([]string{"run", path, "the end"}, opts...)...))
	if want.Prompt != "the end" || len(want.IDs) == 0 || want.Text == "" {
		t.Fatalf("%+v", want)
	}
	for what, r := range map[string]result{
		"file":  cli(t, "not this", append([]string{"run", path, "-f", file}, opts...)...),
		"stdin": cli(t, "the end", append([]string{"run", path}, opts...)...),
	} {
		if got := answerOf(t, r); got.Prompt != want.Prompt || got.Text != want.Text || !slices.Equal(got.IDs, want.IDs) {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	refused(t, exitFailed, []string{"run", path, "-f", filepath.Join(t.TempDir(), "no.txt")}, "no.txt")
}

type answer struct {
	Prompt, Text, Stop string
	IDs                []int32
	Seed               *uint64
	Prompted           int `json:"prompt_tokens"`
	Generated          int `json:"generated_tokens"`
}

func answerOf(t *testing.T, r result) answer {
	t.Helper()
	var a answer
	if r.code != 0 {
		t.Fatalf("exit %d: %s", r.code, r.err)
	}
	if err := json.Unmarshal([]byte(r.out), &a); err != nil {
		t.Fatalf("%v: %s", err, r.out)
	}
	if a.Generated != len(a.IDs) || a.Prompted == 0 || a.Stop == "" || a.Seed == nil {
		t.Errorf("the object is incomplete: %s", r.out)
	}
	return a
}

// --ids prints the greedy continuation of golden models, whose choices are
// clear; an end of generation does not stop it.
func TestIDs(t *testing.T) {
	for _, name := range []string{"stories260K-f32", "llama-gqa", "llama3-tied", "gemma3-1b-like", "gemma4-31b-like"} {
		for _, backend := range []string{"cpu", "ref"} {
			g := openGolden(t, name)
			out := must(t, "run", g.model, "--tokens", join(g.Tokens), "-n", "32", "--temp", "0", "--ids", "--ignore-eog", "--kv", "f32", "--backend", backend)
			var ids []int32
			if err := json.Unmarshal([]byte(out), &ids); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(ids, g.Greedy.Tokens) {
				t.Errorf("%s, %s: %v, want %v", name, backend, ids, g.Greedy.Tokens)
			}
		}
	}
}

// The same seed gives the same text, which the statistics make possible to ask
// for again.
func TestSeed(t *testing.T) {
	path, _ := sample(t, "llama-gqa")
	r := cli(t, "", "run", path, "the", "-n", "30")
	m := regexp.MustCompile(`; seed (\d+)\n$`).FindStringSubmatch(r.err)
	if r.code != 0 || m == nil {
		t.Fatalf("exit %d, %q", r.code, r.err)
	}
	if again := must(t, "run", path, "the", "-n", "30", "--seed", m[1]); again != r.out {
		t.Errorf("seed %s: %q, then %q", m[1], r.out, again)
	}
	if other := must(t, "run", path, "the", "-n", "30", "--seed", m[1]+"1"); other == r.out {
		t.Error("another seed gives the same 30 tokens")
	}
}

// A prompt that does not fit is refused with both numbers, before anything is
// computed.
func TestPromptTooLong(t *testing.T) {
	path, _ := sample(t, "llama-gqa")
	refused(t, exitFailed, []string{"run", path, strings.Repeat("a b ", 200), "-c", "64"}, "64", "do not fit")
	refused(t, exitFailed, []string{"logits", path, "--tokens", "1,2,3,4", "-c", "3", "-o", filepath.Join(t.TempDir(), "x")}, "4 tokens", "context of 3")
}

// The embedded model writes a little story that ends by itself.
func TestEmbeddedStory(t *testing.T) {
	const prompt = "Once upon a time"
	r := cli(t, "", "run", prompt, "--temp", "0")
	if r.code != 0 || !strings.HasPrefix(r.out, prompt) {
		t.Fatalf("exit %d: %s%s", r.code, r.out, r.err)
	}
	if !strings.HasPrefix(r.err, "graphrun: no MODEL named, using the embedded story model\n") || !strings.Contains(r.err, "ended by eog") {
		t.Errorf("standard error: %s", r.err)
	}
	if n := len(regexp.MustCompile(`[.!?]["\s]|[.!?]"?$`).FindAllString(r.out, -1)); n < 3 {
		t.Errorf("%d sentences: %s", n, r.out)
	}
	if strings.ContainsAny(r.out, "\ufffd<>") {
		t.Errorf("the story has pieces that are no words: %q", r.out)
	}
	if again := must(t, "run", prompt, "--temp", "0", "-t", "1"); again != r.out {
		t.Errorf("told twice, the story differs: %q, then %q", r.out, again)
	}
	if warm := must(t, "run", prompt, "--temp", "0.8", "--seed", "7"); len(warm) < 100 || warm != must(t, "run", prompt, "--temp", "0.8", "--seed", "7") {
		t.Errorf("at temperature 0.8: %q", warm)
	}
}
