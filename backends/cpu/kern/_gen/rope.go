package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// ropeHalf turns pairs (i, i+pairs) of each head.
func (v isa) ropeHalf() {
	a, get := begin("ropeHalf"+v.name, "ropeArgs", "turns the pairs i, i+pairs of each head; y may be x.", "",
		"\tfor each head { for i := range pairs {",
		"\t\ty[i], y[i+pairs] = x[i]·cos[i] - x[i+pairs]·sin[i], x[i]·sin[i] + x[i+pairs]·cos[i] } }")
	i, j := c.GP64(), c.GP64()
	mem := func(p, i reg.GPVirtual) operand.Mem { return operand.Mem{Base: p, Index: i, Scale: 4} }
	xp, yp, cos, sin := get(raX), get(raY), get(raCos), get(raSin)
	x, z, k, s, u, w := v.reg(), v.reg(), v.reg(), v.reg(), v.reg(), v.reg()
	turn := func() {
		c.VMULPS(z, s, u)
		c.VMULPS(z, k, w)
		c.VFMSUB231PS(x, k, u) // x·k - z·s
		c.VFMADD231PS(x, s, w)
	}
	v.ropeLoop(a, get(raHeads), xp, yp, func(n reg.GPVirtual) {
		c.MOVQ(at(a, raPairs), n)
		c.XORQ(i, i)
		c.MOVQ(n, j)
	}, func() {
		c.VMOVUPS(mem(xp, i), x)
		c.VMOVUPS(mem(xp, j), z)
		c.VMOVUPS(mem(cos, i), k)
		c.VMOVUPS(mem(sin, i), s)
		turn()
		c.VMOVUPS(u, mem(yp, i))
		c.VMOVUPS(w, mem(yp, j))
		c.ADDQ(operand.U8(v.lanes), i)
		c.ADDQ(operand.U8(v.lanes), j)
	}, func(m reg.Register) {
		v.loadTail(mem(xp, i), m, x)
		v.loadTail(mem(xp, j), m, z)
		v.loadTail(mem(cos, i), m, k)
		v.loadTail(mem(sin, i), m, s)
		turn()
		v.storeTail(u, m, mem(yp, i))
		v.storeTail(w, m, mem(yp, j))
	})
}

// ropeLoop goes over heads and, in each, over the n numbers that start sets:
// whole registers, then the rest under a mask.
func (v isa) ropeLoop(a, heads, xp, yp reg.GPVirtual, start func(n reg.GPVirtual), step func(), rest func(m reg.Register)) {
	n := c.GP64()
	c.Label("head")
	start(n)
	c.SUBQ(operand.U8(v.lanes), n)
	c.JL(operand.LabelRef("tail"))
	c.Label("step")
	step()
	c.SUBQ(operand.U8(v.lanes), n)
	c.JGE(operand.LabelRef("step"))
	c.Label("tail")
	c.ADDQ(operand.U8(v.lanes), n)
	c.JZ(operand.LabelRef("next"))
	rest(v.tail(n))
	c.Label("next")
	c.ADDQ(at(a, raStride), xp)
	c.ADDQ(at(a, raStride), yp)
	c.DECQ(heads)
	c.JNZ(operand.LabelRef("head"))
	end()
}

// ropeAdjacent turns pairs (2i, 2i+1) of each head.
func (v isa) ropeAdjacent() {
	a, get := begin("ropeAdjacent"+v.name, "ropeArgs", "turns the pairs 2i, 2i+1 of each head; cos and sin hold each number twice; y may be x.", "",
		"\tfor each head { for i := range pairs {",
		"\t\ty[2i], y[2i+1] = x[2i]·cos[2i] - x[2i+1]·sin[2i], x[2i]·sin[2i] + x[2i+1]·cos[2i] } }")
	i := c.GP64()
	mem := func(p reg.GPVirtual) operand.Mem { return operand.Mem{Base: p, Index: i, Scale: 4} }
	xp, yp, cos, sin := get(raX), get(raY), get(raCos), get(raSin)
	x, k, s, u := v.reg(), v.reg(), v.reg(), v.reg()
	turn := func() {
		c.VPERMILPS(operand.U8(0xb1), x, u)
		c.VMULPS(s, u, u)
		c.VFMADDSUB231PS(x, k, u) // even lanes x·k - u, odd lanes x·k + u
	}
	v.ropeLoop(a, get(raHeads), xp, yp, func(n reg.GPVirtual) {
		c.MOVQ(at(a, raPairs), n)
		c.ADDQ(n, n)
		c.XORQ(i, i)
	}, func() {
		c.VMOVUPS(mem(xp), x)
		c.VMOVUPS(mem(cos), k)
		c.VMOVUPS(mem(sin), s)
		turn()
		c.VMOVUPS(u, mem(yp))
		c.ADDQ(operand.U8(v.lanes), i)
	}, func(m reg.Register) {
		v.loadTail(mem(xp), m, x)
		v.loadTail(mem(cos), m, k)
		v.loadTail(mem(sin), m, s)
		turn()
		v.storeTail(u, m, mem(yp))
	})
}
