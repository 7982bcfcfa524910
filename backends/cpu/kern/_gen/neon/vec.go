package main

import (
	"fmt"
	"math"
)

// Offsets in vecArgs, ropeArgs and keyArgs.
const (
	vaX, vaZ, vaY, vaN, vaC, vaD                               = 0, 8, 16, 24, 32, 36
	raX, raY, raCos, raSin, raPairs, raHeads, raStride, raHalf = 0, 8, 16, 24, 32, 40, 48, 56
	kaX, kaDst, kaN                                            = 0, 8, 16
)

// genVec generates kernels over vectors of whole registers; the callers pad
// what is left.
func genVec(g *group) {
	for _, k := range vecKernels {
		vecMap(g, k)
	}
	sumSquares(g)
	vecMax(g)
	vecLargest(g)
	vecFind(g)
	ropeHalf(g)
	ropeAdjacent(g)
	storeF16(g)
	storeKeyF16(g)
}

func (f *function) loadFloat(v int, x float64) { f.loadWord(v, math.Float32bits(float32(x))) }

// Registers of constants of exp, and those it leaves for others.
const log2e, ln2hi, ln2lo, one, least, poly, bias, free = 16, 17, 18, 19, 20, 21, 27, 28

// loadExp loads ln 2 in two parts and the polynomial of Cephes' expf, which is
// good to 1 ulp within ±ln 2/2.
func (f *function) loadExp() {
	f.loadFloat(log2e, math.Log2E)
	f.loadFloat(ln2hi, 0.693359375)
	f.loadFloat(ln2lo, -2.12194440e-4)
	f.loadFloat(one, 1)
	f.loadFloat(least, -87.33) // the least x whose exp is a normal number
	for i, k := range []float64{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1} {
		f.loadFloat(poly+i, k)
	}
	f.loadWord(bias, 127<<23)
}

// reduce gives x = n·ln 2 + r, r in place of x and n in v2, and p in v3 with
// exp(r) = 1 + r + r²·p. v4 is overwritten.
func (f *function) reduce(x int) {
	f.o("fmul v2.4s, v%d.4s, v%d.4s", x, log2e)
	f.o("frintn v2.4s, v2.4s")
	f.o("fmls v%d.4s, v2.4s, v%d.4s", x, ln2hi)
	f.o("fmls v%d.4s, v2.4s, v%d.4s", x, ln2lo)
	p, t := poly, 3
	for i := 1; i < 6; i++ {
		f.o("mov v%d.16b, v%d.16b", t, poly+i)
		f.o("fmla v%d.4s, v%d.4s, v%d.4s", t, p, x)
		p, t = t, 7-t
	}
	// p is v3
	f.times(3, x, one)
}

// times replaces p by p·x + c; v4 is overwritten.
func (f *function) times(p, x, c int) {
	f.o("mov v4.16b, v%d.16b", c)
	f.o("fmla v4.4s, v%d.4s, v%d.4s", p, x)
	f.o("mov v%d.16b, v4.16b", p)
}

// exp replaces x by exp(x): 0 below -87.33, where it is no normal number, +Inf
// above 88.7, but NaN for +Inf itself. NaN stays NaN. v2 to v5 are overwritten.
func (f *function) exp(x int) {
	f.o("fcmgt v5.4s, v%d.4s, v%d.4s", least, x)
	f.reduce(x)
	f.times(3, x, one)
	// Times 2^n in two steps, so that the powers are normal numbers.
	f.o("fcvtns v2.4s, v2.4s")
	f.o("sshr v4.4s, v2.4s, #1")
	f.o("sub v2.4s, v2.4s, v4.4s")
	for _, k := range []int{4, 2} {
		f.o("shl v%d.4s, v%d.4s, #23", k, k)
		f.o("add v%d.4s, v%d.4s, v%d.4s", k, k, bias)
		f.o("fmul v3.4s, v3.4s, v%d.4s", k)
	}
	f.o("bic v%d.16b, v3.16b, v5.16b", x)
}

// Registers of tanh's constants; exp's least is not needed there.
const tanhSign, tanhTwo, tanhTop = 30, 31, 20

func (f *function) loadTanh() {
	f.loadExp()
	f.loadWord(tanhSign, 1<<31)
	f.loadFloat(tanhTwo, 2)
	f.loadFloat(tanhTop, 40)
}

