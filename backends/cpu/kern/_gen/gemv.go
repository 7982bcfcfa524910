package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets in gemvArgs.
const (
	gvW, gvStride, gvRows, gvSteps, gvX, gvLdx, gvY, gvLdy, gvMask0, gvMask1, gvTail = 0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80
)

// A stepper generates the inside of a row product.
type stepper struct {
	name string
	// doc is the pseudo-code of one step.
	doc string
	// setup loads constants; step consumes wBytes of weights at w and xBytes
	// of prepared activations per token and adds to acc.
	setup          func()
	step           func(w reg.GPVirtual, x tokens, acc []reg.VecVirtual, tail bool)
	wBytes, xBytes int
	// tailW and tailX are how far the tail step moves, and tailLoop says that
	// it repeats gvTail times instead of once.
	tailW, tailX int
	tailLoop     bool
	prefetch     int
	// accs is the number of accumulators per token; 0 means 1. step gets all
	// tokens' first accumulators, then all second ones, and so on.
	accs int
}

var masks [2]reg.Register

func genGEMV() {
	steppers := []*stepper{stepQ8_0()}
	for _, f := range nibbleFormats {
		steppers = append(steppers, stepNibble(f))
	}
	steppers = append(steppers, stepQ4K(false), stepQ4K(true), step16(superQ6K()), step16(superQ2K()), step16(superQ3K()),
		stepTernary(superTQ1()), stepTernary(superTQ2()), stepIQ4XS(), stepIQ3S(),
		stepFloat("F32", 4), stepFloat("F16", 2), stepFloat("BF16", 2))
	for _, s := range steppers {
		for t := 1; t <= 4; t++ {
			gemv(s, t)
		}
	}
}

// gemv generates the product of rows with n tokens.
func gemv(s *stepper, n int) {
	name := fmt.Sprintf("gemv%sT%dAVX512", s.name, n)
	c.Function(name)
	c.Attributes(noSplit)
	c.Pragma("noescape")
	c.Doc(fmt.Sprintf("%s multiplies rows of %s with %d prepared tokens:", name, s.name, n), "",
		"\tfor r in 0..rows, t in 0..T: y[t][r] = Σ over steps of", s.doc)
	signature("gemvArgs")
	a := c.Load(c.Param("a"), c.GP64()).(reg.GPVirtual)
	get := func(off int) reg.GPVirtual { r := c.GP64(); c.MOVQ(at(a, off), r); return r }
	row, rows, x0, ldx, y, ldy := get(gvW), get(gvRows), get(gvX), get(gvLdx), get(gvY), get(gvLdy)
	if s.setup != nil {
		s.setup()
	}
	k0, k1 := c.K(), c.K()
	c.KMOVQ(at(a, gvMask0), k0)
	c.KMOVQ(at(a, gvMask1), k1)
	masks = [2]reg.Register{k0, k1}

	c.Label("row")
	w := c.GP64()
	c.MOVQ(row, w)
	x := tokensAt(x0, ldx, n)
	acc := make([]reg.VecVirtual, n*max(1, s.accs))
	for t := range acc {
		acc[t] = c.ZMM()
		c.VPXORD(acc[t], acc[t], acc[t])
	}
	steps := get(gvSteps)
	c.TESTQ(steps, steps)
	c.JZ(operand.LabelRef("tail"))
	c.Label("step")
	for line := 0; line < s.wBytes; line += 64 {
		c.PREFETCHT0(at(w, s.prefetch+line))
	}
	s.step(w, x, acc, false)
	c.ADDQ(operand.I32(s.wBytes), w)
	x.advance(s.xBytes)
	c.DECQ(steps)
	c.JNZ(operand.LabelRef("step"))
	c.Label("tail")
	tail := get(gvTail)
	c.TESTQ(tail, tail)
	c.JZ(operand.LabelRef("sum"))
	c.Label("tailstep")
	s.step(w, x, acc, true)
	if s.tailLoop {
		c.ADDQ(operand.I32(s.tailW), w)
		x.advance(s.tailX)
		c.DECQ(tail)
		c.JNZ(operand.LabelRef("tailstep"))
	}
	c.Label("sum")
	tmp := c.ZMM()
	yt := tokensAt(y, ldy, n)
	for half := len(acc) / 2; half >= n; half /= 2 {
		for t := range half {
			c.VADDPS(acc[t+half], acc[t], acc[t])
		}
	}
	for t := range n {
		c.VMOVSS(sumTo(acc[t], tmp), yt.at(t, 0))
	}
	c.ADDQ(operand.I8(4), y)
	c.ADDQ(at(a, gvStride), row)
	c.DECQ(rows)
	c.JNZ(operand.LabelRef("row"))
	c.VZEROUPPER()
	c.RET()
}

