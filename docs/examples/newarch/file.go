package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"graphrun/graph"
	"graphrun/loaders"
)

// The sizes of the small model.
const (
	layers, width, heads, kvHeads, headWidth, ffn = 2, 32, 4, 2, 8, 48

	vocab    = 3 + 256
	eps      = 1e-5
	base     = 10000.0
	residual = 0.5
)

// writeModel writes a small model with random weights: a GGUF file like any
// other, whose general.architecture is the name of the record.
func writeModel(path string) error {
	meta := loaders.NewMetadata()
	meta.Set("general.architecture", tandem.Name)
	for _, k := range []struct {
		key string
		n   uint32
	}{
		{"block_count", layers}, {"context_length", 128}, {"embedding_length", width}, {"feed_forward_length", ffn},
		{"attention.head_count", heads}, {"attention.head_count_kv", kvHeads},
	} {
		meta.Set(tandem.Name+"."+k.key, k.n)
	}
	meta.Set(tandem.Name+".attention.layer_norm_rms_epsilon", float32(eps))
	meta.Set(tandem.Name+".residual_scale", float32(residual))
	setVocabulary(meta)

	var tensors []*loaders.Tensor
	r := rand.New(rand.NewPCG(1, 2))
	add := func(name string, shape ...int) {
		n, center, spread := 1, 0.0, 1/math.Sqrt(float64(shape[len(shape)-1]))
		if len(shape) == 1 { // a norm
			center, spread = 1, 0.2
		}
		for _, d := range shape {
			n *= d
		}
		var data []byte
		for range n {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(center+spread*r.NormFloat64())))
		}
		tensors = append(tensors, &loaders.Tensor{Name: name, DType: graph.F32, Shape: shape, Data: data})
	}
	add("token_embd.weight", vocab, width)
	add("output_norm.weight", width)
	for l := range layers {
		b := fmt.Sprintf("blk.%d.", l)
		add(b+"norm.weight", width)
		add(b+"attn_q.weight", heads*headWidth, width)
		add(b+"attn_k.weight", kvHeads*headWidth, width)
		add(b+"attn_v.weight", kvHeads*headWidth, width)
		add(b+"attn_output.weight", width, heads*headWidth)
		add(b+"ffn_gate.weight", ffn, width)
		add(b+"ffn_up.weight", ffn, width)
		add(b+"ffn_down.weight", width, ffn)
	}
	return loaders.WriteFile(path, meta, tensors)
}

// setVocabulary sets a tokenizer of the family "llama" that knows bytes only.
func setVocabulary(meta *loaders.Metadata) {
	tokens := []string{"<unk>", "<s>", "</s>"}
	types := []int32{int32(loaders.TokenUnknown), int32(loaders.TokenControl), int32(loaders.TokenControl)}
	for b := range 256 {
		tokens = append(tokens, fmt.Sprintf("<0x%02X>", b))
		types = append(types, int32(loaders.TokenByte))
	}
	meta.Set("tokenizer.ggml.model", "llama")
	meta.Set("tokenizer.ggml.tokens", tokens)
	meta.Set("tokenizer.ggml.scores", make([]float32, len(tokens)))
	meta.Set("tokenizer.ggml.token_type", types)
	meta.Set("tokenizer.ggml.bos_token_id", uint32(1))
	meta.Set("tokenizer.ggml.eos_token_id", uint32(2))
}
