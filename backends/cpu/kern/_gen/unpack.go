package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets in unpackArgs.
const (
	upW, upStride, upPanel, upBlocks, upPrefetch, upPart, upFirst = 0, 8, 16, 24, 32, 40, 48
)

// unpacker generates the unpacking of 16 rows into one half of a panel. The
// rows are reached from four pointers and three multiples of the stride.
type unpacker struct {
	row           [4]reg.GPVirtual // rows 0, 4, 8, 12
	stride, three reg.GPVirtual
	panel, blocks reg.GPVirtual
	ahead         reg.GPVirtual
	// turn and back are how far the panel moves from block to block, and back
	// after four; count is the number of blocks until then.
	turn, back, count reg.GPVirtual
	low               reg.VecVirtual
	// part holds the rows while they are gathered and half the scales. They are allocated once:
	// writing the low lanes of a register makes it live from the start.
	part [4]reg.VecVirtual
	half reg.VecVirtual
}

func genUnpack() {
	u := newUnpacker("Q8_0")
	flip := splat("flip80", 0x80808080)
	u.eachPart(34, 1152, func() {
		for h := range 2 {
			for i, d := range u.transpose(2 + 16*h) {
				c.VPXORD(flip, d, d)
				u.store(d, 4*h+i)
			}
		}
		u.scale(0, 1024)
	})
	u = newUnpacker("Q4_0")
	u.eachPart(18, 1152, func() {
		u.nibbles(2, nil)
		u.scale(0, 1024)
	})
	unpackQ4K(false)
	unpackQ4K(true)
	unpackQ6K()
	rareUnpackers()
	for _, f := range []string{"F32", "F16", "BF16"} {
		unpackFloat(f)
	}
}

func newUnpacker(name string) *unpacker {
	c.Function("unpack" + name + "AVX512")
	c.Attributes(noSplit)
	c.Pragma("noescape")
	c.Doc("unpack" + name + "AVX512 unpacks the blocks of 16 rows of " + name + " into one half of a panel.")
	signature("unpackArgs")
	a := c.Load(c.Param("a"), c.GP64()).(reg.GPVirtual)
	get := func(off int) reg.GPVirtual { r := c.GP64(); c.MOVQ(at(a, off), r); return r }
	u := &unpacker{}
	u.row[0], u.stride, u.panel, u.blocks, u.ahead = get(upW), get(upStride), get(upPanel), get(upBlocks), get(upPrefetch)
	for i := 1; i < 4; i++ {
		u.row[i] = c.GP64()
		c.LEAQ(operand.Mem{Base: u.row[i-1], Index: u.stride, Scale: 4}, u.row[i])
	}
	u.three = c.GP64()
	c.LEAQ(operand.Mem{Base: u.stride, Index: u.stride, Scale: 2}, u.three)
	u.low = splat("low0f", 0x0f0f0f0f)
	for i := range u.part {
		u.part[i] = c.ZMM()
	}
	u.half = c.YMM()
	return u
}

// each runs body for every block of size bytes and out panel bytes.
// Meanwhile the lines of the following 16 rows are prefetched.
func (u *unpacker) each(size, out int, body func()) {
	u.loop(size, body, func() { c.ADDQ(operand.I32(out), u.panel) })
}

// eachPart is each for blocks of 32, which go to the parts of the panel in
// turn.
func (u *unpacker) eachPart(size, out int, body func()) {
	u.turn, u.back, u.count = c.GP64(), c.GP64(), c.GP64()
	a := c.Load(c.Param("a"), c.GP64()).(reg.GPVirtual)
	c.MOVQ(at(a, upPart), u.turn)
	c.MOVQ(at(a, upFirst), u.count)
	c.MOVQ(u.turn, u.back)
	c.SHLQ(operand.U8(2), u.back)
	c.SUBQ(operand.I32(out), u.back)
	u.loop(size, body, func() {
		c.ADDQ(u.turn, u.panel)
		c.DECQ(u.count)
		c.JNZ(operand.LabelRef("same"))
		c.SUBQ(u.back, u.panel)
		c.MOVQ(operand.U32(4), u.count)
		c.Label("same")
	})
}

func (u *unpacker) loop(size int, body, advance func()) {
	c.Label("block")
	for line := 0; line < 16*size; line += 64 {
		c.PREFETCHT1(at(u.ahead, line))
	}
	c.ADDQ(operand.I32(16*size), u.ahead)
	body()
	for _, r := range u.row {
		c.ADDQ(operand.I32(size), r)
	}
	advance()
	c.DECQ(u.blocks)
	c.JNZ(operand.LabelRef("block"))
	c.VZEROUPPER()
	c.RET()
}

