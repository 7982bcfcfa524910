package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"graphrun/backends/cpu"
	"graphrun/engine"
	"graphrun/graph"
	"graphrun/internal/shared"
)

// everyModel runs a test for each model of testdata and each golden one.
func everyModel(t *testing.T, run func(t *testing.T, path string)) {
	for _, name := range sampleNames(t) {
		path, _ := sample(t, name)
		t.Run("testdata/"+name, func(t *testing.T) { run(t, path) })
	}
	t.Run("golden", func(t *testing.T) {
		dir := shared.Path(t, "golden", "models")
		for _, name := range left(t, dir) {
			t.Run(name, func(t *testing.T) { run(t, filepath.Join(dir, name, "model.gguf")) })
		}
	})
}

// Two dumps of a model are the same bytes, whatever the form.
func TestDumpTwice(t *testing.T) {
	everyModel(t, func(t *testing.T, path string) {
		for _, form := range dumpFormats {
			a, b := must(t, "--dump="+form, path), must(t, "--dump="+form, path)
			if a != b {
				t.Errorf("two dumps differ in form %s", form)
			}
			if len(a) < 500 || !strings.HasSuffix(a, "\n") {
				t.Errorf("form %s: %q", form, a)
			}
			if form == "json" && !json.Valid([]byte(a)) {
				t.Error("no valid JSON")
			}
		}
	})
}

// The text form of a graph reads back as the same graph, before all passes and
// after each.
func TestDumpParses(t *testing.T) {
	everyModel(t, func(t *testing.T, path string) {
		parsed := 0
		same := func(pass string, g *graph.Graph) {
			text := g.String()
			back, err := graph.Parse(text)
			if err != nil {
				t.Errorf("after %s: %v", pass, err)
				return
			}
			parsed++
			if again := back.String(); again != text || back.Fingerprint() != g.Fingerprint() {
				t.Errorf("after %s: the graph does not read back as itself", pass)
			}
			if err := graph.Verify(back); err != nil {
				t.Errorf("after %s: %v", pass, err)
			}
		}
		m, err := engine.Open(path, engine.Options{Threads: 1, OnPass: func(s graph.PassStat, g *graph.Graph) { same(s.Pass, g) }})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		same("build", m.Graph)
		same("all", m.Program().Graph())
		if want := len(cpu.Passes().Passes()) + 2; parsed != want {
			t.Errorf("%d graphs read back, want %d", parsed, want)
		}
		if got := must(t, "--dump", path); got != m.Program().Graph().String() {
			t.Error("--dump is not the graph that runs")
		}
	})
}

// --pass shows the state after a pass.
func TestDumpPass(t *testing.T) {
	path, _ := sample(t, "llama-q8_0")
	if text := must(t, "--dump", path, "--pass", "build"); strings.Contains(text, "gatedmatmul") || strings.Contains(text, "quantize") {
		t.Error("the graph as built has the results of passes")
	}
	if text := must(t, "--dump", path, "--pass", "fuse-gated"); !strings.Contains(text, "gatedmatmul") || strings.Contains(text, " quantize ") {
		t.Error("the graph after fuse-gated is not that")
	}
	if text := must(t, "--dump", path, "--passes", "-fuse-gated"); strings.Contains(text, "gatedmatmul") {
		t.Error("a pass that is off did something")
	}
	if must(t, "--dump", path, "--pass", "memplan") != must(t, "--dump", path) {
		t.Error("the state after the last pass is not the end")
	}
	list := must(t, "--dump", path, "--passes", "list")
	for _, p := range cpu.Passes().Passes() {
		if !strings.Contains(list, "\n"+p.Name+" ") {
			t.Errorf("the list lacks %s:\n%s", p.Name, list)
		}
	}
}

func TestDumpSummary(t *testing.T) {
	path, _ := sample(t, "llama-gqa")
	out := must(t, "--dump=summary", path)
	for _, part := range []string{"one token ({", "largest step ({", "multiply-adds", "matmul", "attention", "weights 137856 bytes", "arena"} {
		if !strings.Contains(out, part) {
			t.Errorf("the summary lacks %q:\n%s", part, out)
		}
	}
}

// -o writes what is printed otherwise.
func TestDumpToFile(t *testing.T) {
	path, _ := sample(t, "llama-gqa")
	dir := t.TempDir()
	file := filepath.Join(dir, "g.txt")
	if out := must(t, "--dump", path, "-o", file); out != "" {
		t.Errorf("printed %q", out)
	}
	b, err := os.ReadFile(file)
	if err != nil || string(b) != must(t, "--dump", path) {
		t.Errorf("the file is not the dump (%v)", err)
	}
	if names := left(t, dir); len(names) != 1 {
		t.Errorf("files are %v", names)
	}
}

// The embedded model is dumped when none is named, which one line says.
func TestDumpEmbedded(t *testing.T) {
	r := cli(t, "", "--dump")
	if r.code != 0 || !strings.HasPrefix(r.out, `graph "llama"`) || r.err != "graphrun: no MODEL named, using the embedded story model\n" {
		t.Errorf("exit %d, %q, %.80q", r.code, r.err, r.out)
	}
}

func TestInspect(t *testing.T) {
	path, _ := sample(t, "llama-q4_k")
	out := must(t, "inspect", path)
	for _, part := range []string{"GGUF v3", "general.architecture", "blk.0.attn_q.weight", "q4_k", "[64 256]", "KV cache", "total"} {
		if !strings.Contains(out, part) {
			t.Errorf("inspect lacks %q:\n%s", part, out)
		}
	}
	var v struct {
		Bytes    int64
		Metadata []struct{ Key, Type string }
		Tensors  []struct {
			Name, Type string
			Shape      []int
			Bytes      int
		}
		Memory map[string]any
	}
	if err := json.Unmarshal([]byte(must(t, "inspect", path, "-o", "json")), &v); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil || v.Bytes != st.Size() || len(v.Tensors) != 11 || len(v.Metadata) < 20 || len(v.Memory) == 0 {
		t.Errorf("the JSON is incomplete: %+v", v)
	}
}
