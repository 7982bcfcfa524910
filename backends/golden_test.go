package backends_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"graphrun/backends"
	"graphrun/backends/cpu"
	"graphrun/backends/ref"
	"graphrun/graph"
	"graphrun/internal/shared"
)

// golden is what a model folder's golden.json says, as far as tests need it.
type golden struct {
	Tokens []int32 `json:"tokens"`
	Vocab  int     `json:"n_vocab"`
	Greedy struct {
		Tokens  []int32   `json:"tokens_dequant_f32"`
		Margins []float64 `json:"margins_dequant_f32"`
	} `json:"greedy"`
	Observed struct {
		GgmlRMS  float64 `json:"ggml_vs_ref64_rms"`
		GgmlMax  float64 `json:"ggml_vs_ref64_max_abs"`
		GgmlTop1 int     `json:"top1_agree_ggml_ref64"`
	} `json:"observed"`

	dir  string
	want []float32 // [T,V]
}

func readGolden(t testing.TB, dir string) *golden {
	t.Helper()
	g := &golden{dir: dir}
	b, err := os.ReadFile(filepath.Join(dir, "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, g); err != nil {
		t.Fatal(err)
	}
	g.want = readFloats(t, filepath.Join(dir, "logits_ref64.bin"))
	return g
}

func models(t *testing.T, run func(t *testing.T, g *golden)) {
	dir := filepath.Join(shared.Dir(t), "golden", "models")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Run(e.Name(), func(t *testing.T) {
			run(t, readGolden(t, filepath.Join(dir, e.Name())))
		})
	}
}

// The reference backend agrees with the float64 logits to 1e-3, and continues
// greedily with the same tokens wherever the choice is clear.
func TestRefGolden(t *testing.T) {
	models(t, func(t *testing.T, g *golden) {
		r := newRunner(t, ref.Backend{}, filepath.Join(g.dir, "model.gguf"), graph.F32, backends.Options{})
		got := r.logits(t, g.Tokens, 0, len(g.Tokens))
		if worst, rms := diff(got, g.want); !(worst < 1e-3) {
			t.Errorf("logits differ by %.2g (rms %.2g), want below 1e-3", worst, rms)
		}
		greedy(t, r, g, got, 0.002)
	})
}

// greedy continues from the logits of the prompt and compares with the golden
// continuation up to the first choice closer than margin.
func greedy(t *testing.T, r *runner, g *golden, prompt []float32, margin float64) {
	t.Helper()
	row := prompt[len(prompt)-r.vocab:]
	for i, want := range g.Greedy.Tokens {
		if g.Greedy.Margins[i] <= margin {
			return
		}
		id := argmax(row)
		if id != want {
			t.Errorf("greedy token %d is %d, want %d (margin %.3g)", i, id, want, g.Greedy.Margins[i])
			return
		}
		row = r.step(t, []token{{id, int32(len(g.Tokens) + i), 0}})
	}
}

// The cpu backend agrees to 1e-3 where activations stay f32. Where they are
// quantized its rms difference is at most twice what llama.cpp shows, and its
// first choices agree about as often: over all models within 1 % of llama.cpp,
// in each with 5 rows to spare, which is two standard deviations of a count of
// rows decided by noise. A choice that is wrong must be one that noise explains.
func TestCPUGolden(t *testing.T) {
	var rows, ours, theirs int
	models(t, func(t *testing.T, g *golden) {
		r := newRunner(t, cpu.Backend{}, filepath.Join(g.dir, "model.gguf"), graph.F32, backends.Options{Threads: 1, Check: true})
		got := r.logits(t, g.Tokens, 0, len(g.Tokens))
		worst, rms := diff(got, g.want)
		if !r.quantized {
			if !(worst < 1e-3) {
				t.Errorf("logits differ by %.2g (rms %.2g), want below 1e-3", worst, rms)
			}
			greedy(t, r, g, got, 0.002)
			return
		}
		limit := 2 * g.Observed.GgmlRMS
		if rms := r.noise(got, g.want); !(rms <= limit) {
			t.Errorf("logits differ by rms %.2g (worst %.2g), want at most %.2g, twice llama.cpp's", rms, worst, limit)
		}
		agree := r.agree(got, g.want)
		if least := g.Observed.GgmlTop1 - 5; agree < least {
			t.Errorf("first choices agree at %d of %d tokens, want at least %d (llama.cpp %d)", agree, len(g.Tokens), least, g.Observed.GgmlTop1)
		}
		for i := 0; i < len(got); i += r.vocab {
			got, want := got[i:i+r.vocab], g.want[i:i+r.vocab]
			_, rms := diff(got, want)
			// llama.cpp's own worst choice is 3.6 rms below the best.
			if loss := float64(want[argmax(want)] - want[argmax(got)]); loss > 4.5*rms {
				t.Errorf("row %d: the first choice is %.2g below the best, where the rms difference is %.2g", i/r.vocab, loss, rms)
			}
		}
		rows, ours, theirs = rows+len(g.Tokens), ours+agree, theirs+g.Observed.GgmlTop1
	})
	if ours < theirs-rows/100 {
		t.Errorf("first choices agree at %d of %d tokens of all quantized models, want no less than 1 %% below llama.cpp's %d", ours, rows, theirs)
	}
	t.Logf("first choices of quantized models agree at %d of %d tokens, llama.cpp's at %d", ours, rows, theirs)
}

// However a text is cut, the logits are the same: one model for each kind of
// architecture and of activations. The models of testdata are all tried.
func TestChunksAndThreads(t *testing.T) {
	for _, name := range []string{
		"llama-gqa", "llama-quant-f16", "llama-quant-bf16", "gemma3-1b-like", "gemma4-26b-a4b-like",
		"stories260K-q8_0", "llama-quant-q4_k_m", "gemma4-e2b-like-q8_0", "gemma4-26b-a4b-like-q4_0",
	} {
		t.Run(name, func(t *testing.T) {
			g := readGolden(t, filepath.Join(shared.Dir(t), "golden", "models", name))
			model, chunks := filepath.Join(g.dir, "model.gguf"), []int{1, 3, 7, 8}
			checkCuts(t, model, g.Tokens, chunks, false)
			t.Run("deterministic", func(t *testing.T) { checkCuts(t, model, g.Tokens, chunks, true) })
		})
	}
}
