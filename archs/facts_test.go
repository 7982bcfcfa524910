package archs_test

import (
	"math"
	"testing"

	"graphrun/archs"
	"graphrun/graph"
)

// TestGemma3Layers checks windows and ropes with the keys of older files: no
// pattern, no base for layers with a window. Scaling is for full layers alone.
func TestGemma3Layers(t *testing.T) {
	for name, keys := range map[string]map[string]any{
		"defaults": {"rope.scaling.factor": 8.0},
		"old name": {"rope.scale_linear": 8.0},
		"written":  {"rope.scaling.factor": 8.0, "rope.scaling.type": "linear", "rope.freq_base_swa": 10000.0, "attention.sliding_window_pattern": 6},
	} {
		f := smallGemma3(7)
		for k, v := range keys {
			f.keys[k] = v
		}
		m, g := f.mustGraph(t)
		for i, l := range m.Layers {
			window, base, linear := 4, float32(10000), float32(1)
			if i == 5 {
				window, base, linear = 0, 1e6, 8
			}
			rope := g.Find("attn.k.rope", i).Attrs
			if l.Window != window || rope.Float("base") != base || rope.Float("linear") != linear {
				t.Errorf("%s: layer %d has window %d and rope %v, want window %d, base %v, linear %v", name, i, l.Window, rope, window, base, linear)
			}
			if w := g.Find("attn.ctx", i).Attrs.Int("window"); w != window {
				t.Errorf("%s: attention of layer %d has window %d", name, i, w)
			}
		}
		if m.MaxWindow() != 4 {
			t.Errorf("%s: largest window %d", name, m.MaxWindow())
		}
	}

	f := smallGemma3(7)
	f.keys["attention.sliding_window"] = nil
	m, g := f.mustGraph(t)
	if m.MaxWindow() != 0 || g.Find("pages.window", -1) != nil {
		t.Error("without the key no layer has a window")
	}
}

// TestEmbeddingFactor: the factor is the exact root, rounded to f32, and the
// dump shows it.
func TestEmbeddingFactor(t *testing.T) {
	_, g := smallGemma3(1).mustGraph(t)
	if by := g.Find("embd.scaled", -1).Attrs.Float("by"); by != 8 {
		t.Errorf("factor %v, want sqrt(64)", by)
	}
}

// TestYarn reads the keys of YaRN scaling.
func TestYarn(t *testing.T) {
	f := smallLlama(1)
	f.keys["rope.scaling.type"] = "yarn"
	f.keys["rope.scaling.factor"] = 4.0
	_, g := f.mustGraph(t)
	a := g.Find("attn.q.rope", 0).Attrs
	if a.Float("yarn") != 4 || a.Int("yarn_context") != 512 || a.Float("linear") != 1 {
		t.Errorf("rope %v, want yarn 4 over the context length", a)
	}
	f.keys["rope.scaling.factor"] = 0.5
	_, err := f.load(t)
	wantError(t, err, "key llama.rope.scaling.factor")
	f.keys["rope.scaling.type"] = "none"
	if _, g = f.mustGraph(t); g.Find("attn.q.rope", 0).Attrs.Float("linear") != 1 {
		t.Error("type none still scales")
	}
}

// TestGemma4Kinds: full layers have fewer, wider heads and no value matrix; a
// layer with a window must have one.
func TestGemma4Kinds(t *testing.T) {
	f := smallGemma4(6)
	f.drop("blk.2.attn_v.weight", "blk.5.attn_v.weight")
	m, g := f.mustGraph(t)
	for i, l := range m.Layers {
		kind, want := [4]int{l.G, l.K, l.Window, l.Rope.Dims}, [4]int{2, 16, 4, 16}
		if i%3 == 2 {
			want = [4]int{1, 32, 0, 32}
		}
		if kind != want || l.RopeFreqs != (i%3 == 2) || l.Scale != 1 {
			t.Errorf("layer %d: %v, freqs %v, scale %v; want %v", i, kind, l.RopeFreqs, l.Scale, want)
		}
	}
	// V is the key projection before its norm and rope.
	if v := g.Find("attn.v.norm", 2); v.Args[0] != g.Find("attn.k.heads", 2) {
		t.Errorf("values of layer 2 come from %s", v.Args[0].Label())
	}

	f = smallGemma4(6)
	f.drop("blk.1.attn_v.weight")
	_, err := f.load(t)
	wantError(t, err, "tensor blk.1.attn_v.weight: missing")

	f = smallGemma4(6)
	f.drop("rope_freqs.weight")
	_, err = f.load(t)
	wantError(t, err, "tensor rope_freqs.weight: missing", "[R/2] = [16]")
}

