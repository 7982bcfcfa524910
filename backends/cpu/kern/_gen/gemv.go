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
	for _, s := range []*stepper{stepQ8_0(), stepNibble("Q4_0", 18, 2), stepQ4K(false), stepQ4K(true), step16(superQ6K()), stepFloat("F32", 4), stepFloat("F16", 2), stepFloat("BF16", 2)} {
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

// stepNibble takes four blocks of a format with 16 bytes of nibbles per block
// of 32: block bytes, where the nibbles start, and how a nibble becomes an
// unsigned weight. Prepared activations, per 128 elements: the first halves of
// the four blocks, the second halves, 16 int32 corrections (−offset·Σ of a
// lane's 8 numbers) or 16 f32 dx·Σ for formats with minima, 16 f32 scales.
func stepNibble(name string, block, nib int) *stepper {
	second := 4*block - 16 // start of the second load
	src := func(o int) byte {
		if o < 64 {
			return byte(o)
		}
		return byte(64 + o - second)
	}
	var gather, low, words reg.VecVirtual
	s := &stepper{
		name: name, wBytes: 4 * block, xBytes: 256, prefetch: 8192,
		doc: "\t\t(corr + Σ q·x) · (f32(d)·dx)   per lane of 8 elements",
	}
	s.setup = func() {
		gather = loadTable("nib"+name, bytesOf(64, func(i int) byte { return src(i/16*block + nib + i%16) }))
		words = loadTable("dw"+name, wordsOf(32, func(i int) uint16 { return uint16(i/4%4*block) / 2 }))
		low = splat("low0f", 0x0f0f0f0f)
	}
	s.step = func(w reg.GPVirtual, x tokens, acc []reg.VecVirtual, tail bool) {
		a, b, d, hi := c.ZMM(), c.ZMM(), c.ZMM(), c.ZMM()
		if tail {
			c.VMOVDQU8_Z(at(w, 0), masks[0], a)
			c.VMOVDQU8_Z(at(w, second), masks[1], b.AsX())
		} else {
			c.VMOVDQU32(at(w, 0), a)
			c.VMOVDQU32(at(w, second), b.AsX())
		}
		c.VPERMW(a, words, d)
		c.VCVTPH2PS(d.AsY(), d)
		c.VPERMT2B(b, gather, a)
		c.VPSRLD(operand.U8(4), a, hi)
		c.VPANDD(low, hi, hi)
		c.VPANDD(low, a, a)
		for t := range acc {
			i, f := c.ZMM(), c.ZMM()
			c.VMOVDQU32(x.at(t, 128), i)
			c.VPDPBUSD(x.at(t, 0), a, i)
			c.VPDPBUSD(x.at(t, 64), hi, i)
			c.VCVTDQ2PS(i, i)
			c.VMULPS(x.at(t, 192), d, f)
			c.VFMADD231PS(f, i, acc[t])
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
