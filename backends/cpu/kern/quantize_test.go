package kern

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"graphrun/graph"
)

// TestQuantize compares every level with the plain code, bit for bit.
func TestQuantize(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	inf := float32(math.Inf(1))
	special := []float32{0, float32(math.Copysign(0, -1)), 1e-45, 1e-38, 0x1p-100, 0x1p-101, math.MaxFloat32, -math.MaxFloat32, inf, -inf,
		float32(math.NaN()), 126.5, 0.5, -0.5}
	atLevels(t, func(t *testing.T) {
		for _, typ := range []graph.DType{graph.Q8, graph.Q8K} {
			for _, blocks := range []int{0, 1, 2, 3, 7} {
				for round := range 60 {
					k := blocks * typ.BlockElems()
					mem := make([]float32, k+1)
					x := mem[round%2 : round%2+k]
					scale := float32(math.Exp2(float64(r.IntN(200) - 100)))
					for i := range x {
						x[i] = float32(r.NormFloat64()) * scale
						switch {
						case round%4 == 1 && r.IntN(40) == 0, round%4 == 2 && i/32%2 == 0:
							x[i] = special[r.IntN(len(special))]
						case round%4 == 3 && i/typ.BlockElems() == 1:
							x[i] = 0
						case round%4 == 0 && r.IntN(3) == 0:
							x[i] = float32(r.IntN(255)-127) / 2 // ties
						}
					}
					n := typ.RowBytes(k)
					want, got := make([]byte, n), make([]byte, n+64)
					for i := range got {
						got[i] = 0xa5
					}
					quantizeWhole(typ, want, x)
					off := round % 7
					QuantizeRow(typ, got[off:off+n], x)
					fixNaN(want, k, blocks)
					fixNaN(got[off:off+n], k, blocks)
					if !bytes.Equal(want, got[off:off+n]) {
						for i := range want {
							if want[i] != got[off+i] {
								t.Fatalf("%v, %d blocks, round %d: byte %d is %#x, want %#x", typ, blocks, round, i, got[off+i], want[i])
							}
						}
					}
					for i, v := range got {
						if (i < off || i >= off+n) && v != 0xa5 {
							t.Fatalf("%v, %d blocks: wrote outside at %d", typ, blocks, i-off)
						}
					}
				}
			}
		}
	})
}

// fixNaN gives all NaN scales one representation.
func fixNaN(p []byte, k, blocks int) {
	for b := range blocks {
		if v := f32at(p, k+4*b); v != v {
			putF32(p, k+4*b, float32(math.NaN()))
		}
	}
}

// TestQuantizeMeaning checks the formula itself.
func TestQuantizeMeaning(t *testing.T) {
	x := make([]float32, 64)
	for i := range x {
		x[i] = float32(i) - 20
	}
	dst := make([]byte, graph.Q8.RowBytes(64))
	QuantizeRow(graph.Q8, dst, x)
	for i, v := range x {
		d := f32at(dst, 64+i/32*4)
		if e := math.Abs(float64(float32(int8(dst[i]))*d - v)); e > float64(d)*0.5001 {
			t.Errorf("element %d: %v became %v", i, v, float32(int8(dst[i]))*d)
		}
	}
	for b := range 2 {
		sum := int32(0)
		for _, q := range dst[32*b : 32*b+32] {
			sum += int32(int8(q))
		}
		if got := i32at(dst, 64+8+4*b); got != sum {
			t.Errorf("sum of block %d is %d, want %d", b, got, sum)
		}
	}
}

// quantizeWhole is QuantizeRow in plain Go.
func quantizeWhole(t graph.DType, dst []byte, x []float32) {
	var p actParts
	p.set(t, dst, len(x), 0)
	quantizeRowGeneric(&p, x)
}

// TestQuantizePart quantizes a row in parts, at every level.
func TestQuantizePart(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		for _, typ := range []graph.DType{graph.Q8, graph.Q8K} {
			block := typ.BlockElems()
			k := 7 * block
			x := make([]float32, k)
			for i := range x {
				x[i] = float32(i*37%101-50) / 7
			}
			want, got := make([]byte, typ.RowBytes(k)), make([]byte, typ.RowBytes(k))
			quantizeWhole(typ, want, x)
			for _, cut := range []int{2, 3, 6, 7} {
				for n := 0; n < 7; n += cut {
					end := min(7, n+cut)
					QuantizePart(typ, got, k, n*block, x[n*block:end*block])
				}
				if !bytes.Equal(got, want) {
					t.Fatalf("%v in parts of %d blocks differs from the whole row", typ, cut)
				}
				clear(got)
			}
		}
	})
}
