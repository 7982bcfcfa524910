//go:build (amd64 || arm64) && gc && !noasm

package kern

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"graphrun/graph"
)

// TestDecodeRow compares the decoding kernels with their specification, byte
// for byte, between guards; NaN scales of one kind are like another.
func TestDecodeRow(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		for _, typ := range quantTypes() {
			for round := range 24 {
				blocks := 1 + round%9
				w := randomMat(t, typ, 1, blocks*typ.BlockElems(), uint64(round))
				extremes(w, rand.New(rand.NewPCG(uint64(round), 6)))
				if typ == graph.MXFP4 {
					w.Data[0] = byte(round % 4)
				}
				l := layoutOf(w)
				want, got := make([]byte, l.row+64), make([]byte, l.row+64)
				for i := range want {
					want[i], got[i] = 0xa5, 0xa5
				}
				l.decodeRowGeneric(typ, want, w.Data)
				l.decodeRow(typ, got, w.Data)
				for _, p := range [][]byte{want, got} {
					from, to := l.scales, l.row-3
					if l.f.act == graph.Q8K {
						from = l.d
					}
					for i := from; i < to; i += 4 {
						if v := f32at(p, i); v != v {
							putF32(p, i, 0)
						}
					}
				}
				if !bytes.Equal(got, want) {
					i := 0
					for got[i] == want[i] {
						i++
					}
					t.Fatalf("%v, %d blocks: byte %d of a decoded row is %#x, want %#x (scales at %d, minima at %d, d at %d)",
						typ, blocks, i, got[i], want[i], l.scales, l.mins, l.d)
				}
			}
		}
	})
}