// tanh replaces x by tanh x: with y = 2|x| and exp(y)-1 = 2^n·q + (2^n-1),
// q = exp(r)-1, no digits are lost near 0. v2 to v6 are overwritten.
func (f *function) tanh(x int) {
	f.o("and v6.16b, v%d.16b, v%d.16b", x, tanhSign)
	f.o("fabs v%d.4s, v%d.4s", x, x)
	f.o("fadd v%d.4s, v%d.4s, v%d.4s", x, x, x)
	f.o("fmin v%d.4s, v%d.4s, v%d.4s", x, x, tanhTop)
	f.reduce(x)
	f.o("fmul v3.4s, v3.4s, v%d.4s", x)
	f.o("fcvtns v2.4s, v2.4s") // below 60
	f.o("shl v2.4s, v2.4s, #23")
	f.o("add v2.4s, v2.4s, v%d.4s", bias)
	f.o("fsub v4.4s, v2.4s, v%d.4s", one)
	f.o("fmla v4.4s, v3.4s, v2.4s")
	f.o("fadd v3.4s, v4.4s, v%d.4s", tanhTwo)
	f.o("fdiv v%d.4s, v4.4s, v3.4s", x)
	f.o("orr v%d.16b, v%d.16b, v6.16b", x, x)
}

// Registers of the constants of gates.
const slope, top, cube = 28, 29, 30

func (f *function) loadGate(k float64) {
	f.loadExp()
	f.loadFloat(slope, k)
	// Beyond top exp is +Inf, as it must be; +Inf itself would give NaN.
	f.loadFloat(top, 100)
}

const geluSlope = -2 * math.Sqrt2 / math.SqrtPi

func (f *function) loadGELU() {
	f.loadGate(geluSlope)
	f.loadFloat(cube, 0.044715)
}

// gate replaces x by x / (1 + exp(slope·u)). v2 to v6 are overwritten.
func (f *function) gate(x, u int) {
	f.o("fmul v6.4s, v%d.4s, v%d.4s", u, slope)
	f.o("fmin v6.4s, v6.4s, v%d.4s", top)
	f.exp(6)
	f.o("fadd v6.4s, v6.4s, v%d.4s", one)
	f.o("fdiv v%d.4s, v%d.4s, v6.4s", x, x)
}

// gelu: x³ may overflow, to an infinity of the right sign.
func (f *function) gelu(x int) {
	f.o("fmul v3.4s, v%d.4s, v%d.4s", x, x)
	f.o("fmul v4.4s, v%d.4s, v%d.4s", x, cube)
	f.o("mov v7.16b, v%d.16b", x)
	f.o("fmla v7.4s, v4.4s, v3.4s")
	f.gate(x, 7)
}

// arg loads a float argument into all lanes.
func (f *function) arg(v, off int) {
	f.o("add x16, x0, #%d", off)
	f.o("ld1r {v%d.4s}, [x16]", v)
}

// vecKernel is a kernel y = f(x, z), element by element: x in v0, which the
// body replaces, z in v1.
type vecKernel struct {
	name, doc string
	two       bool
	setup     func(f *function)
	body      func(f *function)
}

func op(text string) func(f *function) { return func(f *function) { f.o("%s", text) } }

