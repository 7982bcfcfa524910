package archs

import (
	"math"
	"slices"
	"strings"

	"graphrun/loaders"
)

// hfPrefixes lists what stands before the decoder's tensors in folders: text
// models, and models of text and images in older and newer spelling.
var hfPrefixes = []string{"model.", "model.language_model.", "language_model.model.", "language_model."}

// hfTowers lists the parts of models of text, images and sound that are not the
// decoder.
var hfTowers = []string{"vision_tower.", "vision_model.", "audio_tower.", "multi_modal_projector.", "embed_vision.", "embed_audio."}

// hfOuter are the tensors outside of layers.
var hfOuter = []loaders.HFTensor{
	{Name: "embed_tokens.weight", GGUF: "token_embd.weight"},
	{Name: "norm.weight", GGUF: "output_norm.weight"},
	{Name: "lm_head.weight", GGUF: "output.weight", Outer: true},
	{Name: "rope_freqs.weight", GGUF: "rope_freqs.weight"}, // only in folders that graphrun wrote
}

// hfAttention are the projections of attention.
var hfAttention = []loaders.HFTensor{
	{Name: "layers.N.input_layernorm.weight", GGUF: "blk.N.attn_norm.weight"},
	{Name: "layers.N.self_attn.q_proj.weight", GGUF: "blk.N.attn_q.weight", Heads: "attention.head_count"},
	{Name: "layers.N.self_attn.k_proj.weight", GGUF: "blk.N.attn_k.weight", Heads: "attention.head_count_kv"},
	{Name: "layers.N.self_attn.v_proj.weight", GGUF: "blk.N.attn_v.weight"},
	{Name: "layers.N.self_attn.o_proj.weight", GGUF: "blk.N.attn_output.weight"},
}

// hfHeadNorms are the norms of the heads of queries and keys.
var hfHeadNorms = []loaders.HFTensor{
	{Name: "layers.N.self_attn.q_norm.weight", GGUF: "blk.N.attn_q_norm.weight"},
	{Name: "layers.N.self_attn.k_norm.weight", GGUF: "blk.N.attn_k_norm.weight"},
}

// hfGated is a gated feed-forward.
var hfGated = []loaders.HFTensor{
	{Name: "layers.N.mlp.gate_proj.weight", GGUF: "blk.N.ffn_gate.weight"},
	{Name: "layers.N.mlp.up_proj.weight", GGUF: "blk.N.ffn_up.weight"},
	{Name: "layers.N.mlp.down_proj.weight", GGUF: "blk.N.ffn_down.weight"},
}

// hfPreNorm is a layer with a norm before attention and one before the
// feed-forward, whose name in folders says where it stands, not what it norms.
var hfPreNorm = slices.Concat(hfOuter, hfAttention, []loaders.HFTensor{
	{Name: "layers.N.post_attention_layernorm.weight", GGUF: "blk.N.ffn_norm.weight"},
}, hfGated)

// hfGemma is a layer with norms on both sides of each branch.
var hfGemma = slices.Concat(hfOuter, hfAttention, []loaders.HFTensor{
	{Name: "layers.N.post_attention_layernorm.weight", GGUF: "blk.N.post_attention_norm.weight"},
	{Name: "layers.N.pre_feedforward_layernorm.weight", GGUF: "blk.N.ffn_norm.weight"},
	{Name: "layers.N.post_feedforward_layernorm.weight", GGUF: "blk.N.post_ffw_norm.weight"},
}, hfGated)

// hfSizes are the fields of every decoder. Some are absent in published configs
// where the model type defines a value: those come in defaults, by key.
func hfSizes(defaults map[string]any) []loaders.HFField {
	fields := []loaders.HFField{
		{Key: "block_count", From: []string{"num_hidden_layers"}, Type: loaders.TypeU32},
		{Key: "context_length", From: []string{"max_position_embeddings"}, Type: loaders.TypeU32},
		{Key: "embedding_length", From: []string{"hidden_size"}, Type: loaders.TypeU32},
		{Key: "feed_forward_length", From: []string{"intermediate_size"}, Type: loaders.TypeU32},
		{Key: "attention.head_count", From: []string{"num_attention_heads"}, Type: loaders.TypeU32},
		{Key: "attention.head_count_kv", From: []string{"num_key_value_heads"}, Type: loaders.TypeU32, Optional: true},
		{Key: "attention.layer_norm_rms_epsilon", From: []string{"rms_norm_eps"}, Type: loaders.TypeF32},
		{Key: "vocab_size", From: []string{"vocab_size"}, Type: loaders.TypeU32, Optional: true},
	}
	for i, f := range fields {
		fields[i].Default = defaults[f.Key]
	}
	return fields
}