// stepQ8_0 takes two blocks. Prepared activations, per 64 elements: the int8
// numbers, 16 int32 −128·Σ of the four numbers in each lane, 16 f32 scales.
func stepQ8_0() *stepper {
	var flip reg.VecVirtual
	var upper reg.Register
	s := &stepper{
		name: "Q8_0", wBytes: 68, xBytes: 192, prefetch: 16384,
		doc: "\t\t(−128·Σx + Σ (w xor 128)·x) · (f32(d)·dx)   per lane of 4 elements",
	}
	s.setup = func() {
		flip = splat("flip80", 0x80808080)
		upper = c.K()
		r := c.GP32()
		c.MOVL(operand.U32(0xff00), r)
		c.KMOVW(r, upper)
	}
	s.step = func(w reg.GPVirtual, x tokens, acc []reg.VecVirtual, tail bool) {
		q, d := c.ZMM(), c.ZMM()
		c.VMOVDQU32(at(w, 2), q.AsY())
		c.VPBROADCASTW(at(w, 0), d.AsY())
		if !tail {
			c.VINSERTI64X4(operand.U8(1), at(w, 36), q, q)
			c.VPBROADCASTW(at(w, 34), upper, d.AsY())
		}
		c.VPXORD(flip, q, q)
		c.VCVTPH2PS(d.AsY(), d)
		for t := range acc {
			i, f := c.ZMM(), c.ZMM()
			c.VMOVDQU32(x.at(t, 64), i)
			c.VPDPBUSD(x.at(t, 0), q, i)
			c.VCVTDQ2PS(i, i)
			c.VMULPS(x.at(t, 128), d, f)
			c.VFMADD231PS(f, i, acc[t])
		}
	}
	return s
}

// nibbleFormat describes a format with 16 bytes of nibbles per block of 32:
// byte i holds element i in its low and element i+16 in its high half.
type nibbleFormat struct {
	name              string
	block, nib, scale int    // bytes per block; where nibbles and f16 scale lie
	min               int    // where the f16 minimum lies, or 0
	fifth             int    // where 32 fifth bits lie, or 0
	values            string // "iq4" or "mxfp4": a table of values replaces the nibble
}

var nibbleFormats = []*nibbleFormat{
	{name: "Q4_0", block: 18, nib: 2},
	{name: "Q4_1", block: 20, nib: 4, min: 2},
	{name: "Q5_0", block: 22, nib: 6, fifth: 2},
	{name: "Q5_1", block: 24, nib: 8, min: 2, fifth: 4},
	{name: "IQ4_NL", block: 18, nib: 2, values: "iq4"},
	{name: "MXFP4", block: 17, nib: 1, values: "mxfp4"},
}

// nibbleRegs are the constants of one format.
type nibbleRegs struct {
	gather, low, scales, mins, values, one, bitMask, bit4 reg.VecVirtual
	bits                                                  [2]reg.VecVirtual
	lanes                                                 reg.Register
}

