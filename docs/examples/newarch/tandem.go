package main

import (
	"graphrun/archs"
	"graphrun/ops"
)

// tandem is an architecture of our own: attention and feed-forward read the same
// norm and run side by side, and what they add is scaled by a key of the file.
//
//	a = rms(x, norm)
//	x = x + r · ( Wo attention(rope(Wq a), rope(Wk a), Wv a) + Wd( silu(Wg a) · Wu a ) )
var tandem = archs.Register(&archs.Arch{
	Name:       "tandem",
	Doc:        "the example of docs/architectures.md",
	Tokenizers: []string{"llama"},
	Rope:       archs.Half,
	Keys: []archs.Key{
		{Name: "block_count", Kind: archs.Uint, Check: archs.Range(1, 1000)},
		{Name: "context_length", Kind: archs.Uint, Check: archs.Range(1, 1<<20)},
		{Name: "embedding_length", Kind: archs.Uint, Check: archs.Range(1, 1<<16)},
		{Name: "feed_forward_length", Kind: archs.Uint, Check: archs.Range(1, 1<<20)},
		{Name: "attention.head_count", Kind: archs.Uint, Check: archs.Range(1, 1<<10)},
		{Name: "attention.head_count_kv", Kind: archs.Uint, Default: archs.Same("attention.head_count")},
		{Name: "attention.key_length", Kind: archs.Uint, Default: archs.Ratio{Num: "embedding_length", Den: "attention.head_count"}, Check: archs.EvenTo(ops.MaxHeadWidth)},
		{Name: "attention.layer_norm_rms_epsilon", Kind: archs.Float, Check: archs.Positive},
		{Name: "rope.freq_base", Kind: archs.Float, Default: 10000.0, Check: archs.Positive},
		{Name: "rope.dimension_count", Kind: archs.Uint, Default: archs.Same("attention.key_length"), Check: archs.EvenTo(ops.MaxHeadWidth)},
		{Name: "residual_scale", Kind: archs.Float, Default: 1.0, Check: archs.Positive},
	},
	Tensors: []archs.Tensor{
		{Name: "token_embd.weight", Shape: "V,D"},
		{Name: "output_norm.weight", Shape: "D"},
		{Name: "output.weight", Shape: "V,D", Tied: "token_embd.weight"},
		{Name: "blk.N.norm.weight", Shape: "D"},
		{Name: "blk.N.attn_q.weight", Shape: "HK,D"},
		{Name: "blk.N.attn_k.weight", Shape: "GK,D"},
		{Name: "blk.N.attn_v.weight", Shape: "GK,D"},
		{Name: "blk.N.attn_output.weight", Shape: "D,HK"},
		{Name: "blk.N.ffn_gate.weight", Shape: "F,D"},
		{Name: "blk.N.ffn_up.weight", Shape: "F,D"},
		{Name: "blk.N.ffn_down.weight", Shape: "D,F"},
	},
	Build: func(b *archs.Build) {
		r := float64(b.M.Config.Float("residual_scale"))
		x := b.Embed(1)
		for range b.Layers() {
			a := b.Norm("norm", x, "norm")
			q, k, v := b.QKV(a)
			o := b.Attend(b.Rope("attn.q.rope", q), b.Rope("attn.k.rope", k), v)
			both := b.Add("both", b.Linear("attn.out", o, "attn_output"), b.FFN(a, ops.SiLU))
			x = b.Add("res", x, b.Scale("both.scaled", both, r))
		}
		b.Head(x, 0)
	},
})
