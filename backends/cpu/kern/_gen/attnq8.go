package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// unpackKeysQ8 turns key blocks into f32 ones and asks for what lies ahead bytes
// behind them.
func (v isa) unpackKeysQ8() {
	_, get := begin("unpackKeysQ8"+v.name, "cacheArgs", "turns n > 0 groups of 32 dimensions of q8_0 keys into f32.", "",
		"\tfor j := range n { for d := range 32 { for i := range 16 {",
		"\t\tdst[j][d][i] = src[j].scale[i]·src[j].key[d][i] } } }")
	src, dst, n, ahead := get(uaSrc), get(uaDst), get(uaN), get(uaAhead)
	x := v.reg()
	var scale [2]reg.VecVirtual
	for i := range v.parts() {
		scale[i] = v.reg()
	}
	c.Label("group")
	askAhead(src, ahead, 34*16)
	for i := range v.parts() {
		c.VCVTPH2PS(at(src, 2*v.lanes*i), scale[i])
	}
	for d := range 32 {
		for i := range v.parts() {
			c.VPMOVSXBD(at(src, 32+16*d+v.lanes*i), x)
			c.VCVTDQ2PS(x, x)
			c.VMULPS(scale[i], x, x)
			c.VMOVUPS(x, at(dst, 64*d+v.bytes()*i))
		}
	}
	c.ADDQ(operand.I32(34*16), src)
	c.ADDQ(operand.I32(64*32), dst)
	c.DECQ(n)
	c.JNZ(operand.LabelRef("group"))
	end()
}

// unpackValuesQ8 turns q8_0 blocks into f32 numbers and asks for what lies ahead
// bytes behind them.
func (v isa) unpackValuesQ8() {
	_, get := begin("unpackValuesQ8"+v.name, "cacheArgs", "turns n > 0 blocks of q8_0 into f32.", "",
		"\tfor j := range n { for d := range 32 { dst[32·j+d] = src[j].scale·src[j].q[d] } }")
	src, dst, n, ahead := get(uaSrc), get(uaDst), get(uaN), get(uaAhead)
	scale, x := v.reg(), v.reg()
	c.Label("block")
	askAhead(src, ahead, 34)
	if v.wide() {
		h := c.YMM()
		c.VPBROADCASTW(at(src, 0), h)
		c.VCVTPH2PS(h, scale)
	} else {
		h := c.XMM()
		c.VPBROADCASTW(at(src, 0), h)
		c.VCVTPH2PS(h, scale)
	}
	for d := range 2 * v.parts() {
		c.VPMOVSXBD(at(src, 2+v.lanes*d), x)
		c.VCVTDQ2PS(x, x)
		c.VMULPS(scale, x, x)
		c.VMOVUPS(x, at(dst, v.bytes()*d))
	}
	c.ADDQ(operand.U8(34), src)
	c.ADDQ(operand.I32(128), dst)
	c.DECQ(n)
	c.JNZ(operand.LabelRef("block"))
	end()
}
