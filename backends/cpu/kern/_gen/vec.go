package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets in vecArgs, normArgs, ropeArgs and keyArgs.
const (
	vaX, vaZ, vaY, vaN, vaC, vaD                            = 0, 8, 16, 24, 32, 36
	raX, raY, raCos, raSin, raPairs, raHeads, raStride, raM = 0, 8, 16, 24, 32, 40, 48, 56
	kaX, kaDst, kaN, kaM                                    = 0, 8, 16, 24
)

// genVec generates kernels over vectors. Each treats 16 numbers at a time and
// the rest under a mask; none reads or writes behind the end.
func genVec() {
	for _, k := range vecKernels {
		vecMap(k)
	}
	sumSquares()
	vecMax()
	vecFind()
	ropeHalf()
	ropeAdjacent()
	storeF16()
	storeKeyF16()
}

// f32bits is splat for a float.
func splatF(name string, v float64) reg.VecVirtual { return splat(name, math.Float32bits(float32(v))) }

// begin starts a function with one pointer to a struct and returns a reader of
// its fields.
func begin(name, args string, doc ...string) (a reg.GPVirtual, get func(off int) reg.GPVirtual) {
	c.Function(name)
	c.Attributes(noSplit)
	c.Pragma("noescape")
	c.Doc(append([]string{name + " " + doc[0]}, doc[1:]...)...)
	signature(args)
	a = c.Load(c.Param("a"), c.GP64()).(reg.GPVirtual)
	return a, func(off int) reg.GPVirtual { r := c.GP64(); c.MOVQ(at(a, off), r); return r }
}

func end() {
	c.VZEROUPPER()
	c.RET()
}

// tailMask returns a mask of the n lowest lanes, 0 < n < 16.
func tailMask(n reg.GPVirtual) reg.Register {
	ones, k := c.GP32(), c.K()
	c.MOVL(operand.U32(0xffff), ones)
	c.BZHIL(n.As32(), ones, ones)
	c.KMOVW(ones, k)
	return k
}

// exponential computes exp for vectors.
type exponential struct {
	log2e, ln2hi, ln2lo, one reg.VecVirtual
	c                        [6]reg.VecVirtual
}

// newExponential loads the constants: ln 2 in two parts and the polynomial of
// Cephes' expf, which is good to 1 ulp within ±ln 2/2.
func newExponential() *exponential {
	e := &exponential{
		log2e: splatF("log2e", math.Log2E), one: splatF("one", 1),
		ln2hi: splatF("ln2hi", 0.693359375), ln2lo: splatF("ln2lo", -2.12194440e-4),
	}
	for i, v := range []float64{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1} {
		e.c[i] = splatF(fmt.Sprintf("exp%d", i), v)
	}
	return e
}

// of replaces x by exp(x). -Inf must be masked out by the caller; above 88.7
// the result is +Inf, but +Inf itself gives NaN. NaN stays NaN. zeroing is a
// mask of the lanes to compute, nil for all: the others become 0.
func (e *exponential) of(x reg.VecVirtual, zeroing reg.Register) {
	n, p := c.ZMM(), c.ZMM()
	e.reduce(x, n)
	e.poly(x, p)
	c.VFMADD213PS(e.one, x, p)
	c.VFMADD213PS(e.one, x, p)
	if zeroing == nil {
		c.VSCALEFPS(n, p, x)
	} else {
		c.VSCALEFPS_Z(n, p, zeroing, x)
	}
}

// reduce gives x = n·ln 2 + r, r in place of x.
func (e *exponential) reduce(x, n reg.VecVirtual) {
	c.VMULPS(e.log2e, x, n)
	c.VRNDSCALEPS(operand.U8(8), n, n)
	c.VFNMADD231PS(e.ln2hi, n, x)
	c.VFNMADD231PS(e.ln2lo, n, x)
}

// poly gives p with exp(r) = 1 + r + r²·p.
func (e *exponential) poly(r, p reg.VecVirtual) {
	c.VMOVAPS(e.c[0], p)
	for _, k := range e.c[1:] {
		c.VFMADD213PS(k, r, p)
	}
}

