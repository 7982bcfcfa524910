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

// genVec generates kernels over vectors. Each treats a vector register of
// numbers at a time and the rest under a mask; none reads or writes behind the
// end.
func genVec() {
	for _, v := range []isa{wide, narrow} {
		for _, k := range vecKernels(v) {
			v.vecMap(k)
		}
		v.sumSquares()
		v.vecMax()
		v.vecLargest()
		v.ropeHalf()
		v.ropeAdjacent()
	}
	vecFind()
	storeF16()
	storeKeyF16()
}

// isa is the instruction set a body is generated for. wide has registers of 16
// numbers and masks; narrow is AVX2 with FMA: 8 numbers, registers 0 to 15, so
// constants stay in memory.
type isa struct {
	name  string
	lanes int
}

var wide, narrow = isa{"AVX512", 16}, isa{"AVX2", 8}

func (v isa) wide() bool { return v == wide }

// bytes is the size of a register.
func (v isa) bytes() int { return 4 * v.lanes }

// reg returns a vector register.
func (v isa) reg() reg.VecVirtual {
	if v.wide() {
		return c.ZMM()
	}
	return c.YMM()
}

// num returns a constant in every lane: a register, or memory where registers
// are few. It may stand as first operand only.
func (v isa) num(name string, f float64) operand.Op {
	return v.bits(name, math.Float32bits(float32(f)))
}

func (v isa) bits(name string, b uint32) operand.Op {
	if v.wide() {
		return splat(name, b)
	}
	return table(name+"x8", dwordsOf(8, func(int) uint32 { return b }))
}

// inReg returns a register that holds a constant.
func (v isa) inReg(x operand.Op) reg.VecVirtual {
	if r, ok := x.(reg.VecVirtual); ok {
		return r
	}
	r := v.reg()
	c.VMOVUPS(x, r)
	return r
}

// min and max compute dst = min(limit, x) and max(limit, x); a NaN in x stays.
func (v isa) min(limit operand.Op, x, dst reg.VecVirtual) { c.VMINPS(x, v.inReg(limit), dst) }
func (v isa) max(limit operand.Op, x, dst reg.VecVirtual) { c.VMAXPS(x, v.inReg(limit), dst) }

// arg returns a float argument in every lane.
func (v isa) arg(a reg.GPVirtual, off int) reg.VecVirtual {
	z := v.reg()
	c.VBROADCASTSS(at(a, off), z)
	return z
}

func (v isa) zero(x reg.VecVirtual) {
	if v.wide() {
		zero(x)
	} else {
		c.VXORPS(x, x, x)
	}
}

// splatF is splat for a float.
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

// tail returns the mask of the n lowest lanes: a mask register or a vector.
func (v isa) tail(n reg.GPVirtual) reg.Register {
	if v.wide() {
		return tailMask(n)
	}
	// The window of 8 words that begins 8-n words into 8 of ones and 8 of zeros.
	m, p := c.YMM(), c.GP64()
	c.LEAQ(table("tails", dwordsOf(16, func(i int) uint32 { return uint32(int32(i/8) - 1) })), p)
	c.ADDQ(operand.U8(32), p)
	c.SHLQ(operand.U8(2), n)
	c.SUBQ(n, p)
	c.SHRQ(operand.U8(2), n)
	c.VMOVUPS(at(p, 0), m)
	return m
}

// loadTail and storeTail move the lanes of a mask; others are 0 or not touched.
func (v isa) loadTail(m operand.Mem, mask reg.Register, x reg.VecVirtual) {
	if v.wide() {
		c.VMOVUPS_Z(m, mask, x)
	} else {
		c.VMASKMOVPS(m, mask, x)
	}
}

func (v isa) storeTail(x reg.VecVirtual, mask reg.Register, m operand.Mem) {
	if v.wide() {
		c.VMOVUPS(x, mask, m)
	} else {
		c.VMASKMOVPS(x, mask, m)
	}
}

// exponential computes exp for vectors.
type exponential struct {
	isa
	log2e, ln2hi, ln2lo, one, bias operand.Op
	least                          operand.Op
	c                              [6]operand.Op
	ok                             reg.Register // mask or vector of the lanes not flushed to 0
}

