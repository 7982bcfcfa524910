package ops_test

import (
	"errors"
	"strings"
	"testing"

	"graphrun/graph"
	"graphrun/ops"
)

// TestInferErrors: what does not fit is refused with the operand, what it is and
// what was expected.
func TestInferErrors(t *testing.T) {
	f32 := func(b *graph.Builder, name string, sizes ...int) *graph.Value {
		return b.Input(name, graph.F32, graph.Rows("T", sizes...))
	}
	w := func(b *graph.Builder, name string, dt graph.DType, sizes ...int) *graph.Value {
		return b.Weight(name, dt, graph.ShapeOf(sizes...))
	}
	idx := func(b *graph.Builder, name string, dims ...string) *graph.Value {
		s := graph.Shape{}
		for _, d := range dims {
			s = append(s, graph.Named(d))
		}
		return b.Input(name, graph.I32, s)
	}
	cache := func(b *graph.Builder, dt graph.DType, g, k int) *graph.Value {
		return b.Cache("kv", graph.Type{DType: dt, Shape: graph.Shape{graph.Named("S"), graph.Fix(2), graph.Fix(g), graph.Fix(k)}}, 0)
	}
	write := func(b *graph.Builder, c, k, v *graph.Value) *graph.Value {
		return ops.KVWrite(b, c, k, v, idx(b, "pos", "T"), idx(b, "seq", "T"), idx(b, "pages", "N", "C"))
	}
	attend := func(b *graph.Builder, q, c, sinks *graph.Value, p ops.AttnParams) *graph.Value {
		return ops.Attention(b, q, c, idx(b, "pos", "T"), idx(b, "seq", "T"), idx(b, "pages", "N", "C"), sinks, p)
	}
	for _, c := range []struct {
		name  string
		build func(b *graph.Builder)
		want  string
	}{
		{"add", func(b *graph.Builder) { ops.Add(b, f32(b, "a", 8), f32(b, "c", 9)) }, "operand 1 (c) is f32[T,9], want f32[T,8], f32[8] or f32[1]"},
		{"add dtype", func(b *graph.Builder) { ops.Add(b, f32(b, "a", 8), w(b, "c", graph.F16, 8)) }, "operand 1 (c) is f16[8], want f32"},
		{"softcap", func(b *graph.Builder) { ops.Softcap(b, f32(b, "x", 8), 0) }, "attribute cap is 0, want a positive finite number"},
		{"act", func(b *graph.Builder) { ops.Act(b, f32(b, "x", 8), "relu") }, `unknown activation "relu"; known: gelu, silu`},
		{"rmsnorm", func(b *graph.Builder) { ops.RMSNorm(b, f32(b, "x", 8), w(b, "w", graph.F32, 9), 1e-6) }, "operand 1 (w) is f32[9], want f32[8]"},
		{"rope odd", func(b *graph.Builder) {
			ops.Rope(b, f32(b, "x", 2, 8), idx(b, "pos", "T"), nil, ops.RopeParams{Base: 1e4, Dims: 10})
		}, "attribute dims is 10, want an even number from 2 to 8"},
		{"rope pos", func(b *graph.Builder) {
			ops.Rope(b, f32(b, "x", 2, 8), idx(b, "pos", "R"), nil, ops.RopeParams{Base: 1e4})
		}, "operand 1 (pos) is i32[R], want i32[T]"},
		{"rope factors", func(b *graph.Builder) {
			ops.Rope(b, f32(b, "x", 2, 8), idx(b, "pos", "T"), w(b, "f", graph.F32, 8), ops.RopeParams{Base: 1e4})
		}, "operand 2 (factors) is f32[8], want f32[4]"},
		{"rope both", func(b *graph.Builder) {
			ops.Rope(b, f32(b, "x", 2, 8), idx(b, "pos", "T"), nil, ops.RopeParams{Base: 1e4, Linear: 2, Yarn: ops.Yarn{Factor: 4, OrigContext: 64}})
		}, "linear and yarn are both set"},
		{"rope base", func(b *graph.Builder) {
			ops.Rope(b, f32(b, "x", 2, 8), idx(b, "pos", "T"), nil, ops.RopeParams{})
		}, "attribute base is 0"},
		{"matmul", func(b *graph.Builder) { ops.MatMul(b, f32(b, "x", 64), w(b, "w", graph.F32, 5, 65)) }, "operand 1 (w) is f32[5,65], want 2 fixed dimensions, the last of 64"},
		{"matmul block", func(b *graph.Builder) { ops.MatMul(b, f32(b, "x", 48), w(b, "w", graph.Q4_0, 5, 48)) }, "want rows of whole blocks of 32 elements"},
		{"matmul type", func(b *graph.Builder) { ops.MatMul(b, f32(b, "x", 64), w(b, "w", graph.I8, 5, 64)) }, "want a weight type"},
		{"matmul act", func(b *graph.Builder) {
			ops.MatMul(b, ops.Quantize(b, f32(b, "x", 256), graph.Q8K), w(b, "w", graph.Q4_0, 5, 256))
		}, "operand 0 (x) is q8k[T,256], want f32 or q8 beside q4_0 weights"},
		{"quantize", func(b *graph.Builder) { ops.Quantize(b, f32(b, "x", 64), graph.Q8K) }, "want a last dimension of whole blocks of 256"},
		{"quantize to", func(b *graph.Builder) { ops.Quantize(b, f32(b, "x", 64), graph.Q8_0) }, `attribute to is "q8_0", want "q8" or "q8k"`},
		{"gated", func(b *graph.Builder) { ops.Gated(b, f32(b, "g", 8), f32(b, "u", 9), ops.SiLU) }, "operand 1 (up) is f32[T,9], want f32[T,8]"},
		{"gated kind", func(b *graph.Builder) { ops.Gated(b, f32(b, "g", 8), f32(b, "u", 8), "tanh") }, `attribute act is "tanh", want gelu, silu or swiglu_oai`},
		{"gatedhalves", func(b *graph.Builder) { ops.GatedHalves(b, f32(b, "x", 9), ops.SiLU) }, "want an even last dimension"},
		{"gatedmatmul", func(b *graph.Builder) {
			ops.GatedMatMul(b, f32(b, "x", 8), w(b, "g", graph.F32, 5, 8), w(b, "u", graph.F32, 6, 8), ops.SiLU)
		}, "operand 2 (w) is f32[6,8], want the shape of operand 1, [5,8]"},
		{"embed", func(b *graph.Builder) { ops.Embed(b, f32(b, "tokens"), w(b, "w", graph.F32, 5, 8)) }, "operand 0 (tokens) is f32[T], want i32[T]"},
		{"selectrows", func(b *graph.Builder) { ops.SelectRows(b, f32(b, "x", 8), f32(b, "rows")) }, "operand 1 (rows) is f32[T], want i32[R]"},
		{"reshape", func(b *graph.Builder) { ops.Reshape(b, f32(b, "x", 8), 3, 3) }, "attribute shape is [3 3], 9 elements, want the 8 of a row"},
		{"cols", func(b *graph.Builder) { ops.Cols(b, f32(b, "x", 8), 4, 9) }, "columns 4 to 9 of operand 0 f32[T,8], want a range within 0 to 8"},
		{"slice", func(b *graph.Builder) { ops.Slice(b, f32(b, "x", 8), 0) }, "want three dimensions"},
		{"topk", func(b *graph.Builder) { ops.TopK(b, f32(b, "p", 8), 9) }, "attribute k is 9, want 1 to 8"},
		{"topkweights", func(b *graph.Builder) {
			p := f32(b, "p", 8)
			ops.TopKWeights(b, p, ops.TopK(b, p, 2), ops.TopKWeightsParams{Normalize: true, SoftmaxOverChosen: true})
		}, "normalize and softmax are both set"},
		{"expertmatmul", func(b *graph.Builder) {
			ops.ExpertMatMul(b, f32(b, "x", 3, 8), w(b, "w", graph.F32, 4, 5, 8), ops.TopK(b, f32(b, "p", 4), 2))
		}, "operand 0 (x) is f32[T,3,8], want 2 rows for each token"},
		{"expertsum", func(b *graph.Builder) { ops.ExpertSum(b, f32(b, "y", 3, 8), f32(b, "w", 2)) }, "operand 1 (weights) is f32[T,2], want f32[T,3]"},
		{"kvwrite", func(b *graph.Builder) {
			write(b, cache(b, graph.Q8_0, 2, 80), f32(b, "k", 2, 80), f32(b, "v", 2, 80))
		}, "heads of whole blocks of 32 elements; f16 caches take any head width"},
		{"kvwrite heads", func(b *graph.Builder) {
			write(b, cache(b, graph.F16, 2, 64), f32(b, "k", 3, 64), f32(b, "v", 3, 64))
		}, "operand 1 (k) is f32[T,3,64], want 2 heads, as operand 0 (cache)"},
		{"kvwrite type", func(b *graph.Builder) {
			write(b, cache(b, graph.Q4_0, 2, 64), f32(b, "k", 2, 64), f32(b, "v", 2, 64))
		}, "want f32, f16 or q8_0"},
		{"attention", func(b *graph.Builder) {
			attend(b, f32(b, "q", 3, 64), cache(b, graph.F16, 2, 64), nil, ops.AttnParams{Scale: 1})
		}, "operand 0 (q) is f32[T,3,64], want a multiple of the 2 heads"},
		{"attention wide", func(b *graph.Builder) {
			attend(b, f32(b, "q", 2, 1024), cache(b, graph.F16, 2, 1024), nil, ops.AttnParams{Scale: 1})
		}, "want heads of at most 512 elements"},
		{"attention sinks", func(b *graph.Builder) {
			attend(b, f32(b, "q", 4, 64), cache(b, graph.F16, 2, 64), w(b, "s", graph.F32, 2), ops.AttnParams{Scale: 1})
		}, "operand 5 (sinks) is f32[2], want f32[4]"},
		{"attention window", func(b *graph.Builder) {
			attend(b, f32(b, "q", 4, 64), cache(b, graph.F16, 2, 64), nil, ops.AttnParams{Scale: 1, Window: -1})
		}, "attribute window is -1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := graph.NewBuilder("bad")
			c.build(b)
			err := b.Err()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q in it", err, c.want)
			}
			if c.name != "act" && !errors.Is(err, graph.ErrShape) {
				t.Errorf("%v is not ErrShape", err)
			}
			if !strings.Contains(err.Error(), "infer_test.go") && c.name != "act" && c.name != "slice" {
				t.Errorf("%v does not name the calling line", err)
			}
		})
	}
}

