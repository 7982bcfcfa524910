package archs_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"graphrun/archs"
	"graphrun/graph"
	"graphrun/loaders"
)

// file is a model file in the making: keys without the architecture's prefix,
// tensors f32, random unless data says otherwise.
type file struct {
	arch    string
	keys    map[string]any // nil values are left out
	tensors []loaders.TensorInfo
	data    map[string][]float32
}

// add appends a tensor of a row-major shape.
func (f *file) add(name string, shape ...int) { f.addType(name, graph.F32, shape...) }

func (f *file) addType(name string, dt graph.DType, shape ...int) {
	f.tensors = append(f.tensors, loaders.TensorInfo{Name: name, DType: dt, Shape: shape})
}

// drop removes the tensors with the given names.
func (f *file) drop(names ...string) {
	f.tensors = slices.DeleteFunc(f.tensors, func(t loaders.TensorInfo) bool { return slices.Contains(names, t.Name) })
}

// reshape replaces a tensor.
func (f *file) reshape(name string, shape ...int) {
	f.drop(name)
	f.add(name, shape...)
}

// values returns the numbers of a tensor, random but always the same for the
// name. Norms are around 1.
func (f *file) values(t loaders.TensorInfo) []float32 {
	if v, ok := f.data[t.Name]; ok {
		return v
	}
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	seed := uint64(14695981039346656037)
	for _, c := range []byte(t.Name) {
		seed = (seed ^ uint64(c)) * 1099511628211
	}
	r := rand.New(rand.NewPCG(seed, 1))
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64()) / float32(math.Sqrt(float64(t.Shape[len(t.Shape)-1])))
		if strings.Contains(t.Name, "norm") {
			v[i] = 1 + float32(r.NormFloat64())/4
		}
	}
	return v
}

