package synth

import (
	"strconv"

	"graphrun/graph"
	"graphrun/loaders"
	"graphrun/quant"
)

// tensor is a tensor of the file before it has a type.
type tensor struct {
	name  string
	role  string // the name without layer and ending: attn_v
	layer int    // -1 outside of layers
	shape []int  // row-major
	plain graph.DType
}

// tensorList collects the tensors of a shape in the order of published files.
type tensorList struct {
	layer int
	list  []tensor
}

func (t *tensorList) add(role, ending string, plain graph.DType, shape ...int) {
	name := role + ending
	if t.layer >= 0 {
		name = "blk." + strconv.Itoa(t.layer) + "." + name
	}
	t.list = append(t.list, tensor{name, role, t.layer, shape, plain})
}

// matrix adds a matrix, which has the type of the file; vector an f32 vector.
func (t *tensorList) matrix(role string, shape ...int) {
	t.add(role, ".weight", graph.Invalid, shape...)
}
func (t *tensorList) vector(role string, n int) { t.add(role, ".weight", graph.F32, n) }

// tensors returns the tensors of the shape.
func (s *Shape) tensors() []tensor {
	t := &tensorList{layer: -1}
	t.matrix("token_embd", s.vocab, s.width)
	t.vector("output_norm", s.width)
	if s.untied {
		t.matrix("output", s.vocab, s.width)
	}
	switch {
	case s.ropeFactor > 0:
		t.vector("rope_freqs", s.headWidth/2)
	case s.arch == "gemma4":
		t.vector("rope_freqs", s.fullWidth/2)
	}
	if s.perLayer > 0 {
		t.matrix("per_layer_token_embd", s.vocab, s.perLayer*s.layers)
		t.add("per_layer_model_proj", ".weight", graph.BF16, s.perLayer*s.layers, s.width)
		t.vector("per_layer_proj_norm", s.perLayer)
	}
	for i := range s.layers {
		t.layer = i
		s.attention(t, s.layer(i))
		s.feedForward(t, s.layer(i))
	}
	return t.list
}

func (s *Shape) attention(t *tensorList, l layer) {
	gemma := s.arch != "llama"
	t.vector("attn_norm", s.width)
	t.matrix("attn_q", s.heads*l.k, s.width)
	if gemma {
		t.vector("attn_q_norm", l.k)
	}
	if l.ownsKV {
		t.matrix("attn_k", l.kvHeads*l.k, s.width)
		if gemma {
			t.vector("attn_k_norm", l.k)
		}
		if !l.valuesFromTheKey {
			t.matrix("attn_v", l.kvHeads*l.k, s.width)
		}
	}
	t.matrix("attn_output", s.width, s.heads*l.k)
	if gemma {
		t.vector("post_attention_norm", s.width)
	}
}

func (s *Shape) feedForward(t *tensorList, l layer) {
	t.vector("ffn_norm", s.width)
	t.matrix("ffn_gate", l.ffn, s.width)
	t.matrix("ffn_up", l.ffn, s.width)
	t.matrix("ffn_down", s.width, l.ffn)
	if s.arch != "llama" {
		t.vector("post_ffw_norm", s.width)
	}
	if s.arch != "gemma4" {
		return
	}
	t.vector("layer_output_scale", 1)
	if s.perLayer > 0 {
		t.matrix("inp_gate", s.perLayer, s.width)
		t.matrix("proj", s.width, s.perLayer)
		t.vector("post_norm", s.width)
	}
	if s.experts > 0 {
		t.add("ffn_gate_inp", ".weight", graph.F32, s.experts, s.width)
		t.add("ffn_gate_inp", ".scale", graph.F32, s.width)
		t.vector("pre_ffw_norm_2", s.width)
		t.vector("post_ffw_norm_1", s.width)
		t.vector("post_ffw_norm_2", s.width)
		t.matrix("ffn_gate_up_exps", s.experts, 2*s.expertFF, s.width)
		t.matrix("ffn_down_exps", s.experts, s.width, s.expertFF)
		t.add("ffn_down_exps", ".scale", graph.F32, s.experts)
	}
}

// metadata returns the keys of the file, with those of its vocabulary.
func (s *Shape) metadata(m quant.Mixture) *loaders.Metadata {
	meta := loaders.NewMetadata()
	meta.Set("general.architecture", s.arch)
	meta.Set("general.name", s.Doc+" shapes, random weights")
	meta.Set("general.file_type", m.FileType)
	set := func(key string, v any) {
		switch x := v.(type) {
		case int:
			v = uint32(x)
		case float64:
			v = float32(x)
		}
		meta.Set(s.arch+"."+key, v)
	}
	full := s.layer(0)
	ffn, kv, sliding := make([]uint32, s.layers), make([]uint32, s.layers), make([]bool, s.layers)
	for i := range s.layers {
		l := s.layer(i)
		ffn[i], kv[i], sliding[i] = uint32(l.ffn), uint32(l.kvHeads), !l.full
		if l.full {
			full = l
		}
	}
	set("block_count", s.layers)
	set("context_length", s.context)
	set("embedding_length", s.width)
	set("feed_forward_length", uniform(ffn))
	set("attention.head_count", s.heads)
	set("attention.head_count_kv", uniform(kv))
	set("attention.layer_norm_rms_epsilon", s.eps)
	set("attention.key_length", full.k)
	set("attention.value_length", full.k)
	set("rope.freq_base", s.theta)
	set("rope.dimension_count", full.k)
	if s.window > 0 {
		set("attention.sliding_window", s.window)
		set("rope.freq_base_swa", 1e4)
	}
	if s.linear > 0 {
		set("rope.scaling.type", "linear")
		set("rope.scaling.factor", s.linear)
	}
	switch s.arch {
	case "llama":
		set("vocab_size", s.vocab)
	case "gemma3":
		if s.period != 6 { // published files leave the usual period out
			set("attention.sliding_window_pattern", s.period)
		}
	case "gemma4":
		set("attention.key_length_swa", s.headWidth)
		set("attention.value_length_swa", s.headWidth)
		set("rope.dimension_count_swa", s.headWidth)
		set("attention.sliding_window_pattern", sliding)
		set("attention.shared_kv_layers", s.shared)
		set("embedding_length_per_layer_input", s.perLayer)
		set("final_logit_softcapping", 30.0)
		if s.experts > 0 {
			set("expert_count", s.experts)
			set("expert_used_count", s.used)
			set("expert_feed_forward_length", s.expertFF)
		}
	}
	if m.FileType > 1 {
		meta.Set("general.quantization_version", uint32(2))
	}
	s.words(meta, s.vocab)
	return meta
}

// uniform returns the number that all layers have, or the list.
func uniform(list []uint32) any {
	for _, n := range list {
		if n != list[0] {
			return list
		}
	}
	return list[0]
}
