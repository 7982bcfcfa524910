package archs

import (
	"slices"

	"graphrun/graph"
	"graphrun/loaders"
	"graphrun/ops"
)

// gemma4 has layers of two kinds, with a window and without, that differ in head
// width, kv heads and rope. By the file, the last layers read the caches of
// earlier ones, full layers take their values from the key projection, each
// layer gets an embedding of the token of its own, and experts run beside the
// dense feed-forward.
var _ = Register(&Arch{
	Name:       "gemma4",
	Doc:        "Gemma 4: E2B, E4B, 12B, 31B, 26B-A4B",
	Tokenizers: []string{"gemma4", "llama"},
	Rope:       Half,
	Keys: slices.Concat(decoderKeys, []Key{
		{Name: "attention.key_length", Kind: Uint, Check: headWidth},
		{Name: "attention.value_length", Kind: Uint, Default: Same("attention.key_length")},
		{Name: "attention.key_length_swa", Kind: Uint, Check: headWidth},
		{Name: "attention.value_length_swa", Kind: Uint, Default: Same("attention.key_length_swa")},
		{Name: "attention.sliding_window", Kind: Uint, Check: Range(1, 1<<31-1)},
		{Name: "attention.sliding_window_pattern", Kind: Bools},
		{Name: "attention.shared_kv_layers", Kind: Uint, Default: 0, Check: Range(0, 1000)},
		{Name: "embedding_length_per_layer_input", Kind: Uint},
		{Name: "rope.freq_base", Kind: Float, Check: Positive},
		{Name: "rope.freq_base_swa", Kind: Float, Default: 10000.0, Check: Positive},
		{Name: "rope.dimension_count", Kind: Uint, Default: Same("attention.key_length"), Check: headWidth},
		{Name: "rope.dimension_count_swa", Kind: Uint, Default: Same("attention.key_length_swa"), Check: headWidth},
		{Name: "rope.scaling.type", Kind: Text, Default: "linear", Check: OneOf("none", "linear")},
		{Name: "rope.scaling.factor", Kind: Float, Default: 1.0, Check: Positive},
		{Name: "final_logit_softcapping", Kind: Float, Default: 30.0, Check: Range(0, 1e6)},
		{Name: "expert_count", Kind: Uint, Default: 0},
		{Name: "expert_used_count", Kind: Uint, Default: 0},
		{Name: "expert_feed_forward_length", Kind: Uint, Default: 0},
	}),
	Tensors: slices.Concat(outerTensors, []Tensor{
		{Name: "rope_freqs.weight", Shape: "R/2", When: (*Layer).Full},
		{Name: "per_layer_token_embd.weight", Shape: "V,PL", When: (*Layer).PLE},
		{Name: "per_layer_model_proj.weight", Shape: "PL,D", When: (*Layer).PLE},
		{Name: "per_layer_proj_norm.weight", Shape: "P", When: (*Layer).PLE},

		{Name: "blk.N.attn_norm.weight", Shape: "D"},
		{Name: "blk.N.attn_q.weight", Shape: "HK,D", Flags: MayScale},
		{Name: "blk.N.attn_q_norm.weight", Shape: "K"},
		{Name: "blk.N.attn_k.weight", Shape: "GK,D", When: (*Layer).OwnsKV, Flags: MayScale},
		{Name: "blk.N.attn_k_norm.weight", Shape: "K", When: (*Layer).OwnsKV},
		{Name: "blk.N.attn_v.weight", Shape: "GK,D", When: slidingKV, Flags: MayScale},
		{Name: "blk.N.attn_v.weight", Shape: "GK,D", When: fullKV, Flags: Optional | MayScale},
		{Name: "blk.N.attn_k.weight", When: (*Layer).SharesKV, Flags: Ignored},
		{Name: "blk.N.attn_k_norm.weight", When: (*Layer).SharesKV, Flags: Ignored},
		{Name: "blk.N.attn_v.weight", When: (*Layer).SharesKV, Flags: Ignored},
		{Name: "blk.N.attn_output.weight", Shape: "D,HK", Flags: MayScale},
		{Name: "blk.N.post_attention_norm.weight", Shape: "D"},
		{Name: "blk.N.ffn_norm.weight", Shape: "D"},
		{Name: "blk.N.ffn_gate.weight", Shape: "F,D", Flags: MayScale},
		{Name: "blk.N.ffn_up.weight", Shape: "F,D", Flags: MayScale},
		{Name: "blk.N.ffn_down.weight", Shape: "D,F", Flags: MayScale},
		{Name: "blk.N.post_ffw_norm.weight", Shape: "D"},
		{Name: "blk.N.layer_output_scale.weight", Shape: "1", Flags: Optional},

		{Name: "blk.N.inp_gate.weight", Shape: "P,D", When: (*Layer).PLE, Flags: MayScale},
		{Name: "blk.N.proj.weight", Shape: "D,P", When: (*Layer).PLE, Flags: MayScale},
		{Name: "blk.N.post_norm.weight", Shape: "D", When: (*Layer).PLE},

		{Name: "blk.N.ffn_gate_inp.weight", Shape: "E,D", When: (*Layer).MoE},
		{Name: "blk.N.ffn_gate_inp.scale", Shape: "D", When: (*Layer).MoE},
		{Name: "blk.N.pre_ffw_norm_2.weight", Shape: "D", When: (*Layer).MoE},
		{Name: "blk.N.post_ffw_norm_1.weight", Shape: "D", When: (*Layer).MoE},
		{Name: "blk.N.post_ffw_norm_2.weight", Shape: "D", When: (*Layer).MoE},
		{Name: "blk.N.ffn_gate_up_exps.weight", Shape: "E,2X,D", When: (*Layer).MoE, Flags: Optional},
		{Name: "blk.N.ffn_gate_exps.weight", Shape: "E,X,D", When: (*Layer).MoE, Or: "blk.N.ffn_gate_up_exps.weight"},
		{Name: "blk.N.ffn_up_exps.weight", Shape: "E,X,D", When: (*Layer).MoE, Or: "blk.N.ffn_gate_up_exps.weight"},
		{Name: "blk.N.ffn_down_exps.weight", Shape: "E,D,X", When: (*Layer).MoE},
		{Name: "blk.N.ffn_down_exps.scale", Shape: "E", When: (*Layer).MoE, Flags: Optional},
	}),
	HF: &loaders.HF{
		Types:    []string{"gemma4_text", "gemma4"},
		Wrapped:  []string{"gemma4"},
		Class:    "Gemma4ForCausalLM",
		Prefixes: hfPrefixes,
		Skip:     hfTowers,
		Fields: slices.Concat(hfSizes(nil), []loaders.HFField{
			{Key: "attention.key_length", From: []string{"global_head_dim"}, Type: loaders.TypeU32},
			{Key: "attention.key_length_swa", From: []string{"head_dim"}, Type: loaders.TypeU32},
			{Key: "attention.sliding_window", From: []string{"sliding_window"}, Type: loaders.TypeU32},
			{Key: "attention.shared_kv_layers", From: []string{"num_kv_shared_layers"}, Type: loaders.TypeU32, Optional: true},
		}),
		Checks: append(hfActivation("gelu_pytorch_tanh"), noBidirectional),
		Tensors: slices.Concat(hfGemma, hfHeadNorms, []loaders.HFTensor{
			{Name: "embed_tokens_per_layer.weight", GGUF: "per_layer_token_embd.weight"},
			{Name: "per_layer_model_projection.weight", GGUF: "per_layer_model_proj.weight"},
			{Name: "per_layer_projection_norm.weight", GGUF: "per_layer_proj_norm.weight"},
			{Name: "layers.N.layer_scalar", GGUF: "blk.N.layer_output_scale.weight"},
			{Name: "layers.N.per_layer_input_gate.weight", GGUF: "blk.N.inp_gate.weight"},
			{Name: "layers.N.per_layer_projection.weight", GGUF: "blk.N.proj.weight"},
			{Name: "layers.N.post_per_layer_input_norm.weight", GGUF: "blk.N.post_norm.weight"},
			{Name: "layers.N.router.proj.weight", GGUF: "blk.N.ffn_gate_inp.weight"},
			{Name: "layers.N.router.scale", GGUF: "blk.N.ffn_gate_inp.scale"},
			{Name: "layers.N.router.per_expert_scale", GGUF: "blk.N.ffn_down_exps.scale"},
			{Name: "layers.N.pre_feedforward_layernorm_2.weight", GGUF: "blk.N.pre_ffw_norm_2.weight"},
			{Name: "layers.N.post_feedforward_layernorm_1.weight", GGUF: "blk.N.post_ffw_norm_1.weight"},
			{Name: "layers.N.post_feedforward_layernorm_2.weight", GGUF: "blk.N.post_ffw_norm_2.weight"},
			{Name: "layers.N.experts.gate_up_proj", GGUF: "blk.N.ffn_gate_up_exps.weight"},
			{Name: "layers.N.experts.down_proj", GGUF: "blk.N.ffn_down_exps.weight"},
		}),
		Tied:  true,
		Vocab: "gemma4",
		Read:  readGemma4,
		Write: writeGemma4,
	},
	Layer: gemma4Layer,
	Build: buildGemma4,
})

