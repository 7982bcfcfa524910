package kern

import (
	"math"
	"math/rand/v2"
	"testing"

	"graphrun/graph"
)

// quantTypes are the types whose products are the same bits everywhere.
func quantTypes() (all []graph.DType) {
	for _, t := range weightTypes() {
		if ActType(t) != graph.F32 {
			all = append(all, t)
		}
	}
	return all
}

// equalBits tells whether two results are equal; one NaN is like another.
func equalBits(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

// TestSameBits checks that results of quantized types do not depend on the
// number of tokens, the range of rows or the instruction set: all are those of
// the plain code.
func TestSameBits(t *testing.T) {
	atLevels(t, testSameBits)
}

// TestSameBitsPanels uses panels for any number of tokens.
func TestSameBitsPanels(t *testing.T) {
	forced = wayPanels
	defer func() { forced = wayBest }()
	testSameBits(t)
}

func testSameBits(t *testing.T) {
	for _, typ := range quantTypes() {
		t.Run(typ.String(), func(t *testing.T) {
			seed := uint64(1)
			for _, blocks := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 14, 15, 16, 17, 18, 31, 36, 64} {
				k := blocks * typ.BlockElems()
				if k > 2304 {
					continue
				}
				seed++
				n := []int{1, 37, 16, 70, 5, 33}[seed%6]
				w := randomMat(t, typ, n, k, seed)
				if seed%4 == 0 {
					extremes(w, rand.New(rand.NewPCG(seed, 5)))
				}
				checkSame(t, w, seed)
			}
		})
	}
}

// checkSame compares Mul with the plain code for many numbers of tokens.
func checkSame(t *testing.T, w *Mat, seed uint64) {
	t.Helper()
	const most = 17
	x, ldx := randomActs(t, w.Type, most, w.K, seed)
	want := make([]float32, most*w.N)
	mulGeneric(want, w.N, w, x, ldx, most, 0, w.N)
	r := rand.New(rand.NewPCG(seed, 3))
	for _, T := range []int{1, 2, 3, 4, 5, 6, 7, 8, most} {
		first := r.IntN(most - T + 1)
		lo := r.IntN(w.N)
		hi := lo + 1 + r.IntN(w.N-lo)
		if T%2 == 0 {
			lo, hi = 0, w.N
		}
		got := make([]float32, T*w.N)
		scratch := make([]byte, ScratchBytes(w, T))
		for i := range scratch {
			scratch[i] = 0xff // NaN wherever it is read as a float
		}
		Mul(got, w.N, w, x[first*ldx:], ldx, T, lo, hi, scratch)
		for i := range T {
			for n := lo; n < hi; n++ {
				if a, b := got[i*w.N+n], want[(first+i)*w.N+n]; !equalBits(a, b) {
					t.Fatalf("%v N=%d K=%d T=%d [%d,%d): y[%d,%d] = %v, plain code %v", w.Type, w.N, w.K, T, lo, hi, i, n, a, b)
				}
			}
		}
	}
}

// extremes gives a matrix infinite, huge, tiny and zero scales here and there.
func extremes(w *Mat, r *rand.Rand) {
	special := []uint16{0x7c00, 0xfc00, 0x7e00, 0x7bff, 0xfbff, 0x0001, 0x8001, 0, 0x8000}
	size := w.Type.BlockBytes()
	for p := w.Data; len(p) > 0; p = p[size:] {
		if r.IntN(20) > 0 {
			continue
		}
		if w.Type == graph.MXFP4 {
			p[0] = byte(r.IntN(3))
		}
		for _, f := range scaleFields[w.Type] {
			v := special[r.IntN(len(special))]
			p[f], p[f+1] = byte(v), byte(v>>8)
		}
	}
}

// TestLongChunk compares single tokens with a prompt of 512.
func TestLongChunk(t *testing.T) {
	const T = 512
	for _, typ := range quantTypes() {
		w := randomMat(t, typ, 48, 768, 3)
		x, ldx := randomActs(t, typ, T, w.K, 4)
		chunk, one := make([]float32, T*w.N), make([]float32, T*w.N)
		scratch := make([]byte, ScratchBytes(w, T))
		Mul(chunk, w.N, w, x, ldx, T, 0, w.N, scratch)
		for i := range T {
			Mul(one[i*w.N:], w.N, w, x[i*ldx:], ldx, 1, 0, w.N, scratch)
		}
		for i := range chunk {
			if !equalBits(chunk[i], one[i]) {
				t.Fatalf("%v: y[%d,%d] = %v in a chunk, %v alone", typ, i/w.N, i%w.N, chunk[i], one[i])
			}
		}
	}
}
