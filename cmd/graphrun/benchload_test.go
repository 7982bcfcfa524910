package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"graphrun/internal/shared"
)

func TestBenchLoad(t *testing.T) {
	model, _ := sample(t, "llama-q8_0")
	for _, path := range []string{model, ""} {
		args := []string{"bench", "--load", "-o", "json"}
		modes := []string{"mapped"}
		if path != "" {
			args, modes = append(args, path), append(modes, "read")
		}
		checkLoad(t, must(t, args...), modes)
	}
	if text := must(t, "bench", model, "--load"); !strings.Contains(text, "| mapped | first token |") || !strings.Contains(text, "read: opened in") {
		t.Errorf("table:\n%s", text)
	}
	if text := must(t, "bench", model, "--load", "-o", "csv"); !strings.Contains(text, "llama-q8_0.gguf,mapped,compile,") {
		t.Errorf("csv:\n%s", text)
	}
	refused(t, exitUsage, []string{"bench", model, "--load", "-p", "5"}, "leave --prompt out")
	refused(t, exitUsage, []string{"bench", model, "--load", "--ablate"}, "leave --ablate out")
	refused(t, exitUsage, []string{"bench", model, "--load", "--kernel", "all"}, "leave --kernel out")
	refused(t, exitFailed, []string{"bench", "nosuch.gguf", "--load"}, "no such file")
}

func checkLoad(t *testing.T, text string, modes []string) {
	t.Helper()
	var res loadResult
	if err := json.Unmarshal([]byte(text), &res); err != nil {
		t.Fatal(err)
	}
	for _, mode := range modes {
		var names []string
		for _, p := range res.Phases {
			if p.Mode == mode {
				names = append(names, p.Phase)
			}
			if p.MS < 0 || p.PeakMB < p.RSSMB {
				t.Errorf("%+v", p)
			}
		}
		for _, want := range []string{"detect", "build", "compile", "first token"} {
			if !slices.Contains(names, want) {
				t.Errorf("%s has the phases %v, no %s", mode, names, want)
			}
		}
	}
	if res.Bytes == 0 || res.Model == "" {
		t.Errorf("%+v", res)
	}
}

// Folders are measured too.
func TestBenchLoadFolder(t *testing.T) {
	checkLoad(t, must(t, "bench", shared.Path(t, "golden", "hf", "llama3-tied"), "--load", "-o", "json"), []string{"mapped", "read"})
}

// Weights that were read give the same answer as mapped ones, and the report
// says so.
func TestRead(t *testing.T) {
	for _, name := range []string{"llama-q8_0", "gemma3"} {
		model, tokens := sample(t, name)
		args := []string{"run", model, "--tokens", tokens, "-n", "4", "--temp", "0", "--ids"}
		if got, want := must(t, append(args, "--read")...), must(t, args...); got != want {
			t.Errorf("%s: read %s, mapped %s", name, got, want)
		}
		if text := must(t, "inspect", model, "--memory", "--read"); !strings.Contains(text, "read into memory") {
			t.Errorf("%s: %s", name, text)
		}
	}
	refused(t, exitFailed, []string{"run", filepath.Join(t.TempDir(), "x.gguf"), "hi", "--read"}, "no such file")
}
