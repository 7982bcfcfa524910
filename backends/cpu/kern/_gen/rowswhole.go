package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// wholeRows generates the product of one token with rows of whole steps of four
// blocks of 32. The steps of a group are side by side, not one after the other;
// the first group of a row may lack some. The scaled sums of all blocks are
// written down, and added up for four rows together: in the order that Mul
// defines, the four additions of a row's group would wait for each other and use a
// quarter of a register.
func wholeRows(d *blockDecoder) {
	name := fmt.Sprintf("wholes%sAVX512", d.name)
	c.Function(name)
	c.Attributes(noSplit)
	c.Pragma("noescape")
	c.Doc(fmt.Sprintf("%s multiplies rows of %s, whole steps each, with an arranged token as Mul defines it:", name, d.name), "",
		"\tfor r in 0..rows: y[r] = Σ_k w[r][k]·x[k]")
	signature("rowsArgs")
	a := c.Load(c.Param("a"), c.GP64()).(reg.GPVirtual)
	get := func(off int) reg.GPVirtual { r := c.GP64(); c.MOVQ(at(a, off), r); return r }
	w, rows, y, ahead := get(rwW), get(rwRows), get(rwY), asks{near: get(rwNear), far: get(rwFar)}
	none = c.ZMM()
	zero(none)
	d.setup(4)
	sums, both := vectors(4), c.ZMM()

	c.Label("four")
	left, dst := c.GP64(), get(rwScaled)
	c.MOVQ(operand.U32(4), left)
	c.CMPQ(rows, left)
	c.CMOVQLT(rows, left)

	c.Label("row")
	to, x, side, groups := c.GP64(), get(rwX), get(rwSide), get(rwGroups)
	c.MOVQ(dst, to)
	d.start()
	entry := get(rwEntry)
	c.TESTQ(entry, entry)
	c.JNZ(operand.LabelRef("enter"))
	steps := func(first int) {
		for pos := first; pos < 4; {
			n := min(d.together, 4-pos)
			interleave(n, w, func(i int) { wholeStep(d, w, x, ahead, pos+i, sums[pos+i]) })
			pos += n
		}
	}
	c.Label("group")
	steps(0)
	c.Label("finish")
	addDwords(sums[0], sums[1], both)
	addDwords(sums[2], sums[3], sums[2])
	addQwords(both, sums[2], both)
	scaleBlocks(d, both, side)
	c.VMOVUPS(both, at(to, 0))
	c.ADDQ(operand.I32(4*64), to)
	c.ADDQ(operand.I32(4*d.wBytes), w)
	c.ADDQ(operand.I32(512), x)
	c.SUBQ(operand.I8(-128), side)
	c.DECQ(groups)
	c.JNZ(operand.LabelRef("group"))
	c.ADDQ(operand.I8(64), dst)
	c.DECQ(left)
	c.JNZ(operand.LabelRef("row"))

	wholeSums(get(rwScaled), get(rwGroups), rows, y)
	c.ADDQ(operand.I8(16), y)
	c.SUBQ(operand.I8(4), rows)
	c.JG(operand.LabelRef("four"))
	c.VZEROUPPER()
	c.RET()

	// The first group of a row if it lacks steps: entry is twice their number. A
	// row's first line may belong to one of those.
	c.Label("enter")
	ahead.at(w, 0)
	c.SUBQ(at(a, rwBias), w)
	for first := 1; first < 4; first++ {
		if first > 1 {
			c.Label(fmt.Sprintf("enter%d", first))
		}
		if first < 3 {
			c.CMPQ(entry, operand.U8(2*first))
			c.JNE(operand.LabelRef(fmt.Sprintf("enter%d", first+1)))
		}
		for _, v := range sums[:first] {
			zero(v)
		}
		steps(first)
		c.JMP(operand.LabelRef("finish"))
	}
}

// wholeStep generates the sums of step pos, and asks for its weights of later.
func wholeStep(d *blockDecoder, w, x reg.GPVirtual, ahead asks, pos int, sum reg.VecVirtual) {
	for line := 0; line < 4*d.wBytes; line += 64 {
		if line/d.wBytes == pos {
			ahead.at(w, line)
		}
	}
	q := d.decode(w, d.wBytes*pos, pos, false)
	d.dot(q, [2]operand.Op{at(x, 128*pos), at(x, 128*pos+64)}, sum)
}

// wholeSums generates the addition of [groups][4 rows][4 blocks][4 steps] to
// the results of up to four rows. Rows that do not exist have what was there
// before, and their results are not written.
func wholeSums(from, groups, rows, y reg.GPVirtual) {
	acc := c.ZMM()
	zero(acc)
	c.Label("sum")
	// Numbers [4 blocks][4 steps] of four rows become [4 blocks][4 rows] of each
	// step.
	v := vectors(4)
	for i := 0; i < 4; i += 2 {
		c.VMOVUPS(at(from, 64*i), v[i])
		c.VUNPCKHPS(at(from, 64*i+64), v[i], v[i+1])
		c.VUNPCKLPS(at(from, 64*i+64), v[i], v[i])
	}
	for i := range 2 {
		f := c.ZMM()
		c.VUNPCKLPD(v[2+i], v[i], f)
		c.VADDPS(f, acc, acc)
		c.VUNPCKHPD(v[2+i], v[i], v[i])
		c.VADDPS(v[i], acc, acc)
	}
	c.ADDQ(operand.I32(4*64), from)
	c.DECQ(groups)
	c.JNZ(operand.LabelRef("sum"))
	bits, store := c.GP64(), c.K()
	c.MOVQ(operand.U32(15), bits)
	c.BZHIQ(rows, bits, bits)
	c.KMOVW(bits.As32(), store)
	c.VMOVUPS(addParts(acc), store, at(y, 0))
}
