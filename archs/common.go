package archs

import "graphrun/ops"

// headWidth accepts what caches and ropes can hold.
var headWidth = EvenTo(ops.MaxHeadWidth)

// decoderKeys are the keys of every decoder.
var decoderKeys = []Key{
	{Name: "block_count", Kind: Uint, Check: Range(1, 1000)},
	{Name: "context_length", Kind: Uint, Check: Range(1, 1<<31-1)},
	{Name: "embedding_length", Kind: Uint, Check: Range(1, maxUint)},
	{Name: "feed_forward_length", Kind: UintPerLayer, Check: Range(1, maxUint)},
	{Name: "attention.head_count", Kind: UintPerLayer, Check: Range(1, 1<<16)},
	{Name: "attention.head_count_kv", Kind: UintPerLayer, Default: Same("attention.head_count"), Check: Range(1, 1<<16)},
	{Name: "attention.layer_norm_rms_epsilon", Kind: Float, Check: Positive},
}

// scalingKeys are the keys of linear and YaRN scaling, which Layer.Scaling
// reads. Where no type is given, linear is meant.
var scalingKeys = []Key{
	{Name: "rope.scaling.type", Kind: Text, Default: "linear", Check: OneOf("none", "linear", "yarn")},
	{Name: "rope.scaling.factor", Kind: Float, Default: 1.0, Check: Positive, Old: "rope.scale_linear"},
	{Name: "rope.scaling.original_context_length", Kind: Uint, Default: Same("context_length"), Check: Range(1, 1<<31-1)},
	{Name: "rope.scaling.attn_factor", Kind: Float, Default: 1.0, Check: Positive},
}

// outerTensors are the tensors outside of layers that every decoder has.
var outerTensors = []Tensor{
	{Name: "token_embd.weight", Shape: "V,D"},
	{Name: "output_norm.weight", Shape: "D"},
	{Name: "output.weight", Shape: "V,D", Tied: "token_embd.weight"},
}
