package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Arranged activations of four superblocks, for all formats: 1024 int8, then
// 128 bytes of sums at xSums.
const xSums = 1024

// rowSupers are the steppers of formats in superblocks of 256.
func rowSupers() []*rowStepper {
	return []*rowStepper{
		rowsQ4K(false), rowsQ4K(true), rows16(superQ6K()), rows16(superQ2K()), rows16(superQ3K()),
		rowsTernary(superTQ1()), rowsTernary(superTQ2()), rowsIQ4XS(),
	}
}

// superScales collects the f16 d and dmin of four superblocks. They lie at the
// given bytes; dmin is 0 if there is none.
type superScales struct {
	d, dmin     int
	words, mins reg.VecVirtual
}

func (s *superScales) setup() {
	s.words = c.XMM()
	if s.dmin > 0 {
		s.mins = c.XMM()
	}
}

func (s *superScales) start() {
	zero(s.words)
	if s.dmin > 0 {
		zero(s.mins)
	}
}

func (s *superScales) step(w reg.GPVirtual, pos int) {
	c.VPINSRW(operand.U8(pos), at(w, s.d), s.words, s.words)
	if s.dmin > 0 {
		c.VPINSRW(operand.U8(pos), at(w, s.dmin), s.mins, s.mins)
	}
}

func (s *superScales) get() (d, m reg.VecVirtual) {
	d = c.XMM()
	c.VCVTPH2PS(s.words, d)
	if s.dmin > 0 {
		m = c.XMM()
		c.VCVTPH2PS(s.mins, m)
	}
	return d, m
}

// newSuper makes the stepper of a format of superblocks from its decoding.
func newSuper(name string, bytes int, scales *superScales, setup func(), step func(w reg.GPVirtual, x tokens, pos int, sums []reg.VecVirtual)) *rowStepper {
	s := &rowStepper{name: name, super: true, wBytes: bytes, moves: true}
	s.setup = func(int) {
		scales.setup()
		setup()
	}
	s.start = scales.start
	s.step = func(w reg.GPVirtual, x tokens, pos int, sums []reg.VecVirtual, _ bool) {
		step(w, x, pos, sums)
		scales.step(w, pos)
		c.ADDQ(operand.I32(bytes), w)
	}
	s.scales = scales.get
	return s
}

// rows16 is for groups of 16 elements with scales of their own. Sums are 16
// int16 −Σx for each superblock, or, for formats with minima, 8 int16 Σx of
// each superblock's first groups and 8 of the others.
func rows16(b *superblock) *rowStepper {
	scales := &superScales{d: b.d, dmin: b.dmin}
	var half, packed reg.VecVirtual
	s := newSuper(b.name, b.bytes, scales, func() {
		half = c.YMM()
		if b.dmin > 0 {
			packed = c.ZMM()
		}
		b.setup()
	}, func(w reg.GPVirtual, x tokens, pos int, sums []reg.VecVirtual) {
		sc, mins := b.begin(w)
		if mins != nil {
			x := c.XMM()
			c.VPMOVWB(mins.AsY(), x)
			c.VINSERTI32X4(operand.U8(pos), x, packed, packed)
		}
		for t, v := range sums {
			if mins != nil {
				c.VMOVDQA32(none, v)
				continue
			}
			c.VPMADDWD(x.at(t, xSums+32*pos), sc.AsY(), half)
			c.VPSLLD(operand.U8(b.shift), half, half)
			c.VMOVDQA32(half.AsZ(), v)
		}
		for i := 0; i < 4; i += 2 {
			q := [2]reg.VecVirtual{b.quants(w, i), b.quants(w, i+1)}
			sw := loadTable(fmt.Sprintf("words%d", i), wordsOf(32, func(w int) uint16 { return uint16(4*(i+w%8/4) + w/8) }))
			c.VPERMW(sc, sw, sw)
			for t, v := range sums {
				c.VPDPWSSD(dotPair(q, x, t, 256*pos+64*i), sw, v)
			}
		}
	})
	if b.dmin > 0 {
		s.start = func() {
			scales.start()
			zero(packed)
		}
		s.mins = func(x tokens, t int) reg.VecVirtual {
			lo, hi := c.ZMM(), c.ZMM()
			c.VPUNPCKLBW(none, packed, lo)
			c.VPUNPCKHBW(none, packed, hi)
			c.VPMADDWD(x.at(t, xSums), lo, lo)
			c.VPMADDWD(x.at(t, xSums+64), hi, hi)
			c.VPADDD(hi, lo, lo)
			return lo
		}
	}
	return s
}