// TestGemma4Donors: a layer without keys reads the cache of the last owning
// layer of its kind, as an edge of the graph. Tensors it carries are ignored.
func TestGemma4Donors(t *testing.T) {
	f := smallGemma4(9)
	f.keys["attention.shared_kv_layers"] = 3
	f.drop("blk.7.attn_k.weight", "blk.7.attn_v.weight", "blk.7.attn_k_norm.weight")
	m, g := f.mustGraph(t)
	for i, donor := range []int{0, 1, 2, 3, 4, 5, 4, 4, 5} {
		if m.Layers[i].KVDonor != donor {
			t.Errorf("layer %d reads the cache of layer %d, want %d", i, m.Layers[i].KVDonor, donor)
		}
		if kv := g.Find("attn.ctx", i).Args[1]; kv != g.Find("attn.kv", donor) {
			t.Errorf("attention of layer %d reads %s, want attn.kv-%d", i, kv.Label(), donor)
		}
	}
	if len(m.Warnings) > 0 {
		t.Errorf("warnings %q", m.Warnings)
	}

	for shared, says := range map[int]string{
		8: "an earlier layer of the same kind with keys and values for layer 2", // the only owner has a window
		9: "for layer 0",
		// more than there are layers
		12: "for layer 0",
	} {
		f.keys["attention.shared_kv_layers"] = shared
		_, err := f.load(t)
		wantError(t, err, "key gemma4.attention.shared_kv_layers", says)
	}
}

// TestGemma4Keys: what has no default is asked for, and the softcap's default
// is 30, not off.
func TestGemma4Keys(t *testing.T) {
	for _, c := range []struct {
		key string
		val any
	}{
		{"attention.sliding_window_pattern", []bool{true, false}},
		{"attention.sliding_window_pattern", true},
		{"attention.sliding_window_pattern", nil},
		{"attention.sliding_window", 0},
		{"attention.shared_kv_layers", 1001},
		{"attention.key_length", 33},
		{"attention.key_length_swa", nil},
		{"attention.value_length", 16},
		{"attention.value_length_swa", 8},
		{"attention.head_count_kv", []int{2, 2, 3, 2, 2, 1}},
		{"attention.layer_norm_rms_epsilon", nil},
		{"embedding_length_per_layer_input", nil},
		{"feed_forward_length", []int{128, 128, 128}},
		{"rope.freq_base", nil},
		{"rope.dimension_count_swa", 32},
		{"rope.scaling.type", "yarn"},
		{"final_logit_softcapping", -1.0},
	} {
		f := smallGemma4(6)
		f.keys[c.key] = c.val
		_, err := f.load(t)
		wantError(t, err, "key gemma4."+c.key)
	}

	f := smallGemma4(3)
	_, g := f.mustGraph(t)
	if v := g.Output("logits"); v.Op.Name != "softcap" || v.Attrs.Float("cap") != 30 {
		t.Errorf("logits are a %s %v, want softcap 30", v.Op.Name, v.Attrs)
	}
	f.keys["final_logit_softcapping"] = 0.0
	if _, g = f.mustGraph(t); g.Output("logits").Op.Name != "matmul" {
		t.Error("softcap 0 is not off")
	}
}

// TestGemma4Experts: a layer has experts if it has a router, with fused or
// separate matrices.
func TestGemma4Experts(t *testing.T) {
	f := smallGemma4(3)
	f.keys["expert_count"], f.keys["expert_used_count"], f.keys["expert_feed_forward_length"] = 8, 3, 24
	experts := map[string][]int{
		"ffn_gate_inp.weight": {8, 64}, "ffn_gate_inp.scale": {64}, "pre_ffw_norm_2.weight": {64}, "post_ffw_norm_1.weight": {64}, "post_ffw_norm_2.weight": {64},
		"ffn_down_exps.weight": {8, 64, 24},
	}
	f.layer(0, experts)
	f.add("blk.0.ffn_gate_up_exps.weight", 8, 48, 64)
	f.layer(2, experts)
	f.add("blk.2.ffn_gate_exps.weight", 8, 24, 64)
	f.add("blk.2.ffn_up_exps.weight", 8, 24, 64)
	m, g := f.mustGraph(t)
	if e, u := m.MoE(); e != 8 || u != 3 {
		t.Errorf("%d experts, %d used", e, u)
	}
	for i, moe := range []bool{true, false, true} {
		if m.Layers[i].MoE() != moe || (g.Find("moe.out", i) != nil) != moe {
			t.Errorf("layer %d: experts %v", i, m.Layers[i].MoE())
		}
	}

	f.keys["expert_used_count"] = 9
	_, err := f.load(t)
	wantError(t, err, "key gemma4.expert_used_count", "1 to the 8 experts")
	f.keys["expert_count"] = 0
	_, err = f.load(t)
	wantError(t, err, "key gemma4.expert_count", "layer 0 has a router")
}

