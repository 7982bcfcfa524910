package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func superQ2K() *superblock {
	var low4, low2 reg.VecVirtual
	var fields, bytes [2]reg.VecVirtual
	b := &superblock{name: "Q2_K", bytes: 84, d: 80, dmin: 82}
	b.setup = func() {
		low4, low2 = splat("low0f", 0x0f0f0f0f), splat("low03", 0x03030303)
		fields = [2]reg.VecVirtual{bitFields("f02to0", 0, 2, 0), bitFields("f46to0", 4, 6, 0)}
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
		for h := range bytes {
			bytes[h] = c.ZMM()
			c.VBROADCASTI64X4(at(w, 16+32*h), bytes[h])
		}
		return scales, mins
	}
	b.quants = func(w reg.GPVirtual, i int) reg.VecVirtual {
		q := c.ZMM()
		c.VPMULTISHIFTQB(bytes[i/2], fields[i%2], q)
		c.VPANDD(low2, q, q)
		return q
	}
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
	var low2 reg.VecVirtual
	var fields, bytes [2]reg.VecVirtual
	b := &superblock{name: "TQ2_0", bytes: 66, d: 64}
	b.setup = func() {
		low2 = splat("low03", 0x03030303)
		fields = [2]reg.VecVirtual{bitFields("f02to0", 0, 2, 0), bitFields("f46to0", 4, 6, 0)}
	}
	b.begin = func(w reg.GPVirtual) (scales, mins reg.VecVirtual) {
		for h := range bytes {
			bytes[h] = c.ZMM()
			c.VBROADCASTI64X4(at(w, 32*h), bytes[h])
		}
		return nil, nil
	}
	b.quants = func(w reg.GPVirtual, i int) reg.VecVirtual {
		q := c.ZMM()
		c.VPMULTISHIFTQB(bytes[i/2], fields[i%2], q)
		c.VPANDD(low2, q, q)
		return q
	}
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
	b := &superblock{name: "TQ1_0", bytes: 54, d: 52, most: 4}
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

// stepTernary takes one superblock with one scale and an offset of 1, on the
// activations of step16.
func stepTernary(b *superblock) *stepper {
	s := &stepper{
		name: b.name, wBytes: b.bytes, xBytes: 320, prefetch: 8192, most: b.most,
		doc: "\t\td·dx·(Σ q·x − Σx)   per superblock",
	}
	var ones reg.VecVirtual
	s.setup = func() {
		ones = splat("ones16", 0x00010001)
		b.setup()
	}
	s.step = func(w reg.GPVirtual, x tokens, acc []reg.VecVirtual, tail bool) {
		b.begin(w)
		d := c.ZMM()
		c.VPBROADCASTW(at(w, b.d), d.AsY())
		c.VCVTPH2PS(d.AsY(), d)
		sum := make([]reg.VecVirtual, len(acc))
		for t := range acc {
			sum[t] = c.ZMM()
			c.VPMADDWD(x.at(t, 256), ones.AsY(), sum[t].AsY())
		}
		for i := range 4 {
			q := b.quants(w, i)
			for t := range acc {
				c.VPDPBUSD(x.at(t, 64*i), q, sum[t])
			}
		}
		finish256(x, d, sum, acc)
	}
	return s
}

// finish256 adds the integer sums of a superblock, times d and the activation
// scale at 288.
func finish256(x tokens, d reg.VecVirtual, sum, acc []reg.VecVirtual) {
	for t := range acc {
		f := c.ZMM()
		c.VCVTDQ2PS(sum[t], sum[t])
		c.VMULPS_BCST(x.at(t, 288), d, f)
		c.VFMADD231PS(f, sum[t], acc[t])
	}
}

// stepIQ4XS takes one superblock. Prepared activations: twice the first halves
// of four groups of 32, then their second halves; 8 int32 −128·Σ of 32; f32
// scale; 28 unused bytes.
func stepIQ4XS() *stepper {
	s := &stepper{
		name: "IQ4_XS", wBytes: 136, xBytes: 320, prefetch: 8192, most: 4,
		doc: "\t\td·dx·Σ_j (sc[j]−32)·(Σ q·x − 128·Σx)   per superblock, groups j of 32",
	}
	var low, low4, low2, c32, values, none, raw reg.VecVirtual
	var shift4, shift2 [3]reg.VecVirtual
	s.setup = func() {
		low, low4, low2, c32 = splat("low0f", 0x0f0f0f0f), splat("low4", 15), splat("low2", 3), splat("c32", 32)
		values, none, raw = iq4Table(), c.ZMM(), c.ZMM()
		zero(none)
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
	}
	s.step = func(w reg.GPVirtual, x tokens, acc []reg.VecVirtual, tail bool) {
		lo, hi, d := c.ZMM(), c.ZMM(), c.ZMM()
		c.VPBROADCASTD(at(w, 4), lo)
		c.VPBROADCASTD(at(w, 0), hi)
		c.VPBROADCASTW(at(w, 0), d.AsY())
		c.VCVTPH2PS(d.AsY(), d)
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
		sum := make([]reg.VecVirtual, len(acc))
		for t := range acc {
			sum[t] = c.ZMM()
			c.VPMULLD(x.at(t, 256), all.AsY(), sum[t].AsY())
		}
		for h := range 2 {
			q, top, sc := raw, c.ZMM(), scale(h)
			load64(w, 8+64*h, q)
			c.VPSRLD(operand.U8(4), q, top)
			c.VPANDD(low, q, q)
			c.VPANDD(low, top, top)
			c.VPSHUFB(q, values, q)
			c.VPSHUFB(top, values, top)
			for t := range acc {
				p := c.ZMM()
				c.VMOVDQA32(none, p)
				c.VPDPBUSD(x.at(t, 128*h), q, p)
				c.VPDPBUSD(x.at(t, 128*h+64), top, p)
				c.VPMULLD(sc, p, p)
				c.VPADDD(p, sum[t], sum[t])
			}
		}
		finish256(x, d, sum, acc)
	}
	return s
}

// stepIQ3S takes one superblock. Prepared activations: 256 int8; 8 int32
// −16·Σ of 32; f32 scale; 28 unused bytes.
func stepIQ3S() *stepper {
	s := &stepper{
		name: "IQ3_S", wBytes: 110, xBytes: 320, prefetch: 8192, most: 4,
		doc: "\t\td·dx·Σ_j (1+2·sc[j])·(Σ q·x − 16·Σx)   per superblock, groups j of 32",
	}
	var low4, one, c16, c256, none reg.VecVirtual
	var shift [5]reg.VecVirtual
	var high, sign reg.Register
	var grid *lookup
	s.setup = func() {
		low4, one, c16, c256 = splat("low4", 15), splat("one", 1), splat("bit4", 0x10101010), splat("c256", 256)
		high, sign, none = c.K(), c.K(), c.ZMM()
		zero(none)
		grid = newLookup("·iq3Bytes")
		for i := range shift {
			shift[i] = loadTable(fmt.Sprintf("s3%d", i), dwordsOf(16, func(l int) uint32 {
				if i == 4 {
					return uint32(4 * (l % 8))
				}
				return uint32(4 * (2*i + l/8))
			}))
		}
	}
	s.step = func(w reg.GPVirtual, x tokens, acc []reg.VecVirtual, tail bool) {
		bits, d := c.ZMM(), c.ZMM()
		c.VPBROADCASTD(at(w, 106), bits)
		c.VPBROADCASTW(at(w, 0), d.AsY())
		c.VCVTPH2PS(d.AsY(), d)
		scale := func(i int) reg.VecVirtual {
			a := c.ZMM()
			c.VPSRLVD(shift[i], bits, a)
			c.VPANDD(low4, a, a)
			c.VPADDD(a, a, a)
			c.VPADDD(one, a, a)
			return a
		}
		all := scale(4)
		sum := make([]reg.VecVirtual, len(acc))
		for t := range acc {
			sum[t] = c.ZMM()
			c.VPMULLD(x.at(t, 256), all.AsY(), sum[t].AsY())
		}
		for i := range 4 {
			idx, sc := c.ZMM(), scale(i)
			c.VPMOVZXBD(at(w, 2+16*i), idx)
			c.KMOVW(at(w, 66+2*i), high)
			c.VPADDD(c256, idx, high, idx)
			q := grid.of(idx)
			c.KMOVQ(at(w, 74+8*i), sign)
			u := c.ZMM()
			c.VPADDB(q, c16, u)
			c.VPSUBB(q, c16, sign, u)
			for t := range acc {
				p := c.ZMM()
				c.VMOVDQA32(none, p)
				c.VPDPBUSD(x.at(t, 64*i), u, p)
				c.VPMULLD(sc, p, p)
				c.VPADDD(p, sum[t], sum[t])
			}
		}
		finish256(x, d, sum, acc)
	}
	return s
}