// tanh replaces x by tanh x: with y = 2|x| and exp(y)-1 = 2^n·q + (2^n-1),
// q = exp(r)-1, no digits are lost near 0.
func (e *exponential) tanh(x reg.VecVirtual, t *tanhConsts) {
	s, n, p, w := c.ZMM(), c.ZMM(), c.ZMM(), c.ZMM()
	c.VPANDD(t.sign, x, s)
	c.VPANDND(x, t.sign, x)
	c.VADDPS(x, x, x)
	c.VMINPS(x, t.top, x) // the second operand of MINPS passes NaN on
	e.reduce(x, n)
	e.poly(x, p)
	c.VFMADD213PS(e.one, x, p)
	c.VMULPS(x, p, p) // q
	c.VSCALEFPS(n, e.one, n)
	c.VSUBPS(e.one, n, w)
	c.VFMADD231PS(p, n, w) // exp(y)-1
	c.VADDPS(t.two, w, p)
	c.VDIVPS(p, w, x)
	c.VPORD(s, x, x)
}

type tanhConsts struct{ sign, two, top reg.VecVirtual }

func newTanh() *tanhConsts {
	return &tanhConsts{splat("sign", 1<<31), splatF("two", 2), splatF("tanhtop", 40)}
}

// vecKernel is a kernel y = f(x, z), element by element.
type vecKernel struct {
	name, doc string
	two       bool // reads z
	// setup loads constants and returns the body, which replaces x.
	setup func(a reg.GPVirtual) func(x, z reg.VecVirtual)
}

var vecKernels = []vecKernel{
	{"vecAddAVX512", "y = x + z", true, func(reg.GPVirtual) func(x, z reg.VecVirtual) {
		return func(x, z reg.VecVirtual) { c.VADDPS(z, x, x) }
	}},
	{"vecMulAVX512", "y = x·z", true, func(reg.GPVirtual) func(x, z reg.VecVirtual) {
		return func(x, z reg.VecVirtual) { c.VMULPS(z, x, x) }
	}},
	{"vecAddScalarAVX512", "y = x + c", false, func(a reg.GPVirtual) func(x, z reg.VecVirtual) {
		k := arg(a, vaC)
		return func(x, _ reg.VecVirtual) { c.VADDPS(k, x, x) }
	}},
	{"vecScaleAVX512", "y = x·c", false, func(a reg.GPVirtual) func(x, z reg.VecVirtual) {
		k := arg(a, vaC)
		return func(x, _ reg.VecVirtual) { c.VMULPS(k, x, x) }
	}},
	{"vecScaleMulAVX512", "y = x·c·z, the first product first", true, func(a reg.GPVirtual) func(x, z reg.VecVirtual) {
		k := arg(a, vaC)
		return func(x, z reg.VecVirtual) { c.VMULPS(k, x, x); c.VMULPS(z, x, x) }
	}},
	{"vecSoftcapAVX512", "y = c·tanh(x·d)", false, func(a reg.GPVirtual) func(x, z reg.VecVirtual) {
		k, d, e, t := arg(a, vaC), arg(a, vaD), newExponential(), newTanh()
		return func(x, _ reg.VecVirtual) {
			c.VMULPS(d, x, x)
			e.tanh(x, t)
			c.VMULPS(k, x, x)
		}
	}},
	{"vecExpAVX512", "y = exp(x - c), 0 below -87.3", false, func(a reg.GPVirtual) func(x, z reg.VecVirtual) {
		k, e := arg(a, vaC), newExponential()
		least, ok := splatF("expleast", expLeast), c.K()
		return func(x, _ reg.VecVirtual) {
			c.VSUBPS(k, x, x)
			c.VCMPPS(operand.U8(notLess), least, x, ok)
			e.of(x, ok)
		}
	}},
	{"vecSiLUAVX512", "y = x / (1 + exp(-x))", false, func(reg.GPVirtual) func(x, z reg.VecVirtual) {
		l := newLogistic(-1)
		return func(x, _ reg.VecVirtual) { l.gate(x, nil) }
	}},
	{"vecSiLUGateAVX512", "y = x / (1 + exp(-x)) · z", true, func(reg.GPVirtual) func(x, z reg.VecVirtual) {
		l := newLogistic(-1)
		return func(x, z reg.VecVirtual) { l.gate(x, nil); c.VMULPS(z, x, x) }
	}},
	{"vecGELUAVX512", "y = x / (1 + exp(-2·sqrt(2/π)·(x + 0.044715·x³)))", false, func(reg.GPVirtual) func(x, z reg.VecVirtual) {
		l := newGELU()
		return func(x, _ reg.VecVirtual) { l.gelu(x) }
	}},
	{"vecGELUGateAVX512", "y = x / (1 + exp(-2·sqrt(2/π)·(x + 0.044715·x³))) · z", true, func(reg.GPVirtual) func(x, z reg.VecVirtual) {
		l := newGELU()
		return func(x, z reg.VecVirtual) { l.gelu(x); c.VMULPS(z, x, x) }
	}},
	{"vecSwigluOAIAVX512", "y = g / (1 + exp(-1.702·g)) · (u + 1),  g = min(x, 7),  u = min(max(z, -7), 7)", true, func(reg.GPVirtual) func(x, z reg.VecVirtual) {
		l := newLogistic(-1.702)
		hi, lo := splatF("seven", 7), splatF("minusseven", -7)
		return func(x, z reg.VecVirtual) {
			// The second operand of MINPS and MAXPS passes NaN on.
			c.VMINPS(x, hi, x)
			c.VMAXPS(z, lo, z)
			c.VMINPS(z, hi, z)
			l.gate(x, nil)
			c.VADDPS(l.e.one, z, z)
			c.VMULPS(z, x, x)
		}
	}},
}