func slidingKV(l *Layer) bool { return l.OwnsKV() && l.Sliding() }
func fullKV(l *Layer) bool    { return l.OwnsKV() && l.Full() }

func gemma4Layer(c *Config, l *Layer) {
	sliding := c.BoolAt("attention.sliding_window_pattern", l.Index)
	if sliding {
		l.Window = c.Int("attention.sliding_window")
		l.K = c.Int("attention.key_length_swa")
		l.Rope.Base = c.Float("rope.freq_base_swa")
		l.Rope.Dims = c.Int("rope.dimension_count_swa")
	} else {
		l.RopeFreqs = true
		l.Scaling(c)
	}
	l.Scale = 1
	if c.Int("attention.value_length_swa") != c.Int("attention.key_length_swa") {
		c.FailKey("attention.value_length_swa", "%d, the key length", c.Int("attention.key_length_swa"))
	}

	// The last layers read the cache of the last owning layer of their kind.
	if own := c.Layers() - c.Int("attention.shared_kv_layers"); l.Index >= own {
		l.KVDonor = own - 1
		for l.KVDonor >= 0 && c.BoolAt("attention.sliding_window_pattern", l.KVDonor) != sliding {
			l.KVDonor--
		}
	}

	// Whether a layer has experts is told by its router alone.
	if !c.Has(blockName(l.Index, "ffn_gate_inp.weight")) {
		l.E = 0
	} else if l.E == 0 {
		c.FailKey("expert_count", "at least 1, as layer %d has a router", l.Index)
	}
}

