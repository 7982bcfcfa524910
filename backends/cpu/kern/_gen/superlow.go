package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// twoBits are the 64 bytes of a superblock that hold numbers of 2 bits, four in a
// byte: a byte's first number belongs to the first 32 elements of its half.
type twoBits struct {
	low           reg.VecVirtual
	fields, bytes [2]reg.VecVirtual
}

func (t *twoBits) setup() {
	t.low = splat("low03", 0x03030303)
	t.fields = [2]reg.VecVirtual{bitFields("f02to0", 0, 2, 0), bitFields("f46to0", 4, 6, 0)}
}

// load takes up the bytes at disp of a superblock.
func (t *twoBits) load(w reg.GPVirtual, disp int) {
	for h := range t.bytes {
		t.bytes[h] = c.ZMM()
		c.VBROADCASTI64X4(at(w, disp+32*h), t.bytes[h])
	}
}

// quants returns numbers 64·i to 64·i+63.
func (t *twoBits) quants(_ reg.GPVirtual, i int) reg.VecVirtual {
	q := c.ZMM()
	c.VPMULTISHIFTQB(t.bytes[i/2], t.fields[i%2], q)
	c.VPANDD(t.low, q, q)
	return q
}

func superQ2K() *superblock {
	var low4 reg.VecVirtual
	var two twoBits
	b := &superblock{name: "Q2_K", bytes: 84, d: 80, dmin: 82}
	b.setup = func() {
		low4 = splat("low0f", 0x0f0f0f0f)
		two.setup()
	}
	b.begin = func(w reg.GPVirtual) (scales, mins reg.VecVirtual) {
		scales, mins = c.ZMM(), c.ZMM()
		s, m := c.XMM(), c.XMM()
		c.VMOVDQU32(at(w, 0), s)
		c.VPSRLD(operand.U8(4), s, m)
		c.VPANDD(low4.AsX(), s, s)
		c.VPANDD(low4.AsX(), m, m)
		c.VPMOVZXBW(s, scales.AsY())
		c.VPMOVZXBW(m, mins.AsY())
		two.load(w, 16)
		return scales, mins
	}
	b.quants = two.quants
	return b
}

func superQ3K() *superblock {
	var low2, bit2, c32 reg.VecVirtual
	var fields, bytes [2]reg.VecVirtual
	var high reg.VecVirtual
	b := &superblock{name: "Q3_K", bytes: 110, d: 108, shift: 2}
	b.setup = func() {
		low2, bit2, c32 = splat("low03", 0x03030303), splat("bit2", 0x04040404), splat("w32", 0x00200020)
		fields = [2]reg.VecVirtual{bitFields("f02to0", 0, 2, 0), bitFields("f46to0", 4, 6, 0)}
	}
	b.begin = func(w reg.GPVirtual) (scales, mins reg.VecVirtual) {
		scales = c.ZMM()
		// The last 16 bytes: two of quants, 8 of nibbles, 4 of bit pairs, d.
		s, lo, hi := c.XMM(), c.XMM(), c.XMM()
		c.VMOVDQU32(at(w, 94), s)
		c.VPSHUFB(table("q3lo", bytesOf(16, func(i int) byte { return byte(2 + i%8) })), s, lo)
		c.VPSHUFB(table("q3hi", bytesOf(16, func(i int) byte { return byte(10 + i%4) })), s, hi)
		ctl := c.XMM()
		c.VMOVDQU32(table("q3loshift", bytesOf(16, func(i int) byte { return byte(8*(i%8) + i/8*4) })), ctl)
		c.VPMULTISHIFTQB(lo, ctl, lo)
		c.VMOVDQU32(table("q3hishift", bytesOf(16, func(i int) byte { return byte(8*(i%4)+i/4*2-4) & 63 })), ctl)
		c.VPMULTISHIFTQB(hi, ctl, hi)
		c.VPANDD(table("low0fx", bytesOf(16, func(int) byte { return 15 })), lo, lo)
		c.VPTERNLOGD(operand.U8(0xf8), table("bits45x", bytesOf(16, func(int) byte { return 0x30 })), hi, lo)
		c.VPMOVZXBW(lo, scales.AsY())
		c.VPSUBW(c32.AsY(), scales.AsY(), scales.AsY())
		high = c.ZMM()
		c.VBROADCASTI64X4(at(w, 0), high)
		for h := range bytes {
			bytes[h] = c.ZMM()
			c.VBROADCASTI64X4(at(w, 32+32*h), bytes[h])
		}
		return scales, nil
	}
	b.quants = func(w reg.GPVirtual, i int) reg.VecVirtual {
		q, h := c.ZMM(), bitFields(fmt.Sprintf("f%d%dto2", 2*i, 2*i+1), 2*i, 2*i+1, 2)
		c.VPMULTISHIFTQB(bytes[i/2], fields[i%2], q)
		c.VPANDD(low2, q, q)
		c.VPMULTISHIFTQB(high, h, h)
		c.VPTERNLOGD(operand.U8(0xf8), bit2, h, q)
		return q
	}
	return b
}

