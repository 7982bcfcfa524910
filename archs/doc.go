// Package archs knows model architectures: which keys and tensors a file of one
// has, and what it computes.
//
// An architecture is a record, Arch: data about keys, tensors and tokenizers, a
// rule for the facts that differ between layers, and a Build function that
// composes the blocks of block.go. It lives in one file. Load finds the record
// for a file, reads and checks everything the record asks for, and returns a
// Model, whose Graph method builds the dataflow graph:
//
//	f, err := loaders.Open("model.gguf")
//	...
//	m, err := archs.Load(f)
//	...
//	g, err := m.Graph(archs.GraphOptions{KV: graph.F16})
//
// Nothing is guessed. An unknown architecture, a key of another type or out of
// range, a missing tensor or one of another shape is an error that names it, and
// what the file has beyond that is listed in Model.Warnings.
//
// # Letters
//
// Shapes are written with the letters of package graph, row-major:
//
//	D model width      V vocabulary         L layers
//	H query heads      G kv heads           K head width      R rotated width
//	F ffn width        E experts            X ffn width of an expert
//	P width of per-layer embeddings
//
// H, G, K, R, F, E and X may differ between layers. "HK,D" is a matrix of H·K
// rows of D numbers; a GGUF listing prints the same shape as [D, H·K].
//
// # A new architecture
//
// Register accepts records from other modules too. Build code of a layer reads
// like its formula:
//
//	x := b.Embed(1)
//	for l := range b.Layers() {
//		q, k, v := b.QKV(b.Norm("attn.norm", x, "attn_norm"))
//		o := b.Attend(b.Rope("attn.q.rope", q), b.Rope("attn.k.rope", k), v)
//		x = b.Add("attn.res", x, b.Linear("attn.out", o, "attn_output"))
//		x = b.Add("ffn.res", x, b.FFN(b.Norm("ffn.norm", x, "ffn_norm"), ops.SiLU))
//	}
//	b.Head(x, 0)
package archs
