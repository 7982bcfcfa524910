package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets in dotArgs and rowArgs.
const (
	doQ, doScales, doMins, doD, doX, doLdx, doSide, doY, doLdy, doBlocks, doRows, doLdRow = 0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88

	rwSrc, rwQ, rwScales, rwMins, rwD, rwBlocks = 0, 8, 16, 24, 32, 40
)

// genAVX2 generates the kernels for processors without AVX-512. Weight rows
// are first decoded to int8 numbers with their scales, in the first-level
// cache, then multiplied with up to four tokens. Registers 16 to 31 do not
// exist here, so at most 16 may be live.
func genAVX2() {
	for t := 1; t <= 4; t++ {
		for _, min := range []bool{false, true} {
			dot32AVX2(t, min)
			dot256AVX2(t, min)
		}
	}
	for t := 1; t <= 4; t++ {
		for _, f := range []string{"F32", "F16", "BF16"} {
			floatAVX2(f, t)
		}
	}
	decodeQ8_0AVX2()
	decodeQ4_0AVX2()
	decodeQ4KAVX2(false)
	decodeQ4KAVX2(true)
	decodeQ6KAVX2()
	rareAVX2()
	quantAVX2(32)
	quantAVX2(256)
}

func ymmWord(name string, v uint32) reg.VecVirtual {
	y := c.YMM()
	c.VPBROADCASTD(word(name, v), y)
	return y
}

// sumYMM adds the lanes of y into lane 0.
func sumYMM(y, tmp reg.VecVirtual) reg.Register {
	c.VEXTRACTF128(operand.U8(1), y, tmp.AsX())
	c.VADDPS(tmp.AsX(), y.AsX(), y.AsX())
	c.VPERMILPS(operand.U8(0x0e), y.AsX(), tmp.AsX())
	c.VADDPS(tmp.AsX(), y.AsX(), y.AsX())
	c.VPERMILPS(operand.U8(0x01), y.AsX(), tmp.AsX())
	c.VADDPS(tmp.AsX(), y.AsX(), y.AsX())
	return y.AsX()
}

func beginAVX2(name, doc, args string) func(off int) reg.GPVirtual {
	c.Function(name)
	c.Attributes(noSplit)
	c.Pragma("noescape")
	c.Doc(doc)
	signature(args)
	a := c.Load(c.Param("a"), c.GP64()).(reg.GPVirtual)
	return func(off int) reg.GPVirtual { r := c.GP64(); c.MOVQ(at(a, off), r); return r }
}

// dotter generates a kernel over decoded rows.
type dotter struct {
	n            int
	min          bool
	get          func(off int) reg.GPVirtual
	q, s, m, d   reg.GPVirtual
	x            tokens
	side, blocks reg.GPVirtual
	a            reg.GPVirtual
}

// newDotter starts a kernel; what the label row is followed by is done for
// every row.
func newDotter(stem string, n int, min, super bool, doc string) *dotter {
	if min {
		stem += "Min"
	}
	name := fmt.Sprintf("%sT%dAVX2", stem, n)
	a, get := begin(name, "dotArgs", fmt.Sprintf("multiplies decoded rows with %d tokens: %s. The struct is used up.", n, doc))
	d := &dotter{n: n, min: min, get: get, a: a}
	c.Label("row")
	d.q, d.s = get(doQ), get(doScales)
	if min {
		d.m = get(doMins)
	}
	if super {
		d.d = get(doD)
	}
	d.x = tokensAt(get(doX), get(doLdx), n)
	d.side, d.blocks = get(doSide), get(doBlocks)
	return d
}

// next ends the loop over rows.
func (d *dotter) next(super bool) {
	step := d.get(doLdRow)
	for _, off := range []int{doQ, doScales, doMins, doD} {
		if off == doMins && !d.min || off == doD && !super {
			continue
		}
		c.ADDQ(step, at(d.a, off))
	}
	c.ADDQ(operand.U8(4), at(d.a, doY))
	c.DECQ(at(d.a, doRows))
	c.JNZ(operand.LabelRef("row"))
	end()
}

// pairs leaves in dst the products of w, whose magnitudes are u, with the
// numbers at m, summed by twos: 16 words. Magnitudes are at most 128 and |x|
// 127, so two products fit 16 bits.
func pairs(w, u reg.VecVirtual, m operand.Mem, dst reg.VecVirtual) {
	c.VMOVDQU(m, dst)
	c.VPSIGNB(w, dst, dst)
	c.VPMADDUBSW(dst, u, dst)
}

// addPairs leaves the sums of neighbours of a, then of b, of each half in dst.
// The instruction for it, VPHADDD, takes twice the time on Zen.
func addPairs(a, b, tmp, dst reg.VecVirtual) {
	c.VSHUFPS(operand.U8(0x88), b, a, tmp)
	c.VSHUFPS(operand.U8(0xdd), b, a, dst)
	c.VPADDD(tmp, dst, dst)
}