var vecKernels = []vecKernel{
	{"vecAdd", "y = x + z", true, nil, op("fadd v0.4s, v0.4s, v1.4s")},
	{"vecMul", "y = x·z", true, nil, op("fmul v0.4s, v0.4s, v1.4s")},
	{"vecAddScalar", "y = x + c", false, func(f *function) { f.arg(free, vaC) }, op("fadd v0.4s, v0.4s, v28.4s")},
	{"vecScale", "y = x·c", false, func(f *function) { f.arg(free, vaC) }, op("fmul v0.4s, v0.4s, v28.4s")},
	{"vecScaleMul", "y = x·c·z, the first product first", true, func(f *function) { f.arg(free, vaC) }, func(f *function) {
		f.o("fmul v0.4s, v0.4s, v28.4s")
		f.o("fmul v0.4s, v0.4s, v1.4s")
	}},
	{"vecSoftcap", "y = c·tanh(x·d)", false, func(f *function) {
		f.loadTanh()
		f.arg(28, vaC)
		f.arg(29, vaD)
	}, func(f *function) {
		f.o("fmul v0.4s, v0.4s, v29.4s")
		f.tanh(0)
		f.o("fmul v0.4s, v0.4s, v28.4s")
	}},
	{"vecExp", "y = exp(x - c), 0 below -87.3", false, func(f *function) {
		f.loadExp()
		f.arg(free, vaC)
	}, func(f *function) {
		f.o("fsub v0.4s, v0.4s, v28.4s")
		f.exp(0)
	}},
	{"vecSiLU", "y = x / (1 + exp(-x))", false, func(f *function) { f.loadGate(-1) }, func(f *function) { f.gate(0, 0) }},
	{"vecSiLUGate", "y = x / (1 + exp(-x)) · z", true, func(f *function) { f.loadGate(-1) }, func(f *function) {
		f.gate(0, 0)
		f.o("fmul v0.4s, v0.4s, v1.4s")
	}},
	{"vecGELU", "y = x / (1 + exp(-2·sqrt(2/π)·(x + 0.044715·x³)))", false, (*function).loadGELU, func(f *function) { f.gelu(0) }},
	{"vecGELUGate", "y = x / (1 + exp(-2·sqrt(2/π)·(x + 0.044715·x³))) · z", true, (*function).loadGELU, func(f *function) {
		f.gelu(0)
		f.o("fmul v0.4s, v0.4s, v1.4s")
	}},
	{"vecSwigluOAI", "y = g / (1 + exp(-1.702·g)) · (u + 1),  g = min(x, 7),  u = min(max(z, -7), 7)", true, func(f *function) {
		f.loadGate(-1.702)
		f.loadFloat(30, 7)
		f.loadFloat(31, -7)
	}, func(f *function) {
		f.o("fmin v0.4s, v0.4s, v30.4s")
		f.o("fmax v1.4s, v1.4s, v31.4s")
		f.o("fmin v1.4s, v1.4s, v30.4s")
		f.gate(0, 0)
		f.o("fadd v1.4s, v1.4s, v%d.4s", one)
		f.o("fmul v0.4s, v0.4s, v1.4s")
	}},
}

func vecMap(g *group, k vecKernel) {
	f := g.function(k.name+"NEON", "vecArgs", "computes "+k.doc+" for n > 0 numbers, a multiple of 4.", "", "\tfor i := range n { y[i] = f(x[i], z[i]) }")
	f.get(2, vaX)
	f.get(3, vaY)
	f.get(8, vaN)
	if k.two {
		f.get(4, vaZ)
	}
	if k.setup != nil {
		k.setup(f)
	}
	f.label("L_step")
	f.o("ldr q0, [x2], #16")
	if k.two {
		f.o("ldr q1, [x4], #16")
	}
	k.body(f)
	f.o("str q0, [x3], #16")
	f.o("subs x8, x8, #4")
	f.o("b.ne L_step")
}

// sumSquares adds in float64.
func sumSquares(g *group) {
	f := g.function("vecSumSquaresNEON", "vecArgs", "computes the sum of squares of n > 0 numbers, a multiple of 8, in float64 and stores it at y.", "",
		"\tfor i := range n { lane[i mod 8] += x[i]² }, then the sum of the lanes")
	f.get(2, vaX)
	f.get(3, vaY)
	f.get(8, vaN)
	for i := range 4 {
		f.o("movi v%d.16b, #0", i)
	}
	f.label("L_step")
	f.o("ldp q4, q6, [x2], #32")
	f.o("fcvtl2 v5.2d, v4.4s")
	f.o("fcvtl v4.2d, v4.2s")
	f.o("fcvtl2 v7.2d, v6.4s")
	f.o("fcvtl v6.2d, v6.2s")
	for i := range 4 {
		f.o("fmla v%d.2d, v%d.2d, v%d.2d", i, 4+i, 4+i)
	}
	f.o("subs x8, x8, #8")
	f.o("b.ne L_step")
	f.o("fadd v0.2d, v0.2d, v1.2d")
	f.o("fadd v2.2d, v2.2d, v3.2d")
	f.o("fadd v0.2d, v0.2d, v2.2d")
	f.o("faddp d0, v0.2d")
	f.o("str d0, [x3]")
}

// reduction goes over n numbers, 16 at a time, then 4 at a time: add joins the
// numbers in v(4+i) with v(i).
func reduction(f *function, add func(i int)) {
	f.get(2, vaX)
	f.get(3, vaY)
	f.get(8, vaN)
	f.label("L_many")
	f.o("cmp x8, #16")
	f.o("b.lo L_few")
	f.o("ldp q4, q5, [x2], #32")
	f.o("ldp q6, q7, [x2], #32")
	for i := range 4 {
		add(i)
	}
	f.o("sub x8, x8, #16")
	f.o("b L_many")
	f.label("L_few")
	f.o("cbz x8, L_fold")
	f.o("ldr q4, [x2], #16")
	add(0)
	f.o("sub x8, x8, #4")
	f.o("b L_few")
	f.label("L_fold")
}

