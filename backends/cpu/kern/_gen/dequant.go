package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// dequantizer is the frame of the kernels that turn blocks into f32.
type dequantizer struct {
	src, dst, blocks reg.GPVirtual
	local            operand.Mem // 16 f32 scales, then 16 f32 minima
}

func genDequant() {
	dequantQ8_0()
	for _, f := range nibbleFormats {
		dequantNibble(f)
	}
	dequantQ4K(false)
	dequantQ4K(true)
	for _, b := range []*superblock{superQ6K(), superQ2K(), superQ3K(), superTQ1(), superTQ2()} {
		dequantSuper(b)
	}
	dequantIQ4XS()
	dequantIQ3S()
	dequantHalf("F16")
	dequantHalf("BF16")
}

func newDequantizer(name string) *dequantizer {
	c.Function("dequant" + name + "AVX512")
	c.Attributes(noSplit)
	c.Pragma("noescape")
	c.Doc("dequant" + name + "AVX512 widens blocks of " + name + " to f32 as dequantRowGeneric does, bit for bit.")
	signature("dequantArgs")
	q := &dequantizer{local: c.AllocLocal(128)}
	a := c.Load(c.Param("a"), c.GP64()).(reg.GPVirtual)
	get := func(off int) reg.GPVirtual { r := c.GP64(); c.MOVQ(at(a, off), r); return r }
	q.src, q.dst, q.blocks = get(0), get(8), get(16)
	return q
}

func (q *dequantizer) each(size, elems int, body func()) {
	c.Label("block")
	c.PREFETCHT0(at(q.src, 2048))
	body()
	c.ADDQ(operand.I32(size), q.src)
	c.ADDQ(operand.I32(4*elems), q.dst)
	c.DECQ(q.blocks)
	c.JNZ(operand.LabelRef("block"))
	c.VZEROUPPER()
	c.RET()
}

// half returns the f16 at disp in all lanes as f32.
func (q *dequantizer) half(disp int) reg.VecVirtual {
	h, z := c.YMM(), c.ZMM()
	c.VPBROADCASTW(at(q.src, disp), h)
	c.VCVTPH2PS(h, z)
	return z
}

// store writes 16 elements: bytes, signed, times d, plus or minus m.
func (q *dequantizer) store(bytes reg.Register, first int, d, add operand.Op) {
	z := c.ZMM()
	c.VPMOVSXBD(bytes, z)
	q.finish(z, first, d, add, nil)
}

// finish converts 16 int32 and writes them times d, plus add, minus sub.
func (q *dequantizer) finish(z reg.VecVirtual, first int, d, add operand.Op, sub operand.Op) {
	c.VCVTDQ2PS(z, z)
	if _, ok := d.(operand.Mem); ok {
		c.VMULPS_BCST(d, z, z)
	} else {
		c.VMULPS(d, z, z)
	}
	if add != nil {
		c.VADDPS(add, z, z)
	}
	if sub != nil {
		c.VSUBPS_BCST(sub, z, z)
	}
	c.VMOVUPS(z, at(q.dst, 4*first))
}

func dequantQ8_0() {
	q := newDequantizer("Q8_0")
	q.each(34, 32, func() {
		d := q.half(0)
		for i := range 2 {
			z := c.ZMM()
			c.VPMOVSXBD(at(q.src, 2+16*i), z)
			q.finish(z, 16*i, d, nil, nil)
		}
	})
}

func dequantNibble(f *nibbleFormat) {
	q := newDequantizer(f.name)
	low := table("low0f16", bytesOf(16, func(int) byte { return 15 }))
	off := 0
	switch {
	case f.values == "" && f.min == 0 && f.fifth > 0:
		off = 16
	case f.values == "" && f.min == 0:
		off = 8
	}
	q.each(f.block, 32, func() {
		var d reg.VecVirtual
		if f.values == "mxfp4" {
			// 2^(e−128); the two smallest exponents give subnormal numbers.
			e, big, small := c.GP32(), c.GP32(), c.GP32()
			c.MOVBLZX(at(q.src, 0), e)
			c.LEAL(operand.Mem{Base: e, Disp: -1}, big)
			c.SHLL(operand.U8(23), big)
			c.MOVL(e, small)
			c.INCL(small)
			c.SHLL(operand.U8(21), small)
			c.CMPL(e, operand.U8(2))
			c.CMOVLLT(small, big)
			d = c.ZMM()
			c.VPBROADCASTD(big, d)
		} else {
			d = q.half(f.scale)
		}
		var m operand.Op
		if f.min > 0 {
			m = q.half(f.min)
		}
		x, y := c.XMM(), c.XMM()
		c.VMOVDQU32(at(q.src, f.nib), x)
		c.VPSRLD(operand.U8(4), x, y)
		c.VPANDD(low, x, x)
		c.VPANDD(low, y, y)
		for h, v := range []reg.VecVirtual{x, y} {
			if f.fifth > 0 {
				k := c.K()
				c.KMOVW(at(q.src, f.fifth+2*h), k)
				c.VPADDB(table("bit4x", bytesOf(16, func(int) byte { return 16 })), v, k, v)
			}
			switch {
			case f.values == "iq4":
				t := c.XMM()
				c.VMOVDQU32(table("iq4signed", bytesOf(16, func(i int) byte { return byte(iq4Values[i]) })), t)
				c.VPSHUFB(v, t, v)
			case f.values == "mxfp4":
				t := c.XMM()
				c.VMOVDQU32(table("mxfp4signed", bytesOf(16, func(i int) byte { return byte(mxfp4Values[i]) })), t)
				c.VPSHUFB(v, t, v)
			case off == 8:
				c.VPSUBB(table("off8", bytesOf(16, func(int) byte { return 8 })), v, v)
			case off == 16:
				c.VPSUBB(table("off16", bytesOf(16, func(int) byte { return 16 })), v, v)
			}
			q.store(v, 16*h, d, m)
		}
	})
}