// dot32AVX2 does four blocks of 32 at a time, one to a lane: the lanes are the
// partial sums, those of two tokens in the halves of a register.
func dot32AVX2(n int, min bool) {
	d := newDotter("dot32", n, min, false, "y[t] = Σ_b dx[t][b]·(d[b]·Σ q·x + m[b]·Σ x), in four partial sums")
	ones := ymmWord("ones16", 0x00010001)
	first, even := make([]reg.VecVirtual, n), make([]reg.VecVirtual, n)
	for t := range n {
		first[t], even[t] = c.YMM(), c.YMM()
	}
	acc := make([]reg.VecVirtual, (n+1)/2)
	for i := range acc {
		acc[i] = c.YMM()
		c.VXORPS(acc[i], acc[i], acc[i])
	}
	w, u, p := c.YMM(), c.YMM(), c.YMM()
	tmp := c.YMM()
	c.Label("group")
	for b := range 4 {
		c.VMOVDQU(at(d.q, 32*b), w)
		c.VPABSB(w, u)
		for t := range n {
			dst := p
			if b%2 == 0 {
				dst = even[t]
			}
			pairs(w, u, d.x.at(t, 32*b), dst)
			c.VPMADDWD(ones, dst, dst)
			switch b {
			case 1:
				addPairs(even[t], p, tmp, first[t])
			case 3:
				addPairs(even[t], p, tmp, even[t])
				addPairs(first[t], even[t], tmp, first[t])
			}
		}
	}
	scale, least := w, u
	c.VBROADCASTF128(at(d.s, 0), scale)
	if min {
		c.VBROADCASTF128(at(d.m, 0), least)
	}
	fold := func(i int, v, acc, scale, least, tmp reg.Register) {
		c.VCVTDQ2PS(v, v)
		c.VMULPS(scale, v, v)
		if min {
			c.VMULPS(at(d.side, 16*n+32*i), least, tmp)
			c.VADDPS(tmp, v, v)
		}
		c.VMULPS(at(d.side, 32*i), v, v)
		c.VADDPS(v, acc, acc)
	}
	for i := range acc {
		v := first[2*i]
		if 2*i+1 < n {
			next := first[2*i+1]
			c.VPERM2I128(operand.U8(0x21), next, v, p)
			c.VPBLENDD(operand.U8(0xf0), next, v, v)
			c.VPADDD(p, v, v)
			fold(i, v, acc[i], scale, least, tmp)
		} else {
			c.VEXTRACTI128(operand.U8(1), v, p.AsX())
			c.VPADDD(p.AsX(), v.AsX(), p.AsX())
			fold(i, p.AsX(), acc[i].AsX(), scale.AsX(), least.AsX(), tmp.AsX())
		}
	}
	size := 16 * n
	if min {
		size = 32 * n
	}
	c.SUBQ(operand.I32(-128), d.q)
	c.ADDQ(operand.I8(16), d.s)
	if min {
		c.ADDQ(operand.I8(16), d.m)
	}
	c.ADDQ(operand.I32(size), d.side)
	d.x.advance(128)
	c.DECQ(d.blocks)
	c.JNZ(operand.LabelRef("group"))
	y := tokensAt(d.get(doY), d.get(doLdy), n)
	for t := range n {
		a := acc[t/2].AsX()
		if t%2 == 1 {
			c.VEXTRACTF128(operand.U8(1), acc[t/2], a)
		}
		c.VMOVSHDUP(a, p.AsX())
		c.VADDSS(p.AsX(), a, u.AsX())
		c.VPERMILPS(operand.U8(0xaa), a, p.AsX())
		c.VADDSS(p.AsX(), u.AsX(), u.AsX())
		c.VPERMILPS(operand.U8(0xff), a, p.AsX())
		c.VADDSS(p.AsX(), u.AsX(), u.AsX())
		c.VMOVSS(u.AsX(), y.at(t, 0))
	}
	d.next(false)
}

