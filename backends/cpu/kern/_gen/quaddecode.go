package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets in quadDecodeArgs.
const qcW, qcStride, qcRows, qcDst, qcBlocks, qcPart, qcMask, qcAhead, qcAdvance = 0, 8, 16, 24, 32, 40, 48, 80, 88

// quadAhead asks for what one row of a step has to.
var quadAhead func()

// quadDecoders are the types whose rows can be decoded to quads.
var quadDecoders []string

// quadDecode generates the decoding of up to 16 rows of a format, four side by
// side. partial, or nil, generates the decoding of a first four blocks of which
// only some exist; body that of all others. Both get the places in the rows,
// where the results of these four rows go, and where what is one number for
// each row.
func quadDecode(name string, l *quadLayout, wBytes int, setup func(), partial, body func(w []reg.GPVirtual, dst, single reg.GPVirtual)) {
	quadDecoders = append(quadDecoders, name)
	a, get := begin("quadDecode"+name+"AVX512", "quadDecodeArgs", "decodes rows of "+name+" to quads.")
	row, stride, rows, ahead, advance := get(qcW), get(qcStride), get(qcRows), get(qcAhead), get(qcAdvance)
	if partial != nil {
		c.SUBQ(at(a, qcPart), row)
	}
	none = c.ZMM()
	zero(none)
	setup()
	four := c.GP64()
	c.XORQ(four, four)
	c.Label("rows")
	// The last row stands in for rows that do not exist.
	w := make([]reg.GPVirtual, 4)
	for r := range w {
		w[r] = c.GP64()
		next := c.GP64()
		c.MOVQ(row, w[r])
		c.LEAQ(operand.Mem{Base: row, Index: stride, Scale: 1}, next)
		c.DECQ(rows)
		c.CMOVQGT(next, row)
	}
	dst, single, blocks := c.GP64(), c.GP64(), c.GP64()
	c.MOVQ(four, single)
	c.SHRQ(operand.U8(4), single)
	c.MOVQ(at(a, qcDst), dst)
	c.ADDQ(dst, single)
	c.ADDQ(four, dst)
	c.MOVQ(at(a, qcBlocks), blocks)
	if partial != nil {
		part := c.GP64()
		c.MOVQ(at(a, qcPart), part)
		c.TESTQ(part, part)
		c.JZ(operand.LabelRef("block"))
		partial(w, dst, single)
		c.JMP(operand.LabelRef("next"))
	}
	c.Label("block")
	quadAhead = func() { prefetchStep(ahead, advance, (wBytes+127)/128) }
	body(w, dst, single)
	c.Label("next")
	for _, p := range w {
		c.ADDQ(operand.I32(wBytes), p)
	}
	c.ADDQ(operand.I32(l.w), dst)
	c.ADDQ(operand.I32(l.w), single)
	c.DECQ(blocks)
	c.JNZ(operand.LabelRef("block"))
	c.ADDQ(operand.I8(64), four)
	c.TESTQ(rows, rows)
	c.JG(operand.LabelRef("rows"))
	end()
}

// quadSteps writes one part of four rows: lane i of row r goes to lane r of
// step i.
func quadSteps(v [4]reg.VecVirtual, dst reg.GPVirtual, step int) {
	var p [4]reg.VecVirtual
	for i := range 2 {
		p[2*i], p[2*i+1] = c.ZMM(), c.ZMM()
		c.VSHUFI32X4(operand.U8(0x44), v[2*i+1], v[2*i], p[2*i])
		c.VSHUFI32X4(operand.U8(0xee), v[2*i+1], v[2*i], p[2*i+1])
	}
	for i := range 4 {
		order, r := uint8(0x88), c.ZMM()
		if i%2 == 1 {
			order = 0xdd
		}
		c.VSHUFI32X4(operand.U8(order), p[2+i/2], p[i/2], r)
		c.VMOVDQU32(r, at(dst, 256*(step+i)))
	}
}

// quadDecode32 generates the decoding of a format of blocks of 32.
func quadDecode32(d *blockDecoder) {
	l := quadLayoutOf(0, d.noOffset)
	d.maskAt = qcMask
	body := func(partial bool) func(w []reg.GPVirtual, dst, _ reg.GPVirtual) {
		return func(w []reg.GPVirtual, dst, _ reg.GPVirtual) {
			var q [2][4]reg.VecVirtual
			for r := range w {
				if !partial {
					quadAhead()
				}
				p := d.decode(w[r], 0, 0, partial)
				for h := range q {
					q[h][r] = c.ZMM()
					c.VMOVDQA32(p[h], q[h][r])
				}
				s, m := d.scales()
				c.VMOVUPS(s.AsX(), at(dst, l.d+16*r))
				if m != nil {
					c.VMOVUPS(m.AsX(), at(dst, l.dmin+16*r))
				}
			}
			for h := range q {
				quadSteps(q[h], dst, 4*h)
			}
		}
	}
	quadDecode(d.name, l, d.wBytes, func() {
		d.setup(1)
		d.start()
	}, body(true), body(false))
}

