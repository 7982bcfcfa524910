package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets in spreadArgs and superArgs.
const (
	spScales, spSums, spDst, spGroups, spIn, spOut, spIndex, spFirst, spLoad, spStore, spOff, spBias = 0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88
	suX, suSums, suDst, suBlocks, suFirst, suOff                                                     = 0, 8, 16, 24, 32, 40
)

func genArrange() {
	putAside("Offset")
	putAside("Min")
	putAside("")
	arrangeSuper("Mins", 0x44, 0xee)
	arrangeSuper("Mins16", 0, 0)
	arrangeSuper("Offset", 0, 0)
	arrangeSuper("Halves32", 0x88, 0xdd)
}

// putAside generates the distribution of one token's scales and corrections.
func putAside(kind string) {
	c.Function("spread" + kind + "AVX512")
	c.Attributes(noSplit)
	c.Pragma("noescape")
	c.Doc("spread"+kind+"AVX512 puts one token's numbers per block between those of others:", "",
		"\tfor g in groups, i in store: dst[g][i] = correction of block index[i] of the group, dst[g][16+i] = its scale")
	signature("spreadArgs")
	a := c.Load(c.Param("a"), c.GP64()).(reg.GPVirtual)
	get := func(off int) reg.GPVirtual { r := c.GP64(); c.MOVQ(at(a, off), r); return r }
	scales, sums, dst, groups, in, out, list := get(spScales), get(spSums), get(spDst), get(spGroups), get(spIn), get(spOut), get(spIndex)
	c.SUBQ(at(a, spBias), scales)
	c.SUBQ(at(a, spBias), sums)
	index, off := c.ZMM(), c.ZMM()
	c.VMOVDQU32(at(list, 0), index)
	c.VPBROADCASTD(at(a, spOff), off)
	load, store := c.K(), c.K()
	c.KMOVW(at(a, spFirst), load)
	c.KMOVW(at(a, spStore), store)
	c.Label("group")
	at0 := 0
	if kind != "" {
		at0 = 64
		s := c.ZMM()
		c.VMOVDQU32_Z(at(sums, 0), load, s)
		if kind == "Offset" {
			c.VPMULLD(off, s, s)
		} else {
			c.VCVTDQ2PS(s, s)
		}
		c.VPERMD(s, index, s)
		c.VMOVDQU32(s, store, at(dst, 0))
		c.ADDQ(in, sums)
	}
	d := c.ZMM()
	c.VMOVUPS_Z(at(scales, 0), load, d)
	c.VPERMPS(d, index, d)
	c.VMOVUPS(d, store, at(dst, at0))
	c.KMOVW(at(a, spLoad), load)
	c.ADDQ(in, scales)
	c.ADDQ(out, dst)
	c.DECQ(groups)
	c.JNZ(operand.LabelRef("group"))
	c.VZEROUPPER()
	c.RET()
}

// arrangeSuper generates the arrangement of one token's superblocks: four
// times 256 numbers and 128 bytes of sums. Unless first is 0, the lanes of 128
// bits of every 128 numbers come in another order.
func arrangeSuper(kind string, first, second int) {
	c.Function("arrange" + kind + "AVX512")
	c.Attributes(noSplit)
	c.Pragma("noescape")
	c.Doc("arrange" + kind + "AVX512 arranges superblocks of one token for row kernels.")
	signature("superArgs")
	a := c.Load(c.Param("a"), c.GP64()).(reg.GPVirtual)
	get := func(off int) reg.GPVirtual { r := c.GP64(); c.MOVQ(at(a, off), r); return r }
	x, from, to, blocks, left := get(suX), get(suSums), get(suDst), get(suBlocks), get(suFirst)
	// left superblocks of the first four exist.
	size := 32
	if kind == "Mins" || kind == "Mins16" {
		size = 16
	}
	sums, lacks := c.GP64(), c.GP64()
	c.MOVQ(operand.U32(4), lacks)
	c.SUBQ(left, lacks)
	c.IMUL3Q(operand.I32(size), lacks, sums)
	c.ADDQ(to, sums)
	c.SHLQ(operand.U8(8), lacks)
	c.ADDQ(lacks, to)
	none, off := c.ZMM(), c.YMM()
	zero(none)
	c.VPBROADCASTD(at(a, suOff), off)
	c.Label("block")
	for i := range 2 {
		p, q := c.ZMM(), c.ZMM()
		c.VMOVDQU32(at(x, 128*i), p)
		c.VMOVDQU32(at(x, 128*i+64), q)
		if first > 0 {
			r := c.ZMM()
			c.VSHUFI32X4(operand.U8(first), q, p, r)
			c.VSHUFI32X4(operand.U8(second), q, p, q)
			p = r
		}
		c.VMOVDQU32(p, at(to, 128*i))
		c.VMOVDQU32(q, at(to, 128*i+64))
	}
	s := c.YMM()
	switch kind {
	case "Mins":
		w := c.XMM()
		c.VPMADDWD(at(from, 0), off, s)
		c.VPMOVDW(s, w)
		c.VMOVDQU32(w, at(sums, xSums))
	case "Mins16":
		lo, hi := c.XMM(), c.XMM()
		c.VMOVDQU32(at(from, 0), lo)
		c.VMOVDQU32(at(from, 16), hi)
		c.VMOVDQU32(lo, at(sums, xSums))
		c.VMOVDQU32(hi, at(sums, xSums+64))
	case "Offset":
		c.VPSUBW(at(from, 0), none.AsY(), s)
		c.VMOVDQU32(s, at(sums, xSums))
	default:
		c.VPMADDWD(at(from, 0), off, s)
		c.VMOVDQU32(s, at(sums, xSums))
	}
	c.ADDQ(operand.I32(256), x)
	c.ADDQ(operand.I32(32), from)
	c.ADDQ(operand.I32(256), to)
	c.ADDQ(operand.I32(size), sums)
	c.DECQ(left)
	c.JNZ(operand.LabelRef("same"))
	c.ADDQ(operand.I32(1152-1024), to)
	c.ADDQ(operand.I32(1152-4*size), sums)
	c.MOVQ(operand.U32(4), left)
	c.Label("same")
	c.DECQ(blocks)
	c.JNZ(operand.LabelRef("block"))
	c.VZEROUPPER()
	c.RET()
}