// vecMax finds the largest number. A comparison with NaN is false, so NaN is
// skipped.
func vecMax(g *group) {
	f := g.function("vecMaxNEON", "vecArgs", "stores the largest of n > 0 numbers, a multiple of 4, at y, -Inf if all are NaN.", "",
		"\tm := -Inf; for i := range n { if x[i] > m { m = x[i] } }")
	for i := range 4 {
		f.loadFloat(i, math.Inf(-1))
	}
	join := func(i, x int) {
		f.o("fcmgt v16.4s, v%d.4s, v%d.4s", x, i)
		f.o("bit v%d.16b, v%d.16b, v16.16b", i, x)
	}
	reduction(f, func(i int) { join(i, 4+i) })
	join(0, 1)
	join(2, 3)
	join(0, 2)
	f.o("fmaxv s0, v0.4s")
	f.o("str s0, [x3]")
}

// vecLargest finds the largest magnitude. As integers, magnitudes order like
// the floats, then infinity, and NaN last.
func vecLargest(g *group) {
	f := g.function("vecLargestNEON", "vecArgs", "stores the bits of the largest magnitude of n > 0 numbers, a multiple of 4, at y, NaN being above infinity.", "",
		"\tm := 0; for i := range n { m = max(m, bits(x[i]) &^ (1<<31)) }")
	for i := range 4 {
		f.o("movi v%d.16b, #0", i)
	}
	reduction(f, func(i int) {
		f.o("fabs v%d.4s, v%d.4s", 4+i, 4+i)
		f.o("umax v%d.4s, v%d.4s, v%d.4s", i, i, 4+i)
	})
	f.o("umax v0.4s, v0.4s, v1.4s")
	f.o("umax v2.4s, v2.4s, v3.4s")
	f.o("umax v0.4s, v0.4s, v2.4s")
	f.o("umaxv s0, v0.4s")
	f.o("str s0, [x3]")
}

// vecFind finds the sixteen that hold a number.
func vecFind(g *group) {
	f := g.function("vecFindNEON", "vecArgs", "stores as int64 at y the first multiple i of 16 with c among x[i:i+16], n if there is none; n > 0 is a multiple of 16.")
	f.get(2, vaX)
	f.get(3, vaY)
	f.get(8, vaN)
	f.arg(16, vaC)
	f.o("mov x9, #0")
	f.label("L_step")
	f.o("ldp q0, q1, [x2], #32")
	f.o("ldp q2, q3, [x2], #32")
	for i := range 4 {
		f.o("fcmeq v%d.4s, v%d.4s, v16.4s", i, i)
	}
	f.o("orr v0.16b, v0.16b, v1.16b")
	f.o("orr v2.16b, v2.16b, v3.16b")
	f.o("orr v0.16b, v0.16b, v2.16b")
	f.o("umaxv s0, v0.4s")
	f.o("fmov w10, s0")
	f.o("cbnz w10, L_found")
	f.o("add x9, x9, #16")
	f.o("cmp x9, x8")
	f.o("b.lo L_step")
	f.label("L_found")
	f.o("str x9, [x3]")
}

// ropeHalf turns pairs (i, i+half) of each head.
func ropeHalf(g *group) {
	f := g.function("ropeHalfNEON", "ropeArgs", "turns the pairs i, i+half/4 of each head, their number a multiple of 4; y may be x.", "",
		"\tfor each head { for i := range pairs {",
		"\t\ty[i], y[i+half/4] = x[i]·cos[i] - x[i+half/4]·sin[i], x[i]·sin[i] + x[i+half/4]·cos[i] } }")
	f.get(9, raX)
	f.get(10, raY)
	f.get(15, raHeads)
	f.get(14, raStride)
	f.get(13, raHalf)
	f.label("L_head")
	f.o("mov x2, x9")
	f.o("add x3, x9, x13")
	f.o("mov x4, x10")
	f.o("add x5, x10, x13")
	f.get(6, raCos)
	f.get(7, raSin)
	f.get(8, raPairs)
	f.label("L_step")
	f.o("ldr q0, [x2], #16")
	f.o("ldr q1, [x3], #16")
	f.o("ldr q2, [x6], #16")
	f.o("ldr q3, [x7], #16")
	f.o("fmul v4.4s, v1.4s, v3.4s")
	f.o("fneg v4.4s, v4.4s")
	f.o("fmla v4.4s, v0.4s, v2.4s") // x·k - z·s
	f.o("fmul v5.4s, v1.4s, v2.4s")
	f.o("fmla v5.4s, v0.4s, v3.4s")
	f.o("str q4, [x4], #16")
	f.o("str q5, [x5], #16")
	f.o("subs x8, x8, #4")
	f.o("b.ne L_step")
	f.o("add x9, x9, x14")
	f.o("add x10, x10, x14")
	f.o("subs x15, x15, #1")
	f.o("b.ne L_head")
}

