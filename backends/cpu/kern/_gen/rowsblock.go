package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A picker collects the f16 numbers of a group's blocks in the order of their
// sums: four for each step.
type picker struct {
	lanes [4]reg.Register
	steps int
}

// setup makes the masks of the lanes that belong to a step.
func (p *picker) setup(steps int) {
	p.steps = steps
	if steps == 1 {
		return
	}
	for i := range steps {
		p.lanes[i] = c.K()
		r := c.GP64()
		c.MOVQ(operand.U32(map[int]int{2: 0x5555, 4: 0x1111}[steps]<<i), r)
		c.KMOVQ(r, p.lanes[i])
	}
}

// words puts words of from, chosen by index, into the lanes of step pos.
func (p *picker) words(from reg.Register, index reg.VecVirtual, pos int, to reg.VecVirtual) {
	if p.steps == 1 {
		c.VPERMW(from, index, to)
	} else {
		c.VPERMW(from, index, p.lanes[pos], to)
	}
}

// A blockOrder says where the elements of four blocks of 32 lie in the two
// registers that they are decoded to: byte i of the first holds element e of
// block b, the second what comes 16 elements later. Lane i of their scales is
// that of block scale(i).
type blockOrder struct {
	name  string
	place func(i int) (b, e int)
	scale func(i int) int
}

var (
	// byRow is for row kernels: lanes of 16 bytes are halves of blocks.
	byRow = &blockOrder{"row", func(i int) (b, e int) { return i / 16, i % 16 }, func(i int) int { return i / 4 % 4 }}
	// byStep is for decoded rows: four elements of each block side by side.
	byStep = &blockOrder{"step", func(i int) (b, e int) { return i / 4 % 4, i/16*4 + i%4 }, func(i int) int { return i % 4 }}
)

// A blockDecoder generates the decoding of four blocks of 32 to unsigned bytes.
type blockDecoder struct {
	name   string
	wBytes int
	maskAt int // where the arguments have the masks of what exists
	// whole says that in the order of rows a register holds two whole blocks.
	whole bool
	// setup loads constants for groups of the given steps, start prepares a
	// row.
	setup func(steps int)
	start func()
	// decode decodes the four blocks disp bytes behind w, which are number pos of
	// those whose scales come together. If partial, only some of them exist.
	decode func(w reg.GPVirtual, disp, pos int, partial bool) [2]reg.VecVirtual
	// scales returns the f32 scales of a group's blocks, and minima or nil.
	scales func() (d, m reg.VecVirtual)
	// noOffset says that weights have minima instead of an offset.
	noOffset bool
	// together is how many steps can be generated side by side.
	together int
}

// blockDecoders returns the decoders of all formats in blocks of 32.
func blockDecoders(o *blockOrder) []*blockDecoder {
	list := []*blockDecoder{blocksQ8_0()}
	if o == byStep {
		list[0] = stepsQ8_0()
	}
	for _, f := range rowNibbles {
		list = append(list, f.decoder(o))
	}
	return list
}

// stepper takes four blocks in a step.
func (d *blockDecoder) stepper() *rowStepper {
	s := &rowStepper{name: d.name, wBytes: d.wBytes, setup: d.setup, start: d.start, blocks: d}
	s.step = func(w reg.GPVirtual, x tokens, pos int, sums []reg.VecVirtual, partial bool) {
		q := d.decode(w, d.wBytes*pos, pos, partial)
		for t, v := range sums {
			d.dot(q, [2]operand.Op{x.at(t, 128*pos), x.at(t, 128*pos+64)}, v)
		}
	}
	return s
}

// dot puts the products of four blocks with a token, added up to four lanes for
// each block, into v.
func (d *blockDecoder) dot(q [2]reg.VecVirtual, x [2]operand.Op, v reg.VecVirtual) {
	c.VMOVDQA32(none, v)
	c.VPDPBUSD(x[0], q[0], v)
	if !d.whole {
		c.VPDPBUSD(x[1], q[1], v)
		return
	}
	u := c.ZMM()
	c.VMOVDQA32(none, u)
	c.VPDPBUSD(x[1], q[1], u)
	addLanes(v, u, v)
}

