package kern

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/x448/float16"

	"graphrun/graph"
)

// weightTypes are all types with a decoder.
func weightTypes() (all []graph.DType) {
	for _, t := range graph.DTypes() {
		if Supported(t) {
			all = append(all, t)
		}
	}
	return all
}

// scaleFields tells where the f16 scales of a block lie.
var scaleFields = map[graph.DType][]int{
	graph.Q8_0: {0}, graph.Q4_0: {0}, graph.Q4_1: {0, 2}, graph.Q5_0: {0}, graph.Q5_1: {0, 2}, graph.IQ4_NL: {0},
	graph.Q2_K: {80, 82}, graph.Q3_K: {108}, graph.Q4_K: {0, 2}, graph.Q5_K: {0, 2}, graph.Q6_K: {208},
	graph.IQ4_XS: {0}, graph.IQ3_S: {0}, graph.TQ1_0: {52}, graph.TQ2_0: {64},
}

// randomMat fills a matrix with random blocks whose scales are about 1/100.
func randomMat(t testing.TB, typ graph.DType, n, k int, seed uint64) *Mat {
	r := rand.New(rand.NewPCG(seed, uint64(typ)))
	w := &Mat{Type: typ, N: n, K: k, Data: guarded(t, n*typ.RowBytes(k))}
	fillWeights(w, r)
	return w
}

func fillWeights(w *Mat, r *rand.Rand) {
	size := w.Type.BlockBytes()
	scale := func() float32 { return (r.Float32() - 0.3) / 64 }
	i := 0
	for ; i+8 <= len(w.Data); i += 8 {
		binary.LittleEndian.PutUint64(w.Data[i:], r.Uint64())
	}
	for ; i < len(w.Data); i++ {
		w.Data[i] = byte(r.Uint32())
	}
	for p := w.Data; len(p) > 0; p = p[size:] {
		switch w.Type {
		case graph.F32:
			putF32(p, 0, scale())
		case graph.F16:
			binary.LittleEndian.PutUint16(p, float16.Fromfloat32(scale()).Bits())
		case graph.BF16:
			binary.LittleEndian.PutUint16(p, uint16(math.Float32bits(scale())>>16))
		case graph.MXFP4:
			p[0] = byte(118 + r.IntN(8))
		default:
			for _, f := range scaleFields[w.Type] {
				binary.LittleEndian.PutUint16(p[f:], float16.Fromfloat32(scale()).Bits())
			}
		}
	}
}

// randomActs returns T activation rows for a type, ldx bytes apart.
func randomActs(t testing.TB, typ graph.DType, T, k int, seed uint64) (x []byte, ldx int) {
	r := rand.New(rand.NewPCG(seed, 77))
	act := ActType(typ)
	ldx = act.RowBytes(k) + 4*int(seed%3)
	x = guarded(t, (T-1)*ldx+act.RowBytes(k))
	row := make([]float32, k)
	for i := range T {
		for j := range row {
			row[j] = float32(r.NormFloat64())
		}
		putActs(act, x[i*ldx:], row)
	}
	return x, ldx
}

func putActs(act graph.DType, dst []byte, row []float32) {
	if act != graph.F32 {
		quantizeWhole(act, dst, row)
		return
	}
	for j, v := range row {
		putF32(dst, 4*j, v)
	}
}

// refRows are a matrix's weights and minima in f64.
type refRows struct{ q, m [][]float64 }

func reference(w *Mat) *refRows {
	f := &formats[w.Type]
	size := w.Type.BlockBytes()
	r := &refRows{}
	for n := range w.N {
		row := w.Data[n*w.rowBytes():]
		qs, ms := make([]float64, w.K), make([]float64, w.K)
		var b block32
		var s block256
		for k := range w.K {
			switch f.act {
			case graph.Q8:
				if k%32 == 0 {
					decode32(w.Type, &b, row[k/32*size:])
				}
				qs[k] = float64(b.d) * float64(b.q[k%32])
				if f.min {
					ms[k] = float64(b.m)
				}
			case graph.Q8K:
				if k%256 == 0 {
					decode256(w.Type, &s, row[k/256*size:])
				}
				j := k % 256 / 16
				qs[k] = float64(s.d) * float64(s.sc[j]) * float64(s.q[k%256])
				if f.min {
					ms[k] = -float64(s.dmin) * float64(s.mn[j])
				}
			default:
				qs[k] = float64(elem(w.Type, row, k))
			}
		}
		r.q, r.m = append(r.q, qs), append(r.m, ms)
	}
	return r
}

