// Package loaders reads model files: weights, metadata and tokenizers.
//
// Open maps a GGUF file, or a set of split files, read-only and gives its
// metadata and tensors. Tensor data are views of the mapping: nothing is
// converted or copied, and nothing of the weights is read before it is used.
//
//	m, err := loaders.Open("model.gguf")
//	if err != nil {
//		return err
//	}
//	defer m.Close()
//	arch, err := m.Arch()
//	layers, ok, err := m.Meta.Int(arch + ".block_count")
//	q, ok := m.Tensor("blk.0.attn_q.weight") // q.Shape is [rows, cols]
//
// Every file is taken as hostile. Counts are bounded by the bytes that remain
// before anything is allocated, products are checked, and what is unknown is an
// error. Errors are one line and name the file, the key or tensor, what was
// found and what was expected.
package loaders
