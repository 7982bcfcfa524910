package archs

import (
	"math"
	"slices"

	"graphrun/loaders"
	"graphrun/ops"
)

// gemma3 norms each branch on both sides, and the heads of queries and keys. Of
// each period of layers all but the last see a window only.
var _ = Register(&Arch{
	Name:       "gemma3",
	Doc:        "Gemma 3, 270M to 27B",
	Tokenizers: []string{"llama"},
	Rope:       Half,
	Keys: slices.Concat(decoderKeys, []Key{
		{Name: "attention.key_length", Kind: Uint, Check: headWidth},
		{Name: "attention.value_length", Kind: Uint, Default: Same("attention.key_length")},
		{Name: "attention.sliding_window", Kind: Uint, Default: 0},
		{Name: "attention.sliding_window_pattern", Kind: Uint, Default: 6, Check: Range(1, 1000)},
		{Name: "rope.freq_base", Kind: Float, Check: Positive},
		{Name: "rope.freq_base_swa", Kind: Float, Default: 10000.0, Check: Positive},
		{Name: "rope.dimension_count", Kind: Uint, Default: Same("attention.key_length"), Check: headWidth},
		{Name: "rope.scaling.type", Kind: Text, Default: "linear", Check: OneOf("none", "linear")},
		{Name: "rope.scaling.factor", Kind: Float, Default: 1.0, Check: Positive, Old: "rope.scale_linear"},
		{Name: "final_logit_softcapping", Kind: Float, Default: 0.0, Check: Range(0, 1e6)},
	}),
	Tensors: slices.Concat(outerTensors, gemmaLayer, []Tensor{
		{Name: "blk.N.attn_q_norm.weight", Shape: "K"},
		{Name: "blk.N.attn_k_norm.weight", Shape: "K"},
	}),
	HF: &loaders.HF{
		Types:    []string{"gemma3_text", "gemma3"},
		Wrapped:  []string{"gemma3"},
		Class:    "Gemma3ForCausalLM",
		Prefixes: hfPrefixes,
		Skip:     hfTowers,
		// The conditional models of 2025 leave out what their type defines.
		Fields: slices.Concat(hfSizes(map[string]any{"context_length": uint32(131072), "attention.head_count": uint32(8),
			"attention.head_count_kv": uint32(4), "attention.layer_norm_rms_epsilon": float32(1e-6)}), []loaders.HFField{
			{Key: "attention.key_length", From: []string{"head_dim"}, Type: loaders.TypeU32, Default: uint32(256)},
			{Key: "attention.sliding_window", From: []string{"sliding_window"}, Type: loaders.TypeU32, Optional: true},
			{Key: "final_logit_softcapping", From: []string{"final_logit_softcapping"}, Type: loaders.TypeF32, Optional: true},
		}),
		Checks: append(hfActivation("gelu_pytorch_tanh"), noBidirectional,
			loaders.HFCheck{Field: "attn_logit_softcapping", Why: "attention scores are not bent here"}),
		Tensors:  slices.Concat(hfGemma, hfHeadNorms),
		Tied:     true,
		NormPlus: 1,
		Read:     readGemma3,
		Write:    writeGemma3,
	},
	Layer: func(c *Config, l *Layer) {
		if w := c.Int("attention.sliding_window"); w > 0 && (l.Index+1)%c.Int("attention.sliding_window_pattern") != 0 {
			l.Window = w
			l.Rope.Base = c.Float("rope.freq_base_swa")
		} else {
			l.Scaling(c)
		}
		if c.Layers() == 62 { // the 27B, known by its depth alone
			l.Scale = scaleByWidth(c, l)
		}
	},
	Build: buildGemma,
})

// gemmaLayer are the tensors of a layer of Gemma 2 and 3.
var gemmaLayer = []Tensor{
	{Name: "blk.N.attn_norm.weight", Shape: "D"},
	{Name: "blk.N.attn_qkv.weight", Shape: "HK+2GK,D", Flags: Optional},
	{Name: "blk.N.attn_q.weight", Shape: "HK,D", Or: "blk.N.attn_qkv.weight"},
	{Name: "blk.N.attn_k.weight", Shape: "GK,D", Or: "blk.N.attn_qkv.weight"},
	{Name: "blk.N.attn_v.weight", Shape: "GK,D", Or: "blk.N.attn_qkv.weight"},
	{Name: "blk.N.attn_output.weight", Shape: "D,HK"},
	{Name: "blk.N.post_attention_norm.weight", Shape: "D"},
	{Name: "blk.N.ffn_norm.weight", Shape: "D"},
	{Name: "blk.N.ffn_gate.weight", Shape: "F,D"},
	{Name: "blk.N.ffn_up.weight", Shape: "F,D"},
	{Name: "blk.N.ffn_down.weight", Shape: "D,F"},
	{Name: "blk.N.post_ffw_norm.weight", Shape: "D"},
}

// scaleByWidth is the scale of scores of the 27B models: D/H instead of the head
// width K, which differ there.
func scaleByWidth(c *Config, l *Layer) float32 {
	return float32(1 / math.Sqrt(float64(c.Int("embedding_length"))/float64(l.H)))
}

// buildGemma serves Gemma 2 and 3. The norms of queries and keys are there in
// Gemma 3.
func buildGemma(b *Build) {
	x := b.Embed(sqrt(b.M.D))
	for range b.Layers() {
		q, k, v := b.QKV(b.Norm("attn.norm", x, "attn_norm"))
		if b.Has("attn_q_norm.weight") {
			q = b.Norm("attn.q.norm", q, "attn_q_norm")
			k = b.Norm("attn.k.norm", k, "attn_k_norm")
		}
		o := b.Attend(b.Rope("attn.q.rope", q), b.Rope("attn.k.rope", k), v)
		o = b.Norm("attn.out.norm", b.Linear("attn.out", o, "attn_output"), "post_attention_norm")
		x = b.Add("attn.res", x, o)

		f := b.FFN(b.Norm("ffn.norm", x, "ffn_norm"), ops.GELU)
		x = b.Add("ffn.res", x, b.Norm("ffn.out.norm", f, "post_ffw_norm"))
	}
	b.Head(x, b.M.Config.Float("final_logit_softcapping"))
}
