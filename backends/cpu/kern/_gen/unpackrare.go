package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rareUnpackers generates the formats that are met less often.
func rareUnpackers() {
	const corr, min = 1152, 1280 // panel bytes of a block of 32
	u := newUnpacker("Q4_1")
	u.eachPart(20, min, func() {
		u.nibbles(4, nil)
		u.scale(0, 1024)
		u.scale(2, 1152)
	})

	u = newUnpacker("Q5_0")
	f := newFifth()
	u.eachPart(22, corr, func() {
		bits := u.transpose(2)[0]
		u.nibbles(6, func(q reg.VecVirtual, step int) { f.add(bits, q, step) })
		u.scale(0, 1024)
	})

	u = newUnpacker("Q5_1")
	f = newFifth()
	u.eachPart(24, min, func() {
		bits := u.transpose(4)[0]
		u.nibbles(8, func(q reg.VecVirtual, step int) { f.add(bits, q, step) })
		u.scale(0, 1024)
		u.scale(2, 1152)
	})

	u = newUnpacker("IQ4_NL")
	values := iq4Table()
	u.eachPart(18, corr, func() {
		u.nibbles(2, func(q reg.VecVirtual, _ int) { c.VPSHUFB(q, values, q) })
		u.scale(0, 1024)
	})

	u = newUnpacker("MXFP4")
	values = mxfp4Table()
	one := splat("one", 1)
	u.eachPart(17, corr, func() {
		u.nibbles(1, func(q reg.VecVirtual, _ int) { c.VPSHUFB(q, values, q) })
		e, z := c.XMM(), c.ZMM()
		for r := range 16 {
			c.VPINSRB(operand.U8(r), u.at(r, 0), e, e)
		}
		c.VPMOVZXBD(e, z)
		exponent(z, one)
		c.VMOVUPS(z, at(u.panel, 1024))
	})

	unpackQ2K()
	unpackQ3K()
	unpackIQ4XS()
	unpackTQ2()
	unpackTQ1()
	unpackIQ3S()
}

// exponent turns e8m0 exponents into 2^(e−128); subnormal results become 0.
func exponent(z, one reg.VecVirtual) {
	c.VPMAXUD(one, z, z)
	c.VPSUBD(one, z, z)
	c.VPSLLD(operand.U8(23), z, z)
}

// iq4Table holds the values of IQ4 nibbles plus 128 in every lane of 16 bytes.
func iq4Table() reg.VecVirtual {
	return loadTable("iq4values", bytesOf(64, func(i int) byte { return byte(iq4Values[i%16] + 128) }))
}

