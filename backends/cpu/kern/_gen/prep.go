package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets in prepArgs.
const (
	ppX, ppScales, ppSums, ppDst, ppSteps, ppOff, ppMaskX, ppMaskX2, ppMaskD = 0, 8, 16, 24, 32, 40, 48, 56, 64
)

// genPrep generates the arrangement of activations for the row products. Each
// takes the steps of one token; the masks say which bytes of x and which
// scales exist in the last step, and zeros replace the rest.
func genPrep() {
	prepQuads(false)
	prepQuads(true)
	prepSuper(4)
	prepSuper(1)
	prepGroups("prepGroupsAVX512", false, false)
	prepGroups("prepGroups32AVX512", true, false)
	prepGroups("prepHalvesAVX512", true, true)
}

type prep struct {
	a                  reg.GPVirtual
	x, scales, dst, n  reg.GPVirtual
	kx, kx2, kd        reg.Register
	zero, off          reg.VecVirtual
	xBytes, dBytes, to int
}

func newPrep(name, doc string) *prep {
	c.Function(name)
	c.Attributes(noSplit)
	c.Pragma("noescape")
	c.Doc(name+" arranges one token's numbers:", "", doc)
	signature("prepArgs")
	p := &prep{}
	p.a = c.Load(c.Param("a"), c.GP64()).(reg.GPVirtual)
	get := func(off int) reg.GPVirtual { r := c.GP64(); c.MOVQ(at(p.a, off), r); return r }
	p.x, p.scales, p.dst, p.n = get(ppX), get(ppScales), get(ppDst), get(ppSteps)
	p.off = c.ZMM()
	c.VPBROADCASTD(at(p.a, ppOff), p.off)
	p.zero = c.ZMM()
	c.VPXORD(p.zero, p.zero, p.zero)
	p.kx, p.kx2, p.kd = c.K(), c.K(), c.K()
	c.KXNORQ(p.kx, p.kx, p.kx)
	c.KXNORQ(p.kx2, p.kx2, p.kx2)
	c.KXNORQ(p.kd, p.kd, p.kd)
	return p
}

// loop runs body for every step, with the masks in force for the last one.
func (p *prep) loop(body func()) {
	c.Label("step")
	c.CMPQ(p.n, operand.U8(1))
	c.JNE(operand.LabelRef("whole"))
	c.KMOVQ(at(p.a, ppMaskX), p.kx)
	c.KMOVQ(at(p.a, ppMaskX2), p.kx2)
	c.KMOVQ(at(p.a, ppMaskD), p.kd)
	c.Label("whole")
	body()
	c.ADDQ(operand.I32(p.xBytes), p.x)
	c.ADDQ(operand.I32(p.dBytes), p.scales)
	c.ADDQ(operand.I32(p.to), p.dst)
	c.DECQ(p.n)
	c.JNZ(operand.LabelRef("step"))
	c.VZEROUPPER()
	c.RET()
}

func prepQuads(min bool) {
	name, doc := "prepQuadsAVX512", "\tper 128: first halves [64], second halves [64], −off·Σ of 8 [16]i32, dx of 4 lanes each [16]f32"
	if min {
		name, doc = "prepQuadsMinAVX512", "\tper 128: first halves [64], second halves [64], dx·Σ of 8 [16]f32, dx of 4 lanes each [16]f32"
	}
	p := newPrep(name, doc)
	p.xBytes, p.dBytes, p.to = 128, 16, 256
	lanes := loadTable("lanes4", dwordsOf(16, func(i int) uint32 { return uint32(i / 4) }))
	p.loop(func() {
		x, x2, lo, s, d := c.ZMM(), c.ZMM(), c.ZMM(), c.ZMM(), c.ZMM()
		c.VMOVDQU8_Z(at(p.x, 0), p.kx, x)
		c.VMOVDQU8_Z(at(p.x, 64), p.kx2, x2)
		c.VSHUFI32X4(operand.U8(0x88), x2, x, lo)
		c.VSHUFI32X4(operand.U8(0xdd), x2, x, x2)
		c.VPXORD(s, s, s)
		c.VPDPBUSD(lo, p.off, s)
		c.VPDPBUSD(x2, p.off, s)
		c.VMOVUPS_Z(at(p.scales, 0), p.kd, d.AsX())
		c.VPERMPS(d, lanes, d)
		if min {
			c.VCVTDQ2PS(s, s)
			c.VMULPS(d, s, s)
		} else {
			c.VPSUBD(s, p.zero, s)
		}
		c.VMOVDQU32(lo, at(p.dst, 0))
		c.VMOVDQU32(x2, at(p.dst, 64))
		c.VMOVDQU32(s, at(p.dst, 128))
		c.VMOVUPS(d, at(p.dst, 192))
	})
}