// newExponential loads the constants: ln 2 in two parts and the polynomial of
// Cephes' expf, which is good to 1 ulp within ±ln 2/2.
func newExponential(v isa) *exponential {
	e := &exponential{isa: v,
		log2e: v.num("log2e", math.Log2E), one: v.num("one", 1),
		ln2hi: v.num("ln2hi", 0.693359375), ln2lo: v.num("ln2lo", -2.12194440e-4), least: v.num("expleast", expLeast),
	}
	for i, k := range []float64{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1} {
		e.c[i] = v.num(fmt.Sprintf("exp%d", i), k)
	}
	if v.wide() {
		e.ok = c.K()
	} else {
		e.ok = c.YMM()
		e.bias = v.bits("expbias", 127<<23)
	}
	return e
}

// of replaces x by exp(x): 0 below -87.33, where it is no normal number, +Inf
// above 88.7, but NaN for +Inf itself. NaN stays NaN.
func (e *exponential) of(x reg.VecVirtual) {
	c.VCMPPS(operand.U8(notLess), e.least, x, e.ok)
	e.masked(x)
}

// masked is of with the lanes to compute in e.ok.
func (e *exponential) masked(x reg.VecVirtual) {
	n, p := e.reg(), e.reg()
	e.reduce(x, n)
	e.poly(x, p)
	c.VFMADD213PS(e.one, x, p)
	c.VFMADD213PS(e.one, x, p)
	if e.wide() {
		c.VSCALEFPS_Z(n, p, e.ok, x)
		return
	}
	e.times2(n, p, x)
	c.VMOVAPS(p, x)
	c.VANDPS(e.ok, x, x)
}

// times2 multiplies p by 2^n in two steps, so that the powers themselves are
// normal numbers. t is overwritten.
func (e *exponential) times2(n, p, t reg.VecVirtual) {
	c.VCVTPS2DQ(n, n)
	c.VPSRAD(operand.U8(1), n, t)
	c.VPSUBD(t, n, n)
	for _, k := range []reg.VecVirtual{t, n} {
		c.VPSLLD(operand.U8(23), k, k)
		c.VPADDD(e.bias, k, k)
		c.VMULPS(k, p, p)
	}
}

// reduce gives x = n·ln 2 + r, r in place of x.
func (e *exponential) reduce(x, n reg.VecVirtual) {
	c.VMULPS(e.log2e, x, n)
	if e.wide() {
		c.VRNDSCALEPS(operand.U8(8), n, n)
	} else {
		c.VROUNDPS(operand.U8(8), n, n)
	}
	c.VFNMADD231PS(e.ln2hi, n, x)
	c.VFNMADD231PS(e.ln2lo, n, x)
}

// poly gives p with exp(r) = 1 + r + r²·p.
func (e *exponential) poly(r, p reg.VecVirtual) {
	c.VMOVUPS(e.c[0], p)
	for _, k := range e.c[1:] {
		c.VFMADD213PS(k, r, p)
	}
}

// tanh replaces x by tanh x: with y = 2|x| and exp(y)-1 = 2^n·q + (2^n-1),
// q = exp(r)-1, no digits are lost near 0.
func (e *exponential) tanh(x reg.VecVirtual, t *tanhConsts) {
	s, n, p, w := e.reg(), e.reg(), e.reg(), e.reg()
	c.VANDPS(t.sign, x, s)
	c.VANDPS(t.rest, x, x)
	c.VADDPS(x, x, x)
	e.min(t.top, x, x)
	e.reduce(x, n)
	e.poly(x, p)
	c.VFMADD213PS(e.one, x, p)
	c.VMULPS(x, p, p) // q
	if e.wide() {
		c.VSCALEFPS(n, e.one.(reg.VecVirtual), n)
	} else { // n is below 60
		c.VCVTPS2DQ(n, n)
		c.VPSLLD(operand.U8(23), n, n)
		c.VPADDD(e.bias, n, n)
	}
	c.VSUBPS(e.one, n, w)
	c.VFMADD231PS(p, n, w) // exp(y)-1
	c.VADDPS(t.two, w, p)
	c.VDIVPS(p, w, x)
	c.VORPS(s, x, x)
}

type tanhConsts struct{ sign, rest, two, top operand.Op }

func newTanh(v isa) *tanhConsts {
	return &tanhConsts{v.bits("sign", 1<<31), v.bits("abs", 1<<31-1), v.num("two", 2), v.num("tanhtop", 40)}
}