func buildGemma4(b *Build) {
	x := b.Embed(sqrt(b.M.D))
	ple := gemma4PLE(b, x)
	for l := range b.Layers() {
		x = gemma4Attention(b, l, x)
		f := gemma4FFN(b, l, x)
		x = b.Add("ffn.res", x, b.Norm("ffn.out.norm", f, "post_ffw_norm"))
		if l.PLE() {
			g := ops.Gated(b.Builder, b.Linear("ple.gate", x, "inp_gate"), ops.Slice(b.Builder, ple, l.Index), ops.GELU)
			y := b.Linear("ple.out", b.Name(g, "ple.act"), "proj")
			x = b.Add("ple.res", x, b.Norm("ple.out.norm", y, "post_norm"))
		}
		if b.Has("layer_output_scale.weight") { // of the whole stream, residual included
			x = b.Name(ops.Mul(b.Builder, x, b.Tensor("layer_output_scale.weight")), "layer.out")
		}
	}
	b.Head(x, b.M.Config.Float("final_logit_softcapping"))
}

// gemma4PLE joins, for every layer, what the token is and what its scaled
// embedding x projects to, as f32[T,L,P]; nil in models without.
//
//	ple = ( rms(per_layer_model_proj x / sqrt(D)) + per_layer_token_embd[tokens] · sqrt(P) ) / sqrt(2)
func gemma4PLE(b *Build, x *graph.Value) *graph.Value {
	n, p := len(b.M.Layers), b.M.P
	if p == 0 {
		return nil
	}
	s := ops.Embed(b.Builder, b.Tokens, b.Global("per_layer_token_embd.weight"))
	s = b.Scale("ple.token", s, sqrt(p))
	c := b.Scale("ple.proj", ops.MatMul(b.Builder, x, b.Global("per_layer_model_proj.weight")), 1/sqrt(b.M.D))
	c = ops.Reshape(b.Builder, c, n, p) // [T,L,P]
	c = b.Name(ops.RMSNorm(b.Builder, c, b.Global("per_layer_proj_norm.weight"), b.M.Eps), "ple.proj.norm")
	sum := ops.Add(b.Builder, c, ops.Reshape(b.Builder, s, n, p))
	return b.Scale("ple", sum, 1/sqrt(2))
}

