package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rowFour generates the product of one token with short rows in blocks of 32,
// four at a time. They take the places that steps of one row, or tokens, have in
// the other kernels: the sums of four blocks of all rows are added up to 16
// numbers, nothing has to be added across lanes until the rows end, and that is
// done for four rows together.
func rowFour(d *blockDecoder) {
	c.Function(fmt.Sprintf("fours%sAVX512", d.name))
	c.Attributes(noSplit)
	c.Pragma("noescape")
	c.Doc(fmt.Sprintf("fours%sAVX512 multiplies four rows of %s after the other with an arranged token as Mul defines it:", d.name, d.name), "",
		"\tfor i in 0..rows, r in 0..4: y[4i+r] = Σ_k w[4i+r][k]·x[k]")
	signature("rowsArgs")
	a := c.Load(c.Param("a"), c.GP64()).(reg.GPVirtual)
	get := func(off int) reg.GPVirtual { r := c.GP64(); c.MOVQ(at(a, off), r); return r }
	row, rows, y := get(rwW), get(rwRows), get(rwY)
	store := c.K()
	c.KMOVW(at(a, rwStore), store)
	none = c.ZMM()
	zero(none)
	d.setup(4)
	d.start()
	asks := asks{near: get(rwNear), far: get(rwFar)}
	acc, left, both := c.ZMM(), c.ZMM(), c.ZMM()

	c.Label("rows")
	w := make([]reg.GPVirtual, 4)
	w[0] = c.GP64()
	c.MOVQ(row, w[0])
	// Weights are asked for in the order in which they lie.
	ahead := c.GP64()
	c.MOVQ(row, ahead)
	c.SUBQ(at(a, rwBias4), ahead)
	c.SUBQ(at(a, rwBias), w[0])
	for r := 1; r < 4; r++ {
		w[r] = get(rwApart + 8*(r-1))
		c.ADDQ(w[0], w[r])
	}
	x, side, groups := get(rwX), get(rwSide), get(rwGroups)
	zero(acc)
	token := [2]reg.VecVirtual{c.ZMM(), c.ZMM()}
	step := func(partial bool) {
		for h, z := range token {
			c.VMOVDQU32(at(x, 64*h), z)
		}
		for r := range w {
			for line := 0; line < 4*d.wBytes; line += 64 {
				if line/d.wBytes == r {
					asks.at(ahead, line)
				}
			}
			v := c.ZMM()
			if r%2 == 0 {
				v = left
			}
			d.dot(d.decode(w[r], 0, r, partial), [2]operand.Op{token[0], token[1]}, v)
			switch r {
			case 1:
				addDwords(left, v, both)
			case 3:
				addDwords(left, v, left)
				addQwords(both, left, both)
			}
		}
	}
	c.CMPQ(at(a, rwEntry), operand.U8(0))
	c.JNE(operand.LabelRef("enter"))
	c.Label("group")
	step(false)
	c.Label("finish")
	c.ADDQ(operand.I32(4*d.wBytes), ahead)
	scaleBlocks(d, both, side)
	c.VADDPS(both, acc, acc)
	for _, p := range w {
		c.ADDQ(operand.I32(d.wBytes), p)
	}
	c.SUBQ(operand.I8(-128), x)
	c.SUBQ(operand.I8(-128), side)
	c.DECQ(groups)
	c.JNZ(operand.LabelRef("group"))
	c.VMOVUPS(addParts(acc), store, at(y, 0))
	c.ADDQ(operand.I8(16), y)
	c.ADDQ(at(a, rwStride), row)
	c.DECQ(rows)
	c.JNZ(operand.LabelRef("rows"))
	c.VZEROUPPER()
	c.RET()

	// The first step of rows whose blocks are no multiple of four.
	c.Label("enter")
	step(true)
	c.JMP(operand.LabelRef("finish"))
}