// scales writes d·s and, if mins is set, dm·m as f32 to the local frame. The
// registers hold 16 dwords.
func (q *dequantizer) scales(s, d, m, dm reg.VecVirtual) {
	c.VCVTDQ2PS(s, s)
	c.VMULPS(d, s, s)
	c.VMOVUPS(s, q.local)
	if m != nil {
		c.VCVTDQ2PS(m, m)
		c.VMULPS(dm, m, m)
		c.VMOVUPS(m, q.local.Offset(64))
	}
}

// quants writes 64 unsigned bytes as elements first.. of groups of size group.
func (q *dequantizer) quants(bytes reg.VecVirtual, first, group int, off reg.VecVirtual, d operand.Op, min bool) {
	for p := range 4 {
		x, z := c.XMM(), c.ZMM()
		if p == 0 {
			x = nil
			c.VPMOVZXBD(bytes.AsX(), z)
		} else {
			c.VEXTRACTI32X4(operand.U8(p), bytes, x)
			c.VPMOVZXBD(x, z)
		}
		if off != nil {
			c.VPSUBD(off, z, z)
		}
		e := first + 16*p
		scale, sub := d, operand.Op(nil)
		if scale == nil {
			scale = q.local.Offset(e / group * 4)
		}
		if min {
			sub = q.local.Offset(64 + e/group*4)
		}
		q.finish(z, e, scale, nil, sub)
	}
}

func dequantSuper(b *superblock) {
	q := newDequantizer(b.name)
	b.setup()
	var off reg.VecVirtual
	switch b.name {
	case "Q6_K":
		off = splat("c32", 32)
	case "Q3_K":
		off = splat("c4", 4)
	case "TQ1_0", "TQ2_0":
		off = splat("one", 1)
	}
	q.each(b.bytes, 256, func() {
		scales, mins := b.begin(q.src)
		d := q.half(b.d)
		var all operand.Op = d
		if scales != nil {
			all = nil
			var dm, m reg.VecVirtual
			s := c.ZMM()
			c.VPMOVSXWD(scales.AsY(), s)
			if mins != nil {
				dm, m = q.half(b.dmin), c.ZMM()
				c.VPMOVSXWD(mins.AsY(), m)
			}
			q.scales(s, d, m, dm)
		}
		for i := range 4 {
			q.quants(b.quants(q.src, i), 64*i, 16, off, all, mins != nil)
		}
	})
}

func dequantQ4K(five bool) {
	name, size, quants := "Q4_K", 144, 16
	if five {
		name, size, quants = "Q5_K", 176, 48
	}
	q := newDequantizer(name)
	low, bit4 := splat("low0f", 0x0f0f0f0f), splat("bit4", 0x10101010)
	xmm := func(f func(lane int) uint32) []byte { return dwordsOf(4, f) }
	q.each(size, 256, func() {
		// The 12 bytes of the header become 8 scales and 8 minima.
		head, sc, hi, s, m := c.XMM(), c.XMM(), c.XMM(), c.ZMM(), c.ZMM()
		c.VMOVDQU32(at(q.src, 0), head)
		c.VPSHUFD(operand.U8(0xed), head, sc)
		c.VPSRLVD(table("kshiftx", xmm(func(i int) uint32 { return uint32(i / 3 * 4) })), sc, sc)
		c.VPANDD(table("kmaskx", xmm(func(i int) uint32 { return [2]uint32{0x3f3f3f3f, 0x0f0f0f0f}[i%2] })), sc, sc)
		c.VPSHUFD(operand.U8(0x84), head, hi)
		c.VPSRLD(operand.U8(2), hi, hi)
		c.VPTERNLOGD(operand.U8(0xf8), table("khighx", xmm(func(i int) uint32 { return uint32(i%2) * 0x30303030 })), hi, sc)
		c.VPMOVZXBD(sc, s)
		c.VPSHUFD(operand.U8(0x0e), sc, sc)
		c.VPMOVZXBD(sc, m)
		q.scales(s, q.half(0), m, q.half(2))
		for h := range 2 {
			x, top := c.ZMM(), c.ZMM()
			c.VMOVDQU32(at(q.src, quants+64*h), x)
			c.VPSRLD(operand.U8(4), x, top)
			for n, v := range []reg.VecVirtual{x, top} {
				c.VPANDD(low, v, v)
				if five {
					bits, t := c.ZMM(), c.ZMM()
					c.VBROADCASTI64X4(at(q.src, 16), bits)
					first := 4*h + n
					c.VMOVDQU32(table([]string{"fb02", "fb13", "fb46", "fb57"}[2*h+n], bytesOf(64, func(b int) byte {
						return byte(8*(b%8)+first+b/32*2-4) & 63
					})), t)
					c.VPMULTISHIFTQB(bits, t, bits)
					c.VPTERNLOGD(operand.U8(0xf8), bit4, bits, v)
				}
				// Lanes 0 and 1 are group 4h+n, lanes 2 and 3 group 4h+2+n.
				for p := range 4 {
					y, z := c.XMM(), c.ZMM()
					c.VEXTRACTI32X4(operand.U8(p), v, y)
					c.VPMOVZXBD(y, z)
					g := 4*h + 2*(p/2) + n
					q.finish(z, 32*g+16*(p%2), q.local.Offset(4*g), nil, q.local.Offset(64+4*g))
				}
			}
		}
	})
}

