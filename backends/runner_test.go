package backends_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"graphrun/archs"
	"graphrun/backends"
	"graphrun/backends/cpu"
	"graphrun/graph"
	"graphrun/loaders"
	"graphrun/ops"
)

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

// runner feeds token lists to a program, one sequence at a time.
type runner struct {
	prog  backends.Program
	dims  graph.Dims
	vocab int
	// quantized says that a matrix of the model makes the cpu backend quantize
	// its activations, moe that rows choose experts.
	quantized, moe bool
}

// The largest step and the longest sequence.
const (
	maxStep    = 128
	maxContext = 128
)

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
	o.Dims = graph.Dims{"T": maxStep, "R": maxStep, "N": 3, "C": pages, "CW": pages, "S": 3 * pages * ops.PageSize, "SW": 3 * pages * ops.PageSize}
	prog, err := b.Compile(g, fileWeights{file}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prog.Close() })
	experts, _ := m.MoE()
	r := &runner{prog: prog, dims: o.Dims, vocab: m.V, moe: experts > 0}
	for _, x := range file.Tensors {
		r.quantized = r.quantized || x.DType.Quantized()
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

// noise is the rms of the difference, of the median row where experts are
// chosen: noise flips a choice now and then, and such a row differs wholly.
func (r *runner) noise(got, want []float32) float64 {
	if !r.moe {
		_, rms := diff(got, want)
		return rms
	}
	var all []float64
	for i := 0; i < len(want); i += r.vocab {
		_, rms := diff(got[i:i+r.vocab], want[i:i+r.vocab])
		all = append(all, rms)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// agree counts the rows with the same first choice.
func (r *runner) agree(got, want []float32) int {
	n := 0
	for i := 0; i < len(want); i += r.vocab {
		if argmax(got[i:i+r.vocab]) == argmax(want[i:i+r.vocab]) {
			n++
		}
	}
	return n
}

// checkCuts requires the same logits one token at a time, in chunks, behind
// another sequence, mixed with one, and after a rewind, and with any number of
// threads: the same bits, but where single tokens of plain weights alone are
// not asked for them.
func checkCuts(t *testing.T, path string, tokens []int32, chunks []int, deterministic bool) {
	t.Helper()
	o := backends.Options{Threads: 1, Deterministic: deterministic}
	r := newRunner(t, cpu.Backend{}, path, graph.F32, o)
	most := 0.0
	if !deterministic && !r.quantized {
		most = 1e-3 // single tokens of plain weights add in an order of their own
	}
	whole := r.logits(t, tokens, 0, len(tokens))
	same := func(what string, got, want []float32) {
		t.Helper()
		if worst, rms := diff(got, want); !(worst <= most) {
			t.Errorf("%s: logits differ by %.2g (rms %.2g), want at most %.2g", what, worst, rms, most)
		} else if worst > 0 {
			t.Logf("%s: not the same bits, logits differ by %.2g (rms %.2g)", what, worst, rms)
		}
	}
	for _, chunk := range chunks {
		same(fmt.Sprintf("chunks of %d", chunk), r.logits(t, tokens, 1, chunk), whole)
	}
	half := len(tokens) / 2
	var again []token
	for i, id := range tokens[half:] {
		again = append(again, token{id, int32(half + i), 1})
	}
	same("rewound to the middle", r.step(t, again), whole[half*r.vocab:])
	var mixed []token
	for i := range min(len(tokens), maxStep/2) {
		mixed = append(mixed, token{tokens[i], int32(i), 2}, token{tokens[len(tokens)-1-i], int32(i), 0})
	}
	got := r.step(t, mixed)
	var own []float32
	for i := 0; i < len(mixed); i += 2 {
		own = append(own, got[i*r.vocab:(i+1)*r.vocab]...)
	}
	same("beside another sequence", own, whole[:len(own)])
	for _, n := range []int{2, 3} {
		o.Threads = n
		other := newRunner(t, cpu.Backend{}, path, graph.F32, o)
		if got := other.logits(t, tokens, 0, len(tokens)); !slices.Equal(got, whole) {
			t.Errorf("%d threads: logits are not the bits of 1", n)
		}
	}
}
