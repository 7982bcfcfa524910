package main

import "graphrun/graph"

// models lists all models. Matrices are f16 where the kind of weights is not
// the point: it halves the files, and computations stay in f32.
func models() []*model {
	return []*model{
		llamaGQA(),
		llamaTied(),
		llamaOf("llama-f16", "every matrix f16", shape{L: 1, D: 32, H: 4, G: 2, K: 8, F: 48, dt: graph.F16}),
		llamaOf("llama-bf16", "every matrix bf16", shape{L: 1, D: 32, H: 4, G: 2, K: 8, F: 48, dt: graph.BF16}),
		llamaOf("llama-q8_0", "every matrix q8_0", shape{L: 2, D: 64, H: 4, G: 1, K: 16, F: 64, dt: graph.Q8_0}),
		llamaOf("llama-q4_0", "every matrix q4_0", shape{L: 2, D: 64, H: 4, G: 2, K: 16, F: 64, dt: graph.Q4_0}),
		llamaOf("llama-q4_k", "q4_k, and f16 where rows are shorter than its blocks", shape{L: 1, D: 256, H: 2, G: 1, K: 32, F: 32, dt: graph.Q4_K}),
		llamaOf("llama-q6_k", "q6_k, and f16 where rows are shorter than its blocks", shape{L: 1, D: 256, H: 2, G: 1, K: 32, F: 32, dt: graph.Q6_K}),
		llamaMoE(),
		llamaYarn(),
		gemma2(),
		gemma3(),
		gemma4E2B(),
		gemma4MoE(),
		qwen2(),
		qwen3(),
		gptOSS("gptoss", "experts f16", graph.F16),
		gptOSS("gptoss-mxfp4", "experts mxfp4, as published", graph.MXFP4),
	}
}

// shape holds the sizes that the builders below share, in the letters of
// package archs.
type shape struct {
	L, D, H, G, K, F int
	dt               graph.DType // of matrices
}

// decoder starts a model with the keys of every decoder and the tensors outside
// of layers.
func decoder(name, doc, arch string, v vocabulary, s shape, tied bool) *model {
	m := &model{name: name, doc: doc, arch: arch, tokens: 14, vocab: v}
	m.set("block_count", s.L)
	m.set("context_length", 256)
	m.set("embedding_length", s.D)
	m.set("feed_forward_length", s.F)
	m.set("attention.head_count", s.H)
	m.set("attention.head_count_kv", s.G)
	m.set("attention.key_length", s.K)
	m.set("attention.value_length", s.K)
	m.set("attention.layer_norm_rms_epsilon", 1e-5)
	m.add("token_embd.weight", s.dt, len(v.tokens), s.D)
	m.add("output_norm.weight", graph.F32, s.D)
	if !tied {
		m.add("output.weight", s.dt, len(v.tokens), s.D)
	}
	return m
}

// fitting returns dt, or f16 for rows that its blocks do not divide, as
// quantizing programs do.
func fitting(dt graph.DType, row int) graph.DType {
	if row%dt.BlockElems() != 0 {
		return graph.F16
	}
	return dt
}

// attention adds the matrices of a layer's attention.
func (m *model) attention(l int, s shape) {
	m.block(l, "attn_q.weight", s.dt, s.H*s.K, s.D)
	m.block(l, "attn_k.weight", s.dt, s.G*s.K, s.D)
	m.block(l, "attn_v.weight", s.dt, s.G*s.K, s.D)
	m.block(l, "attn_output.weight", fitting(s.dt, s.H*s.K), s.D, s.H*s.K)
}

// dense adds the matrices of a layer's feed-forward.
func (m *model) dense(l int, s shape) {
	m.block(l, "ffn_gate.weight", s.dt, s.F, s.D)
	m.block(l, "ffn_up.weight", s.dt, s.F, s.D)
	m.block(l, "ffn_down.weight", fitting(s.dt, s.F), s.D, s.F)
}