// hfActivation checks the activation function, which has two names.
func hfActivation(words ...string) []loaders.HFCheck {
	for i, w := range words {
		words[i] = `"` + w + `"`
	}
	why := "the feed-forward would be another"
	return []loaders.HFCheck{{Field: "hidden_act", Want: words, Why: why}, {Field: "hidden_activation", Want: words, Why: why}}
}

// hfHeadWidth sets the width of heads and of what is rotated of them.
func hfHeadWidth(r *loaders.HFReader) {
	width, ok := r.Int("head_dim")
	r.From("attention.key_length", "head_dim")
	r.From("rope.dimension_count", "head_dim")
	if ok {
		r.Set("attention.key_length", uint32(width))
		r.Set("attention.value_length", uint32(width))
	} else if heads := r.Key("attention.head_count"); heads > 0 {
		width = r.Key("embedding_length") / heads
	}
	r.Set("rope.dimension_count", uint32(width))
}

// hfTheta sets the base of the frequencies of rotary pairs. A config that has
// none means what its model type defines, which is said.
func hfTheta(r *loaders.HFReader, key string, defined float64, fields ...string) float64 {
	theta, ok := r.Float(fields...)
	if ok && theta <= 0 {
		r.FailField(fields[max(0, slices.IndexFunc(fields, func(f string) bool { return r.Has(f) }))], "a number above 0")
	}
	if !ok {
		theta = defined
		r.Note("config.json has no %s; the %v that model_type %s defines is taken", fields[0], theta, r.Config.ModelType)
	}
	r.Set(key, float32(theta))
	r.From(key, fields...)
	return theta
}

// hfRope reads base and scaling of rotary pairs that are the same in all
// layers: rope_theta and rope_scaling, or both in rope_parameters.
func hfRope(r *loaders.HFReader, defined float64, kinds ...string) {
	theta := hfTheta(r, "rope.freq_base", defined, "rope_theta", "rope_parameters.rope_theta")
	if part, ok := r.Float("partial_rotary_factor", "rope_parameters.partial_rotary_factor"); ok && part != 1 {
		r.FailField("partial_rotary_factor", "1 or no such field: heads are rotated whole")
	}
	hfScaling(r, theta, kinds, "rope_scaling.", "rope_parameters.")
}

// hfScaling reads the scaling of rotary pairs, whose fields begin with one of
// the names in at.
func hfScaling(r *loaders.HFReader, theta float64, kinds []string, at ...string) {
	names := func(fields ...string) (out []string) {
		for _, a := range at {
			for _, f := range fields {
				out = append(out, a+f)
			}
		}
		return out
	}
	there := at[0]
	for _, a := range at {
		r.Object(strings.TrimSuffix(a, "."))
	}
	for _, a := range at {
		if r.Has(a+"rope_type", a+"type") {
			there = a
			break
		}
	}
	kind, ok := r.Text(names("rope_type", "type")...)
	if !ok && r.Has(names("factor")...) { // a factor of what?
		r.Missing(there + "rope_type")
		return
	}
	if !ok || kind == "default" {
		return
	}
	if !slices.Contains(kinds, kind) {
		field := there + "rope_type"
		if !r.Has(field) {
			field = there + "type"
		}
		r.FailField(field, "one of default, %s", strings.Join(kinds, ", "))
		return
	}
	need := func(field string) float64 {
		x, ok := r.Float(names(field)...)
		if !ok {
			r.Missing(there + field)
		}
		return x
	}
	factor := need("factor")
	r.From("rope.scaling.factor", names("factor")...)
	context, given := r.Int(append(names("original_max_position_embeddings"), "original_max_position_embeddings")...)
	switch kind {
	case "linear":
		r.Set("rope.scaling.type", kind)
		r.Set("rope.scaling.factor", float32(factor))
	case "llama3":
		low, high := need("low_freq_factor"), need("high_freq_factor")
		if !given {
			r.Missing(there + "original_max_position_embeddings")
			return
		}
		switch {
		case factor < 1:
			r.FailField(there+"factor", "a number of at least 1")
		case low <= 0:
			r.FailField(there+"low_freq_factor", "a number above 0")
		case high <= low:
			r.FailField(there+"high_freq_factor", "a number above low_freq_factor, %v", low)
		case context < 1:
			r.FailField(there+"original_max_position_embeddings", "a number of at least 1")
		}
		// Another width or base is refused with its own field.
		if width := r.Key("rope.dimension_count"); width >= 2 && width <= 1<<16 {
			if f, err := loaders.RopeDivisors(width, theta, factor, low, high, context); err == nil {
				r.Derive("rope_freqs.weight", f)
			}
		}
	case "yarn":
		r.Set("rope.scaling.type", kind)
		r.Set("rope.scaling.factor", float32(factor))
		if !given {
			context = r.Key("context_length")
		}
		r.Set("rope.scaling.original_context_length", uint32(context))
		hfYarn(r, factor, names)
	}
}