func quadLayoutOf(group int, min bool) *quadLayout {
	for _, l := range quadLayouts() {
		if l.group == group && l.min == min {
			return l
		}
	}
	panic("_gen: no such layout")
}

// quarters writes 16 bytes of v to each of n places, 256 bytes apart.
func quarters(v reg.VecVirtual, n int, to reg.GPVirtual, disp int) {
	c.VMOVDQU32(v.AsX(), at(to, disp))
	for i := 1; i < n; i++ {
		if n == 2 {
			c.VEXTRACTI32X4(operand.U8(i), v.AsY(), at(to, disp+256*i))
		} else {
			c.VEXTRACTI32X4(operand.U8(i), v, at(to, disp+256*i))
		}
	}
}

// quadHalf writes the f16 at disp of a row as f32.
func quadHalf(w reg.GPVirtual, disp int, to operand.Mem) {
	r, x := c.GP32(), c.XMM()
	c.MOVWLZX(at(w, disp), r)
	c.VMOVD(r, x)
	c.VCVTPH2PS(x, x)
	c.VMOVSS(x, to)
}

// quadDecode16 generates the decoding of a format with scales for groups of 16.
func quadDecode16(b *superblock) {
	l := quadLayoutOf(16, b.dmin > 0)
	var turn reg.VecVirtual
	quadDecode(b.name, l, b.bytes, func() {
		b.setup()
		turn = turned(4, 0)
	}, nil, func(w []reg.GPVirtual, dst, single reg.GPVirtual) {
		var q [4][4]reg.VecVirtual
		for r := range w {
			quadAhead()
			sc, mins := b.begin(w[r])
			s := c.ZMM()
			c.VPMOVSXWD(sc.AsY(), s)
			quarters(s, 4, dst, l.sc+16*r)
			if mins != nil {
				quarters(mins, 2, dst, l.mn+16*r)
				quadHalf(w[r], b.dmin, at(single, l.dmin+16*r))
			}
			quadHalf(w[r], b.d, at(single, l.d+16*r))
			for i := range q {
				q[i][r] = b.quants(w[r], i)
				c.VPERMD(q[i][r], turn, q[i][r])
			}
		}
		for i := range q {
			quadSteps(q[i], dst, 4*i)
		}
	})
}

// quadDecodeTernary generates the decoding of a format with one scale.
func quadDecodeTernary(b *superblock) {
	l := quadLayoutOf(32, false)
	var turn [2]reg.VecVirtual
	var one reg.VecVirtual
	quadDecode(b.name, l, b.bytes, func() {
		b.setup()
		turn, one = [2]reg.VecVirtual{turned(8, 0), turned(8, 4)}, splat("one", 1)
	}, nil, func(w []reg.GPVirtual, dst, single reg.GPVirtual) {
		for half := range 2 {
			var q [2][4]reg.VecVirtual
			for r := range w {
				b.begin(w[r])
				pair := turnPair([2]reg.VecVirtual{b.quants(w[r], 2*half), b.quants(w[r], 2*half+1)}, turn)
				q[0][r], q[1][r] = pair[0], pair[1]
				if half == 0 {
					quadAhead()
					quarters(one, 2, dst, l.sc+16*r)
					quadHalf(w[r], b.d, at(single, l.d+16*r))
				}
			}
			for p := range q {
				quadSteps(q[p], dst, 8*half+4*p)
			}
		}
	})
}

