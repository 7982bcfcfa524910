package archs

import (
	"slices"

	"graphrun/graph"
	"graphrun/loaders"
	"graphrun/ops"
)

// llama has grouped heads, adjacent rotary pairs and a SiLU gate. Llama 3 adds
// rope_freqs, Mixtral replaces the feed-forward by experts.
var llama = Register(&Arch{
	Name:       "llama",
	Doc:        "Llama 1 to 3, Mistral, Mixtral, TinyLlama, SmolLM",
	Tokenizers: []string{"llama", "gpt2"},
	Rope:       Adjacent,
	Keys: slices.Concat(decoderKeys, scalingKeys, []Key{
		{Name: "attention.key_length", Kind: Uint, Default: Ratio{"embedding_length", "attention.head_count"}, Check: headWidth},
		{Name: "attention.value_length", Kind: Uint, Default: Same("attention.key_length")},
		{Name: "rope.freq_base", Kind: Float, Default: 10000.0, Check: Positive},
		{Name: "rope.dimension_count", Kind: Uint, Default: Same("attention.key_length"), Check: headWidth},
		{Name: "expert_count", Kind: Uint, Default: 0},
		{Name: "expert_used_count", Kind: Uint, Default: 0},
		{Name: "attention.sliding_window", Kind: Uint, Default: 0},
		// Of folders only: their rows are used in the order they have there.
		{Name: "rope.pairs", Kind: Text, Default: "adjacent", Check: OneOf("adjacent", "half")},
	}),
	Tensors: slices.Concat(outerTensors, []Tensor{
		{Name: "rope_freqs.weight", Shape: "R/2", Flags: Optional},
		{Name: "blk.N.attn_norm.weight", Shape: "D"},
		{Name: "blk.N.attn_qkv.weight", Shape: "HK+2GK,D", Flags: Optional | MayBias},
		{Name: "blk.N.attn_q.weight", Shape: "HK,D", Or: "blk.N.attn_qkv.weight", Flags: MayBias},
		{Name: "blk.N.attn_k.weight", Shape: "GK,D", Or: "blk.N.attn_qkv.weight", Flags: MayBias},
		{Name: "blk.N.attn_v.weight", Shape: "GK,D", Or: "blk.N.attn_qkv.weight", Flags: MayBias},
		{Name: "blk.N.attn_output.weight", Shape: "D,HK", Flags: MayBias},
		{Name: "blk.N.ffn_norm.weight", Shape: "D"},
		{Name: "blk.N.ffn_gate.weight", Shape: "F,D", When: (*Layer).Dense, Flags: MayBias},
		{Name: "blk.N.ffn_up.weight", Shape: "F,D", When: (*Layer).Dense, Flags: MayBias},
		{Name: "blk.N.ffn_down.weight", Shape: "D,F", When: (*Layer).Dense, Flags: MayBias},
		{Name: "blk.N.ffn_gate_inp.weight", Shape: "E,D", When: (*Layer).MoE},
		{Name: "blk.N.ffn_gate_exps.weight", Shape: "E,F,D", When: (*Layer).MoE},
		{Name: "blk.N.ffn_up_exps.weight", Shape: "E,F,D", When: (*Layer).MoE},
		{Name: "blk.N.ffn_down_exps.weight", Shape: "E,D,F", When: (*Layer).MoE},
	}),
	HF: &loaders.HF{
		Types:    []string{"llama", "mistral", "mixtral"},
		Class:    "LlamaForCausalLM",
		Prefixes: hfPrefixes,
		Skip:     hfTowers,
		Drop:     []string{"rotary_emb.inv_freq"},
		Pairs:    "rope.pairs",
		Fields: slices.Concat(hfSizes(nil), []loaders.HFField{
			{Key: "expert_count", From: []string{"num_local_experts"}, Type: loaders.TypeU32, Optional: true},
			{Key: "expert_used_count", From: []string{"num_experts_per_tok"}, Type: loaders.TypeU32, Optional: true},
			{Key: "attention.sliding_window", From: []string{"sliding_window"}, Type: loaders.TypeU32, Optional: true},
		}),
		Checks: hfActivation("silu"),
		Tensors: slices.Concat(hfPreNorm, []loaders.HFTensor{
			{Name: "layers.N.block_sparse_moe.gate.weight", GGUF: "blk.N.ffn_gate_inp.weight"},
			{Name: "layers.N.block_sparse_moe.experts.E.w1.weight", GGUF: "blk.N.ffn_gate_exps.weight", Form: loaders.PerExpert},
			{Name: "layers.N.block_sparse_moe.experts.E.w3.weight", GGUF: "blk.N.ffn_up_exps.weight", Form: loaders.PerExpert},
			{Name: "layers.N.block_sparse_moe.experts.E.w2.weight", GGUF: "blk.N.ffn_down_exps.weight", Form: loaders.PerExpert},
		}),
		Read: func(r *loaders.HFReader) {
			hfHeadWidth(r)
			hfRope(r, 10000, "linear", "llama3", "yarn")
		},
		Write: writeLlama,
	},
	Layer: func(c *Config, l *Layer) {
		l.Scaling(c)
		l.Window = c.Int("attention.sliding_window")
		l.Rope.Half = c.Text("rope.pairs") == "half"
		l.RopeFreqs = c.Has("rope_freqs.weight")
		if l.Rope.Dims != l.K {
			c.FailKey("rope.dimension_count", "%d, the head width", l.K)
		}
	},
	Build: func(b *Build) {
		x := b.Embed(1)
		for l := range b.Layers() {
			q, k, v := b.QKV(b.Norm("attn.norm", x, "attn_norm"))
			o := b.Attend(b.Rope("attn.q.rope", q), b.Rope("attn.k.rope", k), v)
			x = b.Add("attn.res", x, b.Linear("attn.out", o, "attn_output"))

			z := b.Norm("ffn.norm", x, "ffn_norm")
			if l.MoE() {
				x = b.Add("ffn.res", x, mixtral(b, z))
			} else {
				x = b.Add("ffn.res", x, b.FFN(z, ops.SiLU))
			}
		}
		b.Head(x, 0)
	},
})

// mixtral weights the experts by their share of the chosen probabilities.
func mixtral(b *Build, z *graph.Value) *graph.Value {
	p := b.Softmax("moe.probs", b.Linear("moe.logits", z, "ffn_gate_inp"))
	ids, w := b.Choose(p, ops.TopKWeightsParams{Normalize: true})
	return b.Experts(z, ids, w, ops.SiLU)
}
