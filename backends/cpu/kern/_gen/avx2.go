package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// genAVX2 generates the kernels for processors without AVX-512. A weight row
// is first decoded to int8 numbers with f32 scales, in the first-level cache,
// then multiplied with up to four tokens. Registers 16 to 31 do not exist
// here, so at most 16 may be live.
func genAVX2() {
	for t := 1; t <= 4; t++ {
		dotAVX2(t)
	}
	for t := 1; t <= 4; t++ {
		for _, f := range []string{"F32", "F16", "BF16"} {
			floatAVX2(f, t)
		}
	}
	decodeQ8_0AVX2()
	decodeQ4_0AVX2()
	decodeQ4KAVX2(false)
	decodeQ4KAVX2(true)
	decodeQ6KAVX2()
	moreAVX2()
	quantAVX2(32)
	quantAVX2(256)
}

func ymmWord(name string, v uint32) reg.VecVirtual {
	y := c.YMM()
	c.VPBROADCASTD(word(name, v), y)
	return y
}

// sumYMM adds the lanes of y into lane 0.
func sumYMM(y, tmp reg.VecVirtual) reg.Register {
	c.VEXTRACTF128(operand.U8(1), y, tmp.AsX())
	c.VADDPS(tmp.AsX(), y.AsX(), y.AsX())
	c.VPERMILPS(operand.U8(0x0e), y.AsX(), tmp.AsX())
	c.VADDPS(tmp.AsX(), y.AsX(), y.AsX())
	c.VPERMILPS(operand.U8(0x01), y.AsX(), tmp.AsX())
	c.VADDPS(tmp.AsX(), y.AsX(), y.AsX())
	return y.AsX()
}

func beginAVX2(name, doc, args string) func(off int) reg.GPVirtual {
	c.Function(name)
	c.Attributes(noSplit)
	c.Pragma("noescape")
	c.Doc(doc)
	signature(args)
	a := c.Load(c.Param("a"), c.GP64()).(reg.GPVirtual)
	return func(off int) reg.GPVirtual { r := c.GP64(); c.MOVQ(at(a, off), r); return r }
}

// dotAVX2 multiplies a decoded row with n tokens.
//
// Offsets in dotArgs: q, scales per 16, x, ldx, dx per 32, lddx, y, ldy, blocks of 32.
func dotAVX2(n int) {
	get := beginAVX2(fmt.Sprintf("dotT%dAVX2", n), fmt.Sprintf(
		"dotT%dAVX2 multiplies a decoded row with %d tokens: y[t] = Σ_b dx[t][b]·(s[2b]·Σ q·x + s[2b+1]·Σ q·x), halves of 16.", n, n), "dotArgs")
	q, s, blocks := get(0), get(8), get(64)
	x := tokensAt(get(16), get(24), n)
	dx := tokensAt(get(32), get(40), n)
	ones := ymmWord("ones16", 0x00010001)
	halves := c.YMM()
	c.VMOVDQU(table("halves", dwordsOf(8, func(i int) uint32 { return uint32(i / 4) })), halves)
	acc := make([]reg.VecVirtual, n)
	for t := range acc {
		acc[t] = c.YMM()
		c.VXORPS(acc[t], acc[t], acc[t])
	}
	w, u, scale, p, f := c.YMM(), c.YMM(), c.YMM(), c.YMM(), c.YMM()
	c.Label("block")
	c.VMOVDQU(at(q, 0), w)
	c.VPABSB(w, u)
	c.VBROADCASTSD(at(s, 0), scale)
	c.VPERMPS(scale, halves, scale)
	for t := range n {
		// |q| is at most 128 and |x| 127, so two products fit 16 bits.
		c.VMOVDQU(x.at(t, 0), p)
		c.VPSIGNB(w, p, p)
		c.VPMADDUBSW(p, u, p)
		c.VPMADDWD(ones, p, p)
		c.VCVTDQ2PS(p, p)
		c.VBROADCASTSS(dx.at(t, 0), f)
		c.VMULPS(scale, f, f)
		c.VFMADD231PS(f, p, acc[t])
	}
	c.ADDQ(operand.I8(32), q)
	c.ADDQ(operand.I8(8), s)
	x.advance(32)
	dx.advance(4)
	c.DECQ(blocks)
	c.JNZ(operand.LabelRef("block"))
	y := tokensAt(get(48), get(56), n)
	for t := range n {
		c.VMOVSS(sumYMM(acc[t], p), y.at(t, 0))
	}
	c.VZEROUPPER()
	c.RET()
}