// gemma4Attention adds the attention of a layer to x.
func gemma4Attention(b *Build, l *Layer, x *graph.Value) *graph.Value {
	a := b.Norm("attn.norm", x, "attn_norm")
	q := b.Norm("attn.q.norm", b.Heads(b.Linear("attn.q", a, "attn_q")), "attn_q_norm")
	q = b.Rope("attn.q.rope", q)
	var k, v *graph.Value
	if l.OwnsKV() {
		k = b.Heads(b.Linear("attn.k", a, "attn_k"))
		v = k // the raw projection, before its norm and rope
		if b.Has("attn_v.weight") {
			v = b.Heads(b.Linear("attn.v", a, "attn_v"))
		}
		k = b.Rope("attn.k.rope", b.Norm("attn.k.norm", k, "attn_k_norm"))
		v = b.NormPlain("attn.v.norm", v)
	}
	o := b.Linear("attn.out", b.Attend(q, k, v), "attn_output")
	return b.Add("attn.res", x, b.Norm("attn.out.norm", o, "post_attention_norm"))
}

// gemma4FFN is the feed-forward of x: dense, or in a layer with experts the sum
// of both, each from x and normed on its own. The router reads x under a norm
// without weight.
func gemma4FFN(b *Build, l *Layer, x *graph.Value) *graph.Value {
	dense := b.FFN(b.Norm("ffn.norm", x, "ffn_norm"), ops.GELU)
	if l.Dense() {
		return dense
	}
	dense = b.Norm("ffn.dense.norm", dense, "post_ffw_norm_1")

	r := b.Scale("moe.in", b.NormPlain("moe.in.norm", x), 1/sqrt(b.M.D))
	r = ops.Mul(b.Builder, r, b.Tensor("ffn_gate_inp.scale"))
	p := b.Softmax("moe.probs", b.Name(ops.MatMul(b.Builder, r, b.Tensor("ffn_gate_inp.weight")), "moe.logits"))
	ids, w := b.Choose(p, ops.TopKWeightsParams{Normalize: true, MinSum: 6.103515625e-5}) // least normal f16
	if b.Has("ffn_down_exps.scale") {
		w = b.Name(ops.GatherScale(b.Builder, w, b.Tensor("ffn_down_exps.scale"), ids), "moe.weights.scaled")
	}
	m := b.Experts(b.Norm("moe.norm", x, "pre_ffw_norm_2"), ids, w, ops.GELU)
	return b.Add("ffn.sum", dense, b.Norm("moe.out.norm", m, "post_ffw_norm_2"))
}