// vecKernel is a kernel y = f(x, z), element by element.
type vecKernel struct {
	name, doc string
	two       bool // reads z
	// setup loads constants and returns the body, which replaces x.
	setup func(a reg.GPVirtual) func(x, z reg.VecVirtual)
}

func vecKernels(v isa) []vecKernel {
	type body = func(x, z reg.VecVirtual)
	return []vecKernel{
		{"vecAdd", "y = x + z", true, func(reg.GPVirtual) body {
			return func(x, z reg.VecVirtual) { c.VADDPS(z, x, x) }
		}},
		{"vecMul", "y = x·z", true, func(reg.GPVirtual) body {
			return func(x, z reg.VecVirtual) { c.VMULPS(z, x, x) }
		}},
		{"vecAddScalar", "y = x + c", false, func(a reg.GPVirtual) body {
			k := v.arg(a, vaC)
			return func(x, _ reg.VecVirtual) { c.VADDPS(k, x, x) }
		}},
		{"vecScale", "y = x·c", false, func(a reg.GPVirtual) body {
			k := v.arg(a, vaC)
			return func(x, _ reg.VecVirtual) { c.VMULPS(k, x, x) }
		}},
		{"vecScaleMul", "y = x·c·z, the first product first", true, func(a reg.GPVirtual) body {
			k := v.arg(a, vaC)
			return func(x, z reg.VecVirtual) { c.VMULPS(k, x, x); c.VMULPS(z, x, x) }
		}},
		{"vecSoftcap", "y = c·tanh(x·d)", false, func(a reg.GPVirtual) body {
			k, d, e, t := v.arg(a, vaC), v.arg(a, vaD), newExponential(v), newTanh(v)
			return func(x, _ reg.VecVirtual) {
				c.VMULPS(d, x, x)
				e.tanh(x, t)
				c.VMULPS(k, x, x)
			}
		}},
		{"vecExp", "y = exp(x - c), 0 below -87.3", false, func(a reg.GPVirtual) body {
			k, e := v.arg(a, vaC), newExponential(v)
			return func(x, _ reg.VecVirtual) { c.VSUBPS(k, x, x); e.of(x) }
		}},
		{"vecSiLU", "y = x / (1 + exp(-x))", false, func(reg.GPVirtual) body {
			l := newLogistic(v, -1)
			return func(x, _ reg.VecVirtual) { l.gate(x, nil) }
		}},
		{"vecSiLUGate", "y = x / (1 + exp(-x)) · z", true, func(reg.GPVirtual) body {
			l := newLogistic(v, -1)
			return func(x, z reg.VecVirtual) { l.gate(x, nil); c.VMULPS(z, x, x) }
		}},
		{"vecGELU", "y = x / (1 + exp(-2·sqrt(2/π)·(x + 0.044715·x³)))", false, func(reg.GPVirtual) body {
			l := newGELU(v)
			return func(x, _ reg.VecVirtual) { l.gelu(x) }
		}},
		{"vecGELUGate", "y = x / (1 + exp(-2·sqrt(2/π)·(x + 0.044715·x³))) · z", true, func(reg.GPVirtual) body {
			l := newGELU(v)
			return func(x, z reg.VecVirtual) { l.gelu(x); c.VMULPS(z, x, x) }
		}},
		{"vecSwigluOAI", "y = g / (1 + exp(-1.702·g)) · (u + 1),  g = min(x, 7),  u = min(max(z, -7), 7)", true, func(reg.GPVirtual) body {
			l := newLogistic(v, -1.702)
			hi, lo := v.num("seven", 7), v.num("minusseven", -7)
			return func(x, z reg.VecVirtual) {
				v.min(hi, x, x)
				v.max(lo, z, z)
				v.min(hi, z, z)
				l.gate(x, nil)
				c.VADDPS(l.e.one, z, z)
				c.VMULPS(z, x, x)
			}
		}},
	}
}

// expLeast is the least x whose exp is a normal number; notLess the predicate
// that is true for NaN.
const (
	expLeast = -87.33
	notLess  = 5
)

// logistic computes x / (1 + exp(slope·x)).
type logistic struct {
	e          *exponential
	slope, top operand.Op
	cube       operand.Op
}

func newLogistic(v isa, slope float64) *logistic {
	// Beyond top exp is +Inf, as it must be; +Inf itself would give NaN.
	return &logistic{e: newExponential(v), slope: v.num("slope"+fmt.Sprint(int(-slope*1000)), slope), top: v.num("exptop", 100)}
}

