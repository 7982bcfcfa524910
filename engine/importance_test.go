package engine

import (
	"encoding/binary"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"graphrun/graph"
	"graphrun/ops"
	"graphrun/quant"
)

func importance(t *testing.T, name string, n, window int) (*Model, []int32, *quant.Imatrix) {
	t.Helper()
	m, err := Open(filepath.Join("..", "testdata", "models", name+".gguf"), Options{Threads: 2, Context: 64})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(3 + i*7%200)
	}
	windows := 0
	im, err := m.Importance(t.Context(), tokens, ImportanceOptions{Window: window, Progress: func(done, _ int) { windows = done }})
	if err != nil {
		t.Fatal(err)
	}
	if windows != n/window || im.Chunks != windows {
		t.Errorf("%d windows, the matrix says %d, want %d", windows, im.Chunks, n/window)
	}
	return m, tokens, im
}

// TestImportance: the sums are those of the normed embedding, computed here;
// matrices that share their input share the sums.
func TestImportance(t *testing.T) {
	m, tokens, im := importance(t, "llama-gqa", 40, 16)
	embd, _ := m.File.Tensor("token_embd.weight")
	norm, _ := m.File.Tensor("blk.0.attn_norm.weight")
	k := embd.Shape[1]
	w := make([]float32, k)
	ops.DequantRow(norm.DType, w, norm.Data)
	want := make([]float64, k)
	for i, id := range tokens[:32] {
		if v := m.Tokenizer.Vocab(); i%16 == 0 && v.AddBOS {
			id = v.BOS
		}
		x := make([]float32, k)
		ops.DequantRow(embd.DType, x, embd.Data[int(id)*embd.DType.RowBytes(k):])
		sum := 0.0
		for _, v := range x {
			sum += float64(v) * float64(v)
		}
		scale := 1 / math.Sqrt(sum/float64(k)+float64(m.Arch.Eps))
		for c, v := range x {
			y := float64(v) * scale * float64(w[c])
			want[c] += y * y
		}
	}
	q, ok := im.Entry("blk.0.attn_q.weight")
	if !ok || len(q.Counts) != 1 || q.Counts[0] != 32 {
		t.Fatalf("attn_q: %+v", q)
	}
	for c := range want {
		if math.Abs(float64(q.Sums[c])-want[c]) > 1e-4*want[c] {
			t.Fatalf("column %d: %v, want %v", c, q.Sums[c], want[c])
		}
	}
	for _, name := range []string{"attn_k", "attn_v"} {
		if e, ok := im.Entry("blk.0." + name + ".weight"); !ok || !slices.Equal(e.Sums, q.Sums) {
			t.Errorf("%s differs from attn_q", name)
		}
	}
	if _, ok := im.Entry("output.weight"); ok {
		t.Error("the head is among the entries")
	}
	matrices := 0
	for _, tensor := range m.File.Tensors {
		if strings.HasPrefix(tensor.Name, "blk.") && len(tensor.Shape) == 2 {
			matrices++
			if _, err := im.Weights(tensor.Name, tensor.Shape); err != nil {
				t.Error(err)
			}
		}
	}
	if len(im.Names()) != matrices {
		t.Errorf("%d entries, want %d", len(im.Names()), matrices)
	}
}

// TestImportanceExperts: each expert has the tokens that chose it.
func TestImportanceExperts(t *testing.T) {
	m, _, im := importance(t, "gemma4-moe", 32, 16)
	used, _, _ := m.File.Meta.Int("gemma4.expert_used_count")
	found := 0
	for _, name := range im.Names() {
		e, _ := im.Entry(name)
		tensor, ok := m.File.Tensor(name)
		if !ok {
			t.Fatalf("no tensor %s", name)
		}
		if _, err := im.Weights(name, tensor.Shape); err != nil {
			t.Error(err)
		}
		if len(tensor.Shape) != 3 {
			continue
		}
		found++
		sum := float32(0)
		for _, n := range e.Counts {
			sum += n
		}
		if len(e.Counts) != tensor.Shape[0] || sum != float32(32*used) {
			t.Errorf("%s: counts %v, want %d in sum", name, e.Counts, 32*used)
		}
	}
	if found == 0 {
		t.Error("no experts")
	}
}

// TestImportanceRefused: a text shorter than a window is an error; numbers that
// are not finite are one when the matrix is saved.
func TestImportanceRefused(t *testing.T) {
	m, _, _ := importance(t, "llama-gqa", 16, 16)
	if _, err := m.Importance(t.Context(), []int32{1, 2, 3}, ImportanceOptions{Window: 16}); err == nil {
		t.Error("three tokens are fine")
	}
	norm, _ := m.File.Tensor("blk.0.attn_norm.weight")
	raw := append([]byte(nil), norm.Data...)
	if norm.DType != graph.F32 {
		t.Fatalf("norms are %s, want f32", norm.DType)
	}
	binary.LittleEndian.PutUint32(raw, math.Float32bits(float32(math.NaN())))
	norm.Data = raw
	im, err := m.Importance(t.Context(), slices.Repeat([]int32{5}, 16), ImportanceOptions{Window: 16})
	if err != nil {
		return
	}
	if err := im.Save(filepath.Join(t.TempDir(), "im.gguf"), 16); err == nil || !strings.Contains(err.Error(), "NaN") {
		t.Errorf("NaN: %v", err)
	}
}
