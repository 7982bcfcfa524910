package kern

import (
	"math"
	"math/rand/v2"
	"testing"

	"graphrun/graph"
)

// TestDequant compares every level with the plain code, bit for bit, also with
// scales that are zero, subnormal, largest, infinite and NaN.
func TestDequant(t *testing.T) {
	special := []uint16{0, 0x8000, 1, 0x83ff, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00}
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(4, 4))
		for _, typ := range weightTypes() {
			for round := range 40 {
				blocks := 1 + round%7
				k := blocks * typ.BlockElems()
				if typ.BlockElems() == 1 {
					k = 1 + round*3
				}
				w := randomMat(t, typ, 1, k, uint64(round))
				if round%3 == 1 {
					for _, f := range scaleFields[typ] {
						for b := range blocks {
							p := w.Data[b*typ.BlockBytes()+f:]
							v := special[r.IntN(len(special))]
							p[0], p[1] = byte(v), byte(v>>8)
						}
					}
					if typ == graph.MXFP4 {
						for b := range blocks {
							w.Data[17*b] = []byte{0, 1, 2, 3, 127, 254, 255}[r.IntN(7)]
						}
					}
				}
				want := make([]float32, k)
				mem := make([]float32, k+40)
				for i := range mem {
					mem[i] = 12345
				}
				dequantRowGeneric(typ, want, w.Data)
				got := mem[17 : 17+k]
				DequantRow(typ, got, w.Data)
				for i := range want {
					if math.Float32bits(got[i]) != math.Float32bits(want[i]) && !(got[i] != got[i] && want[i] != want[i]) {
						t.Fatalf("%v, %d elements: element %d is %v (%#x), want %v (%#x)", typ, k, i, got[i], math.Float32bits(got[i]),
							want[i], math.Float32bits(want[i]))
					}
				}
				for i, v := range mem {
					if (i < 17 || i >= 17+k) && v != 12345 {
						t.Fatalf("%v, %d elements: wrote outside at %d", typ, k, i-17)
					}
				}
			}
		}
	})
}