// dotPair returns the products of two registers of weights with a token, as
// words: in every lane of 128 bits four sums of the first, then four of the
// second, each of four products. With weights below 64 they do not saturate.
func dotPair(q [2]reg.VecVirtual, x tokens, t, disp int) reg.VecVirtual {
	d := vectors(2)
	for i, v := range d {
		c.VMOVDQA32(none, v)
		c.VPDPBUSD(x.at(t, disp+64*i), q[i], v)
	}
	c.VPACKSSDW(d[1], d[0], d[0])
	return d[0]
}

// rowsTernary is for superblocks with one scale and an offset of 1; sums are as
// for rows16.
func rowsTernary(b *superblock) *rowStepper {
	var ones, half reg.VecVirtual
	return newSuper(b.name, b.bytes, &superScales{d: b.d}, func() {
		ones, half = splat("ones16", 0x00010001), c.YMM()
		b.setup()
	}, func(w reg.GPVirtual, x tokens, pos int, sums []reg.VecVirtual) {
		b.begin(w)
		for t, v := range sums {
			c.VPMADDWD(x.at(t, xSums+32*pos), ones.AsY(), half)
			c.VMOVDQA32(half.AsZ(), v)
		}
		for i := range 4 {
			q := b.quants(w, i)
			for t, v := range sums {
				c.VPDPBUSD(x.at(t, 256*pos+64*i), q, v)
			}
		}
	})
}

// rowsIQ4XS takes activations as twice the first halves of four groups of 32
// and their second halves; sums are 8 int32 −128·Σ of 32 for each superblock.
func rowsIQ4XS() *rowStepper {
	var low, low4, low2, c32, values, half, raw reg.VecVirtual
	var shift4, shift2 [3]reg.VecVirtual
	return newSuper("IQ4_XS", 136, &superScales{d: 0}, func() {
		low, low4, low2, c32 = splat("low0f", 0x0f0f0f0f), splat("low4", 15), splat("low2", 3), splat("c32", 32)
		values, half, raw = iq4Table(), c.YMM(), c.ZMM()
		for i := range shift4 {
			group := func(lane int) uint32 {
				if i == 2 {
					return uint32(lane % 8)
				}
				return uint32(4*i + lane/4)
			}
			shift4[i] = loadTable(fmt.Sprintf("xs4%d", i), dwordsOf(16, func(l int) uint32 { return 4 * group(l) }))
			shift2[i] = loadTable(fmt.Sprintf("xs2%d", i), dwordsOf(16, func(l int) uint32 { return 16 + 2*group(l) }))
		}
	}, func(w reg.GPVirtual, x tokens, pos int, sums []reg.VecVirtual) {
		lo, hi := c.ZMM(), c.ZMM()
		c.VPBROADCASTD(at(w, 4), lo)
		c.VPBROADCASTD(at(w, 0), hi)
		// scale returns the scales of each lane's group.
		scale := func(i int) reg.VecVirtual {
			a, b := c.ZMM(), c.ZMM()
			c.VPSRLVD(shift4[i], lo, a)
			c.VPANDD(low4, a, a)
			c.VPSRLVD(shift2[i], hi, b)
			c.VPANDD(low2, b, b)
			c.VPSLLD(operand.U8(4), b, b)
			c.VPORD(b, a, a)
			c.VPSUBD(c32, a, a)
			return a
		}
		all := scale(2)
		for t, v := range sums {
			c.VPMULLD(x.at(t, xSums+32*pos), all.AsY(), half)
			c.VMOVDQA32(half.AsZ(), v)
		}
		for h := range 2 {
			q, top, sc := raw, c.ZMM(), scale(h)
			load64(w, 8+64*h, q)
			c.VPSRLD(operand.U8(4), q, top)
			c.VPANDD(low, q, q)
			c.VPANDD(low, top, top)
			c.VPSHUFB(q, values, q)
			c.VPSHUFB(top, values, top)
			for t, v := range sums {
				p := c.ZMM()
				c.VMOVDQA32(none, p)
				c.VPDPBUSD(x.at(t, 256*pos+128*h), q, p)
				c.VPDPBUSD(x.at(t, 256*pos+128*h+64), top, p)
				c.VPMULLD(sc, p, p)
				c.VPADDD(p, v, v)
			}
		}
	})
}