func dequantIQ4XS() {
	q := newDequantizer("IQ4_XS")
	low4, low2, c32 := splat("low4", 15), splat("low2", 3), splat("c32", 32)
	shift4 := loadTable("xs42", dwordsOf(16, func(l int) uint32 { return uint32(4 * (l % 8)) }))
	shift2 := loadTable("xs22", dwordsOf(16, func(l int) uint32 { return uint32(16 + 2*(l%8)) }))
	low := table("low0f16", bytesOf(16, func(int) byte { return 15 }))
	values := c.XMM()
	c.VMOVDQU32(table("iq4signed", bytesOf(16, func(i int) byte { return byte(iq4Values[i]) })), values)
	q.each(136, 256, func() {
		a, b := c.ZMM(), c.ZMM()
		c.VPBROADCASTD(at(q.src, 4), a)
		c.VPBROADCASTD(at(q.src, 0), b)
		c.VPSRLVD(shift4, a, a)
		c.VPANDD(low4, a, a)
		c.VPSRLVD(shift2, b, b)
		c.VPANDD(low2, b, b)
		c.VPSLLD(operand.U8(4), b, b)
		c.VPORD(b, a, a)
		c.VPSUBD(c32, a, a)
		q.scales(a, q.half(0), nil, nil)
		for j := range 8 {
			x, y := c.XMM(), c.XMM()
			c.VMOVDQU32(at(q.src, 8+16*j), x)
			c.VPSRLD(operand.U8(4), x, y)
			for h, v := range []reg.VecVirtual{x, y} {
				c.VPANDD(low, v, v)
				c.VPSHUFB(v, values, v)
				q.store(v, 32*j+16*h, q.local.Offset(4*j), nil)
			}
		}
	})
}

func dequantIQ3S() {
	q := newDequantizer("IQ3_S")
	low4, one, c256, c16 := splat("low4", 15), splat("one", 1), splat("c256", 256), splat("c16", 16)
	bit4 := splat("bit4", 0x10101010)
	high, sign, grid := c.K(), c.K(), newLookup("·iq3Bytes")
	shift := loadTable("xs42", dwordsOf(16, func(l int) uint32 { return uint32(4 * (l % 8)) }))
	q.each(110, 256, func() {
		a := c.ZMM()
		c.VPBROADCASTD(at(q.src, 106), a)
		c.VPSRLVD(shift, a, a)
		c.VPANDD(low4, a, a)
		c.VPADDD(a, a, a)
		c.VPADDD(one, a, a)
		q.scales(a, q.half(0), nil, nil)
		for i := range 4 {
			idx, u := c.ZMM(), c.ZMM()
			c.VPMOVZXBD(at(q.src, 2+16*i), idx)
			c.KMOVW(at(q.src, 66+2*i), high)
			c.VPADDD(c256, idx, high, idx)
			g := grid.of(idx)
			c.KMOVQ(at(q.src, 74+8*i), sign)
			c.VPADDB(g, bit4, u)
			c.VPSUBB(g, bit4, sign, u)
			q.quants(u, 64*i, 32, c16, nil, false)
		}
	})
}

// dequantHalf widens blocks of 16 elements of a 16-bit type.
func dequantHalf(typ string) {
	q := newDequantizer(typ)
	q.each(32, 16, func() {
		z := c.ZMM()
		if typ == "F16" {
			c.VCVTPH2PS(at(q.src, 0), z)
		} else {
			c.VPMOVZXWD(at(q.src, 0), z)
			c.VPSLLD(operand.U8(16), z, z)
		}
		c.VMOVUPS(z, at(q.dst, 0))
	})
}