// prepSuper arranges n superblocks for stepQ4K.
func prepSuper(n int) {
	p := newPrep(fmt.Sprintf("prepSuper%dAVX512", n), fmt.Sprintf("\tper %d superblocks: groups of 32 in the order 0 2 1 3 4 6 5 7, then Σ of each [8]i16, then dx four times each", n))
	p.xBytes, p.dBytes, p.to = 256*n, 4*n, 256*n+128
	sums := c.GP64()
	c.MOVQ(at(p.a, ppSums), sums)
	ones := splat("ones16", 0x00010001)
	lanes := loadTable("lanes4", dwordsOf(16, func(i int) uint32 { return uint32(i / 4) }))
	p.loop(func() {
		for i := 0; i < 2*n; i++ {
			x, x2, y := c.ZMM(), c.ZMM(), c.ZMM()
			c.VMOVDQU32(at(p.x, 128*i), x)
			c.VMOVDQU32(at(p.x, 128*i+64), x2)
			c.VSHUFI32X4(operand.U8(0x44), x2, x, y)
			c.VSHUFI32X4(operand.U8(0xee), x2, x, x2)
			c.VMOVDQU32(y, at(p.dst, 128*i))
			c.VMOVDQU32(x2, at(p.dst, 128*i+64))
		}
		s, d := c.ZMM(), c.ZMM()
		if n == 4 {
			for i := range 2 {
				c.VPMADDWD(at(sums, 64*i), ones, s)
				c.VPMOVDW(s, at(p.dst, 256*n+32*i))
			}
			c.VMOVUPS(at(p.scales, 0), d.AsX())
		} else {
			c.VMOVDQU32(p.zero, at(p.dst, 256*n))
			c.VPMADDWD(at(sums, 0), ones.AsY(), s.AsY())
			c.VPMOVDW(s.AsY(), at(p.dst, 256*n))
			c.VMOVSS(at(p.scales, 0), d.AsX())
		}
		c.VPERMPS(d, lanes, d)
		c.VMOVUPS(d, at(p.dst, 256*n+64))
		c.ADDQ(operand.I32(32*n), sums)
	})
}

// prepGroups arranges superblocks for step16, stepIQ3S and stepIQ4XS.
func prepGroups(name string, wide, halves bool) {
	doc := "\tper superblock: x[256], −Σ of 16 [16]i16, dx"
	if wide {
		doc = "\tper superblock: x[256], −off·Σ of 32 [8]i32, dx"
	}
	if halves {
		doc = "\tper superblock: twice first halves of four groups of 32 and second halves, −off·Σ of 32 [8]i32, dx"
	}
	p := newPrep(name, doc)
	p.xBytes, p.dBytes, p.to = 256, 4, 320
	sums := c.GP64()
	c.MOVQ(at(p.a, ppSums), sums)
	p.loop(func() {
		for i := range 2 {
			x, x2, y := c.ZMM(), c.ZMM(), c.ZMM()
			c.VMOVDQU32(at(p.x, 128*i), x)
			c.VMOVDQU32(at(p.x, 128*i+64), x2)
			if halves {
				c.VSHUFI32X4(operand.U8(0x88), x2, x, y)
				c.VSHUFI32X4(operand.U8(0xdd), x2, x, x2)
				x = y
			}
			c.VMOVDQU32(x, at(p.dst, 128*i))
			c.VMOVDQU32(x2, at(p.dst, 128*i+64))
		}
		s := c.YMM()
		if wide {
			c.VPMADDWD(at(sums, 0), p.off.AsY(), s)
		} else {
			c.VPSUBW(at(sums, 0), p.zero.AsY(), s)
		}
		c.VMOVDQU32(s, at(p.dst, 256))
		d := c.XMM()
		c.VMOVSS(at(p.scales, 0), d)
		c.VMOVUPS(d, at(p.dst, 288))
		c.ADDQ(operand.I32(32), sums)
	})
}
