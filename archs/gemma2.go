package archs

import (
	"slices"

	"graphrun/loaders"
)

// gemma2 is gemma3 without norms of queries and keys, with one theta, a window
// in every other layer, and bounds on scores and logits. Its output is always
// tied.
var _ = Register(&Arch{
	Name:       "gemma2",
	Doc:        "Gemma 2, 2B to 27B",
	Tokenizers: []string{"llama"},
	Rope:       Half,
	Keys: slices.Concat(decoderKeys, []Key{
		{Name: "attention.key_length", Kind: Uint, Check: headWidth},
		{Name: "attention.value_length", Kind: Uint, Default: Same("attention.key_length")},
		{Name: "attention.sliding_window", Kind: Uint, Default: 4096},
		{Name: "attn_logit_softcapping", Kind: Float, Default: 50.0, Check: Range(0, 1e6)},
		{Name: "final_logit_softcapping", Kind: Float, Default: 30.0, Check: Range(0, 1e6)},
		{Name: "rope.freq_base", Kind: Float, Default: 10000.0, Check: Positive},
		{Name: "rope.dimension_count", Kind: Uint, Default: Same("attention.key_length"), Check: headWidth},
	}),
	Tensors: slices.Concat(outerTensors, gemmaLayer),
	HF: &loaders.HF{
		Types:    []string{"gemma2"},
		Class:    "Gemma2ForCausalLM",
		Prefixes: hfPrefixes,
		Skip:     hfTowers,
		Fields: slices.Concat(hfSizes(map[string]any{"context_length": uint32(8192), "attention.layer_norm_rms_epsilon": float32(1e-6)}), []loaders.HFField{
			{Key: "attention.key_length", From: []string{"head_dim"}, Type: loaders.TypeU32, Default: uint32(256)},
			{Key: "attention.sliding_window", From: []string{"sliding_window"}, Type: loaders.TypeU32, Default: uint32(4096)},
		}),
		Checks:   append(hfActivation("gelu_pytorch_tanh"), noBidirectional),
		Tensors:  hfGemma,
		Tied:     true,
		NormPlus: 1,
		Read: func(r *loaders.HFReader) {
			r.Set("attention.value_length", uint32(r.Key("attention.key_length")))
			r.Set("attn_logit_softcapping", float32(r.Off("attn_logit_softcapping", 50)))
			r.Set("final_logit_softcapping", float32(r.Off("final_logit_softcapping", 30)))
			r.From("attn_logit_softcapping", "attn_logit_softcapping")
			r.From("final_logit_softcapping", "final_logit_softcapping")
			hfRope(r, 10000)
			hfScale(r, 46)
			checkKinds(r, `"sliding_attention" in layers 0, 2, 4 and so on`, func(l int) bool { return l%2 == 0 })
		},
		Write: writeGemma2,
	},
	Layer: func(c *Config, l *Layer) {
		if l.Index%2 == 0 {
			l.Window = c.Int("attention.sliding_window")
		}
		l.Softcap = c.Float("attn_logit_softcapping")
		if c.Layers() == 46 { // the 27B, known by its depth alone
			l.Scale = scaleByWidth(c, l)
		}
	},
	Build: buildGemma,
})
