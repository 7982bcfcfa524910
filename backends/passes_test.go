package backends_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"graphrun/backends"
	"graphrun/backends/cpu"
	"graphrun/backends/ref"
	"graphrun/graph"
	"graphrun/ops"
	"graphrun/ops/opstest"
)

// network is a random graph over the operations of models, with its weights and
// the sizes of its steps.
type network struct {
	*graph.Builder
	t       *rapid.T
	d       int // width
	h, g, k int
	weights tensors
	acts    []*graph.Value // f32[T,D]
	moe     bool           // experts may be chosen

	pos, seq, pages *graph.Value
}

func (n *network) oneOf(what string, max int) int { return rapid.IntRange(0, max-1).Draw(n.t, what) }

func (n *network) act() *graph.Value { return n.acts[n.oneOf("act", len(n.acts))] }

// matrix returns one of a few weights of the sizes, so that some products occur
// twice.
func (n *network) matrix(types []graph.DType, sizes ...int) *graph.Value {
	dt := types[n.oneOf("type", len(types))]
	name := fmt.Sprint("w", dt, sizes, n.oneOf("matrix", 3))
	if n.weights[name] == nil {
		n.weights[name] = opstest.Weight(name, dt, sizes...)
	}
	return n.Weight(name, dt, graph.ShapeOf(sizes...))
}

// types are those of matrices with rows of k elements.
func (n *network) types(k int) []graph.DType {
	if k%256 == 0 {
		return []graph.DType{graph.Q8_0, graph.Q4_K, graph.Q6_K, graph.Q4_0, graph.F32}
	}
	return []graph.DType{graph.Q8_0, graph.Q4_0, graph.Q4_0, graph.BF16, graph.F32}
}

func (n *network) vector(size int) *graph.Value { return n.matrix([]graph.DType{graph.F32}, size) }

func (n *network) linear(x *graph.Value, size int) *graph.Value {
	y := ops.MatMul(n.Builder, x, n.matrix(n.types(x.Type.Shape.Last()), size, x.Type.Shape.Last()))
	if n.oneOf("bias", 4) == 0 {
		y = ops.Add(n.Builder, y, n.vector(size))
	}
	return y
}

func (n *network) norm(x *graph.Value) *graph.Value {
	if n.oneOf("weight", 4) == 0 {
		return ops.RMSNorm(n.Builder, x, nil, 1e-5)
	}
	return ops.RMSNorm(n.Builder, x, n.vector(x.Type.Shape.Last()), 1e-5)
}

func (n *network) heads(x *graph.Value, h int, turn *ops.RopeParams) *graph.Value {
	x = ops.Reshape(n.Builder, x, h, n.k)
	if n.oneOf("norm", 3) == 0 {
		x = n.norm(x)
	}
	if turn != nil {
		x = ops.Rope(n.Builder, x, n.pos, nil, *turn)
	}
	return x
}

// attend is attention with a cache of its own.
func (n *network) attend(layer int, x *graph.Value) *graph.Value {
	var turn *ops.RopeParams
	if n.oneOf("turn", 4) > 0 {
		turn = &ops.RopeParams{Base: 10000, Half: n.oneOf("half", 2) == 0}
	}
	q, k := n.heads(n.linear(x, n.h*n.k), n.h, turn), n.heads(n.linear(x, n.g*n.k), n.g, turn)
	v := ops.Reshape(n.Builder, n.linear(x, n.g*n.k), n.g, n.k)
	dt := []graph.DType{graph.F16, graph.F32, graph.Q8_0}[n.oneOf("cache", 3)]
	cache := n.Cache(fmt.Sprintf("blk.%d.kv", layer), graph.Type{DType: dt, Shape: graph.Rows("S", 2, n.g, n.k)}, 0)
	kv := ops.KVWrite(n.Builder, cache, k, v, n.pos, n.seq, n.pages)
	y := ops.Attention(n.Builder, q, kv, n.pos, n.seq, n.pages, nil, ops.AttnParams{Scale: 0.2})
	return n.linear(ops.Reshape(n.Builder, y, n.h*n.k), n.d)
}