func superTQ2() *superblock {
	var two twoBits
	b := &superblock{name: "TQ2_0", bytes: 66, d: 64}
	b.setup = two.setup
	b.begin = func(w reg.GPVirtual) (scales, mins reg.VecVirtual) {
		two.load(w, 0)
		return nil, nil
	}
	b.quants = two.quants
	return b
}

func superTQ1() *superblock {
	var t86, t171, ones, lowByte, bytes reg.VecVirtual
	var source, power [4]reg.VecVirtual
	var used reg.Register
	// place returns byte and digit of element e.
	place := func(e int) (from, digit int) {
		switch {
		case e < 160:
			return e % 32, e / 32
		case e < 240:
			return 32 + e%16, (e - 160) / 16
		}
		return 48 + e%4, (e - 240) / 4
	}
	pow := [5]uint16{1, 3, 9, 27, 81}
	b := &superblock{name: "TQ1_0", bytes: 54, d: 52}
	b.setup = func() {
		t86, t171, ones, lowByte = splat("t86", 86*0x01010101), splat("t171", 171*0x01010101), splat("ones8", 0x01010101), splat("lowbyte", 0x00ff00ff)
		for i := range source {
			source[i] = loadTable(fmt.Sprintf("tq1src%d", i), bytesOf(64, func(e int) byte { f, _ := place(64*i + e); return byte(f) }))
			power[i] = loadTable(fmt.Sprintf("tq1pow%d", i), wordsOf(32, func(w int) uint16 { _, d := place(64*i + 2*w); return pow[d] }))
		}
		used = c.K()
		r := c.GP64()
		c.MOVQ(operand.U64(1<<54-1), r)
		c.KMOVQ(r, used)
	}
	b.begin = func(w reg.GPVirtual) (scales, mins reg.VecVirtual) {
		bytes = c.ZMM()
		c.VMOVDQU8_Z(at(w, 0), used, bytes)
		return nil, nil
	}
	b.quants = func(w reg.GPVirtual, i int) reg.VecVirtual {
		v, odd, q := c.ZMM(), c.ZMM(), c.ZMM()
		k1, k2 := c.K(), c.K()
		c.VPERMB(bytes, source[i], v)
		c.VPSRLW(operand.U8(8), v, odd)
		c.VPMULLW(power[i], v, v)
		c.VPMULLW(power[i], odd, odd)
		c.VPSLLW(operand.U8(8), odd, odd)
		c.VPTERNLOGD(operand.U8(0xca), odd, v, lowByteCopy(lowByte, q)) // mask ? v : odd
		c.VPCMPUB(operand.U8(5), t86, q, k1)
		c.VPCMPUB(operand.U8(5), t171, q, k2)
		c.VMOVDQU8_Z(ones, k1, q)
		c.VPADDB(ones, q, k2, q)
		return q
	}
	return b
}

func lowByteCopy(mask, to reg.VecVirtual) reg.VecVirtual {
	c.VMOVDQA32(mask, to)
	return to
}
