package main

import (
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// logitsOf runs the verb and returns what it writes.
func logitsOf(t *testing.T, model, tokens string, opts ...string) []float32 {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "out.f32")
	must(t, append([]string{"logits", model, "--tokens", tokens, "-o", file}, opts...)...)
	if names := left(t, dir); len(names) != 1 {
		t.Errorf("files are %v", names)
	}
	return readFloats(t, file)
}

func worst(t *testing.T, got, want []float32) float64 {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d numbers, want %d", len(got), len(want))
	}
	d := 0.0
	for i := range got {
		if x := math.Abs(float64(got[i]) - float64(want[i])); !(x <= d) {
			d = x
		}
	}
	return d
}

// The file holds the golden logits, with either backend and any chunk.
func TestLogits(t *testing.T) {
	check := func(t *testing.T, model, tokens string, want []float32) {
		for _, backend := range []string{"cpu", "ref"} {
			for _, chunk := range []int{0, 1, 7, 512} {
				got := logitsOf(t, model, tokens, "--backend", backend, "--chunk", strconv.Itoa(chunk), "-t", "1")
				if d := worst(t, got, want); !(d < 1e-3) {
					t.Errorf("%s, chunks of %d: logits differ by %.2g", backend, chunk, d)
				}
			}
		}
	}
	for _, name := range []string{"llama-gqa", "llama-bf16", "gemma3", "gemma4-e2b", "gptoss"} {
		t.Run(name, func(t *testing.T) {
			path, tokens := sample(t, name)
			check(t, path, tokens, readFloats(t, strings.TrimSuffix(path, ".gguf")+".logits.bin"))
		})
	}
	t.Run("stories260K-f32", func(t *testing.T) {
		g := openGolden(t, "stories260K-f32")
		check(t, g.model, join(g.Tokens), readFloats(t, filepath.Join(g.dir, "logits_ref64.bin")))
	})
}

// Quantized activations change the cpu backend's logits, but not the
// reference's.
func TestLogitsQuantized(t *testing.T) {
	path, tokens := sample(t, "llama-q4_k")
	want := readFloats(t, strings.TrimSuffix(path, ".gguf")+".logits.bin")
	if d := worst(t, logitsOf(t, path, tokens, "--backend", "ref"), want); !(d < 1e-3) {
		t.Errorf("ref: logits differ by %.2g", d)
	}
	if d := worst(t, logitsOf(t, path, tokens), want); d < 1e-3 || !(d < 1) {
		t.Errorf("cpu: logits differ by %.2g", d)
	}
}