func (n *network) kind() string {
	return []string{ops.SiLU, ops.GELU, ops.SwigluOAI}[n.oneOf("gate", 3)]
}

func (n *network) feed(x *graph.Value) *graph.Value {
	f := n.d * (1 + n.oneOf("ffn", 2))
	return n.linear(ops.Gated(n.Builder, n.linear(x, f), n.linear(x, f), n.kind()), n.d)
}

func (n *network) experts(x *graph.Value) *graph.Value {
	const e, u = 4, 2
	b := n.Builder
	p := ops.Softmax(b, ops.MatMul(b, x, n.matrix([]graph.DType{graph.F32}, e, n.d)))
	ids := ops.TopK(b, p, u)
	weights := ops.TopKWeights(b, p, ids, ops.TopKWeightsParams{Normalize: true})
	mat := func(x *graph.Value) *graph.Value {
		return ops.ExpertMatMul(b, x, n.matrix(n.types(n.d)[:2], e, n.d, n.d), ids)
	}
	return ops.ExpertSum(b, mat(ops.Gated(b, mat(x), mat(x), n.kind())), weights)
}

// drawNetwork draws a few layers, each a few operations, and a head.
func drawNetwork(t *rapid.T, moe bool) (*network, *graph.Graph) {
	n := &network{Builder: graph.NewBuilder("random"), t: t, weights: tensors{}, moe: moe}
	n.d = []int{64, 64, 256}[n.oneOf("width", 3)]
	n.g = 1 + n.oneOf("G", 2)
	n.h, n.k = n.g*(1+n.oneOf("H", 2)), 32
	b := n.Builder
	n.acts = []*graph.Value{b.Input("x", graph.F32, graph.Rows("T", n.d))}
	n.pos, n.seq = b.Input("pos", graph.I32, graph.Rows("T")), b.Input("seq", graph.I32, graph.Rows("T"))
	rows := b.Input("rows", graph.I32, graph.Rows("R"))
	n.pages = b.Input("pages", graph.I32, graph.Shape{graph.Named("N"), graph.Named("C")})
	layers := 1 + n.oneOf("layers", 2)
	for l := range layers {
		b.SetLayer(l)
		attended := false
		for range 1 + n.oneOf("operations", 5) {
			x := n.act()
			var y *graph.Value
			switch n.oneOf("operation", 9) {
			case 0, 1:
				if attended {
					continue
				}
				attended = true
				y = n.attend(l, n.norm(x))
			case 2, 3:
				y = n.feed(n.norm(x))
			case 4:
				if !n.moe {
					continue
				}
				y = n.experts(n.norm(x))
			case 5:
				y = ops.Scale(b, x, []float32{1, 2, 0.5, 0.3}[n.oneOf("by", 4)])
			case 6:
				y = ops.Add(b, x, b.Const("", slices.Repeat([]float32{0.25}, n.d), n.d))
			case 7:
				y = n.linear(x, n.d)
			case 8:
				y = n.norm(x)
			}
			if n.oneOf("post", 3) == 0 {
				y = n.norm(y)
			}
			if n.oneOf("residual", 4) > 0 {
				y = ops.Add(b, x, y)
			}
			n.acts = append(n.acts, y)
		}
	}
	b.SetLayer(-1)
	x := ops.SelectRows(b, n.norm(n.acts[len(n.acts)-1]), rows)
	if n.oneOf("late", 2) == 0 {
		x = n.norm(ops.SelectRows(b, n.acts[len(n.acts)-1], rows))
	}
	y := ops.MatMul(b, x, n.matrix(n.types(n.d), 96, n.d))
	if n.oneOf("cap", 2) == 0 {
		y = ops.Softcap(b, y, 30)
	}
	b.Output("logits", y)
	if n.oneOf("hidden", 3) == 0 {
		b.Output("hidden", x)
	}
	if n.oneOf("whole", 4) == 0 {
		b.Output("whole", n.act())
	}
	g, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return n, g
}