// llamaLayers adds layers as llama, qwen2 and qwen3 have them.
func (m *model) llamaLayers(s shape) {
	for l := range s.L {
		m.vectors(l, s.D, "attn_norm.weight", "ffn_norm.weight")
		m.attention(l, s)
		m.dense(l, s)
	}
}

func llamaGQA() *model {
	s := shape{L: 2, D: 32, H: 6, G: 2, K: 8, F: 40, dt: graph.F32}
	m := decoder("llama-gqa", "Llama, f32: grouped heads, untied output, 66 tokens, more than a page of the cache", "llama", sentencePieces(), s, false)
	m.set("rope.freq_base", 10000.0)
	m.set("rope.dimension_count", s.K)
	m.llamaLayers(s)
	m.tokens = 66
	return m
}

func llamaTied() *model {
	s := shape{L: 2, D: 32, H: 4, G: 2, K: 12, F: 24, dt: graph.F32}
	m := decoder("llama-tied-freqs", "Llama 3 style, f32: output tied to the embedding, frequency factors", "llama", sentencePieces(), s, true)
	m.set("rope.freq_base", 500000.0)
	m.set("rope.dimension_count", s.K)
	m.add("rope_freqs.weight", graph.F32, s.K/2)
	m.llamaLayers(s)
	return m
}

// llamaOf is a llama whose matrices are all of one type.
func llamaOf(name, doc string, s shape) *model {
	m := decoder(name, "Llama: "+doc, "llama", sentencePieces(), s, true)
	m.llamaLayers(s)
	return m
}

func llamaMoE() *model {
	s := shape{L: 2, D: 32, H: 4, G: 2, K: 12, F: 24, dt: graph.F16}
	m := decoder("llama-moe", "Mixtral style: 4 experts, 2 used", "llama", sentencePieces(), s, true)
	m.set("expert_count", 4)
	m.set("expert_used_count", 2)
	for l := range s.L {
		m.vectors(l, s.D, "attn_norm.weight", "ffn_norm.weight")
		m.attention(l, s)
		m.block(l, "ffn_gate_inp.weight", graph.F32, 4, s.D)
		m.block(l, "ffn_gate_exps.weight", s.dt, 4, s.F, s.D)
		m.block(l, "ffn_up_exps.weight", s.dt, 4, s.F, s.D)
		m.block(l, "ffn_down_exps.weight", s.dt, 4, s.D, s.F)
	}
	return m
}

func llamaYarn() *model {
	s := shape{L: 2, D: 32, H: 3, G: 1, K: 16, F: 56, dt: graph.F16}
	m := decoder("llama-yarn", "Llama with YaRN, factor 4 over 8 positions: 14 tokens reach beyond them", "llama", sentencePieces(), s, true)
	m.set("rope.scaling.type", "yarn")
	m.set("rope.scaling.factor", 4.0)
	m.set("rope.scaling.original_context_length", 8)
	m.llamaLayers(s)
	return m
}

func gemmaLayers(m *model, s shape) {
	for l := range s.L {
		m.vectors(l, s.D, "attn_norm.weight", "post_attention_norm.weight", "ffn_norm.weight", "post_ffw_norm.weight")
		m.attention(l, s)
		m.dense(l, s)
	}
}

func gemma2() *model {
	s := shape{L: 2, D: 32, H: 4, G: 2, K: 16, F: 56, dt: graph.F16}
	m := decoder("gemma2", "Gemma 2: window in every other layer, bounded scores and logits", "gemma2", sentencePieces(), s, true)
	m.set("attention.sliding_window", 6)
	m.set("attn_logit_softcapping", 5.0)
	m.set("final_logit_softcapping", 3.0)
	gemmaLayers(m, s)
	return m
}