var (
	iq4Values   = [16]int{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	mxfp4Values = [16]int{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}
)

// mxfp4Table holds twice the values of e2m1 numbers plus 12.
func mxfp4Table() reg.VecVirtual {
	return loadTable("mxfp4values", bytesOf(64, func(i int) byte { return byte(mxfp4Values[i%16] + 12) }))
}

// spread turns four bits into four bytes of 0 or 1.
type spread struct{ low, mul, ones reg.VecVirtual }

func newSpread() spread {
	return spread{splat("low4", 15), splat("spread", 0x00204081), splat("ones8", 0x01010101)}
}

// of takes bits 4·step.. of every lane.
func (s spread) of(bits reg.VecVirtual, step int) reg.VecVirtual {
	b := c.ZMM()
	if step > 0 {
		c.VPSRLD(operand.U8(4*step), bits, b)
		c.VPANDD(s.low, b, b)
	} else {
		c.VPANDD(s.low, bits, b)
	}
	c.VPMULLD(s.mul, b, b)
	c.VPANDD(s.ones, b, b)
	return b
}

// fifth adds the fifth bits of Q5_0 and Q5_1 to nibbles.
type fifth struct{ spread }

func newFifth() fifth { return fifth{newSpread()} }

func (f fifth) add(bits, q reg.VecVirtual, step int) {
	b := f.of(bits, step)
	c.VPSLLD(operand.U8(4), b, b)
	c.VPORD(b, q, q)
}

// minPairs returns the shuffles that turn dwords of four byte minima into two registers of int16
// pairs.
func minPairs() [2]reg.VecVirtual {
	var p [2]reg.VecVirtual
	for i := range p {
		p[i] = loadTable([]string{"pair01", "pair23"}[i], bytesOf(64, func(b int) byte {
			if b%2 == 1 {
				return 0x80
			}
			return byte(b/4*4+2*i+b%4/2) & 15
		}))
	}
	return p
}

// twoBits unpacks 64 bytes of 2-bit numbers at disp, in the order of Q2_K.
// Panel groups of 32 are group bytes apart. more changes the numbers of
// element group g of 32 and dword i; begin runs before each half of the bytes.
func (u *unpacker) twoBits(disp, group int, low2 reg.VecVirtual, begin func(part int), more func(q reg.VecVirtual, g, i int)) {
	for part := range 2 {
		if begin != nil {
			begin(part)
		}
		for h := range 2 {
			for i, d := range u.transpose(disp + 32*h + 16*part) {
				for s := range 4 {
					q := c.ZMM()
					if s == 0 {
						c.VPANDD(low2, d, q)
					} else {
						c.VPSRLD(operand.U8(2*s), d, q)
						c.VPANDD(low2, q, q)
					}
					g := 4*h + s
					if more != nil {
						more(q, g, i)
					}
					c.VMOVDQU32(q, at(u.panel, group*g+128*(4*part+i)))
				}
			}
		}
	}
}

func unpackQ2K() {
	u := newUnpacker("Q2_K")
	const group, mins = 1280, 8*1280 + 128
	low2, byte0, pairs := splat("low03", 0x03030303), splat("lowff", 0xff), minPairs()
	u.each(84, mins+8*128+128, func() {
		u.scale(80, 8*group)
		u.scale(82, mins+8*128)
		for i, s := range u.transpose(0) {
			m := c.ZMM()
			c.VPSRLD(operand.U8(4), s, m)
			c.VPANDD(u.low, m, m)
			c.VPANDD(u.low, s, s)
			for j := range 4 {
				g := 4*i + j
				c.VMOVDQU32(byteOf(s, j, byte0), at(u.panel, group*(g/2)+1024+128*(g%2)))
			}
			for j := range 2 {
				p := c.ZMM()
				c.VPSHUFB(pairs[j], m, p)
				c.VMOVDQU32(p, at(u.panel, mins+128*(2*i+j)))
			}
		}
		u.twoBits(16, group, low2, nil, nil)
	})
}

func unpackQ3K() {
	u := newUnpacker("Q3_K")
	const group = 1280
	low2, bit2, byte0 := splat("low03", 0x03030303), splat("bit2", 0x04040404), splat("lowff", 0xff)
	c32 := splat("c32", 32)
	u.each(110, 8*group+128, func() {
		// The 16 bytes before the end are two bytes of quants, 12 of scales, d.
		t := u.transpose(94)
		var a [3]reg.VecVirtual
		for i := range a {
			a[i] = c.ZMM()
			hi := c.ZMM()
			c.VPSRLD(operand.U8(16), t[i], a[i])
			c.VPSLLD(operand.U8(16), t[i+1], hi)
			c.VPORD(hi, a[i], a[i])
		}
		y, d := c.YMM(), c.ZMM()
		c.VPSRLD(operand.U8(16), t[3], t[3])
		c.VPMOVDW(t[3], y)
		c.VCVTPH2PS(y, d)
		c.VMOVUPS(d, at(u.panel, 8*group))
		for q := range 4 { // groups 4q..4q+3
			s, b := c.ZMM(), c.ZMM()
			c.VPSRLD(operand.U8(q/2*4), a[q%2], s)
			c.VPANDD(u.low, s, s)
			c.VPSRLD(operand.U8(2*q), a[2], b)
			c.VPANDD(low2, b, b)
			c.VPSLLD(operand.U8(4), b, b)
			c.VPORD(b, s, s)
			for j := range 4 {
				f := byteOf(s, j, byte0)
				c.VPSUBD(c32, f, f)
				g := 4*q + j
				c.VMOVDQU32(f, at(u.panel, group*(g/2)+1024+128*(g%2)))
			}
		}
		var high [4]reg.VecVirtual
		u.twoBits(32, group, low2, func(part int) { high = u.transpose(16 * part) }, func(q reg.VecVirtual, g, i int) {
			b := c.ZMM()
			if g < 2 {
				c.VPSLLD(operand.U8(2-g), high[i], b)
			} else {
				c.VPSRLD(operand.U8(g-2), high[i], b)
			}
			c.VPTERNLOGD(operand.U8(0xf8), bit2, b, q)
		})
	})
}

func unpackIQ4XS() {
	u := newUnpacker("IQ4_XS")
	const group = 1152
	values, low4, low2, c32 := iq4Table(), splat("low4", 15), splat("low2", 3), splat("c32", 32)
	u.each(136, 8*group+128, func() {
		t := u.transpose(0)
		y, d, high := c.YMM(), c.ZMM(), c.ZMM()
		c.VPMOVDW(t[0], y)
		c.VCVTPH2PS(y, d)
		c.VMOVUPS(d, at(u.panel, 8*group))
		c.VPSRLD(operand.U8(16), t[0], high)
		for j := range 8 {
			s, b := c.ZMM(), c.ZMM()
			c.VPSRLD(operand.U8(4*j), t[1], s)
			c.VPANDD(low4, s, s)
			c.VPSRLD(operand.U8(2*j), high, b)
			c.VPANDD(low2, b, b)
			c.VPSLLD(operand.U8(4), b, b)
			c.VPORD(b, s, s)
			c.VPSUBD(c32, s, s)
			c.VMOVDQU32(s, at(u.panel, group*j+1024))
		}
		for j := range 8 {
			for i, q := range u.transpose(8 + 16*j) {
				h := c.ZMM()
				c.VPSRLD(operand.U8(4), q, h)
				for k, v := range []reg.VecVirtual{q, h} {
					c.VPANDD(u.low, v, v)
					c.VPSHUFB(v, values, v)
					c.VMOVDQU32(v, at(u.panel, group*j+128*(4*k+i)))
				}
			}
		}
	})
}

// oneScale stores the scale d of a superblock, and 1 for its groups of 32.
func (u *unpacker) oneScale(d, one reg.VecVirtual) {
	for j := range 8 {
		c.VMOVDQU32(one, at(u.panel, 1152*j+1024))
	}
	c.VMOVUPS(d, at(u.panel, 8*1152))
}

func unpackTQ2() {
	u := newUnpacker("TQ2_0")
	low2, one := splat("low03", 0x03030303), splat("one", 1)
	u.each(66, 8*1152+128, func() {
		u.oneScale(u.halves(64), one)
		u.twoBits(0, 1152, low2, nil, nil)
	})
}

func unpackTQ1() {
	u := newUnpacker("TQ1_0")
	t86, t171, ones := splat("t86", 86*0x01010101), splat("t171", 171*0x01010101), splat("ones8", 0x01010101)
	one := splat("one", 1)
	// digits stores the n digits of a register's bytes at the given places.
	digits := func(v reg.VecVirtual, n int, place func(digit int) int) {
		for i := range n {
			k1, k2, q := c.K(), c.K(), c.ZMM()
			c.VPCMPUB(operand.U8(5), t86, v, k1)
			c.VPCMPUB(operand.U8(5), t171, v, k2)
			c.VMOVDQU8_Z(ones, k1, q)
			c.VPADDB(ones, q, k2, q)
			c.VMOVDQU32(q, at(u.panel, place(i)))
			if i < n-1 {
				t := c.ZMM()
				c.VPADDB(v, v, t)
				c.VPADDB(t, v, v)
			}
		}
	}
	u.each(54, 8*1152+128, func() {
		for part := range 2 {
			for i, v := range u.transpose(16 * part) {
				digits(v, 5, func(n int) int { return 1152*n + 128*(4*part+i) })
			}
		}
		for i, v := range u.transpose(32) {
			digits(v, 5, func(n int) int { return 1152*(5+n/2) + 128*(n%2*4+i) })
		}
		t := u.transpose(38)
		v, hi, y, d := c.ZMM(), c.ZMM(), c.YMM(), c.ZMM()
		c.VPSRLD(operand.U8(16), t[2], v)
		c.VPSLLD(operand.U8(16), t[3], hi)
		c.VPORD(hi, v, v)
		digits(v, 4, func(n int) int { return 1152*7 + 128*(4+n) })
		c.VPSRLD(operand.U8(16), t[3], t[3])
		c.VPMOVDW(t[3], y)
		c.VCVTPH2PS(y, d)
		u.oneScale(d, one)
	})
}

func unpackIQ3S() {
	u := newUnpacker("IQ3_S")
	const group = 1152
	s := newSpread()
	c16 := splat("bit4", 0x10101010)
	one, byte0 := word("one", 1), word("lowff", 0xff)
	grid, none := newLookup("·iq3Bytes"), c.ZMM()
	zero(none)
	u.each(110, 8*group+128, func() {
		u.scale(0, 8*group)
		scales := u.transpose(94)[3]
		for j := range 8 {
			f := c.ZMM()
			c.VPSRLD(operand.U8(4*j), scales, f)
			c.VPANDD(s.low, f, f)
			c.VPADDD(f, f, f)
			c.VPADDD_BCST(one, f, f)
			c.VMOVDQU32(f, at(u.panel, group*j+1024))
		}
		head := u.transpose(66) // 8 bytes of ninth bits, then the signs of groups 0 and 1
		var signs [2]reg.VecVirtual
		for j := 0; j < 8; j += 2 {
			switch j {
			case 0:
				signs = [2]reg.VecVirtual{head[2], head[3]}
			case 6:
				t := u.transpose(94)
				signs = [2]reg.VecVirtual{t[1], t[2]}
			default:
				t := u.transpose(82)
				signs = [2]reg.VecVirtual{t[j-2], t[j-1]}
			}
			t := u.transpose(2 + 8*j) // the grid numbers of groups j and j+1
			for l := range 16 {
				g := j + l/8
				idx, bit := c.ZMM(), c.ZMM()
				if l%4 > 0 {
					c.VPSRLD(operand.U8(8*(l%4)), t[l/4], idx)
					c.VPANDD_BCST(byte0, idx, idx)
				} else {
					c.VPANDD_BCST(byte0, t[l/4], idx)
				}
				c.VPSRLD(operand.U8(8*(g%4)+l%8), head[g/4], bit)
				c.VPANDD_BCST(one, bit, bit)
				c.VPSLLD(operand.U8(8), bit, bit)
				c.VPORD(bit, idx, idx)
				q := grid.of(idx)
				neg, m := s.of(signs[l/8], l%8), c.ZMM()
				c.VPSUBB(neg, none, m) // 0 or 0xff
				c.VPXORD(m, q, q)
				c.VPADDB(c16, q, q)
				c.VPADDB(neg, q, q) // (q xor m) − m + 16
				c.VMOVDQU32(q, at(u.panel, group*g+128*(l%8)))
			}
		}
	})
}
