//go:build amd64 && gc && !noasm

package kern

import (
	"math/rand/v2"
	"testing"
)

// TestWhole multiplies single tokens with any number of rows of whole steps.
func TestWhole(t *testing.T) {
	if !features.avx512 {
		t.Skip("no AVX-512")
	}
	forced = wayWhole
	defer func() { forced = wayBest }()
	seed, tried := uint64(0), 0
	for _, typ := range quantTypes() {
		for _, steps := range []int{1, 2, 3, 4, 5, 7, 9, 16} {
			for _, n := range []int{1, 2, 3, 4, 5, 7, 8, 67, 70, 131} {
				seed++
				w := randomMat(t, typ, n, 128*steps, seed)
				if w.K%typ.BlockElems() > 0 || w.way(1) != wayWhole {
					continue
				}
				tried++
				if seed%2 == 0 {
					extremes(w, rand.New(rand.NewPCG(seed, 5)))
				}
				checkSame(t, w, seed)
			}
		}
	}
	if tried < 6*8*10 {
		t.Errorf("only %d products were by whole steps", tried)
	}
}

// TestMulWhole checks that nothing is written beside the results.
func TestMulWhole(t *testing.T) {
	forced = wayWhole
	defer func() { forced = wayBest }()
	testMul(t)
}
