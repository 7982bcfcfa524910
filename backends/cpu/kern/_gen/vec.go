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