// rowsQ4K is for Q4_K, and for Q5_K if five is set. The groups of 32 of a
// superblock's activations are in the order 0 2 1 3 4 6 5 7; sums are 8 int16
// of 32 for each superblock.
func rowsQ4K(five bool) *rowStepper {
	name, block, quants := "Q4_K", 144, 16
	if five {
		name, block, quants = "Q5_K", 176, 48
	}
	s := &rowStepper{name: name, super: true, wBytes: block}
	var low, bit4, head, sc, d, dmin, raw reg.VecVirtual
	var groups [2]reg.VecVirtual
	var shifts [4]reg.VecVirtual
	first := [4]int{0, 1, 4, 5} // group in the lower half of 64 bytes; +2 in the upper
	s.setup = func(int) {
		low, head, sc, d, dmin, raw = splat("low0f", 0x0f0f0f0f), c.ZMM(), c.ZMM(), c.XMM(), c.XMM(), c.ZMM()
		for i := range groups {
			groups[i] = loadTable(fmt.Sprintf("group%d", 4*i), bytesOf(64, func(b int) byte {
				if b%2 == 1 {
					return 0x80
				}
				return byte(first[2*i+b%16/8] + b/32*2) // as dotPair has them
			}))
		}
		if five {
			bit4 = splat("bit4", 0x10101010)
			for i := range shifts {
				shifts[i] = loadTable(fmt.Sprintf("bits%d", first[i]), bytesOf(64, func(b int) byte {
					return byte(8*(b%8)+first[i]+b/32*2-4) & 63
				}))
			}
		}
	}
	s.begin = func(w reg.GPVirtual, lacks int) {
		if lacks == 0 {
			c.VMOVDQU32(at(w, 0), head.AsX())
		} else {
			c.VMOVDQA32(none, head)
		}
		for i := max(1, lacks); i < 4; i++ {
			c.VINSERTI32X4(operand.U8(i), at(w, block*i), head, head)
		}
		// The 12 bytes a, b, c of a header become 8 scales and 8 minima.
		hi, idx := c.ZMM(), c.ZMM()
		c.VPSHUFD(operand.U8(0xed), head, sc)
		c.VPSRLVD(table("kshift", dwordsOf(16, func(i int) uint32 { return uint32(i % 4 / 3 * 4) })), sc, sc)
		c.VPANDD(table("kmask", dwordsOf(16, func(i int) uint32 { return 0x3f3f3f3f >> (i % 2 * 2) & (0x3f3f3f3f - uint32(i%2)*0x30303030) })), sc, sc)
		c.VPSHUFD(operand.U8(0x84), head, hi)
		c.VPSRLD(operand.U8(2), hi, hi)
		c.VPTERNLOGD(operand.U8(0xf8), table("khigh", dwordsOf(16, func(i int) uint32 { return uint32(i%2) * 0x30303030 })), hi, sc)
		// Words 0 and 1 of the headers, d and dmin, one after the other.
		c.VMOVDQU32(table("rowkd", wordsOf(32, func(i int) uint16 { return uint16(i%4*8 + i/4%2) })), idx)
		c.VPERMW(head, idx, idx)
		both := c.YMM()
		c.VCVTPH2PS(idx.AsX(), both)
		c.VMOVUPS(both.AsX(), d)
		c.VEXTRACTF32X4(operand.U8(1), both, dmin)
	}
	s.step = func(w reg.GPVirtual, x tokens, pos int, sums []reg.VecVirtual, _ bool) {
		sub, high := c.ZMM(), c.ZMM()
		c.VSHUFI32X4(operand.U8(pos*0x55), sc, sc, sub)
		if five {
			c.VBROADCASTI64X4(at(w, block*pos+16), high)
		}
		for half := range 2 {
			var q [2]reg.VecVirtual
			q[0], q[1] = raw, c.ZMM()
			load64(w, block*pos+quants+64*half, q[0])
			c.VPSRLD(operand.U8(4), q[0], q[1])
			for p := range q {
				c.VPANDD(low, q[p], q[p])
				if five {
					bits := c.ZMM()
					c.VPMULTISHIFTQB(high, shifts[2*half+p], bits)
					c.VPTERNLOGD(operand.U8(0xf8), bit4, bits, q[p])
				}
			}
			words := c.ZMM()
			c.VPSHUFB(groups[half], sub, words)
			for t, v := range sums {
				prod := dotPair(q, x, t, 256*pos+128*half)
				if half == 0 {
					c.VPMADDWD(prod, words, v)
				} else {
					c.VPDPWSSD(prod, words, v)
				}
			}
		}
	}
	s.scales = func() (reg.VecVirtual, reg.VecVirtual) { return d, dmin }
	s.mins = func(x tokens, t int) reg.VecVirtual {
		m := c.ZMM()
		c.VPUNPCKHBW(none, sc, m)
		c.VPMADDWD(x.at(t, xSums), m, m)
		return m
	}
	return s
}
