//go:build amd64 && gc && !noasm

package kern

import (
	"testing"

	"graphrun/graph"
)

// TestParts multiplies a token with parts of long rows.
func TestParts(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		for i, typ := range []graph.DType{graph.F32, graph.F16, graph.BF16} {
			for j, n := range []int{1, 2, 8, 19} {
				k := []int{partsLeast, partsLeast + 1, 8192, 8192 + 63, 3*partElems - 64, 4 * partElems}[(2*i+j)%6]
				seed := uint64(10*i + j)
				w := randomMat(t, typ, n, k, seed)
				x, ldx := randomActs(t, typ, 1, k, seed)
				checkMul(t, w, reference(w), x, ldx, 1, n/3, n)
				// One row at a time is the same bits.
				all, one := make([]float32, n), make([]float32, n)
				scratch := make([]byte, ScratchBytes(w, 1))
				Mul(all, n, w, x, ldx, 1, 0, n, scratch)
				for r := range n {
					Mul(one, n, w, x, ldx, 1, r, r+1, scratch)
				}
				if features.avx512 { // so is a whole row
					whole := make([]float32, 1)
					a := gemvArgs{w: ptr(w.Data, 0), rows: 1, steps: k / 64, x: ptr(x, 0), y: ptr(whole, 0), mask: [3]uint64{lowBits(k % 64)}, tail: k % 64}
					gemvChunk(typ, 1, &a)
					if !equalBits(all[0], whole[0]) {
						t.Fatalf("%v N=%d K=%d: y[0] = %v in parts, %v as a whole", typ, n, k, all[0], whole[0])
					}
				}
				for r := range n {
					if !equalBits(all[r], one[r]) {
						t.Fatalf("%v N=%d K=%d: y[%d] = %v among others, %v alone", typ, n, k, r, all[r], one[r])
					}
				}
			}
		}
	})
}
