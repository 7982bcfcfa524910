package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rareAVX2 generates the decoding of the formats that are met less often.
func rareAVX2() {
	for _, f := range nibbleFormats[1:] {
		decodeNibbleAVX2(f)
	}
	decodeQ2KAVX2()
	decodeQ3KAVX2()
	decodeIQ4XSAVX2()
	decodeTQ2AVX2()
	decodeTQ1AVX2()
	decodeIQ3SAVX2()
}

func decodeNibbleAVX2(f *nibbleFormat) {
	d := newDecoder(f.name)
	low := ymmWord("low0f", 0x0f0f0f0f)
	off := byte(0)
	if f.values == "" && f.min == 0 {
		off = 16
	}
	d.each(f.block, 32, func() {
		if f.values == "mxfp4" {
			// 2^(e−128); the two smallest exponents, subnormal numbers, count as 0.
			e, big, none := c.GP32(), c.GP32(), c.GP32()
			c.MOVBLZX(at(d.src, 0), e)
			c.LEAL(operand.Mem{Base: e.As64(), Disp: -1}, big)
			c.SHLL(operand.U8(23), big)
			c.XORL(none, none)
			c.CMPL(e, operand.U8(2))
			c.CMOVLLT(none, big)
			c.MOVL(big, at(d.s, 0))
		} else {
			c.VMOVSS(d.half(f.scale), at(d.s, 0))
		}
		if f.min > 0 {
			c.VMOVSS(d.half(f.min), at(d.m, 0))
		}
		x, y, q := c.XMM(), c.XMM(), c.YMM()
		c.VMOVDQU(at(d.src, f.nib), x)
		c.VPSRLW(operand.U8(4), x, y)
		c.VINSERTI128(operand.U8(1), y, x.AsY(), q)
		c.VPAND(low, q, q)
		if f.fifth > 0 {
			b, mask := c.YMM(), c.YMM()
			c.VPBROADCASTD(at(d.src, f.fifth), b)
			c.VPSHUFB(table("bytes8", bytesOf(32, func(i int) byte { return byte(i / 8) })), b, b)
			c.VMOVDQU(table("bitmasky", bytesOf(32, func(i int) byte { return 1 << (i % 8) })), mask)
			c.VPAND(mask, b, b)
			c.VPCMPEQB(mask, b, b)
			c.VPAND(table("bit4y", bytesOf(32, func(int) byte { return 16 })), b, b)
			c.VPOR(b, q, q)
		}
		switch {
		case f.values != "":
			v := iq4Values
			if f.values == "mxfp4" {
				v = mxfp4Values
			}
			t := c.YMM()
			c.VMOVDQU(table(f.values+"signedy", bytesOf(32, func(i int) byte { return byte(v[i%16]) })), t)
			c.VPSHUFB(q, t, q)
		case off > 0:
			c.VPSUBB(table("off16y", bytesOf(32, func(int) byte { return off })), q, q)
		}
		c.VMOVDQU(q, at(d.q, 0))
	})
}

// sixteen stores 16 bytes as words.
func sixteen(bytes reg.VecVirtual, to reg.GPVirtual, signed bool) {
	s := c.YMM()
	if signed {
		c.VPMOVSXBW(bytes, s)
	} else {
		c.VPMOVZXBW(bytes, s)
	}
	c.VMOVDQU(s, at(to, 0))
}

// twoBits decodes 64 bytes of 2-bit numbers at disp; more changes the numbers
// of group g of 32.
func (d *decoder) twoBits(disp int, more func(q reg.VecVirtual, g int)) {
	low := table("low03y", bytesOf(32, func(int) byte { return 3 }))
	for h := range 2 {
		for s := range 4 {
			q := c.YMM()
			c.VMOVDQU(at(d.src, disp+32*h), q)
			if s > 0 {
				c.VPSRLW(operand.U8(2*s), q, q)
			}
			c.VPAND(low, q, q)
			if more != nil {
				more(q, 4*h+s)
			}
			c.VMOVDQU(q, at(d.q, 128*h+32*s))
		}
	}
}

func decodeQ2KAVX2() {
	d := newDecoder("Q2_K")
	low := ymmWord("low0f", 0x0f0f0f0f)
	d.each(84, 256, func() {
		s, m := c.XMM(), c.XMM()
		c.VMOVDQU(at(d.src, 0), s)
		c.VPSRLW(operand.U8(4), s, m)
		c.VPAND(low.AsX(), s, s)
		c.VPAND(low.AsX(), m, m)
		sixteen(s, d.s, false)
		sixteen(m, d.m, false)
		d.pair(80)
		d.twoBits(16, nil)
	})
}

