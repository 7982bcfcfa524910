package cpu_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"graphrun/backends"
	"graphrun/backends/cpu"
	"graphrun/graph"
	"graphrun/ops"
)

// f32 returns a tensor of rows of the last size.
func f32(data []float32, sizes ...int) *graph.Tensor {
	t := &graph.Tensor{DType: graph.F32, Dims: sizes, F32: data}
	t.Stride = t.RowElems()
	return t
}

func i32(data ...int32) *graph.Tensor {
	return &graph.Tensor{DType: graph.I32, Dims: []int{len(data)}, Stride: 1, I32: data}
}

// pattern returns n numbers between -1 and 1, the same in each run.
func pattern(n int, seed float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(math.Sin(seed + 12.9898*float64(i)))
	}
	return x
}

// A multilayer perceptron: two products with an activation between. T, the
// number of rows, is free from step to step.
func Example_mlp() {
	b := graph.NewBuilder("mlp")
	x := b.Input("x", graph.F32, graph.Rows("T", 2))
	h := ops.Act(b, ops.MatMul(b, x, b.Weight("w1", graph.F32, graph.ShapeOf(3, 2))), "silu")
	b.Output("y", ops.MatMul(b, h, b.Weight("w2", graph.F32, graph.ShapeOf(1, 3))))
	g, err := b.Finish()
	if err != nil {
		log.Fatal(err) // says which line built what does not fit
	}

	weights := backends.Tensors{
		"w1": f32([]float32{1, 2, 3, 4, 5, 6}, 3, 2),
		"w2": f32([]float32{0.1, 0.2, 0.3}, 1, 3),
	}
	p, err := cpu.Backend{}.Compile(g, weights, backends.Options{Dims: graph.Dims{"T": 16}})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	if err := p.Run(context.Background(), []backends.Feed{{Name: "x", Tensor: f32([]float32{1, 2, -3, 4}, 2, 2)}}); err != nil {
		log.Fatal(err)
	}
	y := p.Output("y")
	fmt.Printf("%.4f %.4f\n", y.Row(0)[0], y.Row(1)[0])
	// Output:
	// 7.7966 4.5950
}

// A transformer of two layers, with a KV cache: the program is fed three tokens,
// then one, and remembers. A model that is to be opened from files is an
// architecture instead; see package archs.
func Example_transformer() {
	const (
		layers, D, H, G, K, F, V = 2, 16, 4, 2, 4, 24, 11
		eps                      = 1e-5
	)
	weights := backends.Tensors{}
	b := graph.NewBuilder("transformer")
	weight := func(name string, sizes ...int) *graph.Value {
		n := 1
		for _, s := range sizes {
			n *= s
		}
		weights[name] = f32(pattern(n, float64(len(weights))), sizes...)
		return b.Weight(name, graph.F32, graph.ShapeOf(sizes...))
	}
	tokens := b.Input("tokens", graph.I32, graph.Rows("T"))
	pos := b.Input("pos", graph.I32, graph.Rows("T"))
	seq := b.Input("seq", graph.I32, graph.Rows("T"))                           // which text a token belongs to
	pages := b.Input("pages", graph.I32, graph.Shape{{Name: "N"}, {Name: "C"}}) // where the texts lie in the cache

	embed := weight("embed", V, D)
	x := ops.Embed(b, tokens, embed)
	rope := ops.RopeParams{Base: 10000, Dims: K, Half: true}
	for l := range layers {
		name := func(s string) string { return fmt.Sprintf("%d.%s", l, s) }
		b.SetLayer(l)
		h := ops.RMSNorm(b, x, weight(name("norm1"), D), eps)
		q := ops.Reshape(b, ops.MatMul(b, h, weight(name("q"), H*K, D)), H, K) // [T,H,K]
		k := ops.Reshape(b, ops.MatMul(b, h, weight(name("k"), G*K, D)), G, K) // [T,G,K]
		v := ops.Reshape(b, ops.MatMul(b, h, weight(name("v"), G*K, D)), G, K)
		q, k = ops.Rope(b, q, pos, nil, rope), ops.Rope(b, k, pos, nil, rope)
		cache := b.Cache(name("kv"), graph.Type{DType: graph.F32, Shape: graph.Rows("S", 2, G, K)}, 0)
		cache = ops.KVWrite(b, cache, k, v, pos, seq, pages)
		a := ops.Attention(b, q, cache, pos, seq, pages, nil, ops.AttnParams{Scale: 0.5})
		x = ops.Add(b, x, ops.MatMul(b, ops.Reshape(b, a, H*K), weight(name("o"), D, H*K)))
		h = ops.RMSNorm(b, x, weight(name("norm2"), D), eps)
		gate, up := ops.MatMul(b, h, weight(name("gate"), F, D)), ops.MatMul(b, h, weight(name("up"), F, D))
		x = ops.Add(b, x, ops.MatMul(b, ops.Gated(b, gate, up, "silu"), weight(name("down"), D, F)))
	}
	b.SetLayer(-1)
	b.Output("logits", ops.MatMul(b, ops.RMSNorm(b, x, nil, eps), embed))
	g, err := b.Finish()
	if err != nil {
		log.Fatal(err)
	}

	// One text of at most 64 positions, in page 0 of the cache.
	p, err := cpu.Backend{}.Compile(g, weights, backends.Options{Dims: graph.Dims{"T": 8, "N": 1, "C": 1, "S": ops.PageSize}})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	page := &graph.Tensor{DType: graph.I32, Dims: []int{1, 1}, Stride: 1, I32: []int32{0}}
	step := func(tokens, pos *graph.Tensor) []float32 {
		seq := i32(make([]int32, len(tokens.I32))...)
		err := p.Run(context.Background(), []backends.Feed{{Name: "tokens", Tensor: tokens}, {Name: "pos", Tensor: pos},
			{Name: "seq", Tensor: seq}, {Name: "pages", Tensor: page}})
		if err != nil {
			log.Fatal(err)
		}
		y := p.Output("logits")
		return y.Row(y.Rows() - 1)
	}
	whole := append([]float32(nil), step(i32(3, 1, 4, 1), i32(0, 1, 2, 3))...)
	step(i32(3, 1, 4), i32(0, 1, 2))
	last := step(i32(1), i32(3))
	diff := 0.0
	for i := range last {
		diff = max(diff, math.Abs(float64(last[i]-whole[i])))
	}
	fmt.Println("same logits in one step and in two:", diff < 1e-4)
	// Output:
	// same logits in one step and in two: true
}

