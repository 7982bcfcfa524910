package ops_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"graphrun/graph"
	"graphrun/ops"
	"graphrun/ops/opstest"
)

// attentionGraph writes k and v and attends.
func attentionGraph(t testing.TB, dt graph.DType, g, h, k int, p ops.AttnParams) *graph.Graph {
	b := graph.NewBuilder("attention")
	typ := graph.Type{DType: dt, Shape: graph.ShapeOf(8*ops.PageSize, 2, g, k)}
	in := func(name string, heads int) *graph.Value { return b.Input(name, graph.F32, graph.Rows("T", heads, k)) }
	idx := func(name string) *graph.Value { return b.Input(name, graph.I32, graph.Rows("T")) }
	pages := b.Input("pages", graph.I32, graph.Shape{graph.Named("N"), graph.Named("C")})
	kv := ops.KVWrite(b, b.Cache("kv", typ, p.Window), in("k", g), in("v", g), idx("pos"), idx("seq"), pages)
	b.Output("y", ops.Attention(b, in("q", h), kv, idx("pos"), idx("seq"), pages, nil, p))
	gr, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return gr
}

// rowsOf makes a tensor of the picked rows of x, n elements each.
func rowsOf(x []float32, pick []int, dims ...int) *graph.Tensor {
	n := 1
	for _, d := range dims {
		n *= d
	}
	out := &graph.Tensor{DType: graph.F32, Dims: append([]int{len(pick)}, dims...), Stride: n, F32: make([]float32, 0, n*len(pick))}
	for _, r := range pick {
		out.F32 = append(out.F32, x[r*n:(r+1)*n]...)
	}
	return out
}

func ints(dims []int, x []int32) *graph.Tensor {
	return &graph.Tensor{DType: graph.I32, Dims: dims, Stride: len(x) / max(1, dims[0]), I32: x}
}

// TestAttentionSteps: a token's result has the same bits however its prompt was
// cut into steps, whatever else is in a step, and wherever its pages lie.
func TestAttentionSteps(t *testing.T) {
	const g, h, k, n, other = 2, 4, 64, 150, 40
	r := rand.New(rand.NewPCG(1, 2))
	fill := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		return x
	}
	// Rows 0 to n-1 are sequence 0, the rest is a second sequence.
	q, ks, vs := fill((n+other)*h*k), fill((n+other)*g*k), fill((n+other)*g*k)
	for _, dt := range []graph.DType{graph.F32, graph.F16, graph.Q8_0} {
		for _, p := range []ops.AttnParams{{Scale: 0.125}, {Scale: 0.125, Window: 50, Softcap: 20}} {
			gr := attentionGraph(t, dt, g, h, k, p)
			// run executes steps, each a list of rows, on one cache.
			run := func(pages []int32, steps ...[]int) []float32 {
				y := make([]float32, (n+other)*h*k)
				var cache *graph.Tensor
				for _, rows := range steps {
					var pos, seq []int32
					for _, row := range rows {
						s := 0
						if row >= n {
							s, row = 1, row-n
						}
						pos, seq = append(pos, int32(row)), append(seq, int32(s))
					}
					m := opstest.NewMachine(t, gr, nil, map[string]*graph.Tensor{
						"q": rowsOf(q, rows, h, k), "k": rowsOf(ks, rows, g, k), "v": rowsOf(vs, rows, g, k),
						"pos": ints([]int{len(rows)}, pos), "seq": ints([]int{len(rows)}, seq), "pages": ints([]int{2, len(pages) / 2}, pages),
					})
					if cache != nil {
						copy(m.Calls[0].In[0].Raw, cache.Raw)
					}
					cache = m.Calls[0].In[0]
					m.Run(nil)
					out := m.Outputs()["y"]
					for i, row := range rows {
						copy(y[row*h*k:], out.Row(i))
					}
				}
				return y[:n*h*k]
			}
			span := func(lo, hi int) []int {
				var s []int
				for i := lo; i < hi; i++ {
					s = append(s, i)
				}
				return s
			}
			straight := []int32{0, 1, 2, 3, 4, 5}
			want := run(straight, span(0, n))
			same := func(name string, got []float32) {
				for i := range want {
					if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
						t.Fatalf("%s window %d, %s: number %d is %v, in one step %v", dt, p.Window, name, i, got[i], want[i])
					}
				}
			}
			same("other pages", run([]int32{7, 2, 5, 0, 1, 3}, span(0, n)))
			same("beside another sequence", run(straight, span(0, n+other)))
			same("cut", run(straight, span(0, 1), span(1, 17), span(17, 64), span(64, 65), span(65, n)))
			mixed := span(0, n+other)
			slices.Reverse(mixed)
			same("reversed", run(straight, mixed))
			var single [][]int
			for i := range n {
				step := []int{i}
				if i < other {
					step = append(step, n+i)
				}
				single = append(single, step)
			}
			same("token by token", run(straight, single...))
		}
	}
}