// expLeast is the least x whose exp is a normal number; notLess the predicate
// that is true for NaN.
const (
	expLeast = -87.33
	notLess  = 5
)

// arg returns a float argument in every lane.
func arg(a reg.GPVirtual, off int) reg.VecVirtual {
	z := c.ZMM()
	c.VBROADCASTSS(at(a, off), z)
	return z
}

// logistic computes x / (1 + exp(slope·x)).
type logistic struct {
	e          *exponential
	slope, top reg.VecVirtual
	least      reg.VecVirtual
	ok         reg.Register
	cube, root reg.VecVirtual
}

func newLogistic(slope float64) *logistic {
	// Beyond top exp is +Inf, as it must be; +Inf itself would give NaN.
	return &logistic{e: newExponential(), slope: splatF("slope"+fmt.Sprint(int(-slope*1000)), slope), top: splatF("exptop", 100),
		least: splatF("expleast", expLeast), ok: c.K()}
}

func newGELU() *logistic {
	l := newLogistic(-2 * math.Sqrt2 / math.SqrtPi)
	l.cube = splatF("cube", 0.044715)
	return l
}

// gate replaces x by x / (1 + exp(slope·u)), u = x unless given.
func (l *logistic) gate(x, u reg.VecVirtual) {
	t := c.ZMM()
	if u == nil {
		u = x
	}
	c.VMULPS(l.slope, u, t)
	c.VMINPS(t, l.top, t)
	c.VCMPPS(operand.U8(notLess), l.least, t, l.ok)
	l.e.of(t, l.ok)
	c.VADDPS(l.e.one, t, t)
	c.VDIVPS(t, x, x)
}

// gelu: x³ may overflow, to an infinity of the right sign.
func (l *logistic) gelu(x reg.VecVirtual) {
	u, v := c.ZMM(), c.ZMM()
	c.VMULPS(x, x, u)
	c.VMULPS(l.cube, x, v)
	c.VFMADD213PS(x, v, u) // u = v·u + x
	l.gate(x, u)
}