// second returns where the second load of a step starts and its bytes.
func (f *nibbleFormat) second() (start, size int) {
	size = 16
	if 4*f.block-64 > 16 {
		size = 32
	}
	return 4*f.block - size, size
}

// source returns the number of byte o of four blocks in the two loads.
func (f *nibbleFormat) source(o int) int {
	start, _ := f.second()
	if o < 64 {
		return o
	}
	return 64 + o - start
}

func (f *nibbleFormat) setup() *nibbleRegs {
	r := &nibbleRegs{low: splat("low0f", 0x0f0f0f0f)}
	r.gather = loadTable("nib"+f.name, bytesOf(64, func(i int) byte { return byte(f.source(i/16*f.block + f.nib + i%16)) }))
	word := func(field int) []byte {
		return wordsOf(32, func(i int) uint16 { return uint16(f.source(i/4%4*f.block+field) / 2) })
	}
	switch f.values {
	case "iq4":
		r.values = iq4Table()
	case "mxfp4":
		r.values = mxfp4Table()
		r.one = splat("one", 1)
		r.scales = loadTable("e"+f.name, bytesOf(64, func(i int) byte { return byte(f.source(i / 16 * f.block)) }))
		r.lanes = c.K()
		t := c.GP64()
		c.MOVQ(operand.U64(0x1111111111111111), t)
		c.KMOVQ(t, r.lanes)
	}
	if f.values != "mxfp4" {
		r.scales = loadTable("dw"+f.name, word(f.scale))
	}
	if f.min > 0 {
		r.mins = loadTable("mw"+f.name, word(f.min))
	}
	if f.fifth > 0 {
		r.bit4 = splat("bit4", 0x10101010)
		r.bitMask = loadTable("bitmask", bytesOf(64, func(i int) byte { return 1 << (i % 8) }))
		for h := range r.bits {
			r.bits[h] = loadTable(fmt.Sprintf("bits%s%d", f.name, h), bytesOf(64, func(i int) byte {
				return byte(f.source(i/16*f.block + f.fifth + 2*h + i%16/8))
			}))
		}
	}
	return r
}

// decode reads four blocks at w: lo and hi are the unsigned weights of their
// first and second halves, d and m f32 scales and minima, four times each.
func (f *nibbleFormat) decode(r *nibbleRegs, w reg.GPVirtual, tail bool) (lo, hi, d, m reg.VecVirtual) {
	start, size := f.second()
	lo, hi, d = c.ZMM(), c.ZMM(), c.ZMM()
	b := c.ZMM()
	var part reg.Register = b.AsX()
	if size == 32 {
		part = b.AsY()
	}
	if tail {
		c.VMOVDQU8_Z(at(w, 0), masks[0], lo)
		c.VMOVDQU8_Z(at(w, start), masks[1], part)
	} else {
		c.VMOVDQU32(at(w, 0), lo)
		c.VMOVDQU32(at(w, start), part)
	}
	pick := func(index reg.VecVirtual, field int, to reg.VecVirtual) {
		if 3*f.block+field < 64 {
			c.VPERMW(lo, index, to)
		} else {
			c.VMOVDQA32(lo, to)
			c.VPERMT2W(b, index, to)
		}
		c.VCVTPH2PS(to.AsY(), to)
	}
	if f.values == "mxfp4" {
		c.VPERMB_Z(lo, r.scales, r.lanes, d)
		exponent(d, r.one)
	} else {
		pick(r.scales, f.scale, d)
	}
	if f.min > 0 {
		m = c.ZMM()
		pick(r.mins, f.min, m)
	}
	var k [2]reg.Register
	if f.fifth > 0 {
		for h := range k {
			k[h] = c.K()
			t := c.ZMM()
			c.VMOVDQA32(lo, t)
			c.VPERMT2B(b, r.bits[h], t)
			c.VPTESTMB(r.bitMask, t, k[h])
		}
	}
	c.VPERMT2B(b, r.gather, lo)
	c.VPSRLD(operand.U8(4), lo, hi)
	c.VPANDD(r.low, hi, hi)
	c.VPANDD(r.low, lo, lo)
	for h, q := range []reg.VecVirtual{lo, hi} {
		if f.fifth > 0 {
			c.VPADDB(r.bit4, q, k[h], q)
		}
		if r.values != nil {
			c.VPSHUFB(q, r.values, q)
		}
	}
	return lo, hi, d, m
}