func gemma3() *model {
	s := shape{L: 2, D: 32, H: 4, G: 1, K: 16, F: 56, dt: graph.F16}
	m := decoder("gemma3", "Gemma 3: every other layer with a window, linear scaling, 66 tokens", "gemma3", sentencePieces(), s, true)
	m.set("attention.sliding_window", 5)
	m.set("attention.sliding_window_pattern", 2)
	m.set("rope.freq_base", 1e6)
	m.set("rope.scaling.type", "linear")
	m.set("rope.scaling.factor", 8.0)
	gemmaLayers(m, s)
	for l := range s.L {
		m.vectors(l, s.K, "attn_q_norm.weight", "attn_k_norm.weight")
	}
	m.tokens = 66
	return m
}

// gemma4 starts a Gemma 4; slides says which layers have a window. Layers with
// one have heads of 8 numbers, the others of 16.
func gemma4(name, doc string, s shape, slides []bool, perLayer int) *model {
	m := decoder(name, doc, "gemma4", sentencePieces(), s, true)
	m.set("attention.key_length_swa", 8)
	m.set("attention.value_length_swa", 8)
	m.set("attention.sliding_window", 6)
	m.set("attention.sliding_window_pattern", slides)
	m.set("embedding_length_per_layer_input", perLayer)
	m.set("rope.freq_base", 1e6)
	m.set("rope.freq_base_swa", 10000.0)
	m.set("final_logit_softcapping", 30.0)
	m.add("rope_freqs.weight", graph.F32, s.K/2)
	return m
}

// gemma4Layer adds what all variants have.
func (m *model) gemma4Layer(l int, s shape, ownsK, ownsV bool) {
	m.vectors(l, s.D, "attn_norm.weight", "post_attention_norm.weight", "ffn_norm.weight", "post_ffw_norm.weight")
	m.block(l, "attn_q.weight", s.dt, s.H*s.K, s.D)
	m.vectors(l, s.K, "attn_q_norm.weight")
	if ownsK {
		m.block(l, "attn_k.weight", s.dt, s.G*s.K, s.D)
		m.vectors(l, s.K, "attn_k_norm.weight")
	}
	if ownsV {
		m.block(l, "attn_v.weight", s.dt, s.G*s.K, s.D)
	}
	m.block(l, "attn_output.weight", s.dt, s.D, s.H*s.K)
	m.dense(l, s)
	m.vectors(l, 1, "layer_output_scale.weight")
}

func gemma4E2B() *model {
	const P, shared = 8, 2
	s := shape{L: 4, D: 32, H: 4, G: 1, K: 16, F: 48, dt: graph.F16}
	slides := []bool{true, false, true, false}
	m := gemma4("gemma4-e2b", "Gemma 4 E2B style: per-layer embeddings, the last 2 layers read caches of earlier ones and are wider", s, slides, P)
	m.set("attention.shared_kv_layers", shared)
	m.replace("feed_forward_length", []int{48, 48, 64, 64})
	m.add("per_layer_token_embd.weight", s.dt, len(m.vocab.tokens), P*s.L)
	m.add("per_layer_model_proj.weight", s.dt, P*s.L, s.D)
	m.add("per_layer_proj_norm.weight", graph.F32, P)
	for l := range s.L {
		k := s
		if slides[l] {
			k.K = 8
		}
		if l >= s.L-shared {
			k.F = 64
		}
		owns := l < s.L-shared
		m.gemma4Layer(l, k, owns, owns)
		m.block(l, "inp_gate.weight", s.dt, P, s.D)
		m.block(l, "proj.weight", s.dt, s.D, P)
		m.vectors(l, s.D, "post_norm.weight")
	}
	return m
}

// replace gives a key that is there another value.
func (m *model) replace(name string, val any) {
	for i := range m.keys {
		if m.keys[i].name == name {
			m.keys[i].val = val
			return
		}
	}
	panic("no key " + name)
}

