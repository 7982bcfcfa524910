package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheck: every model of testdata, value by value.
func TestCheck(t *testing.T) {
	for _, name := range sampleNames(t) {
		t.Run(name, func(t *testing.T) {
			path, tokens := sample(t, name)
			r := cli(t, "", "check", path, "--tokens", tokens, "-t", "2", "-o", "json")
			var got checkReport
			if err := json.Unmarshal([]byte(r.out), &got); err != nil {
				t.Fatalf("exit %d, %v: %s", r.code, err, r.err)
			}
			if r.code != 0 || got.First != "" {
				t.Errorf("exit %d, first out of tolerance %q: %s", r.code, got.First, r.err)
			}
			names := map[string]bool{}
			for _, v := range got.Values {
				names[v.Value] = true
				if v.Bad {
					t.Errorf("%s %s: error %g", v.Value, v.Op, v.Error)
				}
			}
			for _, want := range []string{"embd", "attn.q-0", "attn.ctx-0", "logits"} {
				if !names[want] {
					t.Errorf("%s was not compared", want)
				}
			}
		})
	}
}

// TestCheckFinds: what is out of tolerance is named, in text and by the exit
// code.
func TestCheckFinds(t *testing.T) {
	path, tokens := sample(t, "llama-f16")
	refused(t, exitFailed, []string{"check", path, "--tokens", tokens, "-t", "1", "--tolerance", "1e-12"}, "first value out of tolerance")
	r := cli(t, "", "check", path, "--tokens", tokens, "-t", "1", "--tolerance", "1e-12", "--all")
	if !strings.Contains(r.out, "first value out of tolerance: ") || !strings.Contains(r.out, "attn.q-0") || !strings.Contains(r.out, "matmul") {
		t.Errorf("%s", r.out)
	}
	for _, c := range []struct {
		got, want []float32
		worst, e  float64
	}{
		{[]float32{1, 2}, []float32{1, 2}, 0, 0}, {[]float32{3, 4}, []float32{0, 0}, 4, 5 / (1e-6 * math.Sqrt2)},
		{[]float32{3, 5}, []float32{3, 4}, 1, 0.2}, {[]float32{float32(math.NaN()), 4}, []float32{3, 4}, math.MaxFloat64, math.MaxFloat64},
		{nil, nil, 0, 0},
	} {
		if w, e := rowError(c.got, c.want); w != c.worst || math.Abs(e-c.e) > 1e-9*c.e {
			t.Errorf("%v, %v: worst %g, error %g", c.got, c.want, w, e)
		}
	}
}

func TestCheckAgainst(t *testing.T) {
	path, tokens := sample(t, "llama-f16")
	file := filepath.Join(t.TempDir(), "logits.f32")
	must(t, "logits", path, "--tokens", tokens, "-o", file, "--backend", "ref")
	args := []string{"check", path, "--tokens", tokens, "-t", "1", "--against", file}
	if out := must(t, args...); !strings.Contains(out, "logits of ref: worst difference 0, rms 0") || !strings.Contains(out, "logits of cpu") {
		t.Errorf("%s", out)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(b) / 2 {
		b[i] = 0
	}
	if err := os.WriteFile(file, b, 0o666); err != nil {
		t.Fatal(err)
	}
	r := cli(t, "", args...)
	if r.code != exitFailed || !strings.Contains(r.err, "logits of backend ref") {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
	if err := os.WriteFile(file, b[:len(b)-4], 0o666); err != nil {
		t.Fatal(err)
	}
	refused(t, exitFailed, args, "numbers")
	if err := os.WriteFile(file, b[:5], 0o666); err != nil {
		t.Fatal(err)
	}
	refused(t, exitFailed, args, "5 bytes")
	refused(t, exitUsage, []string{"check", path, "--tokens", "1,x"}, "x")
	refused(t, exitUsage, []string{"check", path, "-o", "xml"}, "xml")
	refused(t, exitUsage, []string{"check", path, "--tolerance", "-1"}, "--tolerance")
}
