package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// command runs the program and returns exit code and output.
func command(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = execute(context.Background(), args, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

func TestSynthAndBench(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	if code, _, e := command(t, "synth", "Tiny-Gemma4-MoE", "--type", "Q4_K_M", "-o", path); code != 0 {
		t.Fatalf("synth: exit code %d: %s", code, e)
	}
	code, out, e := command(t, "bench", path, "-p", "20", "-n", "4", "-r", "2", "-d", "3", "--chunk", "7", "-o", "json")
	if code != 0 || strings.Count(out, "\n") != 1 {
		t.Fatalf("bench: exit code %d: %s%s", code, out, e)
	}
	var r map[string]any
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"prefill_tok_s", "decode_tok_s", "load_ms", "read_gb_s", "roof_pct"} {
		if x, _ := r[key].(float64); x <= 0 {
			t.Errorf("%s is %v, want a number above 0", key, r[key])
		}
	}
	if n := len(r["decode_samples"].([]any)); n != 2 {
		t.Errorf("%d samples, want 2", n)
	}

	code, out, e = command(t, "bench", path, "-p", "0", "-n", "4", "-r", "1", "-o", "csv")
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if code != 0 || err != nil || len(rows) != 2 || !slices.Contains(rows[0], "decode_tok_s") {
		t.Errorf("csv: exit code %d, %v: %s%s", code, err, out, e)
	}
	code, out, e = command(t, "bench", path, "-p", "9", "-n", "5", "-r", "2", "--parallel", "3")
	if code != 0 || !strings.Contains(out, "| tg5 x3") || !strings.Contains(out, "times one") {
		t.Errorf("parallel: exit code %d: %s%s", code, out, e)
	}
	code, out, e = command(t, "bench", path, "-p", "8", "-n", "0", "-r", "1")
	if code != 0 || !strings.Contains(out, "| pp8") || strings.Contains(out, "| tg") {
		t.Errorf("md: exit code %d: %s%s", code, out, e)
	}
}

func TestSynthAndBenchUsage(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"synth", "SHAPE"},
		{"synth tiny-llama", "--type"},
		{"synth tiny-lama --type q8_0 -o x", "known: smollm2-135m"},
		{"synth tiny-llama --type q8 -o x", "q4_k_m"},
		{"bench --output xml", "md json csv"},
		{"bench -p 0 -n 0", "nothing to measure"},
		{"bench -d -1", "negative"},
		{"bench --parallel 0", "want 1 to 1024"},
		{"bench --parallel 2 -n 0", "-n above 0"},
	} {
		code, _, e := command(t, strings.Fields(c.args)...)
		if code != exitUsage || !strings.Contains(e, c.want) {
			t.Errorf("%s: exit code %d, %q; want %d and %q", c.args, code, e, exitUsage, c.want)
		}
	}
	if code, out, _ := command(t, "synth", "--list"); code != 0 || !strings.Contains(out, "gemma-4-26b-a4b") {
		t.Errorf("synth --list: exit code %d: %s", code, out)
	}
}

func TestStats(t *testing.T) {
	median, mean, sd := stats([]float64{4, 1, 1, 2})
	if median != 1.5 || mean != 2 || sd != 1.41 {
		t.Errorf("got median %v, mean %v, deviation %v; want 1.5, 2, 1.41", median, mean, sd)
	}
}