// stepsOf are the feeds of a chunk of a sequence and then a token of it beside
// the beginning of another.
func (n *network) stepsOf() [][]backends.Feed {
	first := 1 + n.oneOf("tokens", 20)
	rows := rapid.SliceOfN(rapid.Int32Range(0, int32(first-1)), 0, 3).Draw(n.t, "rows")
	x := opstest.Weight("x", graph.F32, 40, n.d).F32
	step := func(x []float32, pos, seq, rows []int32) []backends.Feed {
		f := graph.NewTensor(graph.Type{DType: graph.F32, Shape: graph.ShapeOf(len(pos), n.d)}, nil)
		copy(f.F32, x)
		ints := func(x []int32, dims ...int) *graph.Tensor {
			return &graph.Tensor{DType: graph.I32, Dims: dims, Stride: dims[len(dims)-1], I32: x}
		}
		one := func(x []int32) *graph.Tensor {
			return &graph.Tensor{DType: graph.I32, Dims: []int{len(x)}, Stride: 1, I32: x}
		}
		return []backends.Feed{{Name: "x", Tensor: f}, {Name: "pos", Tensor: one(pos)}, {Name: "seq", Tensor: one(seq)},
			{Name: "rows", Tensor: one(rows)}, {Name: "pages", Tensor: ints([]int32{1, 0}, 2, 1)}}
	}
	pos, seq := make([]int32, first), make([]int32, first)
	for i := range pos {
		pos[i] = int32(i)
	}
	return [][]backends.Feed{
		step(x, pos, seq, rows),
		step(x[first*n.d:], []int32{int32(first), 0, 1}, []int32{0, 1, 1}, []int32{2, 0}),
	}
}

// outputs runs the steps and returns all results.
func (n *network) outputs(b backends.Backend, g *graph.Graph, steps [][]backends.Feed, o backends.Options) (map[string][]float32, *graph.Graph) {
	o.Dims = graph.Dims{"T": 24, "R": 24, "N": 2, "C": 1, "S": 2 * ops.PageSize}
	prog, err := b.Compile(g, n.weights, o)
	if err != nil {
		n.t.Fatalf("%v\n%s", err, g)
	}
	defer prog.Close()
	out := map[string][]float32{}
	for _, feeds := range steps {
		// A graph after some passes may not use every input.
		feeds = slices.DeleteFunc(slices.Clone(feeds), func(f backends.Feed) bool {
			return !slices.ContainsFunc(g.Values, func(v *graph.Value) bool { return v.Op == graph.OpInput && v.Name == f.Name })
		})
		if err := prog.Run(context.Background(), feeds); err != nil {
			n.t.Fatalf("%v\n%s", err, prog.Graph())
		}
		for _, r := range g.Outputs {
			y := prog.Output(r.Name)
			for t := range y.Rows() {
				out[r.Name] = append(out[r.Name], y.Row(t)...)
			}
		}
	}
	return out, prog.Graph()
}

// apart returns the largest difference of two results, relative to the larger
// numbers of the result; infinite if one alone is not finite.
func apart(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	most, worst := 1e-30, 0.0
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		if x == y || math.IsNaN(x) && math.IsNaN(y) {
			continue
		}
		worst, most = max(worst, math.Abs(x-y)), max(most, math.Abs(x), math.Abs(y))
		if math.IsNaN(x - y) {
			return math.Inf(1)
		}
	}
	return worst / most
}

func (n *network) compare(what string, got, want map[string][]float32, most float64, g *graph.Graph) {
	for name := range want {
		if d := apart(got[name], want[name]); d > most {
			n.t.Fatalf("%s: %s differs by %.3g of its range, want at most %.3g\n%s", what, name, d, most, g)
		}
	}
}