func newGELU(v isa) *logistic {
	l := newLogistic(v, -2*math.Sqrt2/math.SqrtPi)
	l.cube = v.num("cube", 0.044715)
	return l
}

// gate replaces x by x / (1 + exp(slope·u)), u = x unless given.
func (l *logistic) gate(x, u reg.VecVirtual) {
	t := l.e.reg()
	if u == nil {
		u = x
	}
	c.VMULPS(l.slope, u, t)
	l.e.min(l.top, t, t)
	l.e.of(t)
	c.VADDPS(l.e.one, t, t)
	c.VDIVPS(t, x, x)
}

// gelu: x³ may overflow, to an infinity of the right sign.
func (l *logistic) gelu(x reg.VecVirtual) {
	u, w := l.e.reg(), l.e.reg()
	c.VMULPS(x, x, u)
	c.VMULPS(l.cube, x, w)
	c.VFMADD213PS(x, w, u) // u = w·u + x
	l.gate(x, u)
}

func (v isa) vecMap(k vecKernel) {
	a, get := begin(k.name+v.name, "vecArgs", "computes "+k.doc+" for n > 0 numbers.", "", "\tfor i := range n { y[i] = f(x[i], z[i]) }")
	xp, yp, n := get(vaX), get(vaY), get(vaN)
	var zp reg.GPVirtual
	if k.two {
		zp = get(vaZ)
	}
	f := k.setup(a)
	x, z := v.reg(), v.reg()
	c.SUBQ(operand.U8(v.lanes), n)
	c.JL(operand.LabelRef("tail"))
	c.Label("step")
	c.VMOVUPS(at(xp, 0), x)
	if k.two {
		c.VMOVUPS(at(zp, 0), z)
		c.ADDQ(operand.U8(v.bytes()), zp)
	}
	f(x, z)
	c.VMOVUPS(x, at(yp, 0))
	c.ADDQ(operand.U8(v.bytes()), xp)
	c.ADDQ(operand.U8(v.bytes()), yp)
	c.SUBQ(operand.U8(v.lanes), n)
	c.JGE(operand.LabelRef("step"))
	c.Label("tail")
	c.ADDQ(operand.U8(v.lanes), n)
	c.JZ(operand.LabelRef("done"))
	m := v.tail(n)
	v.loadTail(at(xp, 0), m, x)
	if k.two {
		v.loadTail(at(zp, 0), m, z)
	}
	f(x, z)
	v.storeTail(x, m, at(yp, 0))
	c.Label("done")
	end()
}

// sumSquares adds in float64.
func (v isa) sumSquares() {
	_, get := begin("vecSumSquares"+v.name, "vecArgs", "computes the sum of squares of n > 0 numbers in float64 and stores it at y.", "",
		"\tfor i := range n { lane[i mod "+fmt.Sprint(2*v.lanes)+"] += x[i]² }, then the sum of the lanes")
	xp, yp, n := get(vaX), get(vaY), get(vaN)
	var acc [4]reg.VecVirtual
	for i := range acc {
		acc[i] = v.reg()
		v.zero(acc[i])
	}
	lo, hi, h := v.reg(), v.reg(), v.reg()
	half := v.bytes() / 2
	add := func(i, disp int) {
		c.VCVTPS2PD(at(xp, disp), lo)
		c.VCVTPS2PD(at(xp, disp+half), hi)
		c.VFMADD231PD(lo, lo, acc[i])
		c.VFMADD231PD(hi, hi, acc[i+1])
	}
	c.SUBQ(operand.U8(2*v.lanes), n)
	c.JL(operand.LabelRef("tail"))
	c.Label("step")
	add(0, 0)
	add(2, v.bytes())
	c.ADDQ(operand.I32(2*v.bytes()), xp)
	c.SUBQ(operand.U8(2*v.lanes), n)
	c.JGE(operand.LabelRef("step"))
	c.Label("tail")
	c.ADDQ(operand.U8(2*v.lanes), n)
	c.JZ(operand.LabelRef("sum"))
	c.CMPQ(n, operand.U8(v.lanes))
	c.JL(operand.LabelRef("rest"))
	add(0, 0)
	c.ADDQ(operand.U8(v.bytes()), xp)
	c.SUBQ(operand.U8(v.lanes), n)
	c.JZ(operand.LabelRef("sum"))
	c.Label("rest")
	v.loadTail(at(xp, 0), v.tail(n), h)
	if v.wide() {
		c.VCVTPS2PD(h.AsY(), lo)
		c.VEXTRACTF64X4(operand.U8(1), h, h.AsY())
		c.VCVTPS2PD(h.AsY(), hi)
	} else {
		c.VCVTPS2PD(h.AsX(), lo)
		c.VEXTRACTF128(operand.U8(1), h, h.AsX())
		c.VCVTPS2PD(h.AsX(), hi)
	}
	c.VFMADD231PD(lo, lo, acc[2])
	c.VFMADD231PD(hi, hi, acc[3])
	c.Label("sum")
	c.VADDPD(acc[1], acc[0], acc[0])
	c.VADDPD(acc[3], acc[2], acc[2])
	c.VADDPD(acc[2], acc[0], acc[0])
	s, t := acc[0], acc[1]
	if v.wide() {
		c.VEXTRACTF64X4(operand.U8(1), s, t.AsY())
		c.VADDPD(t.AsY(), s.AsY(), s.AsY())
		c.VEXTRACTF64X2(operand.U8(1), s.AsY(), t.AsX())
	} else {
		c.VEXTRACTF128(operand.U8(1), s, t.AsX())
	}
	c.VADDPD(t.AsX(), s.AsX(), s.AsX())
	c.VPERMILPD(operand.U8(1), s.AsX(), t.AsX())
	c.VADDSD(t.AsX(), s.AsX(), s.AsX())
	c.VMOVSD(s.AsX(), at(yp, 0))
	end()
}