func gemma4MoE() *model {
	const E, X = 4, 24
	s := shape{L: 2, D: 32, H: 4, G: 2, K: 16, F: 64, dt: graph.F16}
	slides := []bool{true, false}
	m := gemma4("gemma4-moe", "Gemma 4 26B-A4B style: experts beside the dense feed-forward; the full layer takes its values from the key projection", s, slides, 0)
	m.replace("attention.head_count_kv", []int{2, 1})
	m.set("expert_count", E)
	m.set("expert_used_count", 2)
	m.set("expert_feed_forward_length", X)
	for l := range s.L {
		k := s
		if slides[l] {
			k.K = 8
		} else {
			k.G = 1
		}
		m.gemma4Layer(l, k, true, slides[l])
		m.vectors(l, s.D, "ffn_gate_inp.scale", "pre_ffw_norm_2.weight", "post_ffw_norm_1.weight", "post_ffw_norm_2.weight")
		m.block(l, "ffn_gate_inp.weight", graph.F32, E, s.D)
		m.block(l, "ffn_gate_up_exps.weight", s.dt, E, 2*X, s.D)
		m.block(l, "ffn_down_exps.weight", s.dt, E, s.D, X)
		m.vectors(l, E, "ffn_down_exps.scale")
	}
	return m
}

func qwen2() *model {
	s := shape{L: 2, D: 32, H: 4, G: 2, K: 12, F: 56, dt: graph.F16}
	m := decoder("qwen2", "Qwen 2: biases on queries, keys and values", "qwen2", byteLevel("qwen2"), s, true)
	m.set("rope.freq_base", 1e6)
	m.llamaLayers(s)
	for l := range s.L {
		m.vectors(l, s.H*s.K, "attn_q.bias")
		m.vectors(l, s.G*s.K, "attn_k.bias", "attn_v.bias")
	}
	return m
}

func qwen3() *model {
	s := shape{L: 2, D: 32, H: 4, G: 2, K: 16, F: 56, dt: graph.F16}
	m := decoder("qwen3", "Qwen 3: heads of queries and keys are normed", "qwen3", byteLevel("qwen2"), s, true)
	m.set("rope.freq_base", 1e6)
	m.llamaLayers(s)
	for l := range s.L {
		m.vectors(l, s.K, "attn_q_norm.weight", "attn_k_norm.weight")
	}
	return m
}

func gptOSS(name, doc string, experts graph.DType) *model {
	const E, X = 4, 32
	s := shape{L: 2, D: 32, H: 4, G: 2, K: 16, F: X, dt: graph.F16}
	m := decoder(name, "gpt-oss: sinks, biases, YaRN, clamped experts; "+doc, "gpt-oss", byteLevel("gpt-4o"), s, true)
	m.set("attention.sliding_window", 6)
	m.set("rope.freq_base", 150000.0)
	m.set("rope.scaling.type", "yarn")
	m.set("rope.scaling.factor", 32.0)
	m.set("rope.scaling.original_context_length", 16)
	m.set("expert_count", E)
	m.set("expert_used_count", 2)
	m.set("expert_feed_forward_length", X)
	for l := range s.L {
		m.vectors(l, s.D, "attn_norm.weight", "post_attention_norm.weight", "attn_output.bias")
		m.vectors(l, s.H, "attn_sinks.weight")
		m.attention(l, s)
		m.vectors(l, s.H*s.K, "attn_q.bias")
		m.vectors(l, s.G*s.K, "attn_k.bias", "attn_v.bias")
		m.block(l, "ffn_gate_inp.weight", graph.F32, E, s.D)
		m.vectors(l, E, "ffn_gate_inp.bias")
		for _, n := range []string{"ffn_gate_exps", "ffn_up_exps"} {
			m.block(l, n+".weight", experts, E, X, s.D)
			m.block(l, n+".bias", graph.F32, E, X)
		}
		m.block(l, "ffn_down_exps.weight", experts, E, s.D, X)
		m.block(l, "ffn_down_exps.bias", graph.F32, E, s.D)
	}
	return m
}