// floatAVX2 multiplies 16 elements of a plain row at a time; the rest is done
// by the caller. Offsets as in dotAVX2, without scales.
func floatAVX2(typ string, n int) {
	get := beginAVX2(fmt.Sprintf("float%sT%dAVX2", typ, n), fmt.Sprintf(
		"float%sT%dAVX2 multiplies a %s row with %d f32 tokens, in steps of 16 elements.", typ, n, typ, n), "dotArgs")
	q, blocks := get(0), get(64)
	x := tokensAt(get(16), get(24), n)
	acc := make([]reg.VecVirtual, 2*n)
	for t := range acc {
		acc[t] = c.YMM()
		c.VXORPS(acc[t], acc[t], acc[t])
	}
	w, p := c.YMM(), c.YMM()
	size := 2
	if typ == "F32" {
		size = 4
	}
	c.Label("block")
	c.PREFETCHT0(at(q, 4096))
	for h := range 2 {
		switch typ {
		case "F32":
			c.VMOVUPS(at(q, 32*h), w)
		case "F16":
			c.VCVTPH2PS(at(q, 16*h), w)
		default:
			c.VPMOVZXWD(at(q, 16*h), w)
			c.VPSLLD(operand.U8(16), w, w)
		}
		for t := range n {
			c.VFMADD231PS(x.at(t, 32*h), w, acc[2*t+h])
		}
	}
	c.ADDQ(operand.I8(16*size), q)
	x.advance(64)
	c.DECQ(blocks)
	c.JNZ(operand.LabelRef("block"))
	y := tokensAt(get(48), get(56), n)
	for t := range n {
		c.VADDPS(acc[2*t+1], acc[2*t], acc[2*t])
		c.VMOVSS(sumYMM(acc[2*t], p), y.at(t, 0))
	}
	c.VZEROUPPER()
	c.RET()
}

// A decoder generates the decoding of a row. Offsets in rowArgs: src, q,
// scales per 16, negated minima per 16, blocks.
type decoder struct{ src, q, s, m, blocks reg.GPVirtual }

func newDecoder(name string) *decoder {
	get := beginAVX2("decode"+name+"AVX2", "decode"+name+"AVX2 decodes blocks of "+name+" as decodeRow does.", "rowArgs")
	return &decoder{get(0), get(8), get(16), get(24), get(32)}
}

func (d *decoder) each(size, elems int, body func()) {
	c.Label("block")
	for line := 0; line < size; line += 64 {
		c.PREFETCHT0(at(d.src, 4096+line))
	}
	body()
	c.ADDQ(operand.I32(size), d.src)
	c.ADDQ(operand.I32(elems), d.q)
	c.ADDQ(operand.I32(elems/4), d.s)
	c.ADDQ(operand.I32(elems/4), d.m)
	c.DECQ(d.blocks)
	c.JNZ(operand.LabelRef("block"))
	c.VZEROUPPER()
	c.RET()
}

// half returns the f16 at disp as f32 in all lanes.
func (d *decoder) half(disp int) reg.VecVirtual {
	r, x, y := c.GP32(), c.XMM(), c.YMM()
	c.MOVWLZX(at(d.src, disp), r)
	c.VMOVD(r, x)
	c.VCVTPH2PS(x, x)
	c.VBROADCASTSS(x, y)
	return y
}

func decodeQ8_0AVX2() {
	d := newDecoder("Q8_0")
	d.each(34, 32, func() {
		y := c.YMM()
		c.VMOVQ(d.half(0).AsX(), at(d.s, 0))
		c.VMOVDQU(at(d.src, 2), y)
		c.VMOVDQU(y, at(d.q, 0))
	})
}

