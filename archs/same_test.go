package archs_test

import (
	"math"
	"slices"
	"testing"

	"graphrun/archs"
	"graphrun/backends"
	"graphrun/backends/ref"
	"graphrun/graph"
	"graphrun/ops"
)

// logits runs twelve tokens of a small model on the reference backend.
func (f *file) logits(t *testing.T) []float32 {
	t.Helper()
	in := f.open(t)
	m, err := archs.Load(in)
	if err != nil {
		t.Fatal(err)
	}
	r := &run{m: m}
	if r.g, err = m.Graph(archs.GraphOptions{KV: graph.F32}); err != nil {
		t.Fatal(err)
	}
	n := pages * ops.PageSize
	dims := graph.Dims{"T": 64, "R": 64, "N": 1, "C": pages, "CW": pages, "S": n, "SW": n}
	if r.prog, err = (ref.Backend{}).Compile(r.g, weights{in}, backends.Options{Dims: dims}); err != nil {
		t.Fatal(err)
	}
	r.tokens = []int32{1, 300, 17, 17, 255, 3, 96, 42, 201, 8, 128, 64}
	r.step(t, 0, len(r.tokens))
	return slices.Clone(r.prog.Output("logits").F32)
}

// wantSame compares two ways to write the same model.
func wantSame(t *testing.T, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d logits and %d", len(got), len(want))
	}
	for i := range want {
		if d := math.Abs(float64(got[i]) - float64(want[i])); !(d < 1e-4) {
			t.Fatalf("token %d, logit %d: %v and %v", i/vSmall, i%vSmall, got[i], want[i])
		}
	}
}

// wantOther checks that a change is not ignored.
func wantOther(t *testing.T, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Abs(float64(got[i])-float64(want[i])) > 1e-2 {
			return
		}
	}
	t.Error("the logits are the same")
}

// take returns the numbers of a tensor of f.
func (f *file) take(name string) []float32 {
	for _, x := range f.tensors {
		if x.Name == name {
			return f.values(x)
		}
	}
	return nil
}

// TestFusedQKV: attn_qkv with its bias is the three matrices with theirs.
func TestFusedQKV(t *testing.T) {
	split, fused := smallLlama(2), smallLlama(2)
	for l := range 2 {
		for name, n := range map[string]int{"attn_q": 64, "attn_k": 32, "attn_v": 32} {
			split.add(blk(l, name+".bias"), n)
		}
		for _, kind := range []string{".weight", ".bias"} {
			for _, name := range []string{"attn_q", "attn_k", "attn_v"} {
				to := blk(l, "attn_qkv"+kind)
				fused.data[to] = append(fused.data[to], split.take(blk(l, name+kind))...)
				fused.drop(blk(l, name+kind))
			}
		}
		fused.add(blk(l, "attn_qkv.weight"), 128, 64)
		fused.add(blk(l, "attn_qkv.bias"), 128)
	}
	wantSame(t, fused.logits(t), split.logits(t))
	wantOther(t, split.logits(t), smallLlama(2).logits(t))
}

// TestMixtral: experts that are all the same weigh 1 together.
func TestMixtral(t *testing.T) {
	dense, moe := smallLlama(2), smallLlama(2)
	moe.keys["expert_count"], moe.keys["expert_used_count"] = 4, 2
	for l := range 2 {
		for name, shape := range map[string][]int{"ffn_gate": {4, 128, 64}, "ffn_up": {4, 128, 64}, "ffn_down": {4, 64, 128}} {
			one, to := dense.take(blk(l, name+".weight")), blk(l, name+"_exps.weight")
			moe.drop(blk(l, name+".weight"))
			moe.add(to, shape...)
			moe.data[to] = slices.Repeat(one, 4)
		}
		moe.add(blk(l, "ffn_gate_inp.weight"), 4, 64)
	}
	wantSame(t, moe.logits(t), dense.logits(t))
}