func vecMap(k vecKernel) {
	a, get := begin(k.name, "vecArgs", "computes "+k.doc+" for n > 0 numbers.", "", "\tfor i := range n { y[i] = f(x[i], z[i]) }")
	xp, yp, n := get(vaX), get(vaY), get(vaN)
	var zp reg.GPVirtual
	if k.two {
		zp = get(vaZ)
	}
	f := k.setup(a)
	x, z := c.ZMM(), c.ZMM()
	c.SUBQ(operand.U8(16), n)
	c.JL(operand.LabelRef("tail"))
	c.Label("step")
	c.VMOVUPS(at(xp, 0), x)
	if k.two {
		c.VMOVUPS(at(zp, 0), z)
		c.ADDQ(operand.U8(64), zp)
	}
	f(x, z)
	c.VMOVUPS(x, at(yp, 0))
	c.ADDQ(operand.U8(64), xp)
	c.ADDQ(operand.U8(64), yp)
	c.SUBQ(operand.U8(16), n)
	c.JGE(operand.LabelRef("step"))
	c.Label("tail")
	c.ADDQ(operand.U8(16), n)
	c.JZ(operand.LabelRef("done"))
	m := tailMask(n)
	c.VMOVUPS_Z(at(xp, 0), m, x)
	if k.two {
		c.VMOVUPS_Z(at(zp, 0), m, z)
	}
	f(x, z)
	c.VMOVUPS(x, m, at(yp, 0))
	c.Label("done")
	end()
}

// sumSquares adds in float64.
func sumSquares() {
	a, get := begin("vecSumSquaresAVX512", "vecArgs", "computes the sum of squares of n > 0 numbers in float64 and stores it at y.", "",
		"\tfor i := range n { lane[i mod 32] += x[i]² }, then the sum of the lanes")
	_ = a
	xp, yp, n := get(vaX), get(vaY), get(vaN)
	var acc [4]reg.VecVirtual
	for i := range acc {
		acc[i] = c.ZMM()
		zero(acc[i])
	}
	lo, hi, h := c.ZMM(), c.ZMM(), c.ZMM()
	c.SUBQ(operand.U8(32), n)
	c.JL(operand.LabelRef("tail"))
	c.Label("step")
	for i := range 2 {
		c.VCVTPS2PD(at(xp, 64*i), lo)
		c.VCVTPS2PD(at(xp, 64*i+32), hi)
		c.VFMADD231PD(lo, lo, acc[2*i])
		c.VFMADD231PD(hi, hi, acc[2*i+1])
	}
	c.ADDQ(operand.I32(128), xp)
	c.SUBQ(operand.U8(32), n)
	c.JGE(operand.LabelRef("step"))
	c.Label("tail")
	c.ADDQ(operand.U8(32), n)
	c.JZ(operand.LabelRef("sum"))
	c.CMPQ(n, operand.U8(16))
	c.JL(operand.LabelRef("rest"))
	c.VCVTPS2PD(at(xp, 0), lo)
	c.VCVTPS2PD(at(xp, 32), hi)
	c.VFMADD231PD(lo, lo, acc[0])
	c.VFMADD231PD(hi, hi, acc[1])
	c.ADDQ(operand.U8(64), xp)
	c.SUBQ(operand.U8(16), n)
	c.JZ(operand.LabelRef("sum"))
	c.Label("rest")
	m := tailMask(n)
	c.VMOVUPS_Z(at(xp, 0), m, h)
	c.VCVTPS2PD(h.AsY(), lo)
	c.VEXTRACTF64X4(operand.U8(1), h, h.AsY())
	c.VCVTPS2PD(h.AsY(), hi)
	c.VFMADD231PD(lo, lo, acc[2])
	c.VFMADD231PD(hi, hi, acc[3])
	c.Label("sum")
	c.VADDPD(acc[1], acc[0], acc[0])
	c.VADDPD(acc[3], acc[2], acc[2])
	c.VADDPD(acc[2], acc[0], acc[0])
	s, t := acc[0], acc[1]
	c.VEXTRACTF64X4(operand.U8(1), s, t.AsY())
	c.VADDPD(t.AsY(), s.AsY(), s.AsY())
	c.VEXTRACTF64X2(operand.U8(1), s.AsY(), t.AsX())
	c.VADDPD(t.AsX(), s.AsX(), s.AsX())
	c.VPERMILPD(operand.U8(1), s.AsX(), t.AsX())
	c.VADDSD(t.AsX(), s.AsX(), s.AsX())
	c.VMOVSD(s.AsX(), at(yp, 0))
	end()
}

