package kern

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"

	"github.com/x448/float16"
)

// guardedFloats returns n floats that end where unreadable memory begins.
func guardedFloats(t testing.TB, n int) []float32 {
	if n == 0 {
		return nil
	}
	b := guarded(t, 4*n+64)[64:]
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), n)
}

// atVectors runs f for every instruction set with kernels over vectors. All
// levels of NEON share theirs.
func atVectors(t *testing.T, f func(t *testing.T)) {
	neon := false
	atLevels(t, func(t *testing.T) {
		switch {
		case !VectorsSupported():
			t.Skip("no kernel for this processor")
		case neon:
			t.Skip("the same kernels as at the level above")
		}
		neon = features.neon
		f(t)
	})
}

// vecSizes are around the vector width, odd, and long.
var vecSizes = []int{1, 2, 7, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 100, 127, 129, 1000}

// edgeNumbers go through every function: field report NU-14 and the ends of f32.
var edgeNumbers = []float32{0, float32(math.Copysign(0, -1)), 1e-45, -1e-45, 1e-38, 1e-30, -1e-30, 1e-6, -1e-6, 0.5, -0.5, 1, -1, 5, -5, 6.99, 7, 7.01, -7, -7.01,
	-10.06, 10, 20, -20, 40, -40, 87, 88, 89, -87, -88, -89, -104, 104, 1e4, -1e4, 1e13, -1e13, 1e30, -1e30, math.MaxFloat32, -math.MaxFloat32,
	float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}

func numbers(t testing.TB, r *rand.Rand, n int, edges bool) []float32 {
	x := guardedFloats(t, n)
	for i := range x {
		x[i] = float32(3 * r.NormFloat64())
		if edges {
			x[i] = edgeNumbers[(i+n)%len(edgeNumbers)]
		}
	}
	return x
}