// dot256AVX2 does a superblock at a time; from its sums on, the lanes are
// tokens.
func dot256AVX2(n int, min bool) {
	d := newDotter("dot256", n, min, true, "y[t] = Σ_b dx[t][b]·(d[b]·Σ_j sc[j]·Σ q·x − dmin[b]·Σ_j mn[j]·Σ x)")
	halves := c.YMM()
	c.VMOVDQU(table("halves16", bytesOf(32, func(i int) byte { return byte(i/16*2 + i%2) })), halves)
	acc := c.XMM()
	c.VXORPS(acc, acc, acc)
	sum := make([]reg.VecVirtual, n)
	for t := range n {
		sum[t] = c.YMM()
	}
	w, u, p, scale := c.YMM(), c.YMM(), c.YMM(), c.YMM()
	c.Label("block")
	for g := range 8 {
		c.VMOVDQU(at(d.q, 32*g), w)
		c.VPABSB(w, u)
		c.VPBROADCASTD(at(d.s, 4*g), scale)
		c.VPSHUFB(halves, scale, scale)
		for t := range n {
			dst := p
			if g == 0 {
				dst = sum[t]
			}
			pairs(w, u, d.x.at(t, 32*g), dst)
			c.VPMADDWD(scale, dst, dst)
			if g > 0 {
				c.VPADDD(p, sum[t], sum[t])
			}
		}
	}
	size := 16
	tree(sum, p)
	c.VCVTDQ2PS(sum[0].AsX(), sum[0].AsX())
	c.VBROADCASTSS(at(d.d, 0), u.AsX())
	c.VMULPS(u.AsX(), sum[0].AsX(), p.AsX())
	if min {
		size += 32 * n
		c.VMOVDQU(at(d.m, 0), w)
		for t := range n {
			c.VPMADDWD(at(d.side, 16+32*t), w, sum[t])
		}
		tree(sum, u)
		c.VCVTDQ2PS(sum[0].AsX(), sum[0].AsX())
		c.VBROADCASTSS(at(d.d, 4), u.AsX())
		c.VMULPS(u.AsX(), sum[0].AsX(), u.AsX())
		c.VSUBPS(u.AsX(), p.AsX(), p.AsX())
	}
	c.VMULPS(at(d.side, 0), p.AsX(), p.AsX())
	c.VADDPS(p.AsX(), acc, acc)
	c.ADDQ(operand.I32(256), d.q)
	c.ADDQ(operand.I8(32), d.s)
	if min {
		c.ADDQ(operand.I8(32), d.m)
	}
	c.ADDQ(operand.I8(8), d.d)
	c.ADDQ(operand.I32(size), d.side)
	d.x.advance(256)
	c.DECQ(d.blocks)
	c.JNZ(operand.LabelRef("block"))
	y := tokensAt(d.get(doY), d.get(doLdy), n)
	c.VMOVSS(acc, y.at(0, 0))
	for t := 1; t < n; t++ {
		c.VEXTRACTPS(operand.U8(t), acc, y.at(t, 0))
	}
	d.next(true)
}

// tree leaves the sum of the lanes of v[t] in lane t of v[0].
func tree(v []reg.VecVirtual, tmp reg.VecVirtual) {
	last := len(v) - 1
	addPairs(v[0], v[min(1, last)], tmp, v[0])
	if last >= 2 {
		addPairs(v[2], v[min(3, last)], tmp, v[2])
		addPairs(v[0], v[2], tmp, v[0])
	} else {
		addPairs(v[0], v[0], tmp, v[0])
	}
	c.VEXTRACTI128(operand.U8(1), v[0], tmp.AsX())
	c.VPADDD(tmp.AsX(), v[0].AsX(), v[0].AsX())
}

// floatAVX2 multiplies 16 elements of a plain row at a time; the rest is done
// by the caller.
//
// Offsets in plainArgs: q, x, ldx, y, ldy, steps.
func floatAVX2(typ string, n int) {
	get := beginAVX2(fmt.Sprintf("float%sT%dAVX2", typ, n), fmt.Sprintf(
		"float%sT%dAVX2 multiplies a %s row with %d f32 tokens, in steps of 16 elements.", typ, n, typ, n), "plainArgs")
	q, blocks := get(0), get(40)
	x := tokensAt(get(8), get(16), n)
	acc := make([]reg.VecVirtual, 2*n)
	for t := range acc {
		acc[t] = c.YMM()
		c.VXORPS(acc[t], acc[t], acc[t])
	}
	w, p := c.YMM(), c.YMM()
	size := 2
	if typ == "F32" {
		size = 4
	}
	c.Label("block")
	c.PREFETCHT0(at(q, 4096))
	for h := range 2 {
		switch typ {
		case "F32":
			c.VMOVUPS(at(q, 32*h), w)
		case "F16":
			c.VCVTPH2PS(at(q, 16*h), w)
		default:
			c.VPMOVZXWD(at(q, 16*h), w)
			c.VPSLLD(operand.U8(16), w, w)
		}
		for t := range n {
			c.VFMADD231PS(x.at(t, 32*h), w, acc[2*t+h])
		}
	}
	c.ADDQ(operand.I8(16*size), q)
	x.advance(64)
	c.DECQ(blocks)
	c.JNZ(operand.LabelRef("block"))
	y := tokensAt(get(24), get(32), n)
	for t := range n {
		c.VADDPS(acc[2*t+1], acc[2*t], acc[2*t])
		c.VMOVSS(sumYMM(acc[2*t], p), y.at(t, 0))
	}
	c.VZEROUPPER()
	c.RET()
}