// blocksQ8_0 is for row kernels: a register has two blocks.
func blocksQ8_0() *blockDecoder {
	// What is written by halves is allocated once: writing a part of a register
	// makes it live from the start.
	var flip, words, quad, index reg.VecVirtual
	var q [2]reg.VecVirtual
	var p picker
	s := &blockDecoder{name: "Q8_0", wBytes: 136, maskAt: rwMask, whole: true}
	s.setup = func(steps int) {
		p.setup(steps)
		flip, words, quad = splat("flip80", 0x80808080), c.ZMM(), c.XMM()
		index = loadTable("quarters", wordsOf(32, func(i int) uint16 { return uint16(byRow.scale(i)) }))
		q = [2]reg.VecVirtual{c.ZMM(), c.ZMM()}
		zero(quad)
	}
	s.start = func() { zero(words) }
	s.decode = func(w reg.GPVirtual, disp, pos int, partial bool) [2]reg.VecVirtual {
		block := func(i, field int) operand.Mem { return at(w, disp+34*i+field) }
		if partial {
			// Block 0 lacks, 3 exists, masks tell about 1 and 2.
			a := c.Load(c.Param("a"), c.GP64()).(reg.GPVirtual)
			mask := func(i int) reg.Register {
				k := c.K()
				c.KMOVQ(at(a, s.maskAt+8*i), k)
				return k
			}
			zero(quad)
			c.VPBROADCASTW(block(1, 0), mask(2), quad)
			c.VPBROADCASTW(block(2, 0), mask(3), quad)
			one := c.YMM()
			c.VMOVDQU8_Z(block(1, 2), mask(0), one)
			c.VMOVDQA32(none, q[0])
			c.VINSERTI64X4(operand.U8(1), one, q[0], q[0])
			c.VMOVDQU8_Z(block(2, 2), mask(1), q[1].AsY())
		} else {
			for i := range 3 {
				c.VPINSRW(operand.U8(i), block(i, 0), quad, quad)
			}
			c.VMOVDQU32(block(0, 2), q[0].AsY())
			c.VINSERTI64X4(operand.U8(1), block(1, 2), q[0], q[0])
			c.VMOVDQU32(block(2, 2), q[1].AsY())
		}
		c.VPINSRW(operand.U8(3), block(3, 0), quad, quad)
		c.VINSERTI64X4(operand.U8(1), block(3, 2), q[1], q[1])
		p.words(quad.AsZ(), index, pos, words)
		for _, v := range q {
			c.VPXORD(flip, v, v)
		}
		return q
	}
	s.scales = func() (d, m reg.VecVirtual) {
		d = c.ZMM()
		c.VCVTPH2PS(words.AsY(), d)
		return d, nil
	}
	return s
}

// stepsQ8_0 is for decoded rows. Steps 0 to 3 lie in the 128 bytes from the
// first on, steps 4 to 7 in those from number 8 on.
func stepsQ8_0() *blockDecoder {
	var flip, scales, scaleIndex reg.VecVirtual
	var index [2]reg.VecVirtual
	s := &blockDecoder{name: "Q8_0", wBytes: 136}
	s.setup = func(int) {
		flip = splat("flip80", 0x80808080)
		for h := range index {
			index[h] = loadTable(fmt.Sprintf("stepsq8%d", h), bytesOf(64, func(i int) byte {
				b, e := byStep.place(i)
				return byte(34*b + 2 + 16*h + e - 8*h)
			}))
		}
		scaleIndex = loadTable("stepsdq8", wordsOf(32, func(i int) uint16 { return uint16(34 * byStep.scale(i) / 2) }))
	}
	s.start = func() {}
	s.decode = func(w reg.GPVirtual, disp, _ int, partial bool) [2]reg.VecVirtual {
		var q [2]reg.VecVirtual
		for h := range q {
			v := [2]reg.VecVirtual{c.ZMM(), c.ZMM()}
			for i := range v {
				from := at(w, disp+64*i+8*h)
				if !partial {
					c.VMOVDQU32(from, v[i])
					continue
				}
				a, k := c.Load(c.Param("a"), c.GP64()).(reg.GPVirtual), c.K()
				c.KMOVQ(at(a, s.maskAt+8*(2*h+i)), k)
				c.VMOVDQU8_Z(from, k, v[i])
			}
			if h == 0 {
				scales = c.ZMM()
				c.VMOVDQA32(v[0], scales)
				c.VPERMT2W(v[1], scaleIndex, scales)
			}
			c.VPERMT2B(v[1], index[h], v[0])
			c.VPXORD(flip, v[0], v[0])
			q[h] = v[0]
		}
		return q
	}
	s.scales = func() (d, m reg.VecVirtual) {
		d = c.XMM()
		c.VCVTPH2PS(scales.AsX(), d)
		return d, nil
	}
	return s
}