// at addresses byte disp of the current block of row r.
func (u *unpacker) at(r, disp int) operand.Mem {
	m := operand.Mem{Base: u.row[r/4], Disp: disp}
	switch r % 4 {
	case 1, 2:
		m.Index, m.Scale = u.stride, uint8(r%4)
	case 3:
		m.Index, m.Scale = u.three, 1
	}
	return m
}

// transpose loads 16 bytes of each row and returns four registers, each with
// one dword of all rows in row order.
func (u *unpacker) transpose(disp int) [4]reg.VecVirtual {
	a := u.part
	var b, out [4]reg.VecVirtual
	for i := range 4 {
		b[i], out[i] = c.ZMM(), c.ZMM()
		c.VMOVDQU32(u.at(i, disp), a[i].AsX())
		for l := 1; l < 4; l++ {
			c.VINSERTI32X4(operand.U8(l), u.at(4*l+i, disp), a[i], a[i])
		}
	}
	c.VPUNPCKLDQ(a[1], a[0], b[0])
	c.VPUNPCKLDQ(a[3], a[2], b[1])
	c.VPUNPCKHDQ(a[1], a[0], b[2])
	c.VPUNPCKHDQ(a[3], a[2], b[3])
	c.VPUNPCKLQDQ(b[1], b[0], out[0])
	c.VPUNPCKHQDQ(b[1], b[0], out[1])
	c.VPUNPCKLQDQ(b[3], b[2], out[2])
	c.VPUNPCKHQDQ(b[3], b[2], out[3])
	return out
}

func (u *unpacker) store(z reg.VecVirtual, step int) { c.VMOVDQU32(z, at(u.panel, 128*step)) }

// halves gathers a 16-bit field of all rows and widens it from f16 to f32.
func (u *unpacker) halves(disp int) reg.VecVirtual {
	lo, hi, z := u.half, c.XMM(), c.ZMM()
	for r := range 8 {
		c.VPINSRW(operand.U8(r), u.at(r, disp), lo.AsX(), lo.AsX())
		c.VPINSRW(operand.U8(r), u.at(r+8, disp), hi, hi)
	}
	c.VINSERTI32X4(operand.U8(1), hi, lo, lo)
	c.VCVTPH2PS(lo, z)
	return z
}

func (u *unpacker) scale(disp, out int) { c.VMOVUPS(u.halves(disp), at(u.panel, out)) }

// nibbles unpacks 16 bytes whose low nibbles are elements 0..15 and whose high
// nibbles are elements 16..31 of a block. more, if set, changes a register of
// nibbles of the given step.
func (u *unpacker) nibbles(disp int, more func(q reg.VecVirtual, step int)) {
	for i, d := range u.transpose(disp) {
		h := c.ZMM()
		c.VPSRLD(operand.U8(4), d, h)
		c.VPANDD(u.low, d, d)
		c.VPANDD(u.low, h, h)
		if more != nil {
			more(d, i)
			more(h, i+4)
		}
		u.store(d, i)
		u.store(h, i+4)
	}
}

// byteOf returns byte j of every lane as int32.
func byteOf(z reg.VecVirtual, j int, mask reg.VecVirtual) reg.VecVirtual {
	f := c.ZMM()
	if j > 0 {
		c.VPSRLD(operand.U8(8*j), z, f)
		if j < 3 {
			c.VPANDD(mask, f, f)
		}
	} else {
		c.VPANDD(mask, z, f)
	}
	return f
}

