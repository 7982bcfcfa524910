package archs

import "graphrun/loaders"

// readGemma3 completes the keys of Gemma 3: a period of layers that see a
// window, whose rotation has a base of its own and is never scaled.
func readGemma3(r *loaders.HFReader) {
	width := uint32(r.Key("attention.key_length"))
	r.Set("attention.value_length", width)
	r.Set("rope.dimension_count", width)
	theta := hfTheta(r, "rope.freq_base", 1e6, "rope_theta", "rope_parameters.full_attention.rope_theta")
	hfTheta(r, "rope.freq_base_swa", 1e4, "rope_local_base_freq", "rope_parameters.sliding_attention.rope_theta")
	hfScaling(r, theta, []string{"linear"}, "rope_scaling.", "rope_parameters.full_attention.")
	const local = "rope_parameters.sliding_attention.rope_type"
	if kind, ok := r.Text(local); ok && kind != "default" {
		r.FailField(local, `"default": layers with a window are not scaled`)
	}
	hfScale(r, 62)

	period, ok := r.Int("sliding_window_pattern", "_sliding_window_pattern")
	sliding := layerKinds(r)
	switch {
	case sliding != nil:
		if !ok {
			period = periodOf(sliding)
		}
		checkKinds(r, "each layer of a period but the last with a window", func(l int) bool { return period > 0 && (l+1)%period != 0 })
	case !ok && r.Has("sliding_window"):
		period = 6
		r.Note("config.json has neither layer_types nor sliding_window_pattern; the 6 that model_type %s defines is taken", r.Config.ModelType)
	}
	if period > 0 {
		r.Set("attention.sliding_window_pattern", uint32(period))
		r.From("attention.sliding_window_pattern", "sliding_window_pattern", "_sliding_window_pattern", "layer_types")
	}
}

// periodOf returns after how many layers one without a window comes: more than
// there are, if none does.
func periodOf(sliding []bool) int {
	for l, s := range sliding {
		if !s {
			return l + 1
		}
	}
	return len(sliding) + 1
}

// readGemma4 completes the keys of Gemma 4, of which many differ between layers
// with and without a window.
func readGemma4(r *loaders.HFReader) {
	layers := r.Key("block_count")
	const kinds = "layer_types"
	if !r.Has(kinds) {
		r.Missing(kinds)
		return
	}
	sliding := layerKinds(r)
	if sliding == nil {
		return
	}
	r.Set("attention.sliding_window_pattern", sliding)
	full, local := uint32(r.Key("attention.key_length")), uint32(r.Key("attention.key_length_swa"))
	r.Set("attention.value_length", full)
	r.Set("attention.value_length_swa", local)
	r.Set("rope.dimension_count", full)
	r.Set("rope.dimension_count_swa", local)

	// Heads of keys and values: another number in layers without a window.
	heads := r.Key("attention.head_count_kv")
	if n, ok := r.Int("num_global_key_value_heads"); ok && n != heads {
		r.Set("attention.head_count_kv", perLayer(layers, func(l int) int {
			if sliding[l] {
				return heads
			}
			return n
		}))
	}
	// Feed-forward: of double width in the layers that share caches.
	if wide, _ := r.Bool("use_double_wide_mlp"); wide && r.Key("attention.shared_kv_layers") > 0 {
		own, width := layers-r.Key("attention.shared_kv_layers"), r.Key("feed_forward_length")
		r.Set("feed_forward_length", perLayer(layers, func(l int) int {
			if l < own {
				return width
			}
			return 2 * width
		}))
	}
	ple, _ := r.Int("hidden_size_per_layer_input")
	r.Set("embedding_length_per_layer_input", uint32(ple))
	r.From("embedding_length_per_layer_input", "hidden_size_per_layer_input")
	r.From("final_logit_softcapping", "final_logit_softcapping")
	r.Set("final_logit_softcapping", float32(r.Off("final_logit_softcapping", 30)))
	if moe, _ := r.Bool("enable_moe_block"); moe {
		for _, f := range []struct{ key, field, alias string }{
			{"expert_count", "num_experts", "num_experts"},
			{"expert_used_count", "top_k_experts", "num_experts_per_tok"},
			{"expert_feed_forward_length", "moe_intermediate_size", "expert_intermediate_size"},
		} {
			n, ok := r.Int(f.field, f.alias)
			if !ok {
				r.Missing(f.field)
			}
			r.Set(f.key, uint32(n))
			r.From(f.key, f.field, f.alias)
		}
	}
	gemma4Rope(r, int(full))
}

func perLayer(layers int, value func(l int) int) []int32 {
	out := make([]int32, layers)
	for l := range out {
		out[l] = int32(value(l))
	}
	return out
}

// gemma4Rope reads both rotations. In layers without a window only a part of
// the pairs is rotated, which GGUF files say by divisors so large that the
// angle vanishes.
func gemma4Rope(r *loaders.HFReader, width int) {
	const full, local = "rope_parameters.full_attention.", "rope_parameters.sliding_attention."
	for _, f := range []struct{ key, field string }{{"rope.freq_base", full}, {"rope.freq_base_swa", local}} {
		theta, ok := r.Float(f.field + "rope_theta")
		if !ok {
			r.Missing(f.field + "rope_theta")
			continue
		}
		r.Set(f.key, float32(theta))
		r.From(f.key, f.field+"rope_theta")
	}
	if kind, ok := r.Text(local + "rope_type"); ok && kind != "default" {
		r.FailField(local+"rope_type", `"default"`)
	}
	part := 1.0
	switch kind, _ := r.Text(full + "rope_type"); kind {
	case "default", "":
	case "proportional":
		p, ok := r.Float(full + "partial_rotary_factor")
		if !ok {
			r.Missing(full + "partial_rotary_factor")
		}
		part = p
	default:
		r.FailField(full+"rope_type", `"proportional" or "default"`)
	}
	if part < 0 || part > 1 {
		r.FailField(full+"partial_rotary_factor", "a number from 0 to 1")
		return
	}
	if width < 2 || width > 1<<16 {
		return // refused with the key
	}
	freqs := make([]float32, width/2)
	for i := range freqs {
		freqs[i] = 1
		if i >= int(part*float64(width))/2 {
			freqs[i] = 1e30
		}
	}
	r.Derive("rope_freqs.weight", freqs)
}