func tanhForm(x float64) float64 {
	return x / (1 + math.Exp(-2*math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

func clamp(x, lo, hi float64) float64 {
	if x < lo {
		return lo
	}
	if x > hi {
		return hi
	}
	return x
}

// TestVectors compares with float64: exact operations to one rounding (tol 0
// stands for it), smooth ones to 2e-6 of the larger of 1 and the result.
func TestVectors(t *testing.T) { atVectors(t, testVectors) }

func testVectors(t *testing.T) {
	silu := func(x float64) float64 { return x / (1 + math.Exp(-x)) }
	for _, f := range []struct {
		name string
		run  func(y, x, z []float32)
		want func(x, z float64) float64
		tol  float64
	}{
		{"add", Add, func(x, z float64) float64 { return x + z }, 0},
		{"mul", Mul2, func(x, z float64) float64 { return x * z }, 0},
		{"addscalar", func(y, x, _ []float32) { AddScalar(y, x, 1.25) }, func(x, _ float64) float64 { return x + 1.25 }, 0},
		{"scale", func(y, x, _ []float32) { Scale(y, x, 25.298221) }, func(x, _ float64) float64 { return x * float64(float32(25.298221)) }, 0},
		{"softcap", func(y, x, _ []float32) { Softcap(y, x, 30) }, func(x, _ float64) float64 { return 30 * math.Tanh(x/30) }, 1e-30},
		{"softcap-1", func(y, x, _ []float32) { Softcap(y, x, 1) }, func(x, _ float64) float64 { return math.Tanh(x) }, 1e-30},
		{"silu", func(y, x, _ []float32) { SiLU(y, x) }, func(x, _ float64) float64 { return silu(x) }, 2e-6},
		{"gelu", func(y, x, _ []float32) { GELU(y, x) }, func(x, _ float64) float64 { return tanhForm(x) }, 2e-6},
		{"silu-gate", GateOf("silu"), func(x, z float64) float64 { return float64(float32(silu(x))) * z }, 2e-6},
		{"gelu-gate", GateOf("gelu"), func(x, z float64) float64 { return float64(float32(tanhForm(x))) * z }, 2e-6},
		{"swiglu", GateOf("swiglu_oai"), func(x, z float64) float64 {
			g, u := x, z
			if g > 7 {
				g = 7
			}
			u = clamp(u, -7, 7)
			return float64(float32(g/(1+math.Exp(-1.702*g)))) * (u + 1)
		}, 2e-6},
	} {
		t.Run(f.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(4, 5))
			for _, n := range vecSizes {
				for _, edges := range []bool{false, true} {
					x, z := numbers(t, r, n, edges), numbers(t, r, n, false)
					canvas := guardedFloats(t, n+8)
					for i := range canvas {
						canvas[i] = -77
					}
					y := canvas[3 : 3+n]
					f.run(y, x, z)
					for i := range n {
						want, got := f.want(float64(x[i]), float64(z[i])), float64(y[i])
						if float64(float32(want)) == got || got != got && want != want {
							continue
						}
						if math.IsInf(float64(float32(want)), 0) && math.Abs(got) > 3e38 { // rounding at the end of f32
							continue
						}
						tol := f.tol * max(1, math.Abs(want))
						switch f.tol {
						case 0:
							tol = math.Abs(want)*0x1p-23 + 1e-45
						case 1e-30:
							tol = math.Abs(want)*4e-7 + 1e-42
						default:
							if f.name != "silu" && f.name != "gelu" {
								tol *= max(1, math.Abs(float64(z[i])))
							}
						}
						if d := math.Abs(got - want); !(d <= tol) {
							t.Fatalf("%d of %d: x = %v, z = %v: got %v, want %v, off by %.3g", i, n, x[i], z[i], got, want, d)
						}
					}
					for i, v := range canvas {
						if (i < 3 || i >= 3+n) && v != -77 {
							t.Fatalf("n = %d: wrote outside at %d", n, i-3)
						}
					}
					// In place, and cut elsewhere: the same bits.
					again := append([]float32(nil), x...)
					cut := r.IntN(n + 1)
					if cut > 0 {
						f.run(again[:cut], again[:cut], z[:cut])
					}
					if cut < n {
						f.run(again[cut:], again[cut:], z[cut:])
					}
					for i := range n {
						if math.Float32bits(again[i]) != math.Float32bits(y[i]) {
							t.Fatalf("n = %d cut at %d: number %d is %v, in one piece %v", n, cut, i, again[i], y[i])
						}
					}
				}
			}
		})
	}
}

// TestSmoothErrors looks for the worst relative error over the useful range.
func TestSmoothErrors(t *testing.T) { atVectors(t, testSmoothErrors) }

func testSmoothErrors(t *testing.T) {
	const n = 200001
	x, y := make([]float32, n), make([]float32, n)
	for _, f := range []struct {
		name  string
		run   func(y, x []float32)
		want  func(x float64) float64
		lo    float64
		hi    float64
		bound float64
	}{
		{"exp", func(y, x []float32) { var a vecArgs; a.one(y, x, 0); vecExp(&a) }, math.Exp, -87, 88, 2e-7},
		{"tanh", func(y, x []float32) { Softcap(y, x, 1) }, math.Tanh, -12, 12, 3e-7},
		{"silu", SiLU, func(x float64) float64 { return x / (1 + math.Exp(-x)) }, -20, 20, 4e-7},
		// The argument of exp is rounded, which grows with it.
		{"gelu", GELU, tanhForm, -4, 10, 3e-6},
	} {
		for i := range x {
			x[i] = float32(f.lo + (f.hi-f.lo)*float64(i)/(n-1))
		}
		f.run(y, x)
		worst, at := 0.0, float32(0)
		for i := range x {
			w := f.want(float64(x[i]))
			if e := math.Abs(float64(y[i])-w) / max(math.Abs(w), 1e-37); e > worst {
				worst, at = e, x[i]
			}
		}
		t.Logf("%s: relative error at most %.3g, at %v", f.name, worst, at)
		if worst > f.bound {
			t.Errorf("%s: relative error %.3g at %v, want at most %.3g", f.name, worst, at, f.bound)
		}
	}
}

func TestRMSNorm(t *testing.T) { atVectors(t, testRMSNorm) }

func testRMSNorm(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 7))
	for _, n := range vecSizes {
		for _, size := range []float32{1, 1e-20, 1e30, 0} {
			x, w, y := numbers(t, r, n, false), numbers(t, r, n, false), guardedFloats(t, n)
			sum := 0.0
			for i := range x {
				x[i] *= size
				sum += float64(x[i]) * float64(x[i])
			}
			f := 1 / math.Sqrt(sum/float64(n)+1e-6)
			for _, weighted := range []bool{true, false} {
				ws := w
				if !weighted {
					ws = nil
				}
				RMSNorm(y, x, ws, 1e-6)
				for i := range y {
					want := float64(x[i]) * f
					if weighted {
						want *= float64(w[i])
					}
					if d := math.Abs(float64(y[i]) - want); d > 4e-7*math.Abs(want)+1e-44 {
						t.Fatalf("n = %d, size %v, number %d: got %v, want %v", n, size, i, y[i], want)
					}
				}
			}
			x[n/2] = float32(math.NaN())
			RMSNorm(y, x, nil, 1e-6)
			for i := range y {
				if y[i] == y[i] {
					t.Fatalf("n = %d: number %d of a row with a NaN is %v", n, i, y[i])
				}
			}
		}
	}
}