// TestCost: multiply-adds and bytes come from the shapes.
func TestCost(t *testing.T) {
	b := graph.NewBuilder("cost")
	x := b.Input("x", graph.F32, graph.Rows("T", 256))
	wq := b.Weight("w", graph.Q4_0, graph.ShapeOf(100, 256))
	we := b.Weight("e", graph.Q4_0, graph.ShapeOf(8, 100, 256))
	ids := b.Input("ids", graph.I32, graph.Rows("T", 2))
	tokens := b.Input("tokens", graph.I32, graph.Rows("T"))
	dims := graph.Dims{"T": 3}
	for _, c := range []struct {
		v    *graph.Value
		want graph.Cost
	}{
		{ops.MatMul(b, x, wq), graph.Cost{MACs: 3 * 100 * 256, Bytes: 3*256*4 + 100*144 + 3*100*4}},
		{ops.GatedMatMul(b, x, wq, wq, ops.SiLU), graph.Cost{MACs: 2 * 3 * 100 * 256, Bytes: 3*256*4 + 2*100*144 + 3*100*4}},
		{ops.ExpertMatMul(b, x, we, ids), graph.Cost{MACs: 6 * 100 * 256, Bytes: 3*256*4 + 6*100*144 + 6*4 + 6*100*4}},
		{ops.Embed(b, tokens, wq), graph.Cost{Bytes: 3*4 + 3*144 + 3*256*4}},
		{ops.Reshape(b, x, 4, 64), graph.Cost{}},
	} {
		if got := graph.CostOf(c.v, dims); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.v.Op.Name, got, c.want)
		}
	}
	if err := b.Err(); err != nil {
		t.Fatal(err)
	}
}