// foldMax leaves the largest lane of z in all lanes.
func foldMax(z, t reg.VecVirtual) {
	c.VEXTRACTF64X4(operand.U8(1), z, t.AsY())
	c.VMAXPS(t.AsY(), z.AsY(), z.AsY())
	c.VEXTRACTF32X4(operand.U8(1), z.AsY(), t.AsX())
	c.VMAXPS(t.AsX(), z.AsX(), z.AsX())
	c.VPERMILPS(operand.U8(0x4e), z.AsX(), t.AsX())
	c.VMAXPS(t.AsX(), z.AsX(), z.AsX())
	c.VPERMILPS(operand.U8(0xb1), z.AsX(), t.AsX())
	c.VMAXPS(t.AsX(), z.AsX(), z.AsX())
	c.VBROADCASTSS(z.AsX(), z)
}

// vecMax finds the largest number. NaN is skipped: MAXPS returns its second
// operand when one is NaN, and that is the largest so far.
func vecMax() {
	_, get := begin("vecMaxAVX512", "vecArgs", "stores the largest of n > 0 numbers at y, -Inf if all are NaN.", "",
		"\tm := -Inf; for i := range n { if x[i] > m { m = x[i] } }")
	xp, yp, n := get(vaX), get(vaY), get(vaN)
	var acc [4]reg.VecVirtual
	for i := range acc {
		acc[i] = splatF("minusinf", math.Inf(-1))
	}
	x := c.ZMM()
	c.SUBQ(operand.U8(64), n)
	c.JL(operand.LabelRef("few"))
	c.Label("step")
	for i := range acc {
		c.VMOVUPS(at(xp, 64*i), x)
		c.VMAXPS(acc[i], x, acc[i])
	}
	c.ADDQ(operand.I32(256), xp)
	c.SUBQ(operand.U8(64), n)
	c.JGE(operand.LabelRef("step"))
	c.Label("few")
	c.ADDQ(operand.U8(64), n)
	c.Label("one")
	c.SUBQ(operand.U8(16), n)
	c.JL(operand.LabelRef("tail"))
	c.VMOVUPS(at(xp, 0), x)
	c.VMAXPS(acc[0], x, acc[0])
	c.ADDQ(operand.U8(64), xp)
	c.JMP(operand.LabelRef("one"))
	c.Label("tail")
	c.ADDQ(operand.U8(16), n)
	c.JZ(operand.LabelRef("fold"))
	m := tailMask(n)
	c.VMOVAPS(acc[1], x)
	c.VMOVUPS(at(xp, 0), m, x)
	c.VMAXPS(acc[1], x, acc[1])
	c.Label("fold")
	c.VMAXPS(acc[1], acc[0], acc[0])
	c.VMAXPS(acc[3], acc[2], acc[2])
	c.VMAXPS(acc[2], acc[0], acc[0])
	foldMax(acc[0], x)
	c.VMOVSS(acc[0].AsX(), at(yp, 0))
	end()
}

// vecFind finds the first of n numbers that equals c.
func vecFind() {
	a, get := begin("vecFindAVX512", "vecArgs", "stores as int64 at y the first i < n with x[i] = c, n if there is none.")
	xp, yp, n := get(vaX), get(vaY), get(vaN)
	k := arg(a, vaC)
	i, bits := c.GP64(), c.GP32()
	hit := c.K()
	c.XORQ(i, i)
	c.Label("step")
	left := c.GP64()
	c.MOVQ(n, left)
	c.SUBQ(i, left)
	c.JZ(operand.LabelRef("done"))
	c.CMPQ(left, operand.U8(16))
	c.JL(operand.LabelRef("tail"))
	c.VCMPPS(operand.U8(0), operand.Mem{Base: xp, Index: i, Scale: 4}, k, hit)
	c.KMOVW(hit, bits)
	c.TESTL(bits, bits)
	c.JNZ(operand.LabelRef("found"))
	c.ADDQ(operand.U8(16), i)
	c.JMP(operand.LabelRef("step"))
	c.Label("tail")
	m := tailMask(left)
	c.VCMPPS(operand.U8(0), operand.Mem{Base: xp, Index: i, Scale: 4}, k, m, hit)
	c.KMOVW(hit, bits)
	c.TESTL(bits, bits)
	c.JNZ(operand.LabelRef("found"))
	c.MOVQ(n, i)
	c.JMP(operand.LabelRef("done"))
	c.Label("found")
	c.TZCNTL(bits, bits)
	c.ADDQ(bits.As64(), i)
	c.Label("done")
	c.MOVQ(i, at(yp, 0))
	end()
}