// ropeAdjacent turns pairs (2i, 2i+1) of each head.
func ropeAdjacent(g *group) {
	f := g.function("ropeAdjacentNEON", "ropeArgs", "turns the pairs 2i, 2i+1 of each head, their number even; cos and sin hold each number twice; y may be x.", "",
		"\tfor each head { for i := range pairs {",
		"\t\ty[2i], y[2i+1] = x[2i]·cos[2i] - x[2i+1]·sin[2i], x[2i]·sin[2i] + x[2i+1]·cos[2i] } }")
	f.get(9, raX)
	f.get(10, raY)
	f.get(15, raHeads)
	f.get(14, raStride)
	f.loadConst(16, wordsOf(func(i int) int { return (1 - i%2) << 31 })...)
	f.label("L_head")
	f.o("mov x2, x9")
	f.o("mov x4, x10")
	f.get(6, raCos)
	f.get(7, raSin)
	f.get(8, raPairs)
	f.label("L_step")
	f.o("ldr q0, [x2], #16")
	f.o("ldr q2, [x6], #16")
	f.o("ldr q3, [x7], #16")
	f.o("rev64 v1.4s, v0.4s")
	f.o("fmul v1.4s, v1.4s, v3.4s")
	f.o("eor v1.16b, v1.16b, v16.16b")
	f.o("fmla v1.4s, v0.4s, v2.4s")
	f.o("str q1, [x4], #16")
	f.o("subs x8, x8, #2")
	f.o("b.ne L_step")
	f.o("add x9, x9, x14")
	f.o("add x10, x10, x14")
	f.o("subs x15, x15, #1")
	f.o("b.ne L_head")
}

// toHalf converts v0 to four f16: ties to even, finite numbers beyond the
// largest become the largest.
func toHalf(f *function) {
	f.o("fmax v1.4s, v0.4s, v29.4s")
	f.o("fmin v1.4s, v1.4s, v28.4s")
	f.o("fabs v2.4s, v0.4s")
	f.o("fcmeq v2.4s, v2.4s, v30.4s")
	f.o("bit v1.16b, v0.16b, v2.16b")
	f.o("fcvtn v0.4h, v1.4s")
}

func loadHalf(f *function) {
	f.loadFloat(28, 65504)
	f.loadFloat(29, -65504)
	f.loadFloat(30, math.Inf(1))
	f.get(2, kaX)
	f.get(3, kaDst)
	f.get(8, kaN)
}

func storeF16(g *group) {
	f := g.function("storeF16NEON", "keyArgs", "writes n > 0 numbers, a multiple of 4, as f16; finite ones beyond the largest become the largest.", "",
		"\tfor i := range n { dst[i] = f16(x[i]) }")
	loadHalf(f)
	f.label("L_step")
	f.o("ldr q0, [x2], #16")
	toHalf(f)
	f.o("str d0, [x3], #8")
	f.o("subs x8, x8, #4")
	f.o("b.ne L_step")
}

// storeKeyF16 writes one lane of a block of keys.
func storeKeyF16(g *group) {
	f := g.function("storeKeyF16NEON", "keyArgs", "writes n numbers, a multiple of 4, as f16 with 32 bytes from one to the next.", "",
		"\tfor i := range n { dst[16·i] = f16(x[i]) }")
	loadHalf(f)
	f.o("mov x9, #32")
	f.label("L_step")
	f.o("ldr q0, [x2], #16")
	toHalf(f)
	for i := range 4 {
		f.o("%s", fmt.Sprintf("st1 {v0.h}[%d], [x3], x9", i))
	}
	f.o("subs x8, x8, #4")
	f.o("b.ne L_step")
}