// cube is an operation of one's own: its formula, its type, its kernel in plain
// Go, which is what both backends run.
var cube = graph.Register(&graph.Op{
	Name: "cube", Doc: "y = x³", MinArgs: 1, MaxArgs: 1, Flags: graph.Pure,
	Infer: func(args []graph.Type, _ graph.Attrs) (graph.Type, error) {
		if args[0].DType != graph.F32 {
			return graph.Type{}, fmt.Errorf("operand 0 (x) is %s, want f32", args[0])
		}
		return args[0], nil
	},
	Kernel: func(c *graph.Call, lo, hi int) {
		for t := lo; t < hi; t++ {
			for i, x := range c.In[0].Row(t) {
				c.Out.Row(t)[i] = x * x * x
			}
		}
	},
})

// cubes is a rewrite: it finds x·x·x and puts the operation there.
var cubes = graph.Rule{
	Name: "cube", Doc: "mul(mul(x,x),x) = cube(x)",
	Match: graph.Pat("mul", graph.Pat("mul", graph.Any("x"), graph.Any("y")).Once(), graph.Any("z")),
	If:    func(m *graph.Match) bool { return m.Get("x") == m.Get("y") && m.Get("x") == m.Get("z") },
	Make:  func(m *graph.Match) *graph.Value { return m.New(cube, nil, m.Get("x")) },
}

// An operation of one's own with a kernel, and a rewrite that uses it.
func Example_customOp() {
	b := graph.NewBuilder("cubes")
	x := b.Input("x", graph.F32, graph.Rows("T", 3))
	b.Output("y", ops.Mul(b, ops.Mul(b, x, x), x))
	g, err := b.Finish()
	if err != nil {
		log.Fatal(err)
	}
	if err := graph.Rules(cubes)(g); err != nil {
		log.Fatal(err)
	}
	if err := graph.DCE(g); err != nil {
		log.Fatal(err)
	}
	for _, v := range g.Values {
		fmt.Println(v, v.Op.Name)
	}
	p, err := cpu.Backend{}.Compile(g, backends.Tensors{}, backends.Options{Dims: graph.Dims{"T": 4}})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	if err := p.Run(context.Background(), []backends.Feed{{Name: "x", Tensor: f32([]float32{1, 2, 3}, 1, 3)}}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Output("y").Row(0))
	// Output:
	// v0 input
	// v2 cube
	// [1 8 27]
}
