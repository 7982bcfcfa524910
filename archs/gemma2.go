package archs

import "slices"

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