// acts returns an activation row in f64.
func acts(w *Mat, x []byte) []float64 {
	v := make([]float64, w.K)
	for k := range v {
		switch ActType(w.Type) {
		case graph.Q8:
			v[k] = float64(int8(x[k])) * float64(f32at(x, w.K+k/32*4))
		case graph.Q8K:
			v[k] = float64(int8(x[k])) * float64(f32at(x, w.K+k/256*4))
		default:
			v[k] = float64(f32at(x, 4*k))
		}
	}
	return v
}

// dot returns an output and the sum of magnitudes.
func (r *refRows) dot(n int, x []float64) (sum, mag float64) {
	for k, q := range r.q[n] {
		m := r.m[n][k]
		sum += (q + m) * x[k]
		mag += (math.Abs(q) + math.Abs(m)) * math.Abs(x[k])
	}
	return sum, mag
}

// tolerance of a product relative to the sum of magnitudes. The integer parts
// are exact, so what remains are f32 roundings of products and sums; 2⁻²⁰ is
// sixteen half units.
const tolerance = 0x1p-20

// checkMul runs Mul between canaries and compares with reference.
func checkMul(t *testing.T, w *Mat, ref *refRows, x []byte, ldx, T, lo, hi int) []float32 {
	t.Helper()
	ldy := w.N + 3
	canary := math.Float32frombits(0x7fc0dead)
	mem := make([]float32, T*ldy+32)
	for i := range mem {
		mem[i] = canary
	}
	y := mem[16 : 16+(T-1)*ldy+hi]
	need := ScratchBytes(w, T)
	scratch := make([]byte, need+128)
	for i := range scratch {
		scratch[i] = 0xa5
	}
	Mul(y, ldy, w, x, ldx, T, lo, hi, scratch[64:64+need])
	for i := range 64 {
		if scratch[i] != 0xa5 || scratch[64+need+i] != 0xa5 {
			t.Fatalf("%v N=%d K=%d T=%d: wrote outside scratch at %d", w.Type, w.N, w.K, T, i)
		}
	}
	var xt []float64
	for i, v := range mem {
		j := i - 16
		inside := j >= 0 && j < T*ldy && j%ldy >= lo && j%ldy < hi
		if !inside {
			if math.Float32bits(v) != 0x7fc0dead {
				t.Fatalf("%v N=%d K=%d T=%d [%d,%d): wrote outside the result at %d", w.Type, w.N, w.K, T, lo, hi, j)
			}
			continue
		}
		if j%ldy == lo {
			xt = acts(w, x[j/ldy*ldx:])
		}
		want, mag := ref.dot(j%ldy, xt)
		if d := math.Abs(float64(v) - want); !(d <= tolerance*mag) {
			t.Fatalf("%v N=%d K=%d T=%d [%d,%d): y[%d,%d] = %v, want %v; off by %.3g of %.3g", w.Type, w.N, w.K, T, lo, hi,
				j/ldy, j%ldy, v, want, d, tolerance*mag)
		}
	}
	return y
}

// atLevels runs a test once per instruction set that is available.
func atLevels(t *testing.T, f func(t *testing.T)) {
	for _, off := range []string{"", "avx512", "avx2", "neon-i8mm", "neon-dot", "neon"} {
		if off != "" {
			old := Level()
			restore := Disable(off)
			defer restore()
			if Level() == old {
				continue
			}
		}
		t.Run(Level(), f)
	}
}

func TestMul(t *testing.T) {
	atLevels(t, testMul)
}

// TestMulPanels uses panels for any number of tokens.
func TestMulPanels(t *testing.T) {
	forced = wayPanels
	defer func() { forced = wayBest }()
	testMul(t)
}

