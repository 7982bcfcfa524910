package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

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
