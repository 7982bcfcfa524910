package archs

import (
	"slices"

	"graphrun/loaders"
	"graphrun/ops"
)

// gptoss has experts in every layer, a window in every other one, and one score
// per head that takes part in the softmax and is then dropped.
var _ = Register(&Arch{
	Name:       "gpt-oss",
	Doc:        "gpt-oss 20B and 120B",
	Tokenizers: []string{"gpt2"},
	Rope:       Half,
	Keys: slices.Concat(decoderKeys, scalingKeys, []Key{
		{Name: "attention.key_length", Kind: Uint, Check: headWidth},
		{Name: "attention.value_length", Kind: Uint, Default: Same("attention.key_length")},
		{Name: "attention.sliding_window", Kind: Uint, Check: Range(1, 1<<31-1)},
		{Name: "rope.freq_base", Kind: Float, Check: Positive},
		{Name: "rope.dimension_count", Kind: Uint, Default: Same("attention.key_length"), Check: headWidth},
		{Name: "expert_count", Kind: Uint, Check: Range(1, 1<<12)},
		{Name: "expert_used_count", Kind: Uint, Check: Range(1, 1<<12)},
		{Name: "expert_feed_forward_length", Kind: Uint, Check: Range(1, maxUint)},
	}),
	Tensors: slices.Concat(outerTensors, []Tensor{
		{Name: "blk.N.attn_norm.weight", Shape: "D"},
		{Name: "blk.N.attn_q.weight", Shape: "HK,D", Flags: WithBias},
		{Name: "blk.N.attn_k.weight", Shape: "GK,D", Flags: WithBias},
		{Name: "blk.N.attn_v.weight", Shape: "GK,D", Flags: WithBias},
		{Name: "blk.N.attn_output.weight", Shape: "D,HK", Flags: WithBias},
		{Name: "blk.N.attn_sinks.weight", Shape: "H"},
		{Name: "blk.N.post_attention_norm.weight", Shape: "D"},
		{Name: "blk.N.ffn_gate_inp.weight", Shape: "E,D", Flags: WithBias},
		{Name: "blk.N.ffn_gate_exps.weight", Shape: "E,X,D", Flags: WithBias},
		{Name: "blk.N.ffn_up_exps.weight", Shape: "E,X,D", Flags: WithBias},
		{Name: "blk.N.ffn_down_exps.weight", Shape: "E,D,X", Flags: WithBias},
	}),
	HF: &loaders.HF{
		Types:    []string{"gpt_oss"},
		Class:    "GptOssForCausalLM",
		Prefixes: hfPrefixes,
		Fields: slices.Concat(hfSizes(nil), []loaders.HFField{
			{Key: "attention.key_length", From: []string{"head_dim"}, Type: loaders.TypeU32},
			{Key: "attention.sliding_window", From: []string{"sliding_window"}, Type: loaders.TypeU32},
			{Key: "expert_count", From: []string{"num_local_experts", "num_experts"}, Type: loaders.TypeU32},
			{Key: "expert_used_count", From: []string{"num_experts_per_tok", "experts_per_token"}, Type: loaders.TypeU32},
		}),
		Checks: append(hfActivation("silu"),
			loaders.HFCheck{Field: "swiglu_limit", Want: []string{"7", "7.0"}, Why: "activations would be cut elsewhere"}),
		Tensors: slices.Concat(hfOuter, hfAttention, []loaders.HFTensor{
			{Name: "layers.N.self_attn.sinks", GGUF: "blk.N.attn_sinks.weight"},
			{Name: "layers.N.post_attention_layernorm.weight", GGUF: "blk.N.post_attention_norm.weight"},
			{Name: "layers.N.mlp.router.weight", GGUF: "blk.N.ffn_gate_inp.weight"},
			{Name: "layers.N.mlp.experts.gate_up_proj", GGUF: "blk.N.ffn_gate_exps.weight", Form: loaders.EvenRows},
			{Name: "layers.N.mlp.experts.gate_up_proj", GGUF: "blk.N.ffn_up_exps.weight", Form: loaders.OddRows},
			{Name: "layers.N.mlp.experts.down_proj", GGUF: "blk.N.ffn_down_exps.weight", Form: loaders.Swapped},
			{Name: "layers.N.mlp.experts.gate_up_proj_bias", GGUF: "blk.N.ffn_gate_exps.bias", Form: loaders.EvenRows},
			{Name: "layers.N.mlp.experts.gate_up_proj_bias", GGUF: "blk.N.ffn_up_exps.bias", Form: loaders.OddRows},
			{Name: "layers.N.mlp.experts.down_proj_bias", GGUF: "blk.N.ffn_down_exps.bias"},
		}),
		Read: func(r *loaders.HFReader) {
			r.Set("attention.value_length", uint32(r.Key("attention.key_length")))
			r.Set("rope.dimension_count", uint32(r.Key("attention.key_length")))
			r.Set("expert_feed_forward_length", uint32(r.Key("feed_forward_length")))
			hfRope(r, 150000, "yarn")
			checkKinds(r, `"sliding_attention" in layers 0, 2, 4 and so on`, func(l int) bool { return l%2 == 0 })
		},
		Write: writeGptOss,
	},
	Layer: func(c *Config, l *Layer) {
		l.Scaling(c)
		if l.Index%2 == 0 {
			l.Window = c.Int("attention.sliding_window")
		}
	},
	Build: func(b *Build) {
		x := b.Embed(1)
		for range b.Layers() {
			q, k, v := b.QKV(b.Norm("attn.norm", x, "attn_norm"))
			o := b.Attend(b.Rope("attn.q.rope", q), b.Rope("attn.k.rope", k), v)
			x = b.Add("attn.res", x, b.Linear("attn.out", o, "attn_output"))

			z := b.Norm("ffn.norm", x, "post_attention_norm")
			ids, w := b.Choose(b.Linear("moe.logits", z, "ffn_gate_inp"), ops.TopKWeightsParams{SoftmaxOverChosen: true})
			x = b.Add("ffn.res", x, b.Experts(z, ids, w, ops.SwigluOAI))
		}
		b.Head(x, 0)
	},
})