func testMul(t *testing.T) {
	{
		for _, typ := range weightTypes() {
			t.Run(typ.String(), func(t *testing.T) {
				e := typ.BlockElems()
				seed := uint64(1)
				for _, blocks := range []int{1, 2, 3, 4, 5, 7, 9, 16} {
					k := blocks * e
					if e == 1 {
						k = []int{1, 2, 7, 15, 16, 33, 100, 519}[seed%8]
					}
					for _, n := range []int{1, 5, 32, 37, 70} {
						if blocks > 3 && n > 5 || testing.Short() && n > 5 {
							continue
						}
						seed++
						w := randomMat(t, typ, n, k, seed)
						ref := reference(w)
						for _, T := range []int{1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 24, 31} {
							if T > 6 && (n+T)%3 != 0 {
								continue
							}
							x, ldx := randomActs(t, typ, T, k, seed)
							checkMul(t, w, ref, x, ldx, T, 0, n)
						}
					}
				}
			})
		}
	}
}

// TestSplit checks that results do not depend on how rows are split.
func TestSplit(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		for _, typ := range weightTypes() {
			n, k := 150, 5*256
			w := randomMat(t, typ, n, k, 5)
			for _, T := range []int{1, 3, 8, 17} {
				x, ldx := randomActs(t, typ, T, k, 6)
				scratch := make([]byte, ScratchBytes(w, T))
				whole, parts := make([]float32, T*n), make([]float32, T*n)
				Mul(whole, n, w, x, ldx, T, 0, n, scratch)
				cuts := []int{0, 1, 17, 48, 100, 101, 149, n}
				for i := 1; i < len(cuts); i++ {
					Mul(parts, n, w, x, ldx, T, cuts[i-1], cuts[i], scratch)
				}
				for i := range whole {
					if math.Float32bits(whole[i]) != math.Float32bits(parts[i]) {
						t.Fatalf("%v T=%d: y[%d,%d] = %v whole, %v in parts", typ, T, i/n, i%n, whole[i], parts[i])
					}
				}
				for _, r := range []int{0, 77, n - 1} {
					if got := DotRow(w, r, x); T == 1 && got != whole[r] {
						t.Fatalf("%v: DotRow(%d) = %v, Mul %v", typ, r, got, whole[r])
					}
				}
			}
		}
	})
}

// TestUniform checks that with Uniform, and at the levels without panels, a
// token's results do not depend on the tokens beside it.
func TestUniform(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		for _, typ := range weightTypes() {
			const n, k, T = 50, 768, 27
			w := randomMat(t, typ, n, k, 5)
			w.Uniform = true
			x, ldx := randomActs(t, typ, T, k, 6)
			scratch := make([]byte, ScratchBytes(w, T))
			all, some := make([]float32, T*n), make([]float32, T*n)
			Mul(all, n, w, x, ldx, T, 0, n, scratch)
			for from := 0; from < T; {
				size := min(1+from%9, T-from)
				Mul(some[from*n:], n, w, x[from*ldx:], ldx, size, 0, n, scratch)
				from += size
			}
			for i := range all {
				if math.Float32bits(all[i]) != math.Float32bits(some[i]) {
					t.Fatalf("%v: y[%d,%d] = %v with all tokens, %v with a few", typ, i/n, i%n, all[i], some[i])
				}
			}
		}
	})
}

func TestMulAllocates(t *testing.T) { atLevels(t, testAllocates) }

func testAllocates(t *testing.T) {
	for _, typ := range weightTypes() {
		w := randomMat(t, typ, 64, 512, 1)
		for _, T := range []int{1, 4, 16} {
			x, ldx := randomActs(t, typ, T, 512, 6)
			scratch := make([]byte, ScratchBytes(w, T))
			y := make([]float32, T*64)
			if n := testing.AllocsPerRun(10, func() { Mul(y, 64, w, x, ldx, T, 0, 64, scratch) }); n != 0 {
				t.Errorf("%v T=%d: %v allocations", typ, T, n)
			}
		}
	}
}

func ExampleMul() {
	w := &Mat{Type: graph.F32, N: 2, K: 3, Data: make([]byte, 24)}
	x := make([]byte, 12)
	for i := range 6 {
		putF32(w.Data, 4*i, float32(i))
	}
	for i := range 3 {
		putF32(x, 4*i, 1)
	}
	y := make([]float32, 2)
	Mul(y, 2, w, x, len(x), 1, 0, 2, make([]byte, ScratchBytes(w, 1)))
	fmt.Println(y)
	// Output: [3 12]
}
