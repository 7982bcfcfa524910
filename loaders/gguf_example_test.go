package loaders_test

import (
	"bytes"
	"fmt"
	"io"

	"graphrun/graph"
	"graphrun/loaders"
)

// A model of one tensor is written to memory and opened from there. For files
// the functions are Create (or WriteFile) and Open.
func Example() {
	meta := loaders.NewMetadata()
	meta.Set("general.architecture", "llama")
	meta.Set("llama.block_count", uint32(1))
	tensors := []loaders.TensorInfo{{Name: "output.weight", DType: graph.Q8_0, Shape: []int{3, 64}}}

	var file bytes.Buffer
	err := loaders.Write(&file, meta, tensors, func(w io.Writer, i int) error {
		n, _ := tensors[i].Bytes()
		_, err := w.Write(make([]byte, n))
		return err
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	m, err := loaders.OpenBytes("memory.gguf", file.Bytes())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	arch, _ := m.Arch()
	layers, _, _ := m.Meta.Int(arch + ".block_count")
	w, _ := m.Tensor("output.weight")
	fmt.Println(m.Format, arch, layers, w.DType, w.Shape, len(w.Data))

	_, _, err = m.Meta.String(arch + ".block_count")
	fmt.Println(err)
	// Output:
	// GGUF v3 llama 1 q8_0 [3 64] 204
	// gguf: memory.gguf: key llama.block_count: found u32 1, expected a string
}
