package quant_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"graphrun"
	"graphrun/graph"
	"graphrun/internal/shared"
	"graphrun/loaders"
	"graphrun/ops"
	"graphrun/quant"
)

// matrix is what errors are measured on: rows of 1024, with importance weights
// or without.
type matrix struct {
	name string
	x, w []float32
}

// matrices returns 32 rows of Gaussian numbers, the same with weights, and the
// matrices of the embedded model one after the other, cut into rows.
func matrices(t *testing.T) []matrix {
	x := gaussian(32*1024, 20261130)
	w := make([]float32, len(x))
	for i, v := range gaussian(1024, 7) {
		for r := range 32 {
			w[1024*r+i] = float32(math.Exp(1.5 * float64(v)))
		}
	}
	m, err := loaders.OpenBytes(graphrun.StoriesName, graphrun.Stories)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var stories []float32
	for _, tensor := range m.Tensors {
		if len(tensor.Shape) == 2 {
			y := make([]float32, tensor.Elems())
			ops.DequantRow(tensor.DType, y, tensor.Data)
			stories = append(stories, y...)
		}
	}
	return []matrix{{"gaussian", x, nil}, {"weighted", x, w}, {"stories", stories[:len(stories)/1024*1024], nil}}
}

// The errors of the reference program on the same numbers: llama.cpp 0.5.0,
// ggml_quantize_chunk of its libggml-base for x86-64, rows of 1024, decoded by
// package ops; the figure is sqrt(Σw(x-y)²/Σw), w being 1 without weights.
var reference = map[string]map[graph.DType]float64{
	"gaussian": {
		graph.Q8_0: 0.00535647, graph.Q4_0: 0.0855525, graph.Q4_1: 0.0783726, graph.Q5_0: 0.0425291, graph.Q5_1: 0.0377848,
		graph.Q2_K: 0.294406, graph.Q3_K: 0.150298, graph.Q4_K: 0.0710803, graph.Q5_K: 0.0360701, graph.Q6_K: 0.0176698,
		graph.IQ4_NL: 0.0764362, graph.IQ4_XS: 0.077059, graph.MXFP4: 0.116017, graph.TQ1_0: 0.812345, graph.TQ2_0: 0.812345,
	},
	"weighted": {
		graph.Q8_0: 0.00535878, graph.Q4_0: 0.0716754, graph.Q4_1: 0.0564473, graph.Q5_0: 0.0356566, graph.Q5_1: 0.0273902,
		graph.Q2_K: 0.202516, graph.Q3_K: 0.121165, graph.Q4_K: 0.057658, graph.Q5_K: 0.0297371, graph.Q6_K: 0.0148003,
		graph.IQ4_NL: 0.0648237, graph.IQ4_XS: 0.0657044, graph.MXFP4: 0.116487, graph.TQ1_0: 0.816195, graph.TQ2_0: 0.816195,
	},
	"stories": {
		graph.Q8_0: 0, graph.Q4_0: 0.00701287, graph.Q4_1: 0.00625131, graph.Q5_0: 0.00345845, graph.Q5_1: 0.00301669,
		graph.Q2_K: 0.0236198, graph.Q3_K: 0.0120339, graph.Q4_K: 0.00568079, graph.Q5_K: 0.00287383, graph.Q6_K: 0.00145679,
		graph.IQ4_NL: 0.00614705, graph.IQ4_XS: 0.00618397, graph.MXFP4: 0.00951525, graph.TQ1_0: 0.0641465, graph.TQ2_0: 0.0641465,
	},
}

// TestQuality: no format's error is more than 3 % above the reference program's.
func TestQuality(t *testing.T) {
	for _, m := range matrices(t) {
		for _, dt := range quant.Types() {
			want, ok := reference[m.name][dt]
			if !ok {
				if dt.Quantized() {
					t.Errorf("%s: no figure of the reference for %s", m.name, dt)
				}
				continue
			}
			got := weighted(m.x, decode(dt, encode(t, m.x, dt, m.w), len(m.x)), m.w)
			t.Logf("%-8s %-6s rms %.6f, reference %.6f: %.3f of it", m.name, dt, got, want, got/max(want, 1e-9))
			if !(got <= 1.03*want) {
				t.Errorf("%s, %s: rms error %.6f, the reference has %.6f: %.3f times as much", m.name, dt, got, want, got/want)
			}
		}
	}
}

// TestQualityGolden: the same for a model whose matrices the reference program
// quantized in every format; its f16 form stands for the original.
func TestQualityGolden(t *testing.T) {
	models := shared.Path(t, "golden", "models")
	from, err := loaders.Open(filepath.Join(models, "llama-quant-f16", "model.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	dirs, err := filepath.Glob(filepath.Join(models, "llama-quant-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "dequant_sample.bin")); err != nil || strings.HasSuffix(dir, "f16") {
			continue // a mixture
		}
		m, err := loaders.Open(filepath.Join(dir, "model.gguf"))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		var x, y, z []float32
		var dt graph.DType
		for _, want := range m.Tensors {
			if len(want.Shape) != 2 {
				continue
			}
			dt = want.DType
			src, ok := from.Tensor(want.Name)
			if !ok {
				t.Fatalf("no tensor %s", want.Name)
			}
			n := want.Elems()
			row := decode(src.DType, src.Data, n)
			x = append(x, row...)
			y = append(y, decode(dt, want.Data, n)...)
			z = append(z, decode(dt, encode(t, row, dt, nil), n)...)
		}
		got, want := weighted(x, z, nil), weighted(x, y, nil)
		t.Logf("%s: rms %.6f, reference %.6f: %.3f of it", filepath.Base(dir), got, want, got/want)
		if !(got <= 1.03*want) {
			t.Errorf("%s: rms error %.6f, the reference has %.6f", filepath.Base(dir), got, want)
		}
	}
}