// ropeHalf turns pairs (i, i+pairs) of each head.
func ropeHalf() {
	a, get := begin("ropeHalfAVX512", "ropeArgs", "turns the pairs i, i+pairs of each head; y may be x.", "",
		"\tfor each head { for i := range pairs {",
		"\t\ty[i], y[i+pairs] = x[i]·cos[i] - x[i+pairs]·sin[i], x[i]·sin[i] + x[i+pairs]·cos[i] } }")
	heads := get(raHeads)
	xp, yp := get(raX), get(raY)
	cos, sin := get(raCos), get(raSin)
	c.Label("head")
	n, i, j := c.GP64(), c.GP64(), c.GP64()
	c.MOVQ(at(a, raPairs), n)
	c.XORQ(i, i)
	c.MOVQ(n, j)
	m := c.K()
	c.KXNORW(m, m, m)
	c.Label("step")
	c.CMPQ(n, operand.U8(16))
	c.JGE(operand.LabelRef("whole"))
	ones := c.GP32()
	c.MOVL(operand.U32(0xffff), ones)
	c.BZHIL(n.As32(), ones, ones)
	c.KMOVW(ones, m)
	c.Label("whole")
	mem := func(p, i reg.GPVirtual) operand.Mem { return operand.Mem{Base: p, Index: i, Scale: 4} }
	x, z, k, s, u, v := c.ZMM(), c.ZMM(), c.ZMM(), c.ZMM(), c.ZMM(), c.ZMM()
	c.VMOVUPS_Z(mem(xp, i), m, x)
	c.VMOVUPS_Z(mem(xp, j), m, z)
	c.VMOVUPS_Z(mem(cos, i), m, k)
	c.VMOVUPS_Z(mem(sin, i), m, s)
	c.VMULPS(z, s, u)
	c.VMULPS(z, k, v)
	c.VFMSUB231PS(x, k, u) // x·k - z·s
	c.VFMADD231PS(x, s, v)
	c.VMOVUPS(u, m, mem(yp, i))
	c.VMOVUPS(v, m, mem(yp, j))
	c.ADDQ(operand.U8(16), i)
	c.ADDQ(operand.U8(16), j)
	c.SUBQ(operand.U8(16), n)
	c.JG(operand.LabelRef("step"))
	c.ADDQ(at(a, raStride), xp)
	c.ADDQ(at(a, raStride), yp)
	c.DECQ(heads)
	c.JNZ(operand.LabelRef("head"))
	end()
}

// ropeAdjacent turns pairs (2i, 2i+1) of each head.
func ropeAdjacent() {
	a, get := begin("ropeAdjacentAVX512", "ropeArgs", "turns the pairs 2i, 2i+1 of each head; cos and sin hold each number twice; y may be x.", "",
		"\tfor each head { for i := range pairs {",
		"\t\ty[2i], y[2i+1] = x[2i]·cos[2i] - x[2i+1]·sin[2i], x[2i]·sin[2i] + x[2i+1]·cos[2i] } }")
	heads := get(raHeads)
	xp, yp := get(raX), get(raY)
	cos, sin := get(raCos), get(raSin)
	c.Label("head")
	n, i := c.GP64(), c.GP64()
	c.MOVQ(at(a, raPairs), n)
	c.ADDQ(n, n)
	c.XORQ(i, i)
	m := c.K()
	c.KXNORW(m, m, m)
	c.Label("step")
	c.CMPQ(n, operand.U8(16))
	c.JGE(operand.LabelRef("whole"))
	ones := c.GP32()
	c.MOVL(operand.U32(0xffff), ones)
	c.BZHIL(n.As32(), ones, ones)
	c.KMOVW(ones, m)
	c.Label("whole")
	mem := func(p reg.GPVirtual) operand.Mem { return operand.Mem{Base: p, Index: i, Scale: 4} }
	x, k, s, u := c.ZMM(), c.ZMM(), c.ZMM(), c.ZMM()
	c.VMOVUPS_Z(mem(xp), m, x)
	c.VMOVUPS_Z(mem(cos), m, k)
	c.VMOVUPS_Z(mem(sin), m, s)
	c.VPERMILPS(operand.U8(0xb1), x, u)
	c.VMULPS(s, u, u)
	c.VFMADDSUB231PS(x, k, u) // even lanes x·k - u, odd lanes x·k + u
	c.VMOVUPS(u, m, mem(yp))
	c.ADDQ(operand.U8(16), i)
	c.SUBQ(operand.U8(16), n)
	c.JG(operand.LabelRef("step"))
	c.ADDQ(at(a, raStride), xp)
	c.ADDQ(at(a, raStride), yp)
	c.DECQ(heads)
	c.JNZ(operand.LabelRef("head"))
	end()
}