// quantAVX2 quantizes blocks of 32 or 256 as quantizeRowGeneric does.
func quantAVX2(size int) {
	name := "quantizeQ8AVX2"
	if size == 256 {
		name = "quantizeQ8KAVX2"
	}
	get := beginAVX2(name, fmt.Sprintf("%s quantizes blocks of %d as quantizeRowGeneric does.", name, size), "quantArgs")
	x, q, scales, sums, blocks := get(qaX), get(qaQ), get(qaScales), get(qaSums), get(qaBlocks)
	order := c.YMM()
	c.VMOVDQU(table("packorder", dwordsOf(8, func(i int) uint32 { return uint32(i%2*4 + i/2) })), order)
	ones8, ones16 := ymmWord("ones8", 0x01010101), ymmWord("ones16", 0x00010001)
	abs := table("absy", dwordsOf(8, func(int) uint32 { return 0x7fffffff }))
	lowest := table("quantminx", dwordsOf(4, func(int) uint32 { return (127 - 100) << 23 }))
	m, t := c.YMM(), c.YMM()
	c.Label("block")
	c.VMOVDQU(at(x, 0), m)
	c.VPAND(abs, m, m)
	for i := 1; i < size/8; i++ {
		c.VMOVDQU(at(x, 32*i), t)
		c.VPAND(abs, t, t)
		c.VPMAXUD(t, m, m)
	}
	c.VEXTRACTI128(operand.U8(1), m, t.AsX())
	c.VPMAXUD(t.AsX(), m.AsX(), m.AsX())
	c.VPSHUFD(operand.U8(0x4e), m.AsX(), t.AsX())
	c.VPMAXUD(t.AsX(), m.AsX(), m.AsX())
	c.VPSHUFD(operand.U8(0xb1), m.AsX(), t.AsX())
	c.VPMAXUD(t.AsX(), m.AsX(), m.AsX())
	// Masks, all lanes alike: a ≥ lowest, and a not finite.
	big, odd, d, inv := c.XMM(), c.XMM(), c.XMM(), c.YMM()
	c.VPMAXUD(lowest, m.AsX(), big)
	c.VPCMPEQD(m.AsX(), big, big)
	c.VPMINUD(table("infx", dwordsOf(4, func(int) uint32 { return 0x7f800000 })), m.AsX(), odd)
	c.VPCMPEQD(table("infx", nil), odd, odd)
	c.VDIVPS(table("f127x", dwordsOf(4, func(int) uint32 { return 0x42fe0000 })), m.AsX(), d)
	c.VPAND(big, d, d)
	c.VMOVSS(d, at(scales, 0))
	c.VMOVUPS(table("f127x", nil), d)
	c.VDIVPS(m.AsX(), d, d)
	c.VBROADCASTSS(d, inv)
	c.VPANDN(big, odd, big) // big and not odd
	keep := c.YMM()
	c.VPBROADCASTD(big, keep)
	for b := 0; b < size; b += 32 {
		var v [4]reg.VecVirtual
		for i := range v {
			v[i] = c.YMM()
			c.VMULPS(at(x, 4*b+32*i), inv, v[i])
			c.VCVTPS2DQ(v[i], v[i])
			c.VPAND(keep, v[i], v[i])
		}
		c.VPACKSSDW(v[1], v[0], v[0])
		c.VPACKSSDW(v[3], v[2], v[2])
		c.VPACKSSWB(v[2], v[0], v[0])
		c.VPERMD(v[0], order, v[0])
		c.VMOVDQU(v[0], at(q, b))
		// Sums of 16: of pairs, of four, then within lanes of 128 bits.
		c.VPMADDUBSW(v[0], ones8, v[1])
		c.VPMADDWD(ones16, v[1], v[1])
		c.VPHADDD(v[1], v[1], v[1])
		c.VPHADDD(v[1], v[1], v[1])
		c.VEXTRACTI128(operand.U8(1), v[1], v[2].AsX())
		if size == 32 {
			c.VPADDD(v[2].AsX(), v[1].AsX(), v[1].AsX())
			c.VMOVD(v[1].AsX(), at(sums, 0))
		} else {
			c.VPEXTRW(operand.U8(0), v[1].AsX(), at(sums, b/8))
			c.VPEXTRW(operand.U8(0), v[2].AsX(), at(sums, b/8+2))
		}
	}
	c.ADDQ(operand.I32(4*size), x)
	c.ADDQ(operand.I32(size), q)
	c.ADDQ(operand.I8(4), scales)
	if size == 32 {
		c.ADDQ(operand.I8(4), sums)
	} else {
		c.ADDQ(operand.I8(32), sums)
	}
	c.DECQ(blocks)
	c.JNZ(operand.LabelRef("block"))
	c.VZEROUPPER()
	c.RET()
}