func TestSoftmax(t *testing.T) { atVectors(t, testSoftmax) }

func testSoftmax(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	for _, n := range vecSizes {
		x, y := numbers(t, r, n, false), guardedFloats(t, n)
		x[r.IntN(n)] = 1e4
		x[0] = float32(math.Inf(-1))
		x[n-1] = 9999
		top, sum := math.Inf(-1), 0.0
		for _, v := range x {
			top = max(top, float64(v))
		}
		for _, v := range x {
			sum += math.Exp(float64(v) - top)
		}
		Softmax(y, x)
		for i, v := range x {
			if want := math.Exp(float64(v)-top) / sum; math.Abs(float64(y[i])-want) > 1e-6*want+1e-37 {
				t.Fatalf("n = %d, number %d: got %v, want %v", n, i, y[i], want)
			}
		}
		x[n/3] = float32(math.NaN())
		Softmax(y, x)
		for i := range y {
			if y[i] == y[i] {
				t.Fatalf("n = %d: number %d of a row with a NaN is %v", n, i, y[i])
			}
		}
	}
}

func TestArgMax(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(8, 10))
		nan, inf := float32(math.NaN()), float32(math.Inf(1))
		for _, n := range append(vecSizes, 0, 5000) {
			for round := range 20 {
				x := guardedFloats(t, n)
				for i := range x {
					x[i] = float32(r.IntN(30)) - 40
					switch {
					case round%4 == 1 && r.IntN(3) == 0, round == 2:
						x[i] = nan
					case round%4 == 3:
						x[i] = -inf
					case round%5 == 4 && r.IntN(10) == 0:
						x[i] = inf
					}
				}
				want, best := -1, float32(0)
				found := false
				for i, v := range x {
					if v == v && (!found || v > best) {
						want, best, found = i, v, true
					}
				}
				if got := ArgMax(x); got != want {
					t.Fatalf("n = %d, round %d: got %d, want %d of %v", n, round, got, want, x)
				}
			}
		}
	})
}

func TestFinite(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(8, 13))
		for _, n := range append(vecSizes, 0) {
			x := numbers(t, r, n, false)
			if n > 0 {
				x[r.IntN(n)] = -math.MaxFloat32
			}
			if !Finite(x) {
				t.Fatalf("n = %d: finite numbers are not", n)
			}
			for i := range x {
				old := x[i]
				for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
					if x[i] = float32(bad); Finite(x) {
						t.Fatalf("n = %d: %v at %d is not found", n, bad, i)
					}
				}
				x[i] = old
			}
		}
	})
}

func TestRope(t *testing.T) { atVectors(t, testRope) }

func testRope(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 11))
	for _, k := range []int{2, 6, 32, 64, 80, 96, 128, 256} {
		for _, pairs := range []int{1, k / 4, k / 2} {
			for _, heads := range []int{1, 3, 8} {
				if pairs == 0 {
					continue
				}
				x := numbers(t, r, heads*k, false)
				cos, sin := guardedFloats(t, pairs), guardedFloats(t, pairs)
				cos2, sin2 := guardedFloats(t, 2*pairs), guardedFloats(t, 2*pairs)
				for i := range cos {
					a := r.Float64() * 7
					cos[i], sin[i] = float32(math.Cos(a)), float32(math.Sin(a))
					cos2[2*i], cos2[2*i+1], sin2[2*i], sin2[2*i+1] = cos[i], cos[i], sin[i], sin[i]
				}
				for _, half := range []bool{true, false} {
					y, z := guardedFloats(t, heads*k), append([]float32(nil), x...)
					if half {
						RopeHalf(y, x, cos, sin, k)
						RopeHalf(z, z, cos, sin, k)
					} else {
						RopeAdjacent(y, x, cos2, sin2, k)
						RopeAdjacent(z, z, cos2, sin2, k)
					}
					for o := 0; o < len(x); o += k {
						want := make([]float64, k)
						for i := range pairs {
							a, b := 2*i, 2*i+1
							if half {
								a, b = i, i+pairs
							}
							u, v, c, s := float64(x[o+a]), float64(x[o+b]), float64(cos[i]), float64(sin[i])
							want[a], want[b] = u*c-v*s, u*s+v*c
						}
						for i, w := range want {
							if i >= 2*pairs {
								if y[o+i] != 0 || z[o+i] != x[o+i] {
									t.Fatalf("half %v, k %d, pairs %d: number %d is written", half, k, pairs, i)
								}
								continue
							}
							if math.Abs(float64(y[o+i])-w) > 1e-5 || math.Float32bits(y[o+i]) != math.Float32bits(z[o+i]) {
								t.Fatalf("half %v, k %d, pairs %d: number %d is %v (in place %v), want %v", half, k, pairs, i, y[o+i], z[o+i], w)
							}
						}
					}
				}
			}
		}
	}
}