// unpackQ4K unpacks Q4_K and Q5_K, groups of 32 with minima.
func unpackQ4K(five bool) {
	name, size, quants := "Q4_K", 144, 16
	if five {
		name, size, quants = "Q5_K", 176, 48
	}
	u := newUnpacker(name)
	const group, scale, mins = 1152, 8 * 1152, 8*1152 + 128
	m3f, m30, byte0 := splat("low3f", 0x3f3f3f3f), splat("bits45", 0x30303030), splat("lowff", 0xff)
	pairs := minPairs()
	bit4 := reg.VecVirtual(nil)
	if five {
		bit4 = splat("bit4", 0x10101010)
	}
	u.each(size, mins+4*128+128, func() {
		head := u.transpose(0)
		h, d, dm := c.YMM(), c.ZMM(), c.ZMM()
		c.VPMOVDW(head[0], h)
		c.VCVTPH2PS(h, d)
		c.VMOVUPS(d, at(u.panel, scale))
		c.VPSRLD(operand.U8(16), head[0], head[0])
		c.VPMOVDW(head[0], h)
		c.VCVTPH2PS(h, dm)
		c.VMOVUPS(dm, at(u.panel, mins+512))
		var sc, mn [2]reg.VecVirtual
		for i := range 2 {
			sc[i], mn[i] = c.ZMM(), c.ZMM()
		}
		t := c.ZMM()
		c.VPANDD(m3f, head[1], sc[0])
		c.VPANDD(m3f, head[2], mn[0])
		c.VPANDD(u.low, head[3], sc[1])
		c.VPSRLD(operand.U8(2), head[1], t)
		c.VPTERNLOGD(operand.U8(0xf8), m30, t, sc[1])
		c.VPSRLD(operand.U8(4), head[3], mn[1])
		c.VPANDD(u.low, mn[1], mn[1])
		c.VPSRLD(operand.U8(2), head[2], t)
		c.VPTERNLOGD(operand.U8(0xf8), m30, t, mn[1])
		for i := range 2 {
			for j := range 4 {
				c.VMOVDQU32(byteOf(sc[i], j, byte0), at(u.panel, group*(4*i+j)+1024))
			}
			for j := range 2 {
				p := c.ZMM()
				c.VPSHUFB(pairs[j], mn[i], p)
				c.VMOVDQU32(p, at(u.panel, mins+128*(2*i+j)))
			}
		}
		for part := range 2 { // bytes l of the high bits
			var high [4]reg.VecVirtual
			if five {
				high = u.transpose(16 + 16*part)
			}
			for ch := range 4 {
				for i, q := range u.transpose(quants + 32*ch + 16*part) {
					h := c.ZMM()
					c.VPSRLD(operand.U8(4), q, h)
					c.VPANDD(u.low, q, q)
					c.VPANDD(u.low, h, h)
					if five {
						b := c.ZMM()
						for g, v := range []reg.VecVirtual{q, h} {
							if s := 2*ch + g; s < 4 {
								c.VPSLLD(operand.U8(4-s), high[i], b)
							} else {
								c.VPSRLD(operand.U8(s-4), high[i], b)
							}
							c.VPTERNLOGD(operand.U8(0xf8), bit4, b, v)
						}
					}
					c.VMOVDQU32(q, at(u.panel, group*2*ch+128*(4*part+i)))
					c.VMOVDQU32(h, at(u.panel, group*(2*ch+1)+128*(4*part+i)))
				}
			}
		}
	})
}

// unpackQ6K unpacks Q6_K, groups of 16 with an offset of 32.
func unpackQ6K() {
	u := newUnpacker("Q6_K")
	const group = 1280
	m30 := splat("bits45", 0x30303030)
	u.each(210, 8*group+128, func() {
		u.scale(208, 8*group)
		for i, s := range u.transpose(192) {
			signedScales(u, s, i)
		}
		for h := range 2 {
			for part := range 2 {
				high := u.transpose(128 + 32*h + 16*part)
				for side := range 2 { // byte l or l+32 of the nibbles
					for i, q := range u.transpose(64*h + 32*side + 16*part) {
						top, b := c.ZMM(), c.ZMM()
						c.VPSRLD(operand.U8(4), q, top)
						c.VPANDD(u.low, q, q)
						c.VPANDD(u.low, top, top)
						c.VPSLLD(operand.U8(4-2*side), high[i], b)
						c.VPTERNLOGD(operand.U8(0xf8), m30, b, q)
						if side == 0 {
							c.VPTERNLOGD(operand.U8(0xf8), m30, high[i], top)
						} else {
							c.VPSRLD(operand.U8(2), high[i], b)
							c.VPTERNLOGD(operand.U8(0xf8), m30, b, top)
						}
						c.VMOVDQU32(q, at(u.panel, group*(4*h+side)+128*(4*part+i)))
						c.VMOVDQU32(top, at(u.panel, group*(4*h+side+2)+128*(4*part+i)))
					}
				}
			}
		}
	})
}

// signedScales stores the four int8 scales of groups 4i..4i+3 of 16.
func signedScales(u *unpacker, s reg.VecVirtual, i int) {
	for j := range 4 {
		f := c.ZMM()
		if j < 3 {
			c.VPSLLD(operand.U8(24-8*j), s, f)
			c.VPSRAD(operand.U8(24), f, f)
		} else {
			c.VPSRAD(operand.U8(24), s, f)
		}
		g := 4*i + j
		c.VMOVDQU32(f, at(u.panel, 1280*(g/2)+1024+128*(g%2)))
	}
}

// unpackFloat unpacks 16 bytes of 16 rows at a time.
func unpackFloat(typ string) {
	u := newUnpacker(typ)
	out := 512
	if typ == "F16" {
		out = 8 * 64
	}
	u.each(16, out, func() {
		for i, d := range u.transpose(0) {
			if typ != "F16" {
				u.store(d, i)
				continue
			}
			y, h := c.YMM(), c.ZMM()
			c.VPMOVDW(d, y)
			c.VMOVDQU32(y, at(u.panel, 128*i))
			c.VPSRLD(operand.U8(16), d, h)
			c.VPMOVDW(h, y)
			c.VMOVDQU32(y, at(u.panel, 128*i+64))
		}
	})
}