// turnPair brings the dwords of two registers into the order of two indices.
func turnPair(q, index [2]reg.VecVirtual) [2]reg.VecVirtual {
	r := [2]reg.VecVirtual{c.ZMM(), c.ZMM()}
	for i := range r {
		c.VMOVDQA32(q[0], r[i])
		c.VPERMT2D(q[1], index[i], r[i])
	}
	return r
}

// A rowNibble is a format with 16 bytes of nibbles per block of 32: byte i
// holds element i in its low and element i+16 in its high half.
type rowNibble struct {
	name         string
	block, nib   int // bytes per block; where its nibbles lie
	scale, min   int // where the f16 scale and minimum lie; min is 0 if there is none
	fifth        int // where 32 fifth bits lie, or 0
	values       func() reg.VecVirtual
	exponents    bool // the scale is an e8m0 exponent
	second, wide int  // a step's second load: where it starts, and its bytes
}

var rowNibbles = []*rowNibble{
	{name: "Q4_0", block: 18, nib: 2, second: 56, wide: 16},
	{name: "Q4_1", block: 20, nib: 4, min: 2, second: 64, wide: 16},
	{name: "Q5_0", block: 22, nib: 6, fifth: 2, second: 56, wide: 32},
	{name: "Q5_1", block: 24, nib: 8, min: 2, fifth: 4, second: 64, wide: 32},
	{name: "IQ4_NL", block: 18, nib: 2, values: iq4Table, second: 56, wide: 16},
	{name: "MXFP4", block: 17, nib: 1, values: mxfp4Table, exponents: true, second: 52, wide: 16},
}

// source returns the number of byte o of four blocks in the two loads.
func (f *rowNibble) source(o int) byte {
	if o < 64 {
		return byte(o)
	}
	return byte(64 + o - f.second)
}