// TestHalfPairs: qwen2 with biases of zero is llama with the rows of queries and
// keys in the order of half-split pairs.
func TestHalfPairs(t *testing.T) {
	adjacent, half := smallLlama(2), smallLlama(2)
	half.arch = "qwen2"
	for l := range 2 {
		for name, rows := range map[string]int{"attn_q": 64, "attn_k": 32, "attn_v": 32} {
			half.add(blk(l, name+".bias"), rows)
			half.data[blk(l, name+".bias")] = make([]float32, rows)
			if name == "attn_v" {
				continue
			}
			w := adjacent.take(blk(l, name+".weight"))
			var permuted []float32
			for r := range rows {
				head, i := r/16*16, r%16
				from := head + 2*i
				if i >= 8 {
					from = head + 2*(i-8) + 1
				}
				permuted = append(permuted, w[from*64:(from+1)*64]...)
			}
			half.data[blk(l, name+".weight")] = permuted
		}
	}
	wantSame(t, half.logits(t), adjacent.logits(t))

	half.add("output.bias", vSmall)
	bias, plain := half.take("output.bias"), adjacent.logits(t)
	for i := range plain {
		plain[i] += bias[i%vSmall]
	}
	wantSame(t, half.logits(t), plain)
}

// TestGemma4Fused: fused and separate matrices of experts, and a value matrix
// that equals the key matrix beside none at all.
func TestGemma4Fused(t *testing.T) {
	moe := func(fused bool) *file {
		f := smallGemma4(3)
		f.keys["expert_count"], f.keys["expert_used_count"], f.keys["expert_feed_forward_length"] = 4, 2, 24
		for l := range 3 {
			f.layer(l, map[string][]int{
				"ffn_gate_inp.weight": {4, 64}, "ffn_gate_inp.scale": {64}, "pre_ffw_norm_2.weight": {64}, "post_ffw_norm_1.weight": {64}, "post_ffw_norm_2.weight": {64},
				"ffn_down_exps.weight": {4, 64, 24}, "ffn_gate_exps.weight": {4, 24, 64}, "ffn_up_exps.weight": {4, 24, 64},
			})
			if !fused {
				continue
			}
			gate, up, to := f.take(blk(l, "ffn_gate_exps.weight")), f.take(blk(l, "ffn_up_exps.weight")), blk(l, "ffn_gate_up_exps.weight")
			for e := range 4 {
				f.data[to] = append(f.data[to], gate[e*24*64:(e+1)*24*64]...)
				f.data[to] = append(f.data[to], up[e*24*64:(e+1)*24*64]...)
			}
			f.drop(blk(l, "ffn_gate_exps.weight"), blk(l, "ffn_up_exps.weight"))
			f.add(to, 4, 48, 64)
		}
		return f
	}
	wantSame(t, moe(true).logits(t), moe(false).logits(t))

	scaled := moe(true)
	scaled.add("blk.1.ffn_down_exps.scale", 4)
	wantOther(t, scaled.logits(t), moe(true).logits(t))

	with, without := smallGemma4(3), smallGemma4(3)
	with.data["blk.2.attn_v.weight"] = with.take("blk.2.attn_k.weight")
	without.drop("blk.2.attn_v.weight")
	wantSame(t, without.logits(t), with.logits(t))
}

// TestMatrixScale: a factor beside a matrix multiplies its product.
func TestMatrixScale(t *testing.T) {
	plain, scaled := smallGemma4(3), smallGemma4(3)
	w := slices.Clone(plain.take("blk.0.ffn_up.weight"))
	for i := range w {
		w[i] *= 1.5
	}
	plain.data["blk.0.ffn_up.weight"] = w
	scaled.add("blk.0.ffn_up.scale", 1)
	scaled.data["blk.0.ffn_up.scale"] = []float32{1.5}
	wantSame(t, scaled.logits(t), plain.logits(t))
}

// TestLayerScale: the factor at the end of a layer multiplies the whole stream,
// residual included.
func TestLayerScale(t *testing.T) {
	f := smallGemma4(3)
	f.add("blk.1.layer_output_scale.weight", 1)
	_, g := f.mustGraph(t)
	v := g.Find("layer.out", 1)
	if v == nil || v.Args[0] != g.Find("ffn.res", 1) || g.Find("attn.norm", 2).Args[0] != v {
		t.Error("the next layer does not read the scaled stream")
	}
}
