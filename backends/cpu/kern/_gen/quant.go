package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets in quantArgs and sideArgs.
const (
	qaX, qaQ, qaScales, qaSums, qaBlocks           = 0, 8, 16, 24, 32
	saSums, saDst, saN, saOff, saT, saLdx, saLdDst = 0, 8, 16, 24, 32, 40, 48
)

func genQuant() {
	quantQ8()
	quantQ8K()
	for _, s := range []string{"32", "Min", "K32", "K16", "Pairs"} {
		side(s)
	}
}

type quantizer struct {
	x, q, scales, sums, blocks reg.GPVirtual
	abs, lowest, span, c127    reg.VecVirtual
	half                       reg.VecVirtual
}

func newQuantizer(name, doc string) *quantizer {
	c.Function(name)
	c.Attributes(noSplit)
	c.Pragma("noescape")
	c.Doc(name + " " + doc)
	signature("quantArgs")
	a := c.Load(c.Param("a"), c.GP64()).(reg.GPVirtual)
	get := func(off int) reg.GPVirtual { r := c.GP64(); c.MOVQ(at(a, off), r); return r }
	return &quantizer{
		x: get(qaX), q: get(qaQ), scales: get(qaScales), sums: get(qaSums), blocks: get(qaBlocks),
		abs: splat("abs", 0x7fffffff), lowest: splat("quantmin", (127-100)<<23), span: splat("quantspan", 0x7f800000-(127-100)<<23),
		c127: splat("f127", 0x42fe0000), half: c.ZMM(),
	}
}

// largest folds the magnitudes in m, as integers, into lane 0 and copies it to
// all lanes.
func (q *quantizer) largest(m reg.VecVirtual) {
	t := q.half
	c.VEXTRACTI64X4(operand.U8(1), m, t.AsY())
	c.VPMAXUD(t.AsY(), m.AsY(), m.AsY())
	c.VEXTRACTI32X4(operand.U8(1), m.AsY(), t.AsX())
	c.VPMAXUD(t.AsX(), m.AsX(), m.AsX())
	c.VPSHUFD(operand.U8(0x4e), m.AsX(), t.AsX())
	c.VPMAXUD(t.AsX(), m.AsX(), m.AsX())
	c.VPSHUFD(operand.U8(0xb1), m.AsX(), t.AsX())
	c.VPMAXUD(t.AsX(), m.AsX(), m.AsX())
	c.VPBROADCASTD(m.AsX(), m)
}

// scale stores a/127, or 0 if the maximum a is too small, and returns 127/a in
// all lanes with a mask that is empty unless a is finite and large enough.
func (q *quantizer) scale(a reg.VecVirtual) (inv reg.VecVirtual, ok reg.Register) {
	big, ok := c.K(), c.K()
	inv = c.ZMM()
	d, t := c.XMM(), c.ZMM()
	c.VPCMPUD(operand.U8(5), q.lowest, a, big) // a ≥ lowest
	c.VPSUBD(q.lowest, a, t)
	c.VPCMPUD(operand.U8(1), q.span, t, ok) // a−lowest < span
	c.VDIVPS_Z(q.c127.AsX(), a.AsX(), big, d)
	c.VMOVSS(d, at(q.scales, 0))
	c.VDIVPS(a, q.c127, inv)
	return inv, ok
}

// quantQ8 does blocks of 32.
func quantQ8() {
	q := newQuantizer("quantizeQ8AVX512", "quantizes blocks of 32 as quantizeRowGeneric does.")
	c.Label("block")
	x0, x1, m, s := c.ZMM(), c.ZMM(), c.ZMM(), c.ZMM()
	c.VMOVUPS(at(q.x, 0), x0)
	c.VMOVUPS(at(q.x, 64), x1)
	c.VPANDD(q.abs, x0, m)
	c.VPANDD(q.abs, x1, s)
	c.VPMAXUD(s, m, m)
	q.largest(m)
	inv, ok := q.scale(m)
	for i, x := range []reg.VecVirtual{x0, x1} {
		c.VMULPS(inv, x, x)
		c.VCVTPS2DQ_Z(x, ok, x)
		c.VPMOVSDB(x, at(q.q, 16*i))
	}
	c.VPADDD(x0, x1, s)
	t := q.half
	c.VEXTRACTI64X4(operand.U8(1), s, t.AsY())
	c.VPADDD(t.AsY(), s.AsY(), s.AsY())
	c.VEXTRACTI32X4(operand.U8(1), s.AsY(), t.AsX())
	c.VPADDD(t.AsX(), s.AsX(), s.AsX())
	c.VPSHUFD(operand.U8(0x4e), s.AsX(), t.AsX())
	c.VPADDD(t.AsX(), s.AsX(), s.AsX())
	c.VPSHUFD(operand.U8(0xb1), s.AsX(), t.AsX())
	c.VPADDD(t.AsX(), s.AsX(), s.AsX())
	c.VMOVSS(s.AsX(), at(q.sums, 0))
	c.ADDQ(operand.I32(128), q.x)
	c.ADDQ(operand.I32(32), q.q)
	c.ADDQ(operand.I32(4), q.scales)
	c.ADDQ(operand.I32(4), q.sums)
	c.DECQ(q.blocks)
	c.JNZ(operand.LabelRef("block"))
	c.VZEROUPPER()
	c.RET()
}