// halfFloats converts 16 numbers to f16: ties to even, finite numbers beyond
// the largest become the largest.
type halfFloats struct {
	abs, inf, hi, lo reg.VecVirtual
	finite           reg.Register
}

func newHalfFloats() *halfFloats {
	return &halfFloats{splat("abs", 0x7fffffff), splatF("inf", math.Inf(1)), splatF("f16max", 65504), splatF("f16min", -65504), c.K()}
}

func (h *halfFloats) convert(x, t reg.VecVirtual) {
	c.VPANDD(h.abs, x, t)
	c.VPCMPUD(operand.U8(1), h.inf, t, h.finite)
	c.VMINPS(h.hi, x, h.finite, x)
	c.VMAXPS(h.lo, x, h.finite, x)
	c.VCVTPS2PH(operand.U8(0), x, x.AsY())
}

func storeF16() {
	_, get := begin("storeF16AVX512", "keyArgs", "writes n > 0 numbers as f16; finite ones beyond the largest become the largest.", "",
		"\tfor i := range n { dst[i] = f16(x[i]) }")
	xp, dst, n := get(kaX), get(kaDst), get(kaN)
	h, x, t := newHalfFloats(), c.ZMM(), c.ZMM()
	c.SUBQ(operand.U8(16), n)
	c.JL(operand.LabelRef("tail"))
	c.Label("step")
	c.VMOVUPS(at(xp, 0), x)
	h.convert(x, t)
	c.VMOVDQU32(x.AsY(), at(dst, 0))
	c.ADDQ(operand.U8(64), xp)
	c.ADDQ(operand.U8(32), dst)
	c.SUBQ(operand.U8(16), n)
	c.JGE(operand.LabelRef("step"))
	c.Label("tail")
	c.ADDQ(operand.U8(16), n)
	c.JZ(operand.LabelRef("done"))
	m := tailMask(n)
	c.VMOVUPS_Z(at(xp, 0), m, x)
	h.convert(x, t)
	c.VMOVDQU16(x.AsY(), m, at(dst, 0))
	c.Label("done")
	end()
}

// storeKeyF16 writes one lane of a block of keys.
func storeKeyF16() {
	_, get := begin("storeKeyF16AVX512", "keyArgs", "writes n numbers, a multiple of 16, as f16 with 32 bytes from one to the next.", "",
		"\tfor i := range n { dst[16·i] = f16(x[i]) }")
	xp, dst, n := get(kaX), get(kaDst), get(kaN)
	h, x, t := newHalfFloats(), c.ZMM(), c.ZMM()
	half := c.XMM()
	c.Label("step")
	c.VMOVUPS(at(xp, 0), x)
	h.convert(x, t)
	c.VEXTRACTI32X4(operand.U8(1), x.AsY(), half)
	for i := range 8 {
		c.VPEXTRW(operand.U8(i), x.AsX(), at(dst, 32*i))
		c.VPEXTRW(operand.U8(i), half, at(dst, 32*(8+i)))
	}
	c.ADDQ(operand.U8(64), xp)
	c.ADDQ(operand.I32(512), dst)
	c.SUBQ(operand.U8(16), n)
	c.JG(operand.LabelRef("step"))
	end()
}