// hfYarn reads what else YaRN has.
func hfYarn(r *loaders.HFReader, factor float64, names func(...string) []string) {
	for _, f := range []struct {
		field string
		want  float64
	}{{"beta_fast", 32}, {"beta_slow", 1}} {
		if x, ok := r.Float(names(f.field)...); ok && x != f.want {
			r.FailField(names(f.field)[0], "%v", f.want)
		}
	}
	usual := 0.1*math.Log(factor) + 1
	if x, ok := r.Float(names("attention_factor")...); ok && factor >= 1 {
		r.Set("rope.scaling.attn_factor", float32(x/usual))
	}
	for _, field := range []string{"mscale", "mscale_all_dim"} {
		if x, ok := r.Float(names(field)...); ok && x != 1 && x != 0 {
			r.FailField(names(field)[0], "no such field")
		}
	}
	if truncate, ok := r.Bool(names("truncate")...); ok && !truncate {
		r.Note("rope_scaling has truncate false; the ends of the YaRN ramp are whole numbers here, as in GGUF files of the model")
	}
}

// hfScale checks that the scale of attention scores is the one the architecture
// computes: of the head width, or of width by heads in the 27B, which has depth
// layers.
func hfScale(r *loaders.HFReader, depth int) {
	scalar, ok := r.Float("query_pre_attn_scalar")
	want := float64(r.Key("attention.key_length"))
	if h := r.Key("attention.head_count"); r.Key("block_count") == depth && h > 0 {
		want = float64(r.Key("embedding_length")) / float64(h)
	}
	if ok && scalar != want {
		r.FailField("query_pre_attn_scalar", "%v: scores are scaled by its root", want)
	}
}

// layerKinds returns for each layer whether it sees a window only, nil if the
// config does not list them.
func layerKinds(r *loaders.HFReader) []bool {
	const field = "layer_types"
	kinds := r.Texts(field)
	if kinds == nil {
		return nil
	}
	n := r.Key("block_count")
	if len(kinds) != n {
		r.FailField(field, "one for each of %d layers", n)
		return nil
	}
	sliding := make([]bool, n)
	for i, k := range kinds {
		if k != "sliding_attention" && k != "full_attention" {
			r.FailField(field, `"sliding_attention" or "full_attention" for layer %d, found %q`, i, k)
			return nil
		}
		sliding[i] = k == "sliding_attention"
	}
	return sliding
}

// checkKinds compares the listed kinds of layers with a rule.
func checkKinds(r *loaders.HFReader, rule string, sliding func(l int) bool) {
	for l, s := range layerKinds(r) {
		if s != sliding(l) {
			r.FailField("layer_types", "%s; layer %d is not", rule, l)
			return
		}
	}
}

// noBidirectional refuses models of embeddings, whose tokens see those after
// them.
var noBidirectional = loaders.HFCheck{Field: "use_bidirectional_attention", Want: []string{"false"}, Why: "tokens would see what follows them"}