// f16Of is the rule of caches: ties to even, finite numbers stay finite.
func f16Of(x float32) uint16 {
	h := float16.Fromfloat32(x).Bits()
	if h&0x7fff == 0x7c00 && !math.IsInf(float64(x), 0) {
		h--
	}
	return h
}

func TestStoreF16(t *testing.T) { atVectors(t, testStoreF16) }

func testStoreF16(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 12))
	hard := []float32{65504, 65519, 65520, 65536, -65520, 6e-8, 2.9e-8, 3e-8, 6.1e-5, 1 + 0x1p-11, 1 + 3*0x1p-11, 1e9, -1e9}
	for _, n := range vecSizes {
		x := numbers(t, r, n, true)
		for i := range x {
			if i%3 == 0 {
				x[i] = hard[r.IntN(len(hard))]
			}
		}
		same := func(i int, got uint16) {
			t.Helper()
			if want := f16Of(x[i]); got != want && !(got&0x7fff > 0x7c00 && want&0x7fff > 0x7c00) {
				t.Fatalf("n = %d, number %d: f16 of %v is %#x, want %#x", n, i, x[i], got, want)
			}
		}
		y := guarded(t, 2*n)
		StoreF16(y, x)
		for i := range x {
			same(i, binary.LittleEndian.Uint16(y[2*i:]))
		}
		if n%16 != 0 {
			continue
		}
		for lane := range 16 {
			block := guarded(t, 32*n)
			for i := range block {
				block[i] = 0xa5
			}
			StoreKeyF16(block[2*lane:], x)
			for i := 0; i < len(block); i += 2 {
				h := binary.LittleEndian.Uint16(block[i:])
				if i/2%16 == lane {
					same(i/32, h)
				} else if h != 0xa5a5 {
					t.Fatalf("n = %d, lane %d: wrote lane %d", n, lane, i/2%16)
				}
			}
		}
	}
}

func TestVectorsAllocateNothing(t *testing.T) { atVectors(t, testVectorsAllocateNothing) }

func testVectorsAllocateNothing(t *testing.T) {
	x, gate, mem := make([]float32, 64), GateOf("silu"), make([]byte, 2048)
	if n := testing.AllocsPerRun(10, func() {
		Add(x, x, x)
		Softcap(x, x, 3)
		gate(x, x, x)
		RMSNorm(x, x, x, 1e-6)
		Softmax(x, x)
		ArgMax(x)
		RopeHalf(x, x, x[:16], x[:16], 32)
		StoreKeyF16(mem, x)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkVector(b *testing.B) {
	if !VectorsSupported() {
		b.Skip("no kernel for this processor")
	}
	for _, n := range []int{2048, 8192} {
		x, z, y := make([]float32, n), make([]float32, n), make([]float32, n)
		for i := range x {
			x[i], z[i] = float32(i%77)/10-3, float32(i%55)/10-3
		}
		silu, gelu, oai := GateOf("silu"), GateOf("gelu"), GateOf("swiglu_oai")
		half := make([]byte, 32*n)
		for _, f := range []struct {
			name string
			run  func()
		}{
			{"add", func() { Add(y, x, z) }},
			{"rmsnorm", func() { RMSNorm(y, x, z, 1e-6) }},
			{"silu-gate", func() { silu(y, x, z) }},
			{"gelu-gate", func() { gelu(y, x, z) }},
			{"swiglu-oai", func() { oai(y, x, z) }},
			{"softcap", func() { Softcap(y, x, 30) }},
			{"softmax", func() { Softmax(y, x) }},
			{"argmax", func() { ArgMax(x) }},
			{"rope-half-64", func() { RopeHalf(y, x, z[:32], z[32:64], 64) }},
			{"rope-adjacent-64", func() { RopeAdjacent(y, x, z[:64], z[64:128], 64) }},
			{"f16", func() { StoreF16(half, x) }},
			{"f16-key", func() { StoreKeyF16(half, x) }},
		} {
			b.Run(fmt.Sprintf("%s/%d/%s", f.name, n, Level()), func(b *testing.B) {
				b.SetBytes(int64(4 * n * 100))
				// Batches, as the clock of processor time is coarse.
				const batch = 100
				var took []float64
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				for b.Loop() {
					start := cpuTime()
					for range batch {
						f.run()
					}
					took = append(took, (cpuTime()-start).Seconds()/batch)
				}
				reportCPU(b, took, 1, float64(4*n), 0)
			})
		}
	}
}