// stepNibble takes four blocks. Prepared activations, per 128 elements: the
// first halves of the four blocks, the second halves, 16 int32 corrections
// (−offset·Σ of a lane's 8 numbers) or 16 f32 dx·Σ for formats with minima,
// 16 f32 scales.
func stepNibble(f *nibbleFormat) *stepper {
	s := &stepper{
		name: f.name, wBytes: 4 * f.block, xBytes: 256, prefetch: 8192,
		doc: "\t\t(corr + Σ q·x) · (f32(d)·dx)   per lane of 8 elements",
	}
	if f.min > 0 {
		s.doc = "\t\t(Σ q·x) · (f32(d)·dx) + f32(m)·dx·Σ x   per lane of 8 elements"
	}
	var r *nibbleRegs
	var none reg.VecVirtual
	s.setup = func() {
		r = f.setup()
		none = c.ZMM()
		zero(none)
	}
	s.step = func(w reg.GPVirtual, x tokens, acc []reg.VecVirtual, tail bool) {
		lo, hi, d, m := f.decode(r, w, tail)
		for t := range acc {
			i, g := c.ZMM(), c.ZMM()
			if m != nil {
				c.VFMADD231PS(x.at(t, 128), m, acc[t])
				c.VMOVDQA32(none, i)
			} else {
				c.VMOVDQU32(x.at(t, 128), i)
			}
			c.VPDPBUSD(x.at(t, 0), lo, i)
			c.VPDPBUSD(x.at(t, 64), hi, i)
			c.VCVTDQ2PS(i, i)
			c.VMULPS(x.at(t, 192), d, g)
			c.VFMADD231PS(g, i, acc[t])
		}
	}
	return s
}

// stepFloat takes 64 plain elements, with f32 activations as they are. A tail
// of up to 63 elements is masked.
func stepFloat(name string, size int) *stepper {
	s := &stepper{
		name: name, wBytes: 64 * size, xBytes: 256, prefetch: 8192, accs: 4,
		doc: "\t\tf32(w)·x   in 64 lanes",
	}
	s.step = func(w reg.GPVirtual, x tokens, acc []reg.VecVirtual, tail bool) {
		n := len(acc) / 4
		for i := range 4 {
			q, k := c.ZMM(), c.K()
			mem := at(w, 16*size*i)
			if tail {
				c.KSHIFTRQ(operand.U8(16*i), masks[0], k)
			}
			switch {
			case name == "F32" && tail:
				c.VMOVUPS_Z(mem, k, q)
			case name == "F32":
				c.VMOVUPS(mem, q)
			case name == "F16" && tail:
				c.VMOVDQU16_Z(mem, k, q.AsY())
				c.VCVTPH2PS(q.AsY(), q)
			case name == "F16":
				c.VCVTPH2PS(mem, q)
			case tail:
				c.VPMOVZXWD_Z(mem, k, q)
				c.VPSLLD(operand.U8(16), q, q)
			default:
				c.VPMOVZXWD(mem, q)
				c.VPSLLD(operand.U8(16), q, q)
			}
			for t := range n {
				if tail {
					f := c.ZMM()
					c.VMOVUPS_Z(x.at(t, 64*i), k, f)
					c.VFMADD231PS(f, q, acc[i*n+t])
				} else {
					c.VFMADD231PS(x.at(t, 64*i), q, acc[i*n+t])
				}
			}
		}
	}
	return s
}