// foldMax leaves the largest lane of z in all lanes.
func (v isa) foldMax(z, t reg.VecVirtual) {
	if v.wide() {
		c.VEXTRACTF64X4(operand.U8(1), z, t.AsY())
		c.VMAXPS(t.AsY(), z.AsY(), z.AsY())
		c.VEXTRACTF32X4(operand.U8(1), z.AsY(), t.AsX())
	} else {
		c.VEXTRACTF128(operand.U8(1), z, t.AsX())
	}
	c.VMAXPS(t.AsX(), z.AsX(), z.AsX())
	c.VPERMILPS(operand.U8(0x4e), z.AsX(), t.AsX())
	c.VMAXPS(t.AsX(), z.AsX(), z.AsX())
	c.VPERMILPS(operand.U8(0xb1), z.AsX(), t.AsX())
	c.VMAXPS(t.AsX(), z.AsX(), z.AsX())
	c.VBROADCASTSS(z.AsX(), z)
}

// vecMax finds the largest number. NaN is skipped: MAXPS returns its second
// operand when one is NaN, and that is the largest so far.
func (v isa) vecMax() {
	_, get := begin("vecMax"+v.name, "vecArgs", "stores the largest of n > 0 numbers at y, -Inf if all are NaN.", "",
		"\tm := -Inf; for i := range n { if x[i] > m { m = x[i] } }")
	xp, yp, n := get(vaX), get(vaY), get(vaN)
	var acc [4]reg.VecVirtual
	for i := range acc {
		acc[i] = v.reg()
		c.VMOVUPS(v.num("minusinf", math.Inf(-1)), acc[i])
	}
	x := v.reg()
	c.SUBQ(operand.U8(4*v.lanes), n)
	c.JL(operand.LabelRef("few"))
	c.Label("step")
	for i := range acc {
		c.VMOVUPS(at(xp, v.bytes()*i), x)
		c.VMAXPS(acc[i], x, acc[i])
	}
	c.ADDQ(operand.I32(4*v.bytes()), xp)
	c.SUBQ(operand.U8(4*v.lanes), n)
	c.JGE(operand.LabelRef("step"))
	c.Label("few")
	c.ADDQ(operand.U8(4*v.lanes), n)
	c.Label("one")
	c.SUBQ(operand.U8(v.lanes), n)
	c.JL(operand.LabelRef("tail"))
	c.VMOVUPS(at(xp, 0), x)
	c.VMAXPS(acc[0], x, acc[0])
	c.ADDQ(operand.U8(v.bytes()), xp)
	c.JMP(operand.LabelRef("one"))
	c.Label("tail")
	c.ADDQ(operand.U8(v.lanes), n)
	c.JZ(operand.LabelRef("fold"))
	m := v.tail(n)
	if v.wide() {
		c.VMOVAPS(acc[1], x)
		c.VMOVUPS(at(xp, 0), m, x)
	} else {
		v.loadTail(at(xp, 0), m, x)
		c.VBLENDVPS(m, x, acc[1], x)
	}
	c.VMAXPS(acc[1], x, acc[1])
	c.Label("fold")
	c.VMAXPS(acc[1], acc[0], acc[0])
	c.VMAXPS(acc[3], acc[2], acc[2])
	c.VMAXPS(acc[2], acc[0], acc[0])
	v.foldMax(acc[0], x)
	c.VMOVSS(acc[0].AsX(), at(yp, 0))
	end()
}