// quadDecodeQ4K generates the decoding of Q4_K, and of Q5_K if five is set.
func quadDecodeQ4K(five bool) {
	name, block, quants := "Q4_K", 144, 16
	if five {
		name, block, quants = "Q5_K", 176, 48
	}
	l := quadLayoutOf(32, true)
	var low, bit4, raw reg.VecVirtual
	var turn [2]reg.VecVirtual
	var shifts [4]reg.VecVirtual
	quadDecode(name, l, block, func() {
		low, raw = splat("low0f", 0x0f0f0f0f), c.ZMM()
		for h := range turn {
			// Group j is in register j%2, half j/2.
			turn[h] = loadTable(fmt.Sprintf("turnk%d", h), dwordsOf(16, func(i int) uint32 { return uint32(i%4%2*16 + i%4/2*8 + i/4 + 4*h) }))
		}
		if five {
			bit4 = splat("bit4", 0x10101010)
			for i := range shifts {
				first := i/2*4 + i%2
				shifts[i] = loadTable(fmt.Sprintf("bits%d", first), bytesOf(64, func(b int) byte {
					return byte(8*(b%8)+first+b/32*2-4) & 63
				}))
			}
		}
	}, nil, func(w []reg.GPVirtual, dst, single reg.GPVirtual) {
		for r := range w {
			quadAhead()
			head, sc, hi, d := c.XMM(), c.XMM(), c.XMM(), c.XMM()
			c.VMOVDQU32(at(w[r], 0), head)
			c.VPSHUFD(operand.U8(0xed), head, sc)
			c.VPSRLVD(table("kshift", dwordsOf(16, func(i int) uint32 { return uint32(i % 4 / 3 * 4) })), sc, sc)
			c.VPANDD(table("kmask", dwordsOf(16, func(i int) uint32 { return 0x3f3f3f3f >> (i % 2 * 2) & (0x3f3f3f3f - uint32(i%2)*0x30303030) })), sc, sc)
			c.VPSHUFD(operand.U8(0x84), head, hi)
			c.VPSRLD(operand.U8(2), hi, hi)
			c.VPTERNLOGD(operand.U8(0xf8), table("khigh", dwordsOf(16, func(i int) uint32 { return uint32(i%2) * 0x30303030 })), hi, sc)
			s := c.YMM()
			c.VPMOVZXBD(sc, s)
			quarters(s, 2, dst, l.sc+16*r)
			c.VPSHUFD(operand.U8(0x0e), sc, sc)
			c.VPMOVZXBW(sc, sc)
			c.VMOVDQU32(sc, at(dst, l.mn+16*r))
			c.VCVTPH2PS(head, d)
			c.VMOVSS(d, at(single, l.d+16*r))
			c.VEXTRACTPS(operand.U8(1), d, at(single, l.dmin+16*r))
		}
		for half := range 2 {
			var q [2][4]reg.VecVirtual
			for r := range w {
				top := c.ZMM()
				load64(w[r], quants+64*half, raw)
				c.VPSRLD(operand.U8(4), raw, top)
				pair := [2]reg.VecVirtual{raw, top}
				for p, v := range pair {
					c.VPANDD(low, v, v)
					if five {
						bits := c.ZMM()
						c.VBROADCASTI64X4(at(w[r], 16), bits)
						c.VPMULTISHIFTQB(bits, shifts[2*half+p], bits)
						c.VPTERNLOGD(operand.U8(0xf8), bit4, bits, v)
					}
				}
				pair = turnPair(pair, turn)
				q[0][r], q[1][r] = pair[0], pair[1]
			}
			for p := range q {
				quadSteps(q[p], dst, 8*half+4*p)
			}
		}
	})
}

// quadDecodeIQ4XS generates the decoding of IQ4_XS.
func quadDecodeIQ4XS() {
	l := quadLayoutOf(32, false)
	var low, low4, low2, c32, values, raw, shift4, shift2, turn reg.VecVirtual
	quadDecode("IQ4_XS", l, 136, func() {
		low, low4, low2, c32 = splat("low0f", 0x0f0f0f0f), splat("low4", 15), splat("low2", 3), splat("c32", 32)
		values, raw, turn = iq4Table(), c.ZMM(), turned(4, 0)
		shift4 = loadTable("xs42", dwordsOf(16, func(l int) uint32 { return uint32(4 * (l % 8)) }))
		shift2 = loadTable("xs22", dwordsOf(16, func(l int) uint32 { return uint32(16 + 2*(l%8)) }))
	}, nil, func(w []reg.GPVirtual, dst, single reg.GPVirtual) {
		for r := range w {
			quadAhead()
			a, b := c.YMM(), c.YMM()
			c.VPBROADCASTD(at(w[r], 4), a)
			c.VPSRLVD(shift4.AsY(), a, a)
			c.VPANDD(low4.AsY(), a, a)
			c.VPBROADCASTD(at(w[r], 0), b)
			c.VPSRLVD(shift2.AsY(), b, b)
			c.VPANDD(low2.AsY(), b, b)
			c.VPSLLD(operand.U8(4), b, b)
			c.VPORD(b, a, a)
			c.VPSUBD(c32.AsY(), a, a)
			quarters(a, 2, dst, l.sc+16*r)
			quadHalf(w[r], 0, at(single, l.d+16*r))
		}
		for half := range 2 {
			var q [2][4]reg.VecVirtual
			for r := range w {
				top := c.ZMM()
				load64(w[r], 8+64*half, raw)
				c.VPSRLD(operand.U8(4), raw, top)
				for p, v := range []reg.VecVirtual{raw, top} {
					q[p][r] = c.ZMM()
					c.VPANDD(low, v, v)
					c.VPSHUFB(v, values, v)
					c.VPERMD(v, turn, q[p][r])
				}
			}
			for p := range q {
				quadSteps(q[p], dst, 8*half+4*p)
			}
		}
	})
}