func decodeQ3KAVX2() {
	d := newDecoder("Q3_K")
	low := ymmWord("low0f", 0x0f0f0f0f)
	d.each(110, 256, func() {
		// The last 16 bytes: two of quants, 8 of nibbles, 4 of bit pairs, d.
		s, l, h, b := c.XMM(), c.XMM(), c.XMM(), c.XMM()
		c.VMOVDQU(at(d.src, 94), s)
		c.VPSHUFB(table("q3lo", bytesOf(16, func(i int) byte { return byte(2 + i%8) })), s, l)
		c.VPSRLW(operand.U8(4), l, h)
		c.VPBLENDW(operand.U8(0xf0), h, l, l)
		c.VPAND(low.AsX(), l, l)
		c.VPSHUFB(table("q3hi", bytesOf(16, func(i int) byte { return byte(10 + i%4) })), s, b)
		c.VPSRLVD(table("q3shift", dwordsOf(4, func(i int) uint32 { return uint32(2 * i) })), b, b)
		c.VPSLLD(operand.U8(4), b, b)
		c.VPAND(table("bits45x", bytesOf(16, func(int) byte { return 0x30 })), b, b)
		c.VPOR(b, l, l)
		c.VPSUBB(table("off32x", bytesOf(16, func(int) byte { return 32 })), l, l)
		sixteen(l, d.s, true)
		d.single(108)
		d.twoBits(32, func(q reg.VecVirtual, g int) {
			hm := c.YMM()
			c.VMOVDQU(at(d.src, 0), hm)
			if g < 2 {
				c.VPSLLW(operand.U8(2-g), hm, hm)
			} else if g > 2 {
				c.VPSRLW(operand.U8(g-2), hm, hm)
			}
			c.VPAND(table("bit2y", bytesOf(32, func(int) byte { return 4 })), hm, hm)
			c.VPOR(hm, q, q)
			c.VPSUBB(table("off4y", bytesOf(32, func(int) byte { return 4 })), q, q)
		})
	})
}

func decodeIQ4XSAVX2() {
	d := newDecoder("IQ4_XS")
	low := ymmWord("low0f", 0x0f0f0f0f)
	lane := func(f func(g int) uint32) []byte { return dwordsOf(8, f) }
	values := c.YMM()
	c.VMOVDQU(table("iq4signedy", bytesOf(32, func(i int) byte { return byte(iq4Values[i%16]) })), values)
	d.each(136, 256, func() {
		a, b := c.YMM(), c.YMM()
		c.VPBROADCASTD(at(d.src, 4), a)
		c.VPSRLVD(table("x4", lane(func(g int) uint32 { return uint32(4 * g) })), a, a)
		c.VPAND(table("c15y", lane(func(int) uint32 { return 15 })), a, a)
		c.VPBROADCASTD(at(d.src, 0), b)
		c.VPSRLVD(table("x2", lane(func(g int) uint32 { return uint32(16 + 2*g) })), b, b)
		c.VPSLLD(operand.U8(4), b, b)
		c.VPAND(table("c48y", lane(func(int) uint32 { return 48 })), b, b)
		c.VPOR(b, a, a)
		c.VPSUBD(table("c32y", lane(func(int) uint32 { return 32 })), a, a)
		// Each scale as two words.
		c.VPSLLD(operand.U8(16), a, b)
		c.VPBLENDW(operand.U8(0xaa), b, a, a)
		c.VMOVDQU(a, at(d.s, 0))
		d.single(0)
		for g := range 8 {
			x, y, q := c.XMM(), c.XMM(), c.YMM()
			c.VMOVDQU(at(d.src, 8+16*g), x)
			c.VPSRLW(operand.U8(4), x, y)
			c.VINSERTI128(operand.U8(1), y, x.AsY(), q)
			c.VPAND(low, q, q)
			c.VPSHUFB(q, values, q)
			c.VMOVDQU(q, at(d.q, 32*g))
		}
	})
}

func decodeTQ2AVX2() {
	d := newDecoder("TQ2_0")
	ones := ymmWord("ones16", 0x00010001)
	d.each(66, 256, func() {
		c.VMOVDQU(ones, at(d.s, 0))
		d.single(64)
		d.twoBits(0, func(q reg.VecVirtual, g int) {
			c.VPSUBB(table("off1y", bytesOf(32, func(int) byte { return 1 })), q, q)
		})
	})
}