// vecLargest finds the largest magnitude. As integers, magnitudes order like
// the floats, then infinity, and NaN last.
func (v isa) vecLargest() {
	_, get := begin("vecLargest"+v.name, "vecArgs", "stores the bits of the largest magnitude of n > 0 numbers at y, NaN being above infinity.", "",
		"\tm := 0; for i := range n { m = max(m, bits(x[i]) &^ (1<<31)) }")
	xp, yp, n := get(vaX), get(vaY), get(vaN)
	acc := []reg.VecVirtual{v.reg(), v.reg()}
	v.zero(acc[0])
	v.zero(acc[1])
	x, abs := v.reg(), v.inReg(v.bits("abs", 1<<31-1))
	add := func(i int) {
		c.VANDPS(abs, x, x)
		c.VPMAXUD(x, acc[i], acc[i])
	}
	c.SUBQ(operand.U8(2*v.lanes), n)
	c.JL(operand.LabelRef("few"))
	c.Label("step")
	for i := range acc {
		c.VMOVUPS(at(xp, v.bytes()*i), x)
		add(i)
	}
	c.ADDQ(operand.I32(2*v.bytes()), xp)
	c.SUBQ(operand.U8(2*v.lanes), n)
	c.JGE(operand.LabelRef("step"))
	c.Label("few")
	c.ADDQ(operand.U8(2*v.lanes), n)
	c.SUBQ(operand.U8(v.lanes), n)
	c.JL(operand.LabelRef("tail"))
	c.VMOVUPS(at(xp, 0), x)
	add(0)
	c.ADDQ(operand.U8(v.bytes()), xp)
	c.SUBQ(operand.U8(v.lanes), n)
	c.Label("tail")
	c.ADDQ(operand.U8(v.lanes), n)
	c.JZ(operand.LabelRef("fold"))
	v.loadTail(at(xp, 0), v.tail(n), x)
	add(1)
	c.Label("fold")
	m, t := acc[0], x
	c.VPMAXUD(acc[1], m, m)
	if v.wide() {
		c.VEXTRACTI64X4(operand.U8(1), m, t.AsY())
		c.VPMAXUD(t.AsY(), m.AsY(), m.AsY())
		c.VEXTRACTI32X4(operand.U8(1), m.AsY(), t.AsX())
	} else {
		c.VEXTRACTI128(operand.U8(1), m, t.AsX())
	}
	c.VPMAXUD(t.AsX(), m.AsX(), m.AsX())
	c.VPSHUFD(operand.U8(0x4e), m.AsX(), t.AsX())
	c.VPMAXUD(t.AsX(), m.AsX(), m.AsX())
	c.VPSHUFD(operand.U8(0xb1), m.AsX(), t.AsX())
	c.VPMAXUD(t.AsX(), m.AsX(), m.AsX())
	c.VMOVSS(m.AsX(), at(yp, 0))
	end()
}

