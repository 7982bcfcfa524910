package backends_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"graphrun/backends"
	"graphrun/backends/cpu"
	"graphrun/backends/ref"
	"graphrun/graph"
)

// sample is a model of testdata/models with the logits that the float64 program
// testdata/gen/ref64 computes for its tokens.
type sample struct {
	Tokens []int32 `json:"tokens"`

	path string
	want []float32 // [T,V]
}

// samples runs a test for each model of testdata/models.
func samples(t *testing.T, run func(t *testing.T, s *sample)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "testdata", "models", "*.json"))
	if err != nil || len(files) < 18 {
		t.Fatalf("found %d models in testdata/models, want at least 18 (%v)", len(files), err)
	}
	for _, file := range files {
		stem := strings.TrimSuffix(file, ".json")
		t.Run(filepath.Base(stem), func(t *testing.T) {
			s := &sample{path: stem + ".gguf"}
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(b, s); err != nil {
				t.Fatal(err)
			}
			s.want = readFloats(t, stem+".logits.bin")
			run(t, s)
		})
	}
}

// quantizedNoise bounds the rms of what quantized activations change, as a
// share of the standard deviation of the logits. In models with random weights
// the shipped llama.cpp shows 4 % (rms 0.08 to 0.1 where logits have a deviation
// near 2.3, in the 17 block formats of the golden models llama-quant-*); twice
// that is allowed, as those models' README advises.
const quantizedNoise = 0.08

func deviation(x []float32) float64 {
	var sum, squares float64
	for _, v := range x {
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	n := float64(len(x))
	return math.Sqrt(squares/n - sum/n*sum/n)
}

// The reference backend agrees with the float64 logits to 1e-3.
func TestRefSamples(t *testing.T) {
	samples(t, func(t *testing.T, s *sample) {
		r := newRunner(t, ref.Backend{}, s.path, graph.F32, backends.Options{})
		got := r.logits(t, s.Tokens, 0, len(s.Tokens))
		if worst, rms := diff(got, s.want); !(worst < 1e-3) {
			t.Errorf("logits differ by %.2g (rms %.2g), want below 1e-3", worst, rms)
		}
	})
}

// The cpu backend agrees with the float64 logits, to 1e-3 where activations
// stay f32; without its optional passes it computes the same logits.
func TestCPUSamples(t *testing.T) {
	var off []string
	for _, p := range cpu.Passes().Passes() {
		if !p.Required {
			off = append(off, p.Name)
		}
	}
	if len(off) < 4 {
		t.Fatalf("only %v are optional", off)
	}
	samples(t, func(t *testing.T, s *sample) {
		r := newRunner(t, cpu.Backend{}, s.path, graph.F32, backends.Options{Threads: 1, Check: true})
		got := r.logits(t, s.Tokens, 0, len(s.Tokens))
		worst, rms := diff(got, s.want)
		if most := quantizedNoise * deviation(s.want); r.quantized {
			rms = r.noise(got, s.want)
			if !(rms < most) {
				t.Errorf("logits differ by rms %.2g (worst %.2g), want below %.2g", rms, worst, most)
			}
			t.Logf("rms %.2g, %.1f %% of the deviation, worst %.2g; first choices agree at %d of %d", rms, 100*rms/deviation(s.want), worst, r.agree(got, s.want), len(s.Tokens))
		} else if !(worst < 1e-3) {
			t.Errorf("logits differ by %.2g (rms %.2g), want below 1e-3", worst, rms)
		}
		plain := newRunner(t, cpu.Backend{}, s.path, graph.F32, backends.Options{Threads: 1, Check: true, Off: off})
		if a, b := len(plain.prog.Graph().Values), len(r.prog.Graph().Values); a <= b && !r.moe {
			t.Errorf("%d values without the optional passes, %d with them: they do nothing", a, b)
		}
		for _, chunk := range []int{1, 7, 512} {
			unoptimized, optimized := plain.logits(t, s.Tokens, 1, chunk), r.logits(t, s.Tokens, 1, chunk)
			if worst, rms := diff(unoptimized, optimized); worst > 0 {
				t.Errorf("chunks of %d: optional passes change logits by %.2g (rms %.2g)", chunk, worst, rms)
			}
		}
	})
}

// However a text is cut and whatever runs beside it, the logits are the same.
func TestSampleCuts(t *testing.T) {
	samples(t, func(t *testing.T, s *sample) {
		checkCuts(t, s.path, s.Tokens, []int{1, 7, 512}, false)
	})
}

// The committed models are what their program writes.
func TestSamplesAreGenerated(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs a program")
	}
	dir := t.TempDir()
	if out, err := exec.Command("go", "run", "graphrun/testdata/gen/models", "-o", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	made, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range made {
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join("..", "testdata", "models", filepath.Base(path)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what testdata/gen/models writes; run testdata/gen/models/make.sh", filepath.Base(path))
		}
	}
	if len(made) < 36 {
		t.Errorf("the program writes %d files, want at least 36", len(made))
	}
}
