package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestInspectMemory(t *testing.T) {
	model, tokens := sample(t, "gemma3")
	text := must(t, "inspect", model, "--memory", "--ctx", "64")
	for _, line := range []string{`weights +\S+ KiB|MiB  mapped`, `KV cache .* window \d+, \d+ layers of \d+ positions, f16`, `KV cache .* all positions, \d+ layers of 64 positions, f16`, `activations`, `total`} {
		if !regexp.MustCompile(line).MatchString(text) {
			t.Errorf("no line like %q in\n%s", line, text)
		}
	}
	if strings.Contains(text, "metadata") {
		t.Error("--memory prints more than the memory")
	}
	type report struct {
		Weights, Arena, Total int
		KV                    []struct{ Bytes, Positions int }
		Dropped               []struct {
			Part           string
			Tensors, Bytes int
		}
	}
	read := func(args ...string) (r report) {
		t.Helper()
		if err := json.Unmarshal([]byte(must(t, append([]string{"inspect", model, "--memory", "-o", "json"}, args...)...)), &r); err != nil {
			t.Fatal(err)
		}
		sum := r.Weights + r.Arena
		for _, k := range r.KV {
			sum += k.Bytes
		}
		if sum != r.Total {
			t.Errorf("%v: the parts are %d bytes, the total %d", args, sum, r.Total)
		}
		return r
	}
	whole, long, dropped := read(), read("--ctx", strconv.Itoa(1<<20)), read("--drop", "ffn,attn")
	if long.Total < whole.Total+1<<20*4 {
		t.Errorf("a context of 2^20 takes %d bytes, the default %d", long.Total, whole.Total)
	}
	saved := 0
	for _, d := range dropped.Dropped {
		saved += d.Bytes
	}
	if len(dropped.KV) != 0 || len(dropped.Dropped) != 2 || dropped.Weights+saved != whole.Weights {
		t.Errorf("without ffn and attn: %+v, whole: %+v", dropped, whole)
	}
	want := must(t, "embed", model, "hello")
	if got := must(t, "embed", model, "hello", "--drop", "head"); got != want {
		t.Error("--drop head changes an embedding")
	}
	logits := func(args ...string) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "logits")
		must(t, append([]string{"logits", model, "--tokens", tokens, "-o", path}, args...)...)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if logits() == logits("--drop", "ffn") {
		t.Error("--drop ffn changes nothing")
	}
	refused(t, exitUsage, []string{"run", model, "hi", "--drop", "norms"}, `"norms"`, "ffn, attn, head, embed")
	refused(t, exitFailed, []string{"run", model, "hi", "--drop", "head"}, "without its head")
	refused(t, exitFailed, []string{"run", model, "hi", "--drop", "embed"}, "without its token embeddings")
	refused(t, exitUsage, []string{"logits", model, "--tokens", tokens, "-o", "x", "--drop", "head"}, "--drop head")
	refused(t, exitUsage, []string{"profile", model, "--drop", "head"}, "--drop head")
}