func decodeQ4_0AVX2() {
	d := newDecoder("Q4_0")
	low, off := ymmWord("low0f", 0x0f0f0f0f), ymmWord("off8y", 0x08080808)
	d.each(18, 32, func() {
		x, y := c.XMM(), c.XMM()
		c.VMOVQ(d.half(0).AsX(), at(d.s, 0))
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
	pairs := [2]reg.VecVirtual{c.YMM(), c.YMM()}
	for i, p := range pairs {
		c.VMOVDQU(table(fmt.Sprintf("twice%d", i), dwordsOf(8, func(l int) uint32 { return uint32(4*i + l/2) })), p)
	}
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
		for part, to := range []reg.GPVirtual{d.s, d.m} {
			s, f := c.YMM(), d.half(2*part)
			if part == 1 {
				c.VPSHUFD(operand.U8(0x0e), sc, sc)
				c.VXORPS(table("signbits", dwordsOf(8, func(int) uint32 { return 1 << 31 })), f, f)
			}
			c.VPMOVZXBD(sc, s)
			c.VCVTDQ2PS(s, s)
			c.VMULPS(f, s, s)
			for i := range pairs {
				c.VPERMPS(s, pairs[i], f)
				c.VMOVUPS(f, at(to, 32*i))
			}
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
		f := d.half(208)
		for i := range 2 {
			s := c.YMM()
			c.VPMOVSXBD(at(d.src, 192+8*i), s)
			c.VCVTDQ2PS(s, s)
			c.VMULPS(f, s, s)
			c.VMOVUPS(s, at(d.s, 32*i))
		}
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

// quantAVX2 quantizes blocks of 32 or 256 as quantizeRowGeneric does.
func quantAVX2(size int) {
	name := "quantizeQ8AVX2"
	if size == 256 {
		name = "quantizeQ8KAVX2"
	}
	get := beginAVX2(name, fmt.Sprintf("%s quantizes blocks of %d as quantizeRowGeneric does.", name, size), "quantArgs")
	x, q, scales, sums, blocks := get(qaX), get(qaQ), get(qaScales), get(qaSums), get(qaBlocks)
	order := c.YMM()
	c.VMOVDQU(table("packorder", dwordsOf(8, func(i int) uint32 { return uint32(i%2*4 + i/2) })), order)
	ones8, ones16 := ymmWord("ones8", 0x01010101), ymmWord("ones16", 0x00010001)
	abs := table("absy", dwordsOf(8, func(int) uint32 { return 0x7fffffff }))
	lowest := table("quantminx", dwordsOf(4, func(int) uint32 { return (127 - 100) << 23 }))
	m, t := c.YMM(), c.YMM()
	c.Label("block")
	c.VMOVDQU(at(x, 0), m)
	c.VPAND(abs, m, m)
	for i := 1; i < size/8; i++ {
		c.VMOVDQU(at(x, 32*i), t)
		c.VPAND(abs, t, t)
		c.VPMAXUD(t, m, m)
	}
	c.VEXTRACTI128(operand.U8(1), m, t.AsX())
	c.VPMAXUD(t.AsX(), m.AsX(), m.AsX())
	c.VPSHUFD(operand.U8(0x4e), m.AsX(), t.AsX())
	c.VPMAXUD(t.AsX(), m.AsX(), m.AsX())
	c.VPSHUFD(operand.U8(0xb1), m.AsX(), t.AsX())
	c.VPMAXUD(t.AsX(), m.AsX(), m.AsX())
	// Masks, all lanes alike: a ≥ lowest, and a not finite.
	big, odd, d, inv := c.XMM(), c.XMM(), c.XMM(), c.YMM()
	c.VPMAXUD(lowest, m.AsX(), big)
	c.VPCMPEQD(m.AsX(), big, big)
	c.VPMINUD(table("infx", dwordsOf(4, func(int) uint32 { return 0x7f800000 })), m.AsX(), odd)
	c.VPCMPEQD(table("infx", nil), odd, odd)
	c.VDIVPS(table("f127x", dwordsOf(4, func(int) uint32 { return 0x42fe0000 })), m.AsX(), d)
	c.VPAND(big, d, d)
	c.VMOVSS(d, at(scales, 0))
	c.VMOVUPS(table("f127x", nil), d)
	c.VDIVPS(m.AsX(), d, d)
	c.VBROADCASTSS(d, inv)
	c.VPANDN(big, odd, big) // big and not odd
	keep := c.YMM()
	c.VPBROADCASTD(big, keep)
	for b := 0; b < size; b += 32 {
		var v [4]reg.VecVirtual
		for i := range v {
			v[i] = c.YMM()
			c.VMULPS(at(x, 4*b+32*i), inv, v[i])
			c.VCVTPS2DQ(v[i], v[i])
			c.VPAND(keep, v[i], v[i])
		}
		c.VPACKSSDW(v[1], v[0], v[0])
		c.VPACKSSDW(v[3], v[2], v[2])
		c.VPACKSSWB(v[2], v[0], v[0])
		c.VPERMD(v[0], order, v[0])
		c.VMOVDQU(v[0], at(q, b))
		// Sums of 16: of pairs, of four, then within lanes of 128 bits.
		c.VPMADDUBSW(v[0], ones8, v[1])
		c.VPMADDWD(ones16, v[1], v[1])
		c.VPHADDD(v[1], v[1], v[1])
		c.VPHADDD(v[1], v[1], v[1])
		c.VEXTRACTI128(operand.U8(1), v[1], v[2].AsX())
		if size == 32 {
			c.VPADDD(v[2].AsX(), v[1].AsX(), v[1].AsX())
			c.VMOVD(v[1].AsX(), at(sums, 0))
		} else {
			c.VPEXTRW(operand.U8(0), v[1].AsX(), at(sums, b/8))
			c.VPEXTRW(operand.U8(0), v[2].AsX(), at(sums, b/8+2))
		}
	}
	c.ADDQ(operand.I32(4*size), x)
	c.ADDQ(operand.I32(size), q)
	c.ADDQ(operand.I8(4), scales)
	if size == 32 {
		c.ADDQ(operand.I8(4), sums)
	} else {
		c.ADDQ(operand.I8(32), sums)
	}
	c.DECQ(blocks)
	c.JNZ(operand.LabelRef("block"))
	c.VZEROUPPER()
	c.RET()
}
