package loaders

import (
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"graphrun/graph"
)

// ggufFileTypes are the numbers of general.file_type for files whose matrices
// mostly have a type. Source: the enum llama_ftype of llama.cpp.
var ggufFileTypes = map[graph.DType]uint32{
	graph.F32: 0, graph.F16: 1, graph.Q4_0: 2, graph.Q4_1: 3, graph.Q8_0: 7, graph.Q5_0: 8, graph.Q5_1: 9,
	graph.Q2_K: 10, graph.Q3_K: 12, graph.Q4_K: 15, graph.Q5_K: 17, graph.Q6_K: 18, graph.IQ4_NL: 25,
	graph.IQ3_S: 26, graph.IQ4_XS: 30, graph.BF16: 32, graph.TQ1_0: 36, graph.TQ2_0: 37, graph.MXFP4: 38,
}

// GGUFMeta returns the metadata that a GGUF file of the model's tensors has:
// the model's, and for a folder its name and the type of its matrices.
func (m *Model) GGUFMeta() *Metadata {
	meta := m.Meta.Clone()
	if !m.IsHF() {
		return meta
	}
	out := NewMetadata()
	set := func(key string) {
		if v, ok := meta.Value(key); ok {
			out.Set(key, v)
			meta.Delete(key)
		}
	}
	set("general.architecture")
	if name := folderName(m.Path); name != "" {
		out.Set("general.name", name)
	}
	bytes, usual, blocks := map[graph.DType]int{}, graph.F32, false
	for _, t := range m.Tensors {
		if len(t.Shape) > 1 {
			bytes[t.DType] += t.Size()
			blocks = blocks || t.DType.Quantized()
		}
		if bytes[t.DType] > bytes[usual] {
			usual = t.DType
		}
	}
	if n, ok := ggufFileTypes[usual]; ok {
		out.Set("general.file_type", n)
	}
	if blocks {
		out.Set("general.quantization_version", uint32(2))
	}
	for _, key := range meta.Keys() {
		v, _ := meta.Value(key)
		out.Set(key, v)
	}
	return out
}

// hubSnapshot is the folder of a model in the cache of the hub's tools.
var hubSnapshot = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`models--[^/]+--([^/]+)/snapshots/[0-9a-f]+$`)
})

// folderName returns the name of a model by its folder.
func folderName(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if strings.HasSuffix(path, ".safetensors") || strings.HasSuffix(path, ".json") {
		path = filepath.Dir(path)
	}
	path = filepath.ToSlash(path)
	if match := hubSnapshot().FindStringSubmatch(path); match != nil {
		return match[1]
	}
	name := filepath.Base(path)
	if name == "." || name == "/" {
		return ""
	}
	return name
}