// quantQ8K does superblocks of 256.
func quantQ8K() {
	q := newQuantizer("quantizeQ8KAVX512", "quantizes blocks of 256 as quantizeRowGeneric does.")
	r := c.GP32()
	c.Label("block")
	m, m2 := c.ZMM(), c.ZMM()
	c.VPANDD(at(q.x, 0), q.abs, m)
	c.VPANDD(at(q.x, 64), q.abs, m2)
	for i := 2; i < 16; i++ {
		t := c.ZMM()
		c.VPANDD(at(q.x, 64*i), q.abs, t)
		if i%2 == 0 {
			c.VPMAXUD(t, m, m)
		} else {
			c.VPMAXUD(t, m2, m2)
		}
	}
	c.VPMAXUD(m2, m, m)
	q.largest(m)
	inv, ok := q.scale(m)
	sums := c.ZMM()
	zero(sums)
	for i := range 4 {
		for j := range 4 {
			x := c.ZMM()
			c.VMULPS(at(q.x, 256*i+64*j), inv, x)
			c.VCVTPS2DQ_Z(x, ok, x)
			c.VPMOVSDB(x, at(q.q, 64*i+16*j))
			// Sum of four numbers in each lane of 128 bits, then of the lanes.
			t := c.ZMM()
			c.VPSHUFD(operand.U8(0x4e), x, t)
			c.VPADDD(t, x, x)
			c.VPSHUFD(operand.U8(0xb1), x, t)
			c.VPADDD(t, x, x)
			c.VSHUFI32X4(operand.U8(0x4e), x, x, t)
			c.VPADDD(t, x, x)
			c.VSHUFI32X4(operand.U8(0xb1), x, x, t)
			c.VPADDD(t, x, x)
			lane := c.K()
			c.MOVL(operand.U32(1<<(4*i+j)), r)
			c.KMOVW(r, lane)
			c.VMOVDQA32(x, lane, sums)
		}
	}
	c.VPMOVDW(sums, at(q.sums, 0))
	c.ADDQ(operand.I32(1024), q.x)
	c.ADDQ(operand.I32(256), q.q)
	c.ADDQ(operand.I32(4), q.scales)
	c.ADDQ(operand.I32(32), q.sums)
	c.DECQ(q.blocks)
	c.JNZ(operand.LabelRef("block"))
	c.VZEROUPPER()
	c.RET()
}

// side generates the side numbers of the panel kernels.
func side(kind string) {
	c.Function("side" + kind + "AVX512")
	c.Attributes(noSplit)
	c.Pragma("noescape")
	c.Doc("side" + kind + "AVX512 computes n side numbers of each of several tokens as makeSide does.")
	signature("sideArgs")
	a := c.Load(c.Param("a"), c.GP64()).(reg.GPVirtual)
	get := func(off int) reg.GPVirtual { r := c.GP64(); c.MOVQ(at(a, off), r); return r }
	sums0, dst0, count := get(saSums), get(saDst), get(saT)
	ldx, ldDst := get(saLdx), get(saLdDst)
	off, k, all := c.ZMM(), c.K(), c.K()
	c.VPBROADCASTD(at(a, saOff), off)
	c.KXNORW(all, all, all)
	c.Label("token")
	sums, dst, n := c.GP64(), c.GP64(), get(saN)
	c.MOVQ(sums0, sums)
	c.MOVQ(dst0, dst)
	c.KMOVW(all, k)
	c.Label("step")
	c.CMPQ(n, operand.U8(16))
	c.JGE(operand.LabelRef("whole"))
	ones := c.GP32()
	c.MOVL(operand.U32(0xffff), ones)
	c.BZHIL(n.As32(), ones, ones)
	c.KMOVW(ones, k)
	c.Label("whole")
	z := c.ZMM()
	in, out := 64, 64
	switch kind {
	case "32":
		c.VMOVDQU32_Z(at(sums, 0), k, z)
		c.VPMULLD(off, z, z)
	case "Min":
		c.VCVTDQ2PS_Z(at(sums, 0), k, z)
	case "K16":
		c.VPMOVSXWD_Z(at(sums, 0), k, z)
		c.VPMULLD(off, z, z)
		in = 32
	case "K32", "Pairs":
		c.VMOVDQU32_Z(at(sums, 0), k, z)
		c.VPMADDWD(off, z, z)
	}
	if kind == "Pairs" {
		c.VPMOVDW(z, k, at(dst, 0))
		out = 32
	} else {
		c.VMOVDQU32(z, k, at(dst, 0))
	}
	c.ADDQ(operand.I8(in), sums)
	c.ADDQ(operand.I8(out), dst)
	c.SUBQ(operand.I8(16), n)
	c.JG(operand.LabelRef("step"))
	c.ADDQ(ldx, sums0)
	c.ADDQ(ldDst, dst0)
	c.DECQ(count)
	c.JNZ(operand.LabelRef("token"))
	c.VZEROUPPER()
	c.RET()
}
