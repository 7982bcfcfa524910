package engine

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"graphrun/graph"
	"graphrun/internal/shared"
)

// hfFolders are the golden models of Hugging Face form.
var hfFolders = []string{"llama3-tied", "gemma3-4b-like", "gemma4-e2b-like", "gemma4-31b-like", "gemma4-26b-a4b-like"}

// checkGolden compares a model with the logits and tokens beside a folder.
func checkGolden(t *testing.T, m *Model, dir string) {
	t.Helper()
	var g golden
	b, err := os.ReadFile(filepath.Join(dir, "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	if b, err = os.ReadFile(filepath.Join(dir, "logits_ref64.bin")); err != nil {
		t.Fatal(err)
	}
	for ; len(b) >= 4; b = b[4:] {
		g.logits = append(g.logits, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	s := m.NewSession()
	logits := all(t, s, g.Tokens, 17)
	if d := worst(t, logits, g.logits); d > 1e-3 || d == 0 {
		t.Errorf("%s: logits differ by %.2g from the float64 computation, want less than 1e-3", dir, d)
	}
	last := logits[len(logits)-m.Limits().Vocab:]
	for i, want := range g.Greedy.Tokens {
		if got := largest(last); got != want {
			t.Fatalf("%s: greedy token %d is %d, want %d", dir, i, got, want)
		}
		last = all(t, s, []int32{want}, 1)
	}
}

func largest(x []float32) int32 {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return int32(best)
}

// TestFolders runs the golden folders as they lie.
func TestFolders(t *testing.T) {
	for _, name := range hfFolders {
		for _, backend := range Backends() {
			t.Run(name+"/"+backend, func(t *testing.T) {
				dir := shared.Path(t, "golden", "hf", name)
				m, err := Open(dir, Options{Backend: backend, Threads: 1, KV: graph.F32, TokensOnly: true})
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				checkGolden(t, m, dir)
				if r := m.Memory(); r.Made*20 > r.Weights {
					t.Errorf("%d of %d bytes of weights are not used where they lie", r.Made, r.Weights)
				}
				for _, w := range m.Warnings() {
					t.Log(w)
				}
			})
		}
	}
}

// TestFolderWithoutTokenizer: one line, unless only tokens are wanted.
func TestFolderWithoutTokenizer(t *testing.T) {
	_, err := Open(shared.Path(t, "golden", "hf", "llama3-tied"), Options{Threads: 1})
	var none *NoTokenizerError
	if !errors.As(err, &none) {
		t.Errorf("found %v, want a NoTokenizerError", err)
	}
}
