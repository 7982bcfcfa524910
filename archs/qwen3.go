package archs

import (
	"slices"

	"graphrun/loaders"
	"graphrun/ops"
)

// qwen3 norms the heads of queries and keys before it rotates them.
var _ = Register(&Arch{
	Name:       "qwen3",
	Doc:        "Qwen 3, dense",
	Tokenizers: []string{"gpt2"},
	Rope:       Half,
	Keys: slices.Concat(decoderKeys, scalingKeys, []Key{
		{Name: "attention.key_length", Kind: Uint, Check: headWidth},
		{Name: "attention.value_length", Kind: Uint, Default: Same("attention.key_length")},
		{Name: "rope.freq_base", Kind: Float, Default: 10000.0, Check: Positive},
		{Name: "rope.dimension_count", Kind: Uint, Default: Same("attention.key_length"), Check: headWidth},
	}),
	Tensors: slices.Concat(outerTensors, []Tensor{
		{Name: "blk.N.attn_norm.weight", Shape: "D"},
		{Name: "blk.N.attn_q.weight", Shape: "HK,D"},
		{Name: "blk.N.attn_k.weight", Shape: "GK,D"},
		{Name: "blk.N.attn_v.weight", Shape: "GK,D"},
		{Name: "blk.N.attn_output.weight", Shape: "D,HK"},
		{Name: "blk.N.attn_q_norm.weight", Shape: "K"},
		{Name: "blk.N.attn_k_norm.weight", Shape: "K"},
		{Name: "blk.N.ffn_norm.weight", Shape: "D"},
		{Name: "blk.N.ffn_gate.weight", Shape: "F,D"},
		{Name: "blk.N.ffn_up.weight", Shape: "F,D"},
		{Name: "blk.N.ffn_down.weight", Shape: "D,F"},
	}),
	HF: &loaders.HF{
		Types:    []string{"qwen3"},
		Class:    "Qwen3ForCausalLM",
		Prefixes: hfPrefixes,
		Skip:     hfTowers,
		Fields: slices.Concat(hfSizes(nil), []loaders.HFField{
			{Key: "attention.key_length", From: []string{"head_dim"}, Type: loaders.TypeU32, Default: uint32(128)},
		}),
		Checks: append(hfActivation("silu"),
			loaders.HFCheck{Field: "use_sliding_window", Want: []string{"false"}, Why: "layers would see a window only"}),
		Tensors: slices.Concat(hfPreNorm, hfHeadNorms),
		Read: func(r *loaders.HFReader) {
			r.Set("attention.value_length", uint32(r.Key("attention.key_length")))
			r.Set("rope.dimension_count", uint32(r.Key("attention.key_length")))
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
			q = b.Rope("attn.q.rope", b.Norm("attn.q.norm", q, "attn_q_norm"))
			k = b.Rope("attn.k.rope", b.Norm("attn.k.norm", k, "attn_k_norm"))
			x = b.Add("attn.res", x, b.Linear("attn.out", b.Attend(q, k, v), "attn_output"))
			x = b.Add("ffn.res", x, b.FFN(b.Norm("ffn.norm", x, "ffn_norm"), ops.SiLU))
		}
		b.Head(x, 0)
	},
})
