package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is the instruction set a body is generated for. wide has registers of 16
// numbers and masks; narrow is AVX2 with FMA: 8 numbers, registers 0 to 15, so
// constants stay in memory.
type isa struct {
	name  string
	lanes int
}

var wide, narrow = isa{"AVX512", 16}, isa{"AVX2", 8}

func (v isa) wide() bool { return v == wide }

// bytes is the size of a register.
func (v isa) bytes() int { return 4 * v.lanes }

// reg returns a vector register.
func (v isa) reg() reg.VecVirtual {
	if v.wide() {
		return c.ZMM()
	}
	return c.YMM()
}

// num returns a constant in every lane: a register, or memory where registers
// are few. It may stand as first operand only.
func (v isa) num(name string, f float64) operand.Op {
	return v.bits(name, math.Float32bits(float32(f)))
}

func (v isa) bits(name string, b uint32) operand.Op {
	if v.wide() {
		return splat(name, b)
	}
	return table(name+"x8", dwordsOf(8, func(int) uint32 { return b }))
}

// inReg returns a register that holds a constant.
func (v isa) inReg(x operand.Op) reg.VecVirtual {
	if r, ok := x.(reg.VecVirtual); ok {
		return r
	}
	r := v.reg()
	c.VMOVUPS(x, r)
	return r
}

// min and max compute dst = min(limit, x) and max(limit, x); a NaN in x stays.
func (v isa) min(limit operand.Op, x, dst reg.VecVirtual) { c.VMINPS(x, v.inReg(limit), dst) }

func (v isa) max(limit operand.Op, x, dst reg.VecVirtual) { c.VMAXPS(x, v.inReg(limit), dst) }

// arg returns a float argument in every lane.
func (v isa) arg(a reg.GPVirtual, off int) reg.VecVirtual {
	z := v.reg()
	c.VBROADCASTSS(at(a, off), z)
	return z
}

func (v isa) zero(x reg.VecVirtual) {
	if v.wide() {
		zero(x)
	} else {
		c.VXORPS(x, x, x)
	}
}

// splatF is splat for a float.
func splatF(name string, v float64) reg.VecVirtual { return splat(name, math.Float32bits(float32(v))) }

// begin starts a function with one pointer to a struct and returns a reader of
// its fields.
func begin(name, args string, doc ...string) (a reg.GPVirtual, get func(off int) reg.GPVirtual) {
	c.Function(name)
	c.Attributes(noSplit)
	c.Pragma("noescape")
	c.Doc(append([]string{name + " " + doc[0]}, doc[1:]...)...)
	signature(args)
	a = c.Load(c.Param("a"), c.GP64()).(reg.GPVirtual)
	return a, func(off int) reg.GPVirtual { r := c.GP64(); c.MOVQ(at(a, off), r); return r }
}

func end() {
	c.VZEROUPPER()
	c.RET()
}

// tailMask returns a mask of the n lowest lanes, 0 < n < 16.
func tailMask(n reg.GPVirtual) reg.Register {
	ones, k := c.GP32(), c.K()
	c.MOVL(operand.U32(0xffff), ones)
	c.BZHIL(n.As32(), ones, ones)
	c.KMOVW(ones, k)
	return k
}

// tail returns the mask of the n lowest lanes: a mask register or a vector.
func (v isa) tail(n reg.GPVirtual) reg.Register {
	if v.wide() {
		return tailMask(n)
	}
	// The window of 8 words that begins 8-n words into 8 of ones and 8 of zeros.
	m, p := c.YMM(), c.GP64()
	c.LEAQ(table("tails", dwordsOf(16, func(i int) uint32 { return uint32(int32(i/8) - 1) })), p)
	c.ADDQ(operand.U8(32), p)
	c.SHLQ(operand.U8(2), n)
	c.SUBQ(n, p)
	c.SHRQ(operand.U8(2), n)
	c.VMOVUPS(at(p, 0), m)
	return m
}

// loadTail and storeTail move the lanes of a mask; others are 0 or not touched.
func (v isa) loadTail(m operand.Mem, mask reg.Register, x reg.VecVirtual) {
	if v.wide() {
		c.VMOVUPS_Z(m, mask, x)
	} else {
		c.VMASKMOVPS(m, mask, x)
	}
}

func (v isa) storeTail(x reg.VecVirtual, mask reg.Register, m operand.Mem) {
	if v.wide() {
		c.VMOVUPS(x, mask, m)
	} else {
		c.VMASKMOVPS(x, mask, m)
	}
}