func (f *rowNibble) decoder(o *blockOrder) *blockDecoder {
	s := &blockDecoder{name: f.name, wBytes: 4 * f.block, maskAt: rwMask, noOffset: f.min > 0, together: 4}
	if f.fifth > 0 {
		s.together = 2 // there are no mask registers for more
	}
	var gather, low, values, one, bitMask, bit4, scaleIndex, minIndex reg.VecVirtual
	var bits [2]reg.VecVirtual
	var scales, mins reg.VecVirtual // f16 numbers, or exponents
	var lasts []reg.VecVirtual      // one for each step, allocated once, as in blocksQ8_0
	var p picker
	s.setup = func(steps int) {
		p.setup(steps)
		lasts, scales = vectors(steps), c.ZMM()
		low = splat("low0f", 0x0f0f0f0f)
		gather = loadTable(o.name+"nib"+f.name, bytesOf(64, func(i int) byte {
			b, e := o.place(i)
			return f.source(b*f.block + f.nib + e)
		}))
		index := func(field int) []byte {
			return wordsOf(32, func(i int) uint16 { return uint16(f.source(o.scale(i)*f.block+field)) / 2 })
		}
		if f.values != nil {
			values = f.values()
		}
		if f.exponents {
			one = splat("one", 1)
			scaleIndex = loadTable(o.name+"e"+f.name, bytesOf(64, func(i int) byte { return f.source(o.scale(i)*f.block + f.scale) }))
		} else {
			scaleIndex = loadTable(o.name+"d"+f.name, index(f.scale))
		}
		if f.min > 0 {
			mins, minIndex = c.ZMM(), loadTable(o.name+"m"+f.name, index(f.min))
		}
		if f.fifth > 0 {
			bit4 = splat("bit4", 0x10101010)
			bitMask = loadTable(o.name+"bitmask", bytesOf(64, func(i int) byte {
				_, e := o.place(i)
				return 1 << (e % 8)
			}))
			for h := range bits {
				bits[h] = loadTable(fmt.Sprintf("%sbits%s%d", o.name, f.name, h), bytesOf(64, func(i int) byte {
					b, e := o.place(i)
					return f.source(b*f.block + f.fifth + 2*h + e/8)
				}))
			}
		}
	}
	s.start = func() {
		zero(scales)
		if f.min > 0 {
			zero(mins)
		}
	}
	s.decode = func(w reg.GPVirtual, disp, pos int, partial bool) [2]reg.VecVirtual {
		lo, hi, last := c.ZMM(), c.ZMM(), lasts[pos]
		first, second := at(w, disp), at(w, disp+f.second)
		var part reg.Register = last.AsX()
		if f.wide == 32 {
			part = last.AsY()
		}
		if partial {
			k0, k1, a := c.K(), c.K(), c.Load(c.Param("a"), c.GP64()).(reg.GPVirtual)
			c.KMOVQ(at(a, s.maskAt), k0)
			c.KMOVQ(at(a, s.maskAt+8), k1)
			c.VMOVDQU8_Z(first, k0, lo)
			c.VMOVDQU8_Z(second, k1, part)
		} else {
			load64(w, disp, lo)
			c.VMOVDQU32(second, part)
		}
		pick := func(index, to reg.VecVirtual, field int) {
			from := lo
			if 3*f.block+field >= 64 {
				from = c.ZMM()
				c.VMOVDQA32(lo, from)
				c.VPERMT2W(last, index, from)
				if p.steps == 1 {
					c.VMOVDQA32(from, to)
				} else {
					c.VMOVDQU16(from, p.lanes[pos], to)
				}
				return
			}
			p.words(from, index, pos, to)
		}
		switch {
		case !f.exponents:
			pick(scaleIndex, scales, f.scale)
		case p.steps == 1:
			c.VPERMB(lo, scaleIndex, scales)
		default:
			c.VPERMB(lo, scaleIndex, p.lanes[pos], scales)
		}
		if f.min > 0 {
			pick(minIndex, mins, f.min)
		}
		var fifth [2]reg.VecVirtual
		if f.fifth > 0 {
			for h := range fifth {
				fifth[h] = c.ZMM()
				c.VMOVDQA32(lo, fifth[h])
				c.VPERMT2B(last, bits[h], fifth[h])
			}
		}
		c.VPERMT2B(last, gather, lo)
		c.VPSRLD(operand.U8(4), lo, hi)
		c.VPANDD(low, hi, hi)
		c.VPANDD(low, lo, lo)
		for h, q := range []reg.VecVirtual{lo, hi} {
			if f.fifth > 0 {
				set := c.K()
				c.VPTESTMB(bitMask, fifth[h], set)
				c.VPADDB(bit4, q, set, q)
			}
			if values != nil {
				c.VPSHUFB(q, values, q)
			}
		}
		return [2]reg.VecVirtual{lo, hi}
	}
	s.scales = func() (d, m reg.VecVirtual) {
		d = c.ZMM()
		if f.exponents {
			c.VPMOVZXBD(scales.AsX(), d)
			exponent(d, one)
		} else {
			c.VCVTPH2PS(scales.AsY(), d)
		}
		if f.min > 0 {
			m = c.ZMM()
			c.VCVTPH2PS(mins.AsY(), m)
		}
		return d, m
	}
	return s
}

// zip generates the copy of activations with the lanes of every 128 bytes in
// another order.
func zip(name string, first, second int) {
	c.Function("zip" + name + "AVX512")
	c.Attributes(noSplit)
	c.Pragma("noescape")
	c.Doc("zip" + name + "AVX512 copies n times 128 bytes, each with its eight parts of 16 bytes in another order.")
	c.SignatureExpr("func(dst, src *byte, n int)")
	dst, src := c.Load(c.Param("dst"), c.GP64()).(reg.GPVirtual), c.Load(c.Param("src"), c.GP64()).(reg.GPVirtual)
	n := c.Load(c.Param("n"), c.GP64())
	c.Label("step")
	p, q, r := c.ZMM(), c.ZMM(), c.ZMM()
	c.VMOVDQU32(at(src, 0), p)
	c.VMOVDQU32(at(src, 64), q)
	c.VSHUFI32X4(operand.U8(first), q, p, r)
	c.VSHUFI32X4(operand.U8(second), q, p, p)
	c.VMOVDQU32(r, at(dst, 0))
	c.VMOVDQU32(p, at(dst, 64))
	c.ADDQ(operand.U8(128), src)
	c.ADDQ(operand.U8(128), dst)
	c.DECQ(n)
	c.JNZ(operand.LabelRef("step"))
	c.VZEROUPPER()
	c.RET()
}
