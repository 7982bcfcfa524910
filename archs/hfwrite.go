package archs

import (
	"math"

	"graphrun/loaders"
)

// writeTheta writes the base of the frequencies of rotary pairs, of which an
// absent key means what the record says.
func writeTheta(w *loaders.HFWriter, key string, absent float64) float64 {
	if theta, ok := w.Float(key); ok {
		return theta
	}
	return absent
}

// writeRope writes base and scaling of rotary pairs, and the width of heads.
func writeRope(w *loaders.HFWriter) {
	w.Config["rope_theta"] = writeTheta(w, "rope.freq_base", 10000)
	if k := w.Int("attention.key_length"); k > 0 {
		w.Config["head_dim"] = k
	}
	writeScaling(w)
}

func writeScaling(w *loaders.HFWriter) {
	factor, ok := w.Float("rope.scaling.factor")
	if !ok {
		factor, ok = w.Float("rope.scale_linear")
	}
	if !ok || factor == 1 || w.Text("rope.scaling.type") == "none" {
		return
	}
	scaling := map[string]any{"rope_type": "linear", "factor": factor}
	if w.Text("rope.scaling.type") == "yarn" {
		scaling["rope_type"], scaling["beta_fast"], scaling["beta_slow"] = "yarn", 32.0, 1.0
		scaling["original_max_position_embeddings"] = w.Int("context_length")
		if c := w.Int("rope.scaling.original_context_length"); c > 0 {
			scaling["original_max_position_embeddings"] = c
		}
		if a, ok := w.Float("rope.scaling.attn_factor"); ok {
			scaling["attention_factor"] = a * (0.1*math.Log(factor) + 1)
		}
	}
	w.Config["rope_scaling"] = scaling
}

// writeLlama writes what Llama has besides: the relatives of another model type
// and the divisors of Llama 3.
func writeLlama(w *loaders.HFWriter) {
	writeRope(w)
	switch {
	case w.Int("expert_count") > 0:
		w.Config["model_type"], w.Config["architectures"] = "mixtral", []string{"MixtralForCausalLM"}
	case w.Int("attention.sliding_window") > 0:
		w.Config["model_type"], w.Config["architectures"] = "mistral", []string{"MistralForCausalLM"}
	}
	const name = "rope_freqs.weight"
	freqs := w.Numbers(name)
	if freqs == nil {
		return
	}
	factor, low, high, context, exact := llama3Scaling(freqs, w.Config["rope_theta"].(float64))
	if factor == 0 {
		w.Note("%s is written as a tensor: config.json has no words for it, and other programs will not look for it", name)
		return
	}
	w.Config["rope_scaling"] = map[string]any{"rope_type": "llama3", "factor": factor, "low_freq_factor": low, "high_freq_factor": high,
		"original_max_position_embeddings": context}
	if exact {
		w.Drop(name)
	}
}

// llama3Scaling finds the numbers of a config.json that give divisors, with the
// low factor 1 and the high 4 that all models have. The factor is 0 if none do;
// exact is that they do so to the last bit.
func llama3Scaling(freqs []float32, theta float64) (factor, low, high float64, context int, exact bool) {
	for _, f := range freqs {
		factor = max(factor, float64(f))
	}
	low, high = 1, 4
	for context = 1; context <= 1<<22; context *= 2 {
		got, err := loaders.RopeDivisors(2*len(freqs), theta, factor, low, high, context)
		if err != nil {
			break
		}
		worst := 0.0
		exact = true
		for i, f := range freqs {
			worst = max(worst, math.Abs(float64(got[i]/f)-1))
			exact = exact && got[i] == f
		}
		if worst <= 1e-5 {
			return factor, low, high, context, exact
		}
	}
	return 0, 0, 0, 0, false
}

func writeGemma2(w *loaders.HFWriter) {
	w.Config["rope_theta"] = writeTheta(w, "rope.freq_base", 10000)
	for key, absent := range map[string]float64{"attn_logit_softcapping": 50, "final_logit_softcapping": 30} {
		cap, ok := w.Float(key)
		if !ok {
			cap = absent
		}
		w.Config[key] = orNull(cap)
	}
	writeScale(w, 46)
}

// orNull is how folders say that something is off.
func orNull(x float64) any {
	if x == 0 {
		return nil
	}
	return x
}

// writeScale writes what scores are scaled by; see hfScale.
func writeScale(w *loaders.HFWriter, depth int) {
	scalar := float64(w.Int("attention.key_length"))
	if h := w.Int("attention.head_count"); w.Int("block_count") == depth && h > 0 {
		scalar = float64(w.Int("embedding_length")) / float64(h)
	}
	w.Config["query_pre_attn_scalar"] = scalar
}

