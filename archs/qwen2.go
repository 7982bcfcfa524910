package archs

import (
	"slices"

	"graphrun/loaders"
	"graphrun/ops"
)

// qwen2 is llama with biases on queries, keys and values, and rotary pairs half
// a head apart.
var _ = Register(&Arch{
	Name:       "qwen2",
	Doc:        "Qwen 2 and 2.5",
	Tokenizers: []string{"gpt2"},
	Rope:       Half,
	Keys: slices.Concat(decoderKeys, scalingKeys, []Key{
		{Name: "attention.key_length", Kind: Uint, Default: Ratio{"embedding_length", "attention.head_count"}, Check: headWidth},
		{Name: "attention.value_length", Kind: Uint, Default: Same("attention.key_length")},
		{Name: "rope.freq_base", Kind: Float, Default: 10000.0, Check: Positive},
		{Name: "rope.dimension_count", Kind: Uint, Default: Same("attention.key_length"), Check: headWidth},
	}),
	Tensors: slices.Concat(outerTensors, []Tensor{
		{Name: "output.bias", Shape: "V", Flags: Optional},
		{Name: "blk.N.attn_norm.weight", Shape: "D"},
		{Name: "blk.N.attn_q.weight", Shape: "HK,D", Flags: WithBias},
		{Name: "blk.N.attn_k.weight", Shape: "GK,D", Flags: WithBias},
		{Name: "blk.N.attn_v.weight", Shape: "GK,D", Flags: WithBias},
		{Name: "blk.N.attn_output.weight", Shape: "D,HK", Flags: MayBias},
		{Name: "blk.N.ffn_norm.weight", Shape: "D"},
		{Name: "blk.N.ffn_gate.weight", Shape: "F,D"},
		{Name: "blk.N.ffn_up.weight", Shape: "F,D"},
		{Name: "blk.N.ffn_down.weight", Shape: "D,F"},
	}),
	HF: &loaders.HF{
		Types:       []string{"qwen2"},
		Class:       "Qwen2ForCausalLM",
		Prefixes:    hfPrefixes,
		Skip:        hfTowers,
		Drop:        []string{"rotary_emb.inv_freq"},
		PlainOutput: true, // its class gives biases to queries, keys and values alone
		Fields:      hfSizes(nil),
		Checks: append(hfActivation("silu"),
			loaders.HFCheck{Field: "use_sliding_window", Want: []string{"false"}, Why: "layers would see a window only"}),
		Tensors: hfPreNorm,
		Read: func(r *loaders.HFReader) {
			hfHeadWidth(r)
			hfRope(r, 10000, "linear", "yarn")
			checkKinds(r, `all "full_attention"`, func(int) bool { return false })
		},
		Write: writeRope,
	},
	Layer: func(c *Config, l *Layer) { l.Scaling(c) },
	Build: func(b *Build) {
		x := b.Embed(1)
		for range b.Layers() {
			q, k, v := b.QKV(b.Norm("attn.norm", x, "attn_norm"))
			o := b.Attend(b.Rope("attn.q.rope", q), b.Rope("attn.k.rope", k), v)
			x = b.Add("attn.res", x, b.Linear("attn.out", o, "attn_output"))
			x = b.Add("ffn.res", x, b.FFN(b.Norm("ffn.norm", x, "ffn_norm"), ops.SiLU))
		}
		b.Head(x, 0)
	},
})