// decodeTQ1AVX2 takes a digit of the fractions 0.d0d1d2… in base 3, 8 bits
// each, by comparison with 1/3 and 2/3, then multiplies by 3.
func decodeTQ1AVX2() {
	d := newDecoder("TQ1_0")
	third, thirds := ymmWord("tq1third", 86*0x01010101), ymmWord("tq1thirds", 171*0x01010101)
	minus := ymmWord("minus1y", 0xffffffff)
	ones := ymmWord("ones16", 0x00010001)
	digit := func(q reg.Register, dst reg.VecVirtual) {
		m := c.YMM()
		c.VPMAXUB(q, third, m)
		c.VPCMPEQB(q, m, m)
		c.VPSUBB(m, minus, dst)
		c.VPMAXUB(q, thirds, m)
		c.VPCMPEQB(q, m, m)
		c.VPSUBB(m, dst, dst)
		c.VPADDB(q, q, m)
		c.VPADDB(m, q, q)
	}
	d.each(54, 256, func() {
		c.VMOVDQU(ones, at(d.s, 0))
		d.single(52)
		q, v := c.YMM(), c.YMM()
		c.VMOVDQU(at(d.src, 0), q)
		for n := range 5 {
			digit(q, v)
			c.VMOVDQU(v, at(d.q, 32*n))
		}
		r := c.YMM()
		c.VMOVDQU(at(d.src, 32), r.AsX())
		for n := range 5 {
			digit(r, v)
			c.VMOVDQU(v.AsX(), at(d.q, 160+16*n))
		}
		w := c.XMM()
		t := c.YMM()
		c.VPBROADCASTD(at(d.src, 48), t)
		// Times 1, 3, 9 and 27 by fours, as words of one byte each.
		lo := c.XMM()
		c.VPMOVZXBW(t.AsX(), t)
		c.VPMULLW(table("tq1pow", wordsOf(16, func(i int) uint16 { return [4]uint16{1, 3, 9, 27}[i/4] })), t, t)
		c.VPAND(table("lowbytes", wordsOf(16, func(int) uint16 { return 255 })), t, t)
		c.VEXTRACTI128(operand.U8(1), t, w)
		c.VPACKUSWB(w, t.AsX(), lo)
		digit(lo.AsY(), v)
		c.VMOVDQU(v.AsX(), at(d.q, 240))
	})
}

// decodeIQ3SAVX2 looks fours of elements up in a table.
func decodeIQ3SAVX2() {
	d := newDecoder("IQ3_S")
	grid := c.GP64()
	c.LEAQ(operand.NewDataAddr(operand.Symbol{Name: "·iq3Bytes"}, 0), grid)
	lane := func(f func(g int) uint32) []byte { return dwordsOf(8, f) }
	d.each(110, 256, func() {
		// Scales 1 + 2s, s in eight nibbles, each as two words.
		a, b := c.YMM(), c.YMM()
		c.VPBROADCASTD(at(d.src, 106), a)
		c.VPSRLVD(table("x4", lane(func(g int) uint32 { return uint32(4 * g) })), a, a)
		c.VPAND(table("c15y", lane(func(int) uint32 { return 15 })), a, a)
		c.VPADDD(a, a, a)
		c.VPADDD(table("c1y", lane(func(int) uint32 { return 1 })), a, a)
		c.VPSLLD(operand.U8(16), a, b)
		c.VPOR(b, a, a)
		c.VMOVDQU(a, at(d.s, 0))
		d.single(0)
		for g := range 8 {
			high, i, m := c.GP32(), c.GP32(), c.GP32()
			part := [2]reg.VecVirtual{c.XMM(), c.XMM()}
			q := c.YMM()
			c.MOVBLZX(at(d.src, 66+g), high)
			for l := range 8 {
				c.MOVBLZX(at(d.src, 2+8*g+l), i)
				c.MOVL(high, m)
				c.SHLL(operand.U8(8-l), m)
				c.ANDL(operand.U32(256), m)
				c.ORL(m, i)
				entry := operand.Mem{Base: grid, Index: i.As64(), Scale: 4}
				if l%4 == 0 {
					c.VMOVD(entry, part[l/4])
				} else {
					c.VPINSRD(operand.U8(l%4), entry, part[l/4], part[l/4])
				}
			}
			c.VINSERTI128(operand.U8(1), part[1], part[0].AsY(), q)
			sign, mask := c.YMM(), c.YMM()
			c.VPBROADCASTD(at(d.src, 74+4*g), sign)
			c.VPSHUFB(table("bytes8", bytesOf(32, func(i int) byte { return byte(i / 8) })), sign, sign)
			c.VMOVDQU(table("bitmasky", bytesOf(32, func(i int) byte { return 1 << (i % 8) })), mask)
			c.VPAND(mask, sign, sign)
			c.VPCMPEQB(mask, sign, sign)
			c.VPXOR(sign, q, q)
			c.VPSUBB(sign, q, q)
			c.VMOVDQU(q, at(d.q, 32*g))
		}
	})
}