// writeKinds lists the kinds of layers.
func writeKinds(w *loaders.HFWriter, sliding func(l int) bool) {
	kinds := make([]string, w.Int("block_count"))
	for l := range kinds {
		kinds[l] = "full_attention"
		if sliding(l) {
			kinds[l] = "sliding_attention"
		}
	}
	w.Config["layer_types"] = kinds
}

func writeGemma3(w *loaders.HFWriter) {
	w.Config["rope_theta"] = writeTheta(w, "rope.freq_base", 1e6)
	w.Config["rope_local_base_freq"] = writeTheta(w, "rope.freq_base_swa", 1e4)
	writeScaling(w)
	writeScale(w, 62)
	period := w.Int("attention.sliding_window_pattern")
	if period == 0 {
		period = 6
	}
	w.Config["sliding_window_pattern"] = period
	w.Config["attn_logit_softcapping"] = nil
	if w.Int("attention.sliding_window") > 0 {
		writeKinds(w, func(l int) bool { return (l+1)%period != 0 })
	}
}

func writeGemma4(w *loaders.HFWriter) {
	layers := w.Int("block_count")
	sliding := w.Bools("attention.sliding_window_pattern")
	at := func(l int) bool { return l < len(sliding) && sliding[l] }
	writeKinds(w, at)
	w.Config["num_global_key_value_heads"] = nil
	for l := range layers {
		g := w.IntAt("attention.head_count_kv", l)
		if at(l) || w.Config["num_key_value_heads"] == nil {
			w.Config["num_key_value_heads"] = g
		}
	}
	for l := range layers {
		if g := w.IntAt("attention.head_count_kv", l); !at(l) && g != w.Config["num_key_value_heads"] {
			w.Config["num_global_key_value_heads"] = g
		}
	}
	w.Config["num_attention_heads"] = w.IntAt("attention.head_count", 0)
	w.Config["intermediate_size"] = w.IntAt("feed_forward_length", 0)
	w.Config["use_double_wide_mlp"] = w.IntAt("feed_forward_length", layers-1) != w.IntAt("feed_forward_length", 0)
	w.Config["hidden_size_per_layer_input"] = w.Int("embedding_length_per_layer_input")
	w.Config["vocab_size_per_layer_input"] = w.Config["vocab_size"]
	w.Config["attention_k_eq_v"] = false
	for l := range layers {
		if !at(l) && w.HasTensor(blockName(l, "attn_k.weight")) && !w.HasTensor(blockName(l, "attn_v.weight")) {
			w.Config["attention_k_eq_v"] = true
		}
	}
	cap, ok := w.Float("final_logit_softcapping")
	if !ok {
		cap = 30
	}
	w.Config["final_logit_softcapping"] = orNull(cap)
	moe := w.Int("expert_count") > 0
	w.Config["enable_moe_block"] = moe
	if moe {
		w.Config["num_experts"], w.Config["top_k_experts"] = w.Int("expert_count"), w.Int("expert_used_count")
		w.Config["moe_intermediate_size"] = w.Int("expert_feed_forward_length")
	}
	full := map[string]any{"rope_type": "default", "rope_theta": writeTheta(w, "rope.freq_base", 1e6)}
	const name = "rope_freqs.weight"
	if freqs := w.Numbers(name); freqs != nil {
		ones := 0
		for ones < len(freqs) && freqs[ones] == 1 {
			ones++
		}
		exact := true
		for _, f := range freqs[ones:] {
			exact = exact && f == 1e30
		}
		if exact {
			full["rope_type"], full["partial_rotary_factor"] = "proportional", float64(ones)/float64(len(freqs))
			w.Drop(name)
		} else {
			w.Note("%s is written as a tensor: config.json has no words for it, and other programs will not look for it", name)
		}
	}
	w.Config["rope_parameters"] = map[string]any{"full_attention": full,
		"sliding_attention": map[string]any{"rope_type": "default", "rope_theta": writeTheta(w, "rope.freq_base_swa", 1e4)}}
}

func writeGptOss(w *loaders.HFWriter) {
	w.Config["intermediate_size"] = w.Int("expert_feed_forward_length")
	w.Config["swiglu_limit"] = 7.0
	w.Config["attention_bias"] = true
	writeRope(w)
	writeKinds(w, func(l int) bool { return l%2 == 0 })
}