// TestGemma2Layers: even layers have a window, scores and logits are bounded.
func TestGemma2Layers(t *testing.T) {
	f := smallGemma3(4)
	f.arch = "gemma2"
	f.keys["attention.sliding_window"] = nil
	for l := range 4 {
		f.drop(blk(l, "attn_q_norm.weight"), blk(l, "attn_k_norm.weight"))
	}
	_, g := f.mustGraph(t)
	for l := range 4 {
		a := g.Find("attn.ctx", l).Attrs
		if w := []int{4096, 0}[l%2]; a.Int("window") != w || a.Float("softcap") != 50 {
			t.Errorf("attention of layer %d: %v, want window %d and softcap 50", l, a, w)
		}
	}
	if c := g.Output("logits").Attrs.Float("cap"); c != 30 {
		t.Errorf("logits are bounded by %v", c)
	}
}

// TestGPTOSSLayers: even layers have a window, sinks join the scores, and every
// matrix has a bias.
func TestGPTOSSLayers(t *testing.T) {
	f := smallGPTOSS(2)
	_, g := f.mustGraph(t)
	for l := range 2 {
		ctx := g.Find("attn.ctx", l)
		if w := []int{4, 0}[l]; ctx.Attrs.Int("window") != w {
			t.Errorf("attention of layer %d: %v, want window %d", l, ctx.Attrs, w)
		}
		if sinks := ctx.Args[len(ctx.Args)-1]; sinks.Name != blk(l, "attn_sinks.weight") {
			t.Errorf("attention of layer %d has no sinks", l)
		}
		if q, down := g.Find("attn.q", l), g.Find("moe.down", l); q.Op.Name != "add" || down.Op.Name != "expertadd" {
			t.Errorf("layer %d: attn.q is %s, moe.down is %s, want biases added", l, q.Op.Name, down.Op.Name)
		}
		if a := g.Find("attn.q.rope", l).Attrs; a.Float("yarn") != 32 || !a.Bool("half") {
			t.Errorf("rope of layer %d: %v", l, a)
		}
	}
	f.drop("blk.1.ffn_up_exps.bias")
	_, err := f.load(t)
	wantError(t, err, "tensor blk.1.ffn_up_exps.bias: missing", "[E,X] = [4,96]")
}

// TestTied: a tied output is the embedding itself, one weight value.
func TestTied(t *testing.T) {
	f := smallLlama(1)
	_, g := f.mustGraph(t)
	if w := g.Output("logits").Args[1]; w.Name != "output.weight" {
		t.Errorf("output reads %s", w.Name)
	}
	f.drop("output.weight")
	m, g := f.mustGraph(t)
	if w := g.Output("logits").Args[1]; w != g.Find("embd", -1).Args[1] || w.Name != "token_embd.weight" {
		t.Errorf("tied output reads %s", w.Name)
	}
	if m.V != vSmall {
		t.Errorf("vocabulary %d", m.V)
	}
}

// TestOutside registers an architecture as another module would.
func TestOutside(t *testing.T) {
	a := *archs.Lookup("llama")
	a.Name, a.HF = "outside", nil // its folders belong to llama
	archs.Register(&a)
	f := smallLlama(1)
	f.arch = "outside"
	if _, g := f.mustGraph(t); g.Name != "outside" {
		t.Errorf("graph of %s", g.Name)
	}
}

// TestWidths: heads need not fill the model width, and key_length absent means
// that they do.
func TestWidths(t *testing.T) {
	f := smallLlama(1)
	f.keys["attention.key_length"], f.keys["attention.value_length"] = nil, nil
	if m, _ := f.mustGraph(t); m.Layers[0].K != 16 {
		t.Errorf("head width %d", m.Layers[0].K)
	}
	f = smallLlama(1)
	f.keys["attention.key_length"], f.keys["attention.value_length"] = 24, 24
	f.reshape("blk.0.attn_q.weight", 96, 64)
	f.reshape("blk.0.attn_k.weight", 48, 64)
	f.reshape("blk.0.attn_v.weight", 48, 64)
	f.reshape("blk.0.attn_output.weight", 64, 96)
	m, g := f.mustGraph(t)
	if want := float32(1 / math.Sqrt(24)); m.Layers[0].Scale != want || !g.Find("attn.kv", 0).Type.Shape.Equal(graph.Rows("S", 2, 2, 24)) {
		t.Errorf("scale %v, cache %s", m.Layers[0].Scale, g.Find("attn.kv", 0).Type)
	}
}