// vecFind finds the first of n numbers that equals c.
func vecFind() {
	a, get := begin("vecFindAVX512", "vecArgs", "stores as int64 at y the first i < n with x[i] = c, n if there is none.")
	xp, yp, n := get(vaX), get(vaY), get(vaN)
	k := wide.arg(a, vaC)
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
func (v isa) ropeHalf() {
	a, get := begin("ropeHalf"+v.name, "ropeArgs", "turns the pairs i, i+pairs of each head; y may be x.", "",
		"\tfor each head { for i := range pairs {",
		"\t\ty[i], y[i+pairs] = x[i]·cos[i] - x[i+pairs]·sin[i], x[i]·sin[i] + x[i+pairs]·cos[i] } }")
	i, j := c.GP64(), c.GP64()
	mem := func(p, i reg.GPVirtual) operand.Mem { return operand.Mem{Base: p, Index: i, Scale: 4} }
	xp, yp, cos, sin := get(raX), get(raY), get(raCos), get(raSin)
	x, z, k, s, u, w := v.reg(), v.reg(), v.reg(), v.reg(), v.reg(), v.reg()
	turn := func() {
		c.VMULPS(z, s, u)
		c.VMULPS(z, k, w)
		c.VFMSUB231PS(x, k, u) // x·k - z·s
		c.VFMADD231PS(x, s, w)
	}
	v.ropeLoop(a, get(raHeads), xp, yp, func(n reg.GPVirtual) {
		c.MOVQ(at(a, raPairs), n)
		c.XORQ(i, i)
		c.MOVQ(n, j)
	}, func() {
		c.VMOVUPS(mem(xp, i), x)
		c.VMOVUPS(mem(xp, j), z)
		c.VMOVUPS(mem(cos, i), k)
		c.VMOVUPS(mem(sin, i), s)
		turn()
		c.VMOVUPS(u, mem(yp, i))
		c.VMOVUPS(w, mem(yp, j))
		c.ADDQ(operand.U8(v.lanes), i)
		c.ADDQ(operand.U8(v.lanes), j)
	}, func(m reg.Register) {
		v.loadTail(mem(xp, i), m, x)
		v.loadTail(mem(xp, j), m, z)
		v.loadTail(mem(cos, i), m, k)
		v.loadTail(mem(sin, i), m, s)
		turn()
		v.storeTail(u, m, mem(yp, i))
		v.storeTail(w, m, mem(yp, j))
	})
}

// ropeLoop goes over heads and, in each, over the n numbers that start sets:
// whole registers, then the rest under a mask.
func (v isa) ropeLoop(a, heads, xp, yp reg.GPVirtual, start func(n reg.GPVirtual), step func(), rest func(m reg.Register)) {
	n := c.GP64()
	c.Label("head")
	start(n)
	c.SUBQ(operand.U8(v.lanes), n)
	c.JL(operand.LabelRef("tail"))
	c.Label("step")
	step()
	c.SUBQ(operand.U8(v.lanes), n)
	c.JGE(operand.LabelRef("step"))
	c.Label("tail")
	c.ADDQ(operand.U8(v.lanes), n)
	c.JZ(operand.LabelRef("next"))
	rest(v.tail(n))
	c.Label("next")
	c.ADDQ(at(a, raStride), xp)
	c.ADDQ(at(a, raStride), yp)
	c.DECQ(heads)
	c.JNZ(operand.LabelRef("head"))
	end()
}

// ropeAdjacent turns pairs (2i, 2i+1) of each head.
func (v isa) ropeAdjacent() {
	a, get := begin("ropeAdjacent"+v.name, "ropeArgs", "turns the pairs 2i, 2i+1 of each head; cos and sin hold each number twice; y may be x.", "",
		"\tfor each head { for i := range pairs {",
		"\t\ty[2i], y[2i+1] = x[2i]·cos[2i] - x[2i+1]·sin[2i], x[2i]·sin[2i] + x[2i+1]·cos[2i] } }")
	i := c.GP64()
	mem := func(p reg.GPVirtual) operand.Mem { return operand.Mem{Base: p, Index: i, Scale: 4} }
	xp, yp, cos, sin := get(raX), get(raY), get(raCos), get(raSin)
	x, k, s, u := v.reg(), v.reg(), v.reg(), v.reg()
	turn := func() {
		c.VPERMILPS(operand.U8(0xb1), x, u)
		c.VMULPS(s, u, u)
		c.VFMADDSUB231PS(x, k, u) // even lanes x·k - u, odd lanes x·k + u
	}
	v.ropeLoop(a, get(raHeads), xp, yp, func(n reg.GPVirtual) {
		c.MOVQ(at(a, raPairs), n)
		c.ADDQ(n, n)
		c.XORQ(i, i)
	}, func() {
		c.VMOVUPS(mem(xp), x)
		c.VMOVUPS(mem(cos), k)
		c.VMOVUPS(mem(sin), s)
		turn()
		c.VMOVUPS(u, mem(yp))
		c.ADDQ(operand.U8(v.lanes), i)
	}, func(m reg.Register) {
		v.loadTail(mem(xp), m, x)
		v.loadTail(mem(cos), m, k)
		v.loadTail(mem(sin), m, s)
		turn()
		v.storeTail(u, m, mem(yp))
	})
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