// TestNaN: what is not a number shows in the result and nowhere becomes a
// number or an index out of range (field report NU-02).
func TestNaN(t *testing.T) {
	nan := float32(math.NaN())
	row := func(x ...float32) *graph.Tensor {
		return &graph.Tensor{DType: graph.F32, Dims: []int{1, len(x)}, Stride: len(x), F32: x}
	}
	eval := func(n int, x *graph.Tensor, build func(b *graph.Builder, x *graph.Value) *graph.Value, weights map[string]*graph.Tensor) *graph.Tensor {
		b := graph.NewBuilder("nan")
		b.Output("y", build(b, b.Input("x", graph.F32, graph.Rows("T", n))))
		g, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		return opstest.Plain(t, g, weights, map[string]*graph.Tensor{"x": x})["y"]
	}
	isNaN := func(x float32) bool { return x != x }

	for name, build := range map[string]func(b *graph.Builder, x *graph.Value) *graph.Value{
		"softmax": func(b *graph.Builder, x *graph.Value) *graph.Value { return ops.Softmax(b, x) },
		"rmsnorm": func(b *graph.Builder, x *graph.Value) *graph.Value { return ops.RMSNorm(b, x, nil, 1e-6) },
	} {
		if y := eval(3, row(1, nan, 2), build, nil); !isNaN(y.F32[0]) || !isNaN(y.F32[1]) || !isNaN(y.F32[2]) {
			t.Errorf("%s of a row with a NaN: %v", name, y.F32)
		}
	}
	for name, build := range map[string]func(b *graph.Builder, x *graph.Value) *graph.Value{
		"silu":    func(b *graph.Builder, x *graph.Value) *graph.Value { return ops.Act(b, x, ops.SiLU) },
		"gelu":    func(b *graph.Builder, x *graph.Value) *graph.Value { return ops.Act(b, x, ops.GELU) },
		"softcap": func(b *graph.Builder, x *graph.Value) *graph.Value { return ops.Softcap(b, x, 30) },
		"oai":     func(b *graph.Builder, x *graph.Value) *graph.Value { return ops.Gated(b, x, x, ops.SwigluOAI) },
	} {
		if y := eval(3, row(1, nan, 2), build, nil); isNaN(y.F32[0]) || !isNaN(y.F32[1]) || isNaN(y.F32[2]) {
			t.Errorf("%s of 1, NaN, 2: %v", name, y.F32)
		}
	}
	// Of numbers and NaN the numbers are chosen first; ids are always valid.
	top := func(x ...float32) []int32 {
		return eval(len(x), row(x...), func(b *graph.Builder, x *graph.Value) *graph.Value { return ops.TopK(b, x, 3) }, nil).I32
	}
	if got := top(nan, 1, nan, 3, 2); !slices.Equal(got, []int32{3, 4, 1}) {
		t.Errorf("topk of NaN 1 NaN 3 2: %v", got)
	}
	if got := top(nan, nan, nan, 1); !slices.Equal(got, []int32{3, 0, 1}) {
		t.Errorf("topk of three NaN and 1: %v", got)
	}
	// Rounded to int8, a NaN or an infinity still spoils the product.
	for _, bad := range []float32{nan, float32(math.Inf(1)), float32(math.Inf(-1))} {
		for _, dt := range []graph.DType{graph.Q4_0, graph.Q4_K} {
			x := opstest.Weight("x", graph.F32, 1, 512)
			x.F32[300] = bad
			y := eval(512, x, func(b *graph.Builder, x *graph.Value) *graph.Value {
				return ops.MatMul(b, ops.Quantize(b, x, ops.ActType(dt)), b.Weight("w", dt, graph.ShapeOf(5, 512)))
			}, map[string]*graph.Tensor{"w": opstest.Weight("w", dt, 5, 512)})
			for _, z := range y.F32 {
				if !isNaN(z) {
					t.Errorf("%s: product of a row with %v: %v", dt, bad, y.F32)
					break
				}
			}
		}
	}
	// A NaN in the cache reaches the tokens that see it and no others.
	gr := attentionGraph(t, graph.F16, 1, 1, 32, ops.AttnParams{Scale: 1, Window: 2})
	x := opstest.Weight("q", graph.F32, 4, 32).F32
	ks := slices.Clone(x)
	ks[32] = nan
	all := []int{0, 1, 2, 3}
	y := opstest.Plain(t, gr, nil, map[string]*graph.Tensor{
		"q": rowsOf(x, all, 1, 32), "k": rowsOf(ks, all, 1, 32), "v": rowsOf(x, all, 1, 32),
		"pos": ints([]int{4}, []int32{0, 1, 2, 3}), "seq": ints([]int{4}, make([]int32, 4)), "pages": ints([]int{1, 1}, []int32{0}),
	})["y"]
	for i, want := range []bool{false, true, true, false} {
		if isNaN(y.Row(i)[0]) != want {
			t.Errorf("token %d: %v, NaN is %v", i, y.Row(i)[0], want)
		}
	}
}
