package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDiff(t *testing.T) {
	model, _ := sample(t, "llama-q8_0")
	if out := must(t, "diff", model, model); !strings.Contains(out, " 0 differ, 0 only in the first, 0 only in the second") {
		t.Errorf("a model differs from itself:\n%s", out)
	}
	out := must(t, "diff", model, "--passes-b=-fuse-gated")
	for _, want := range []string{"+ matmul ffn.gate", "+ gated ffn.act", "~ gatedmatmulquant ffn.act.q8: gatedmatmulquant → quantize;", "layers 0–1"} {
		if !strings.Contains(out, want) {
			t.Errorf("without fuse-gated: no %q in\n%s", want, out)
		}
	}
	// A text form is as good as the model it came from.
	text := filepath.Join(t.TempDir(), "a.txt")
	must(t, "--dump", model, "-o", text)
	out = must(t, "diff", text, model, "--json")
	var d struct {
		Same                   int
		Only_A, Only_B, Differ []any
	}
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	if d.Same == 0 || len(d.Only_A)+len(d.Only_B)+len(d.Differ) != 0 {
		t.Errorf("the text form differs: %s", out)
	}
	if out := must(t, "diff", model, "--pass", "build", "--passes-b=-fuse-gated"); !strings.Contains(out, " 0 differ") {
		t.Errorf("before all passes there is a difference:\n%s", out)
	}
	bad := filepath.Join(t.TempDir(), "bad.txt")
	if err := os.WriteFile(bad, []byte("graph \"x\" {\n  v0 = nosuch : f32[1]\n}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	refused(t, exitFailed, []string{"diff", bad, model}, bad, "nosuch")
	refused(t, exitFailed, []string{"diff", model, "nosuch.gguf"}, "no such file")
	refused(t, exitUsage, []string{"diff"}, "1 to 2 arguments")
	refused(t, exitUsage, []string{"diff", model, "--pass", "nosuch"}, "nosuch")
}
