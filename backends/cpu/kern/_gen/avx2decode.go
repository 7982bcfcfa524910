package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A decoder generates the decoding of a row.
type decoder struct{ src, q, s, m, d, blocks reg.GPVirtual }

func newDecoder(name string) *decoder {
	get := beginAVX2("decode"+name+"AVX2", "decode"+name+"AVX2 decodes blocks of "+name+" as decodeRowGeneric does.", "rowArgs")
	return &decoder{get(rwSrc), get(rwQ), get(rwScales), get(rwMins), get(rwD), get(rwBlocks)}
}

func (d *decoder) each(size, elems int, body func()) {
	c.Label("block")
	for line := 0; line < size; line += 64 {
		c.PREFETCHT0(at(d.src, 4096+line))
	}
	body()
	c.ADDQ(operand.I32(size), d.src)
	c.ADDQ(operand.I32(elems), d.q)
	scales := 4
	if elems == 256 {
		scales = 32
		c.ADDQ(operand.I8(8), d.d)
	}
	c.ADDQ(operand.I8(scales), d.s)
	c.ADDQ(operand.I8(scales), d.m)
	c.DECQ(d.blocks)
	c.JNZ(operand.LabelRef("block"))
	c.VZEROUPPER()
	c.RET()
}

// half returns the f16 at disp as f32 in lane 0, 0 in the others.
func (d *decoder) half(disp int) reg.VecVirtual {
	r, x := c.GP32(), c.XMM()
	c.MOVWLZX(at(d.src, disp), r)
	c.VMOVD(r, x)
	c.VCVTPH2PS(x, x)
	return x
}

// pair stores d and dmin, f16 side by side at disp.
func (d *decoder) pair(disp int) {
	x := c.XMM()
	c.VMOVD(at(d.src, disp), x)
	c.VCVTPH2PS(x, x)
	c.VMOVQ(x, at(d.d, 0))
}

// single stores d, f16 at disp, and a dmin of 0.
func (d *decoder) single(disp int) { c.VMOVQ(d.half(disp), at(d.d, 0)) }

// twice stores eight words, each two times in turn.
func twice(x reg.VecVirtual, to reg.GPVirtual) {
	y := c.XMM()
	c.VPUNPCKLWD(x, x, y)
	c.VMOVDQU(y, at(to, 0))
	c.VPUNPCKHWD(x, x, y)
	c.VMOVDQU(y, at(to, 16))
}

func decodeQ8_0AVX2() {
	d := newDecoder("Q8_0")
	d.each(34, 32, func() {
		y := c.YMM()
		c.VMOVSS(d.half(0), at(d.s, 0))
		c.VMOVDQU(at(d.src, 2), y)
		c.VMOVDQU(y, at(d.q, 0))
	})
}

func decodeQ4_0AVX2() {
	d := newDecoder("Q4_0")
	low, off := ymmWord("low0f", 0x0f0f0f0f), ymmWord("off8y", 0x08080808)
	d.each(18, 32, func() {
		x, y := c.XMM(), c.XMM()
		c.VMOVSS(d.half(0), at(d.s, 0))
		c.VMOVDQU(at(d.src, 2), x)
		c.VPSRLW(operand.U8(4), x, y)
		for h, v := range []reg.VecVirtual{x, y} {
			c.VPAND(low.AsX(), v, v)
			c.VPSUBB(off.AsX(), v, v)
			c.VMOVDQU(v, at(d.q, 16*h))
		}
	})
}

func decodeQ4KAVX2(five bool) {
	name, size, quants := "Q4_K", 144, 16
	if five {
		name, size, quants = "Q5_K", 176, 48
	}
	d := newDecoder(name)
	low := ymmWord("low0f", 0x0f0f0f0f)
	xmm := func(f func(lane int) uint32) []byte { return dwordsOf(4, f) }
	d.each(size, 256, func() {
		head, sc, hi := c.XMM(), c.XMM(), c.XMM()
		c.VMOVDQU(at(d.src, 0), head)
		c.VPSHUFD(operand.U8(0xed), head, sc)
		c.VPSRLVD(table("kshiftx", xmm(func(i int) uint32 { return uint32(i / 3 * 4) })), sc, sc)
		c.VPAND(table("kmaskx", xmm(func(i int) uint32 { return [2]uint32{0x3f3f3f3f, 0x0f0f0f0f}[i%2] })), sc, sc)
		c.VPSHUFD(operand.U8(0x84), head, hi)
		c.VPSRLD(operand.U8(2), hi, hi)
		c.VPAND(table("khighx", xmm(func(i int) uint32 { return uint32(i%2) * 0x30303030 })), hi, hi)
		c.VPOR(hi, sc, sc)
		d.pair(0)
		for part, to := range []reg.GPVirtual{d.s, d.m} {
			x := c.XMM()
			if part == 1 {
				c.VPSHUFD(operand.U8(0x0e), sc, sc)
			}
			c.VPMOVZXBW(sc, x)
			twice(x, to)
		}
		for ch := range 4 {
			x, y := c.YMM(), c.YMM()
			c.VMOVDQU(at(d.src, quants+32*ch), x)
			c.VPSRLW(operand.U8(4), x, y)
			for h, v := range []reg.VecVirtual{x, y} {
				c.VPAND(low, v, v)
				if five {
					b, j := c.YMM(), 2*ch+h
					c.VMOVDQU(at(d.src, 16), b)
					if j < 4 {
						c.VPSLLW(operand.U8(4-j), b, b)
					} else {
						c.VPSRLW(operand.U8(j-4), b, b)
					}
					c.VPAND(table("bit4y", bytesOf(32, func(int) byte { return 16 })), b, b)
					c.VPOR(b, v, v)
				}
				c.VMOVDQU(v, at(d.q, 64*ch+32*h))
			}
		}
	})
}

func decodeQ6KAVX2() {
	d := newDecoder("Q6_K")
	low, mask, off := ymmWord("low0f", 0x0f0f0f0f), ymmWord("bits45", 0x30303030), ymmWord("off32y", 0x20202020)
	d.each(210, 256, func() {
		d.single(208)
		s := c.YMM()
		c.VPMOVSXBW(at(d.src, 192), s)
		c.VMOVDQU(s, at(d.s, 0))
		for h := range 2 {
			for part := range 4 {
				q, b := c.YMM(), c.YMM()
				c.VMOVDQU(at(d.src, 64*h+32*(part%2)), q)
				c.VMOVDQU(at(d.src, 128+32*h), b)
				if part >= 2 {
					c.VPSRLW(operand.U8(4), q, q)
				}
				c.VPAND(low, q, q)
				switch part {
				case 0:
					c.VPSLLW(operand.U8(4), b, b)
				case 1:
					c.VPSLLW(operand.U8(2), b, b)
				case 3:
					c.VPSRLW(operand.U8(2), b, b)
				}
				c.VPAND(mask, b, b)
				c.VPOR(b, q, q)
				c.VPSUBB(off, q, q)
				c.VMOVDQU(q, at(d.q, 128*h+32*part))
			}
		}
	})
}