// bytes writes the file.
func (f *file) bytes(t testing.TB) []byte {
	t.Helper()
	meta := loaders.NewMetadata()
	meta.Set("general.architecture", f.arch)
	for _, k := range slices.Sorted(maps.Keys(f.keys)) {
		switch v := f.keys[k].(type) {
		case nil:
		case int:
			meta.Set(f.arch+"."+k, uint32(v))
		case float64:
			meta.Set(f.arch+"."+k, float32(v))
		case []int:
			list := make([]uint32, len(v))
			for i, n := range v {
				list[i] = uint32(n)
			}
			meta.Set(f.arch+"."+k, list)
		default:
			meta.Set(f.arch+"."+k, v)
		}
	}
	var buf bytes.Buffer
	err := loaders.Write(&buf, meta, f.tensors, func(w io.Writer, i int) error {
		if dt := f.tensors[i].DType; dt != graph.F32 {
			n, _ := f.tensors[i].Bytes()
			_, err := w.Write(make([]byte, n))
			return err
		}
		return binary.Write(w, binary.LittleEndian, f.values(f.tensors[i]))
	})
	if err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func (f *file) open(t testing.TB) *loaders.Model {
	t.Helper()
	m, err := loaders.OpenBytes("small.gguf", f.bytes(t))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (f *file) load(t *testing.T) (*archs.Model, error) {
	t.Helper()
	return archs.Load(f.open(t))
}

// mustGraph loads the file, builds its graph and verifies it.
func (f *file) mustGraph(t *testing.T) (*archs.Model, *graph.Graph) {
	t.Helper()
	m, err := f.load(t)
	if err != nil {
		t.Fatal(err)
	}
	g, err := m.Graph(archs.GraphOptions{KV: graph.F32})
	if err != nil {
		t.Fatal(err)
	}
	if err := graph.Verify(g); err != nil {
		t.Fatal(err)
	}
	checkShapes(t, m, g)
	return m, g
}

const (
	dSmall = 64
	vSmall = 320
)

// decoder returns the keys and outer tensors of a small model: 4 heads and 2 kv
// heads of 16 numbers, feed-forward of 128.
func decoder(arch string, layers int) *file {
	f := &file{arch: arch, data: map[string][]float32{}, keys: map[string]any{
		"block_count": layers, "context_length": 512, "embedding_length": dSmall, "feed_forward_length": 128,
		"attention.head_count": 4, "attention.head_count_kv": 2, "attention.key_length": 16, "attention.value_length": 16,
		"attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 10000.0,
	}}
	f.add("token_embd.weight", vSmall, dSmall)
	f.add("output_norm.weight", dSmall)
	return f
}

// layer appends tensors of layer l: pairs of name and shape.
func (f *file) layer(l int, tensors map[string][]int) {
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		f.add(blk(l, name), tensors[name]...)
	}
}

func blk(l int, name string) string { return "blk." + string(rune('0'+l)) + "." + name }

func smallLlama(layers int) *file {
	f := decoder("llama", layers)
	f.add("output.weight", vSmall, dSmall)
	for l := range layers {
		f.layer(l, llamaLayer)
	}
	return f
}

var llamaLayer = map[string][]int{
	"attn_norm.weight": {64}, "attn_q.weight": {64, 64}, "attn_k.weight": {32, 64}, "attn_v.weight": {32, 64}, "attn_output.weight": {64, 64},
	"ffn_norm.weight": {64}, "ffn_gate.weight": {128, 64}, "ffn_up.weight": {128, 64}, "ffn_down.weight": {64, 128},
}

func smallGemma3(layers int) *file {
	f := decoder("gemma3", layers)
	f.keys["rope.freq_base"] = 1e6
	f.keys["attention.sliding_window"] = 4
	for l := range layers {
		f.layer(l, llamaLayer)
		f.layer(l, map[string][]int{"attn_q_norm.weight": {16}, "attn_k_norm.weight": {16}, "post_attention_norm.weight": {64}, "post_ffw_norm.weight": {64}})
	}
	return f
}

// smallGemma4 has a full layer after each two sliding ones, the full ones with
// one kv head of 32.
func smallGemma4(layers int) *file {
	f := decoder("gemma4", layers)
	pattern, kv := make([]bool, layers), make([]int, layers)
	for l := range layers {
		pattern[l], kv[l] = l%3 != 2, 2
		if !pattern[l] {
			kv[l] = 1
		}
	}
	for k, v := range map[string]any{
		"attention.head_count_kv": kv, "attention.key_length": 32, "attention.value_length": 32,
		"attention.key_length_swa": 16, "attention.value_length_swa": 16, "attention.sliding_window": 4,
		"attention.sliding_window_pattern": pattern, "attention.shared_kv_layers": 0,
		"embedding_length_per_layer_input": 0, "rope.freq_base": 1e6,
	} {
		f.keys[k] = v
	}
	f.add("rope_freqs.weight", 16)
	for l := range layers {
		k := 16
		if !pattern[l] {
			k = 32
		}
		f.layer(l, map[string][]int{
			"attn_norm.weight": {64}, "attn_q.weight": {4 * k, 64}, "attn_k.weight": {kv[l] * k, 64}, "attn_v.weight": {kv[l] * k, 64},
			"attn_output.weight": {64, 4 * k}, "attn_q_norm.weight": {k}, "attn_k_norm.weight": {k}, "post_attention_norm.weight": {64},
			"ffn_norm.weight": {64}, "ffn_gate.weight": {128, 64}, "ffn_up.weight": {128, 64}, "ffn_down.weight": {64, 128}, "post_ffw_norm.weight": {64},
		})
	}
	return f
}

func smallGPTOSS(layers int) *file {
	f := decoder("gpt-oss", layers)
	for k, v := range map[string]any{
		"attention.sliding_window": 4, "expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 96,
		"rope.scaling.type": "yarn", "rope.scaling.factor": 32.0, "rope.scaling.original_context_length": 128,
	} {
		f.keys[k] = v
	}
	f.add("output.weight", vSmall, dSmall)
	for l := range layers {
		f.layer(l, map[string][]int{
			"attn_norm.weight": {64}, "post_attention_norm.weight": {64}, "attn_sinks.weight": {4},
			"attn_q.weight": {64, 64}, "attn_k.weight": {32, 64}, "attn_v.weight": {32, 64}, "attn_output.weight": {64, 64},
			"attn_q.bias": {64}, "attn_k.bias": {32}, "attn_v.bias": {32}, "attn_output.bias": {64},
			"ffn_gate_inp.weight": {4, 64}, "ffn_gate_exps.weight": {4, 96, 64}, "ffn_up_exps.weight": {4, 96, 64}, "ffn_down_exps.weight": {4, 64, 96},
			"ffn_gate_inp.bias": {4}, "ffn_gate_exps.bias": {4, 96}, "ffn_up_exps.bias": {4, 96}, "ffn_down_exps.bias": {4, 64},
		})
	}
	return f
}