// optional are the passes that can be switched off.
func optional() (names []string) {
	for _, p := range cpu.Passes().Passes() {
		if !p.Required {
			names = append(names, p.Name)
		}
	}
	return names
}

// TestPassesKeepBits: whatever passes are left out, the cpu backend computes the
// same bits, with one worker or two.
func TestPassesKeepBits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, g := drawNetwork(t, true)
		steps := n.stepsOf()
		all := optional()
		want, _ := n.outputs(cpu.Backend{}, g, steps, backends.Options{Threads: 1, Off: all, Deterministic: true})
		off := rapid.SliceOfNDistinct(rapid.SampledFrom(all), 0, len(all), rapid.ID[string]).Draw(t, "off")
		for _, o := range []backends.Options{{Threads: 2}, {Threads: 1, Off: off, Check: true}} {
			o.Deterministic = true
			got, after := n.outputs(cpu.Backend{}, g, steps, o)
			n.compare(fmt.Sprintf("without %v", o.Off), got, want, 0, after)
			n.disjoint(after)
		}
	})
}

// TestEachPassKeepsValues evaluates the graph as it is after each pass with the
// reference backend. Products in another form add in another order, hence the
// tolerance; what quantize does is compared from there on.
func TestEachPassKeepsValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, g := drawNetwork(t, false)
		steps := n.stepsOf()
		var want map[string][]float32
		_, err := cpu.Optimize(g, backends.Options{Dims: graph.Dims{"T": 24, "R": 24, "N": 2, "C": 1, "S": 2 * ops.PageSize}, Check: true,
			OnPass: func(s graph.PassStat, after *graph.Graph) {
				if want != nil && !s.Changed {
					return
				}
				// What a pass leaves to dce need not be computable any more.
				after = after.Clone()
				if err := graph.DCE(after); err != nil {
					t.Fatal(err)
				}
				got, _ := n.outputs(ref.Backend{}, after, steps, backends.Options{})
				if want != nil {
					most := 2e-3
					if s.Pass == "quantize" {
						most = math.Inf(1)
					}
					n.compare("after "+s.Pass, got, want, most, after)
				}
				want = got
			}})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// TestOrderOfValues: the compiled graph does not depend on the order in which the
// values of a graph are listed.
func TestOrderOfValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, g := drawNetwork(t, true)
		o := backends.Options{Dims: graph.Dims{"T": 24, "R": 24, "N": 2, "C": 1, "S": 2 * ops.PageSize}}
		want, err := cpu.Optimize(g, o)
		if err != nil {
			t.Fatal(err)
		}
		shuffled := g.Clone()
		if err := shuffled.Shuffle(rapid.Uint64().Draw(t, "seed")); err != nil {
			t.Fatal(err)
		}
		got, err := cpu.Optimize(shuffled, o)
		if err != nil {
			t.Fatal(err)
		}
		if got.String() != want.String() {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// disjoint checks the memory plan by hand: no byte of the arena belongs to two
// values between the step that computes one and the last that reads it.
func (n *network) disjoint(g *graph.Graph) {
	last := map[*graph.Value]int{}
	for i, v := range g.Values {
		for _, a := range v.Args {
			last[a.Storage()] = i
		}
	}
	for _, o := range g.Outputs {
		last[o.Value.Storage()] = len(g.Values)
	}
	for i, v := range g.Values {
		if v.Mem == nil {
			continue
		}
		for k, o := range g.Values[:i] {
			if o.Mem == nil || max(last[o], k) < i {
				continue
			}
			if v.Mem.Offset < o.Mem.Offset+o.Mem.Size && o.Mem.Offset < v.Mem.Offset+v.Mem.Size {
				n.t.Fatalf("%s and %s are alive at step %d and share memory\n%s", o, v, i, g)
			}
		}
	}
}
