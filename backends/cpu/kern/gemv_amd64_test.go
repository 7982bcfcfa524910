//go:build amd64 && gc && !noasm

package kern

import (
	"testing"

	"graphrun/graph"
)

// TestPairs multiplies a token with pairs of long rows, and with odd ones that
// are left.
func TestPairs(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		for i, typ := range []graph.DType{graph.F32, graph.F16, graph.BF16} {
			for j, n := range []int{1, 2, 5, 64, 67} {
				k := pairsLeast/4 + []int{0, 1, 63, 64, 100}[(i+j)%5]
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
				for r := range n {
					if !equalBits(all[r], one[r]) {
						t.Fatalf("%v N=%d K=%d: y[%d] = %v among others, %v alone", typ, n, k, r, all[r], one[r])
					}
				}
			}
		}
	})
}
