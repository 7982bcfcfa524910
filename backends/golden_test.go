package backends_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"graphrun/archs"
	"graphrun/backends"
	"graphrun/backends/cpu"
	"graphrun/backends/ref"
	"graphrun/graph"
	"graphrun/internal/shared"
	"graphrun/loaders"
	"graphrun/ops"
)

// golden is what a model folder's golden.json says, as far as tests need it.
type golden struct {
	Tokens      []int32        `json:"tokens"`
	Vocab       int            `json:"n_vocab"`
	TensorTypes map[string]int `json:"tensor_types"`
	Greedy      struct {
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

func readFloats(t testing.TB, path string) []float32 {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f := make([]float32, len(b)/4)
	for i := range f {
		f[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return f
}

// quantized reports whether a matrix of the model makes the cpu backend
// quantize its activations.
func (g *golden) quantized() bool {
	for name := range g.TensorTypes {
		if name != "F32" && name != "F16" && name != "BF16" {
			return true
		}
	}
	return false
}

func (g *golden) moe() bool { return strings.Contains(g.dir, "a4b") }

// runner feeds token lists to a program, one sequence at a time.
type runner struct {
	prog   backends.Program
	dims   graph.Dims
	vocab  int
	window bool
}

const maxContext = 128

func newRunner(t testing.TB, b backends.Backend, path string, kv graph.DType, o backends.Options) *runner {
	t.Helper()
	file, err := loaders.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	m, err := archs.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	g, err := m.Graph(archs.GraphOptions{KV: kv})
	if err != nil {
		t.Fatal(err)
	}
	pages := maxContext/ops.PageSize + 1
	o.Dims = graph.Dims{"T": maxContext, "R": maxContext, "N": 3, "C": pages, "CW": pages, "S": 3 * pages * ops.PageSize, "SW": 3 * pages * ops.PageSize}
	prog, err := b.Compile(g, fileWeights{file}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prog.Close() })
	r := &runner{prog: prog, dims: o.Dims, vocab: m.V}
	for _, v := range g.Values {
		r.window = r.window || v.Op == graph.OpInput && v.Name == "pages.window"
	}
	return r
}

// fileWeights are the tensors of a model file.
type fileWeights struct{ file *loaders.Model }

func (w fileWeights) Weight(name string) (*graph.Tensor, error) {
	t, ok := w.file.Tensor(name)
	if !ok {
		return nil, fmt.Errorf("no tensor %s", name)
	}
	return backends.TensorOf(t.DType, t.Shape, t.Data), nil
}

// token is one token of a step.
type token struct{ id, pos, seq int32 }

// step runs tokens and returns the logits of each.
func (r *runner) step(t testing.TB, tokens []token) []float32 {
	t.Helper()
	n := len(tokens)
	ids, pos, seq, rows := make([]int32, n), make([]int32, n), make([]int32, n), make([]int32, n)
	for i, x := range tokens {
		ids[i], pos[i], seq[i], rows[i] = x.id, x.pos, x.seq, int32(i)
	}
	list := func(name string, v []int32) backends.Feed {
		return backends.Feed{Name: name, Tensor: &graph.Tensor{DType: graph.I32, Dims: []int{len(v)}, Stride: 1, I32: v}}
	}
	pages := make([]int32, r.dims["N"]*r.dims["C"])
	for i := range pages {
		pages[i] = int32(len(pages) - 1 - i) // not in order, so that the table matters
	}
	table := &graph.Tensor{DType: graph.I32, Dims: []int{r.dims["N"], r.dims["C"]}, Stride: r.dims["C"], I32: pages}
	feeds := []backends.Feed{list("tokens", ids), list("pos", pos), list("seq", seq), list("rows", rows),
		{Name: "pages", Tensor: table}, {Name: "pages.window", Tensor: table}}
	if err := r.prog.Run(context.Background(), feeds); err != nil {
		t.Fatal(err)
	}
	out := r.prog.Output("logits")
	if out.Dims[0] != n || out.Dims[1] != r.vocab {
		t.Fatalf("logits are %v, want [%d %d]", out.Dims, n, r.vocab)
	}
	return slices.Clone(out.F32[:n*r.vocab])
}

// logits runs ids as sequence seq from position 0, chunk tokens a step.
func (r *runner) logits(t testing.TB, ids []int32, seq int32, chunk int) []float32 {
	t.Helper()
	var out []float32
	for at := 0; at < len(ids); at += chunk {
		var step []token
		for i := at; i < min(at+chunk, len(ids)); i++ {
			step = append(step, token{ids[i], int32(i), seq})
		}
		out = append(out, r.step(t, step)...)
	}
	return out
}

func diff(got, want []float32) (worst, rms float64) {
	for i := range want {
		d := math.Abs(float64(got[i]) - float64(want[i]))
		if math.IsNaN(d) {
			return math.NaN(), math.NaN()
		}
		worst = max(worst, d)
		rms += d * d
	}
	return worst, math.Sqrt(rms / float64(len(want)))
}

func argmax(row []float32) int32 {
	best := 0
	for i, x := range row {
		if x > row[best] {
			best = i
		}
	}
	return int32(best)
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
// quantized its rms difference is at most twice what llama.cpp shows and its
// first choices agree nearly as often.
func TestCPUGolden(t *testing.T) {
	models(t, func(t *testing.T, g *golden) {
		r := newRunner(t, cpu.Backend{}, filepath.Join(g.dir, "model.gguf"), graph.F32, backends.Options{Threads: 2, Check: true})
		got := r.logits(t, g.Tokens, 0, len(g.Tokens))
		worst, rms := diff(got, g.want)
		if !g.quantized() {
			if !(worst < 1e-3) {
				t.Errorf("logits differ by %.2g (rms %.2g), want below 1e-3", worst, rms)
			}
			greedy(t, r, g, got, 0.002)
			return
		}
		limit := 2 * g.Observed.GgmlRMS
		if g.moe() {
			// Noise flips the choice of experts now and then; such rows differ
			// wholly, so the median row is what is compared.
			rms = medianRow(got, g.want, r.vocab)
		}
		if !(rms <= limit) {
			t.Errorf("logits differ by rms %.2g (worst %.2g), want at most %.2g, twice llama.cpp's", rms, worst, limit)
		}
		agree := 0
		for i := range g.Tokens {
			if argmax(got[i*r.vocab:(i+1)*r.vocab]) == argmax(g.want[i*r.vocab:(i+1)*r.vocab]) {
				agree++
			}
		}
		if least := g.Observed.GgmlTop1 - 3; agree < least {
			t.Errorf("first choices agree at %d of %d tokens, want at least %d (llama.cpp %d)", agree, len(g.Tokens), least, g.Observed.GgmlTop1)
		}
	})
}

func medianRow(got, want []float32, v int) float64 {
	var all []float64
	for i := 0; i < len(want); i += v {
		_, rms := diff(got[i:i+v], want[i:i+v])
		all = append(all, rms)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// The same logits come out one token at a time, in chunks, behind another
// sequence, mixed with one, and after a rewind; with any number of threads they
// are equal bit by bit.
func TestChunksAndThreads(t *testing.T) {
	models(t, func(t *testing.T, g *golden) {
		path := filepath.Join(g.dir, "model.gguf")
		r := newRunner(t, cpu.Backend{}, path, graph.F32, backends.Options{Threads: 2})
		whole := r.logits(t, g.Tokens, 0, len(g.Tokens))
		tol := 1e-3
		if g.quantized() {
			tol = 2 * g.Observed.GgmlMax // a rounding that falls the other way moves a step of the quantizer
		}
		same := func(what string, got []float32) {
			t.Helper()
			if worst, rms := diff(got, whole); !(worst <= tol) {
				t.Errorf("%s: logits differ by %.2g (rms %.2g), want at most %.2g", what, worst, rms, tol)
			}
		}
		for _, chunk := range []int{1, 3, 7, 8} {
			same(fmt.Sprintf("chunks of %d", chunk), r.logits(t, g.Tokens, 1, chunk))
		}
		half := len(g.Tokens) / 2
		var again []token
		for i, id := range g.Tokens[half:] {
			again = append(again, token{id, int32(half + i), 1})
		}
		got := r.step(t, again)
		if worst, rms := diff(got, whole[half*r.vocab:]); !(worst <= tol) {
			t.Errorf("rewound to the middle: logits differ by %.2g (rms %.2g), want at most %.2g", worst, rms, tol)
		}
		var mixed []token
		for i, id := range g.Tokens {
			mixed = append(mixed, token{id, int32(i), 2}, token{g.Tokens[len(g.Tokens)-1-i], int32(i), 0})
		}
		got = r.step(t, mixed)
		var own []float32
		for i := 0; i < len(mixed); i += 2 {
			own = append(own, got[i*r.vocab:(i+1)*r.vocab]...)
		}
		same("beside another sequence", own)
		for _, n := range []int{1, 3} {
			other := newRunner(t, cpu.Backend{}, path, graph.F32, backends.Options{Threads: n})
			if got := other.logits(t, g.Tokens, 0, len(g.Tokens)); !slices.Equal(got, whole) {
				t.Errorf("%d threads: logits are not the bits of 2 threads", n)
			}
		}
	})
}
