package ops_test

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"graphrun/graph"
	"graphrun/internal/shared"
	"graphrun/loaders"
	"graphrun/ops"
)

// TestDequantGolden compares every format with rows decoded by the reference
// program, bit for bit.
func TestDequantGolden(t *testing.T) {
	dirs, err := filepath.Glob(shared.Path(t, "golden", "models") + "/llama-quant-*")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[graph.DType]bool{}
	for _, dir := range dirs {
		sample, err := os.ReadFile(filepath.Join(dir, "dequant_sample.bin"))
		if err != nil {
			continue // a mixture of types has no sample
		}
		t.Run(filepath.Base(dir), func(t *testing.T) {
			m, err := loaders.Open(filepath.Join(dir, "model.gguf"))
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			w, ok := m.Tensor("blk.0.attn_k.weight")
			if !ok {
				t.Fatal("no tensor blk.0.attn_k.weight")
			}
			seen[w.DType] = true
			k := w.Shape[1]
			n := w.DType.RowBytes(k)
			got := make([]float32, k)
			for row := range len(sample) / (4 * k) {
				ops.DequantRow(w.DType, got, w.Data[row*n:(row+1)*n])
				for i, g := range got {
					want := binary.LittleEndian.Uint32(sample[4*(row*k+i):])
					if math.Float32bits(g) != want {
						t.Fatalf("%s row %d element %d: got %v, want %v", w.DType, row, i, g, math.Float32frombits(want))
					}
				}
			}
		})
	}
	for _, dt := range graph.DTypes() {
		if ops.IsWeightType(dt) && !seen[dt] && dt != graph.F32 && dt != graph.IQ3_S {
			t.Errorf("no golden rows of %s", dt)
		}
	}
}
