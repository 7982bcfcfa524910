package loaders

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"graphrun/graph"
)

// ggufBuilder writes GGUF files field by field, apart from the package's own
// writer, so that any field can be wrong.
type ggufBuilder struct{ b []byte }

func (g *ggufBuilder) u8(x uint8) *ggufBuilder { g.b = append(g.b, x); return g }
func (g *ggufBuilder) u32(x uint32) *ggufBuilder {
	g.b = binary.LittleEndian.AppendUint32(g.b, x)
	return g
}
func (g *ggufBuilder) u64(x uint64) *ggufBuilder {
	g.b = binary.LittleEndian.AppendUint64(g.b, x)
	return g
}
func (g *ggufBuilder) str(s string) *ggufBuilder {
	g.u64(uint64(len(s)))
	g.b = append(g.b, s...)
	return g
}
func (g *ggufBuilder) raw(s string) *ggufBuilder { g.b = append(g.b, s...); return g }

// ggufHead starts a version 3 file.
func ggufHead(tensors, entries uint64) *ggufBuilder { return ggufHeadV(3, tensors, entries) }

func ggufHeadV(version uint32, tensors, entries uint64) *ggufBuilder {
	return new(ggufBuilder).raw("GGUF").u32(version).u64(tensors).u64(entries)
}

func (g *ggufBuilder) kvU32(key string, x uint32) *ggufBuilder { return g.str(key).u32(4).u32(x) }
func (g *ggufBuilder) kvStr(key, s string) *ggufBuilder        { return g.str(key).u32(8).str(s) }

// tensor adds a record; dims are in the file's order, innermost first.
func (g *ggufBuilder) tensor(name string, dtype uint32, offset uint64, dims ...uint64) *ggufBuilder {
	g.str(name).u32(uint32(len(dims)))
	for _, d := range dims {
		g.u64(d)
	}
	return g.u32(dtype).u64(offset)
}

// data pads to the alignment and adds n bytes 0, 1, 2, ….
func (g *ggufBuilder) data(alignment, n int) *ggufBuilder {
	for len(g.b)%alignment != 0 {
		g.b = append(g.b, 0)
	}
	for i := range n {
		g.b = append(g.b, byte(i))
	}
	return g
}

// smallLlama returns the metadata and tensors of a two-layer llama with random
// weights: width 64, 4 heads, 2 kv heads, ffn 96, vocabulary 320. No two sizes
// of a matrix are equal but those of attn_q and attn_output.
func smallLlama() (*Metadata, []*Tensor) {
	rng := rand.New(rand.NewPCG(1, 2))
	meta := NewMetadata()
	meta.Set("general.architecture", "llama")
	meta.Set("llama.block_count", uint32(2))
	meta.Set("llama.embedding_length", uint32(64))
	meta.Set("llama.feed_forward_length", uint32(96))
	meta.Set("llama.attention.head_count", uint32(4))
	meta.Set("llama.attention.layer_norm_rms_epsilon", float32(1e-5))
	var tokens []string
	for i := range 320 {
		tokens = append(tokens, fmt.Sprintf("<%d>", i))
	}
	meta.Set("tokenizer.ggml.tokens", tokens)
	meta.Set("tokenizer.ggml.token_type", make([]int32, 320))

	var tensors []*Tensor
	add := func(name string, shape ...int) {
		t := &Tensor{Name: name, DType: graph.F32, Shape: shape}
		for range t.Elems() {
			t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(rng.Float32()-0.5))
		}
		tensors = append(tensors, t)
	}
	add("token_embd.weight", 320, 64)
	for l := range 2 {
		blk := fmt.Sprintf("blk.%d.", l)
		add(blk+"attn_norm.weight", 64)
		add(blk+"attn_q.weight", 64, 64)
		add(blk+"attn_k.weight", 32, 64)
		add(blk+"attn_v.weight", 32, 64)
		add(blk+"attn_output.weight", 64, 64)
		add(blk+"ffn_norm.weight", 64)
		add(blk+"ffn_gate.weight", 96, 64)
		add(blk+"ffn_up.weight", 96, 64)
		add(blk+"ffn_down.weight", 64, 96)
	}
	add("output_norm.weight", 64)
	return meta, tensors
}

// writeSmall writes the small llama into a new folder and returns its path and
// bytes.
func writeSmall(t testing.TB) (string, []byte) {
	t.Helper()
	meta, tensors := smallLlama()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := WriteFile(path, meta, tensors); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, data
}

// wantError fails the test unless err is one line that contains all parts.
func wantError(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	text := err.Error()
	if strings.ContainsAny(text, "\n\r") {
		t.Errorf("error is more than a line: %q", text)
	}
	if !strings.HasPrefix(text, "gguf: ") {
		t.Errorf("error does not begin with the package: %s", text)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("error %q does not contain %q", text, part)
		}
	}
}

// sameTensors fails the test unless both models hold the same tensors in the
// same order.
func sameTensors(t testing.TB, got, want []*Tensor) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d tensors, want %d", len(got), len(want))
	}
	for i, g := range got {
		w := want[i]
		if g.Name != w.Name || g.DType != w.DType || fmt.Sprint(g.Shape) != fmt.Sprint(w.Shape) {
			t.Fatalf("tensor %d is %s %s %v, want %s %s %v", i, g.Name, g.DType, g.Shape, w.Name, w.DType, w.Shape)
		}
		if string(g.Data) != string(w.Data) {
			for j := range min(len(g.Data), len(w.Data)) {
				if g.Data[j] != w.Data[j] {
					t.Fatalf("tensor %s: byte %d is %d, want %d", g.Name, j, g.Data[j], w.Data[j])
				}
			}
			t.Fatalf("tensor %s: %d bytes, want %d", g.Name, len(g.Data), len(w.Data))
		}
	}
}
