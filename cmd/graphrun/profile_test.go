package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	pprof "github.com/google/pprof/profile"
)

func TestProfile(t *testing.T) {
	model, _ := sample(t, "gemma3")
	dir := t.TempDir()
	ops, trace, cpu := filepath.Join(dir, "ops.pb.gz"), filepath.Join(dir, "t.json"), filepath.Join(dir, "cpu.pb.gz")
	out := must(t, "profile", model, "-p", "20", "-n", "4", "-t", "2", "-o", ops, "--trace", trace, "--cpuprofile", cpu)
	for _, want := range []string{"gemma3, 2 threads", "prefill: 20 tokens in 1 step,", "decode: 4 tokens in 4 steps,", "attention", "layer 0", "barrier", "sampling", "other", "100.0 %", "million multiply-adds", "a recorded decode step"} {
		if !strings.Contains(out, want) {
			t.Errorf("the tables lack %q:\n%s", want, out)
		}
	}
	if got := left(t, dir); !slices.Equal(got, []string{"cpu.pb.gz", "ops.pb.gz", "t.json"}) {
		t.Errorf("files %q", got)
	}
	for _, path := range []string{ops, cpu} {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		p, err := pprof.Parse(f)
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if path == ops && (len(p.Sample) == 0 || p.SampleType[0].Type != "time" || p.SampleType[2].Type != "macs") {
			t.Errorf("%d samples of %v", len(p.Sample), p.SampleType)
		}
	}
	var events struct {
		Events []map[string]any `json:"traceEvents"`
	}
	readJSON(t, trace, &events)
	if len(events.Events) < 100 {
		t.Errorf("%d events", len(events.Events))
	}
	// With itself as the base, and as JSON.
	var r struct {
		Phases []struct {
			Name string
			NS   int64
			Ops  []struct {
				Name string
				MACs int
			}
		}
		MACs    int `json:"macs_per_token"`
		Changes []struct{ Phase, Op string }
	}
	out = must(t, "profile", model, "-p", "20", "-n", "4", "--base", ops, "--json", "--no-layers")
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Phases) != 2 || r.Phases[0].NS <= 0 || r.MACs == 0 || len(r.Changes) < 10 {
		t.Errorf("%+v", r)
	}
	if out = must(t, "profile", model, "-p", "20", "-n", "4", "--base", ops, "--no-layers"); !strings.Contains(out, "compared with "+ops) || !strings.Contains(out, "base µs/token") {
		t.Errorf("no comparison:\n%s", out)
	}
}

// A prompt longer than a step is computed in several.
func TestProfileChunks(t *testing.T) {
	model, _ := sample(t, "llama-gqa")
	out := must(t, "profile", model, "-p", "600", "-n", "1", "--no-layers", "-c", "700")
	if !strings.Contains(out, "prefill: 600 tokens in 2 steps") {
		t.Errorf("tables:\n%s", out)
	}
}

func TestProfileErrors(t *testing.T) {
	model, _ := sample(t, "llama-gqa")
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("no profile"), 0o644); err != nil {
		t.Fatal(err)
	}
	refused(t, exitUsage, []string{"profile", model, "-n", "0"}, "-n is 0")
	refused(t, exitUsage, []string{"profile", model, "-p", "9", "--backend", "ref"}, "ref cannot be profiled")
	refused(t, exitUsage, []string{"profile", model, "more"}, "0 to 1 arguments")
	refused(t, exitFailed, []string{"profile", "nosuch.gguf"}, "no such file")
	refused(t, exitFailed, []string{"profile", model, "--base", filepath.Join(dir, "nosuch")}, "nosuch")
	refused(t, exitFailed, []string{"profile", model, "-p", "9", "-n", "1", "--base", text}, text)
	refused(t, exitFailed, []string{"profile", model, "-p", "9", "-n", "1", "--no-layers", "-c", "4"}, "4")
}
