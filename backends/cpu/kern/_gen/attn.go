package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets in scoreArgs, mixArgs, weighArgs, mergeArgs and unpackArgs of
// attention.
const (
	saQ, saLdQ, saRows, saRowStep, saK, saKStep, saBlocks, saDims, saS, saAhead = 0, 8, 16, 24, 32, 40, 48, 56, 64, 72

	maP, maRows, maRowStep, maV, maVStep, maPos, maCols, maAcc, maLdAcc, maAhead = 0, 8, 16, 24, 32, 40, 48, 56, 64, 72

	waS, waRows, waMax, waSums, waAcc, waLdAcc, waCols, waFirst, waCount, waVecs = 0, 8, 16, 24, 32, 40, 48, 56, 60, 64

	eaMax, eaSums, eaAcc, eaMax2, eaSums2, eaAcc2, eaRows, eaLdAcc, eaCols, eaLdAcc2 = 0, 8, 16, 24, 32, 40, 48, 56, 64, 72

	uaSrc, uaDst, uaN, uaAhead = 0, 8, 16, 24
)

// scoreStride is the number of bytes from one row of scores to the next: a
// chunk of 128 and 16 more, so that rows do not fall into the same cache sets.
const scoreStride = (128 + 16) * 4

// most rows of queries that are multiplied at once, and the vectors they are
// multiplied with: 24 sums, enough to hide the latency of FMA.
const attnRows, attnVecs = 6, 4

func genAttn() {
	for _, v := range []isa{wide, narrow} {
		for _, f16 := range []bool{true, false} {
			v.attnScores(f16)
			v.attnMix(f16)
		}
		v.attnMerge()
		v.attnFinish()
		v.unpackKeysQ8()
		v.unpackValuesQ8()
	}
	attnWeigh()
	attnWeighAVX2()
}

func cacheType(f16 bool) (name string, bytes int) {
	if f16 {
		return "F16", 2
	}
	return "F32", 4
}

// loadCache loads a register of numbers of a cache.
func loadCache(f16 bool, m operand.Mem, z reg.VecVirtual) {
	if f16 {
		c.VCVTPH2PS(m, z)
	} else {
		c.VMOVUPS(m, z)
	}
}

// parts is the number of registers for 16 numbers.
func (v isa) parts() int { return 16 / v.lanes }

// groups lists how many times 16 numbers a body with that many rows takes at
// once: what the registers allow, 24 sums or 12.
func (v isa) groups(rows int) []int {
	switch {
	case v.wide():
		return []int{1, 2, 4}
	case rows <= 2:
		return []int{1, 2}
	}
	return []int{1}
}

// choose jumps to one of the bodies 1..most by n, the last for all above.
func choose(n reg.GPVirtual, most int, label string) {
	for i := most; i > 1; i-- {
		c.CMPQ(n, operand.U8(i))
		if i == most {
			c.JGE(operand.LabelRef(fmt.Sprintf("%s%d", label, i)))
		} else {
			c.JE(operand.LabelRef(fmt.Sprintf("%s%d", label, i)))
		}
	}
}

// newSums returns registers for the sums of a body. All bodies of a function
// share them.
func (v isa) newSums() []reg.VecVirtual {
	sums := make([]reg.VecVirtual, attnRows*4)
	if !v.wide() {
		sums = sums[:attnRows*2]
	}
	for i := range sums {
		sums[i] = v.reg()
	}
	return sums
}

// chooseGroups jumps to the body for the largest group that n holds.
func (v isa) chooseGroups(n reg.GPVirtual, rows int, label string) {
	g := v.groups(rows)
	for i := len(g) - 1; i > 0; i-- {
		c.CMPQ(n, operand.U8(g[i]))
		c.JGE(operand.LabelRef(fmt.Sprintf("%s%d", label, g[i])))
	}
}

// askAhead asks for n bytes that lie ahead bytes behind p.
func askAhead(p, ahead reg.GPVirtual, n int) {
	for line := 0; line < n; line += 64 {
		c.PREFETCHT1(operand.Mem{Base: p, Index: ahead, Scale: 1, Disp: line})
	}
}

// rowsAt addresses up to six rows that lie a constant number of bytes apart.
func rowsAt(first, stride reg.GPVirtual, n int) tokens { return tokensAt(first, stride, n) }

// attnScores multiplies rows of queries with blocks of keys, positions being
// lanes.
func (v isa) attnScores(f16 bool) {
	typ, size := cacheType(f16)
	a, get := begin("attnScores"+typ+v.name, "scoreArgs", "computes scores of 1 to 4 blocks of 16 keys.", "",
		"\tfor r := range rows { for b := range blocks { for i := range 16 {",
		"\t\ts[r][16·b+i] = Σ_d q[r][d]·k[b][d][i] } } }", "",
		"The sum over d is one chain of fused multiply-adds from d = 0 up, however rows",
		"and blocks are grouped: rowStep rows, at most 6, are done at once. Meanwhile what lies",
		"ahead bytes behind the keys is asked for; it need not be readable. The struct is used up.")
	q, ldq, kstep := get(saQ), get(saLdQ), get(saKStep)
	n := c.GP64()
	c.Label("rows")
	c.MOVQ(at(a, saRowStep), n)
	c.CMPQ(n, at(a, saRows))
	c.CMOVQGT(at(a, saRows), n)
	blocks, k, sp := c.GP64(), c.GP64(), c.GP64()
	c.MOVQ(at(a, saBlocks), blocks)
	c.MOVQ(at(a, saK), k)
	c.MOVQ(at(a, saS), sp)
	sums := v.newSums()
	choose(n, attnRows, "R")
	for r := 1; r <= attnRows; r++ {
		c.Label(fmt.Sprintf("R%d", r))
		v.chooseGroups(blocks, r, fmt.Sprintf("R%dB", r))
		for _, b := range v.groups(r) {
			name := fmt.Sprintf("R%dB%d", r, b)
			c.Label(name)
			vecs := b * v.parts()
			for i := range r * vecs {
				v.zero(sums[i])
			}
			d, kp, ahead := c.GP64(), c.GP64(), c.GP64()
			c.MOVQ(at(a, saDims), d)
			c.MOVQ(k, kp)
			c.MOVQ(k, ahead)
			c.ADDQ(at(a, saAhead), ahead)
			qp := rowsAt(q, ldq, r)
			kb := tokensAt(kp, kstep, b)
			c.Label(name + "dims")
			const unroll = 4
			for u := range unroll {
				var key [attnVecs]reg.VecVirtual
				for j := range vecs {
					key[j] = v.reg()
					loadCache(f16, kb.at(j/v.parts(), (u*16+j%v.parts()*v.lanes)*size), key[j])
				}
				for i := range r {
					if vecs == 1 {
						c.VFMADD231PS_BCST(qp.at(i, 4*u), key[0], sums[i])
						continue
					}
					x := v.reg()
					c.VBROADCASTSS(qp.at(i, 4*u), x)
					for j := range vecs {
						c.VFMADD231PS(key[j], x, sums[i*vecs+j])
					}
				}
			}
			for line := 0; line < b*16*size*unroll; line += 64 {
				c.PREFETCHT1(at(ahead, line))
			}
			c.ADDQ(operand.I32(b*16*size*unroll), ahead)
			qp.advance(4 * unroll)
			kb.advance(16 * size * unroll)
			c.SUBQ(operand.U8(unroll), d)
			c.JNZ(operand.LabelRef(name + "dims"))
			for i := range r * vecs {
				c.VMOVUPS(sums[i], at(sp, i/vecs*scoreStride+i%vecs*v.bytes()))
			}
			c.ADDQ(operand.I32(64*b), sp)
			c.LEAQ(operand.Mem{Base: k, Index: kstep, Scale: uint8(b)}, k)
			c.SUBQ(operand.U8(b), blocks)
			c.JNZ(operand.LabelRef(fmt.Sprintf("R%d", r)))
			c.JMP(operand.LabelRef("next"))
		}
	}
	c.Label("next")
	step := c.GP64()
	c.MOVQ(n, step)
	c.IMULQ(ldq, step)
	c.ADDQ(step, q)
	c.IMUL3Q(operand.I32(scoreStride), n, step)
	c.ADDQ(step, at(a, saS))
	c.SUBQ(n, at(a, saRows))
	c.JG(operand.LabelRef("rows"))
	end()
}

// attnMix adds weighted value rows.
func (v isa) attnMix(f16 bool) {
	typ, size := cacheType(f16)
	a, get := begin("attnMix"+typ+v.name, "mixArgs", "adds pos > 0 value rows of 16·cols numbers, weighted.", "",
		"\tfor r := range rows { for i := range pos { for d := range 16·cols {",
		"\t\tacc[r][d] += p[r][i]·v[i][d] } } }", "",
		"The sum over i is one chain of fused multiply-adds from i = 0 up. rowStep rows,",
		"at most 6, are done at once. What lies ahead bytes behind the values is asked for.",
		"The struct is used up.")
	p, acc, ld := get(maP), get(maAcc), get(maLdAcc)
	n := c.GP64()
	c.Label("rows")
	c.MOVQ(at(a, maRowStep), n)
	c.CMPQ(n, at(a, maRows))
	c.CMOVQGT(at(a, maRows), n)
	cols, values, to := c.GP64(), c.GP64(), c.GP64()
	c.MOVQ(at(a, maCols), cols)
	c.MOVQ(at(a, maV), values)
	c.MOVQ(acc, to)
	sums := v.newSums()
	choose(n, attnRows, "R")
	for r := 1; r <= attnRows; r++ {
		c.Label(fmt.Sprintf("R%d", r))
		v.chooseGroups(cols, r, fmt.Sprintf("R%dC", r))
		for _, w := range v.groups(r) {
			name := fmt.Sprintf("R%dC%d", r, w)
			c.Label(name)
			vecs := w * v.parts()
			rows := rowsAt(to, ld, r)
			for i := range r * vecs {
				c.VMOVUPS(rows.at(i/vecs, i%vecs*v.bytes()), sums[i])
			}
			pos, vp, pp := c.GP64(), c.GP64(), c.GP64()
			c.MOVQ(at(a, maPos), pos)
			c.MOVQ(values, vp)
			c.MOVQ(p, pp)
			ahead := c.GP64()
			c.MOVQ(at(a, maAhead), ahead)
			c.Label(name + "pos")
			askAhead(vp, ahead, 16*size*w)
			var val [attnVecs]reg.VecVirtual
			for j := range vecs {
				val[j] = v.reg()
				loadCache(f16, at(vp, v.lanes*size*j), val[j])
			}
			for i := range r {
				if vecs == 1 {
					c.VFMADD231PS_BCST(at(pp, i*scoreStride), val[0], sums[i])
					continue
				}
				x := v.reg()
				c.VBROADCASTSS(at(pp, i*scoreStride), x)
				for j := range vecs {
					c.VFMADD231PS(val[j], x, sums[i*vecs+j])
				}
			}
			c.ADDQ(at(a, maVStep), vp)
			c.ADDQ(operand.U8(4), pp)
			c.DECQ(pos)
			c.JNZ(operand.LabelRef(name + "pos"))
			for i := range r * vecs {
				c.VMOVUPS(sums[i], rows.at(i/vecs, i%vecs*v.bytes()))
			}
			c.ADDQ(operand.I32(64*w), to)
			c.ADDQ(operand.I32(16*size*w), values)
			c.SUBQ(operand.U8(w), cols)
			c.JNZ(operand.LabelRef(fmt.Sprintf("R%d", r)))
			c.JMP(operand.LabelRef("next"))
		}
	}
	c.Label("next")
	step := c.GP64()
	c.MOVQ(n, step)
	c.IMULQ(ld, step)
	c.ADDQ(step, acc)
	c.IMUL3Q(operand.I32(scoreStride), n, step)
	c.ADDQ(step, p)
	c.SUBQ(n, at(a, maRows))
	c.JG(operand.LabelRef("rows"))
	end()
}

// attnWeigh is a step of the online softmax.
func attnWeigh() {
	a, get := begin("attnWeighAVX512", "weighArgs", "turns a chunk of scores into weights: a step of the online softmax.", "",
		"\tfor r := range rows {",
		"\t\tm' = max(m[r], max of s[r][i], first ≤ i < first+count)",
		"\t\tf = exp(m[r]-m');  s[r][i] = exp(s[r][i]-m') in that range, 0 in the rest of the vectors",
		"\t\tsums[r][i mod 16] = f·sums[r][i mod 16] + Σ s[r][i];  acc[r] *= f;  m[r] = m' }", "",
		"s points at the first vector that holds a position of the range, vecs counts them,",
		"and first is relative to it.")
	s, left, m, sums, acc := get(waS), get(waRows), get(waMax), get(waSums), get(waAcc)
	cols, vecs := get(waCols), get(waVecs)
	e := newExponential(wide)
	inf := splatF("minusinf", math.Inf(-1))
	lane, count, sixteen := loadTable("lanes", dwordsOf(16, func(i int) uint32 { return uint32(i) })), c.ZMM(), splat("sixteen", 16)
	first := c.ZMM()
	c.VPBROADCASTD(at(a, waFirst), first)
	c.VPSUBD(first, lane, lane)
	c.VPBROADCASTD(at(a, waCount), count)
	seen := c.K()
	top, t, f, sum, i16 := c.ZMM(), c.ZMM(), c.ZMM(), c.ZMM(), c.ZMM()
	old := c.ZMM()

	c.Label("row")
	n, p := c.GP64(), c.GP64()
	rescale := func() {
		// New maximum in top: the factor of what came before.
		c.VBROADCASTSS(at(m, 0), old)
		wide.foldMax(top, t)
		c.VMAXPS(old, top, top)
		c.VMOVSS(top.AsX(), at(m, 0))
		c.VSUBPS(top, old, f)
		e.of(f)
	}
	finish := func(label string) {
		c.VFMADD231PS(at(sums, 0), f, sum)
		c.VMOVUPS(sum, at(sums, 0))
		c.VUCOMISS(e.one.(reg.VecVirtual).AsX(), f.AsX())
		c.JP(operand.LabelRef(label + "scale"))
		c.JE(operand.LabelRef("next"))
		c.Label(label + "scale")
		c.MOVQ(cols, n)
		c.MOVQ(acc, p)
		c.Label(label + "col")
		c.VMULPS(at(p, 0), f, t)
		c.VMOVUPS(t, at(p, 0))
		c.ADDQ(operand.U8(64), p)
		c.DECQ(n)
		c.JNZ(operand.LabelRef(label + "col"))
		c.JMP(operand.LabelRef("next"))
	}
	c.CMPL(at(a, waCount), operand.U32(128))
	c.JE(operand.LabelRef("full"))

	c.VMOVAPS(inf, top)
	c.VMOVDQA32(lane, i16)
	c.MOVQ(vecs, n)
	c.MOVQ(s, p)
	c.Label("max")
	c.VPCMPUD(operand.U8(1), count, i16, seen)
	c.VMAXPS(at(p, 0), top, seen, top)
	c.VPADDD(sixteen, i16, i16)
	c.ADDQ(operand.U8(64), p)
	c.DECQ(n)
	c.JNZ(operand.LabelRef("max"))
	rescale()
	c.VMOVDQA32(lane, i16)
	c.MOVQ(vecs, n)
	c.MOVQ(s, p)
	zero(sum)
	c.Label("exp")
	c.VPCMPUD(operand.U8(1), count, i16, seen)
	c.VMOVUPS(at(p, 0), t)
	c.VSUBPS(top, t, t)
	c.VCMPPS(operand.U8(notLess), e.least, t, seen, e.ok)
	e.masked(t)
	c.VMOVUPS(t, at(p, 0))
	c.VADDPS(t, sum, sum)
	c.VPADDD(sixteen, i16, i16)
	c.ADDQ(operand.U8(64), p)
	c.DECQ(n)
	c.JNZ(operand.LabelRef("exp"))
	finish("edge")

	// The whole chunk is seen: the same without masks and loops.
	c.Label("full")
	c.VMOVUPS(at(s, 0), top)
	c.VMOVUPS(at(s, 64), t)
	for i := 2; i < 8; i++ {
		x := []reg.VecVirtual{top, t}[i%2]
		c.VMAXPS(at(s, 64*i), x, x)
	}
	c.VMAXPS(t, top, top)
	rescale()
	zero(sum)
	for i := range 8 {
		x := c.ZMM()
		c.VMOVUPS(at(s, 64*i), x)
		c.VSUBPS(top, x, x)
		e.of(x)
		c.VMOVUPS(x, at(s, 64*i))
		c.VADDPS(x, sum, sum)
	}
	finish("full")

	c.Label("next")
	c.ADDQ(operand.I32(scoreStride), s)
	c.ADDQ(operand.U8(4), m)
	c.ADDQ(operand.U8(64), sums)
	c.ADDQ(at(a, waLdAcc), acc)
	c.DECQ(left)
	c.JNZ(operand.LabelRef("row"))
	end()
}

// attnWeighAVX2 is attnWeigh without masks: numbers of the vectors outside of
// the range must be -Inf.
func attnWeighAVX2() {
	v := narrow
	a, get := begin("attnWeighAVX2", "weighArgs", "is attnWeighAVX512 for scores that are -Inf outside of the range.")
	s, left, m, sums, acc := get(waS), get(waRows), get(waMax), get(waSums), get(waAcc)
	e := newExponential(v)
	top, t, f := v.reg(), v.reg(), v.reg()
	sum := []reg.VecVirtual{v.reg(), v.reg()}
	n, p := c.GP64(), c.GP64()
	c.Label("row")
	c.VMOVUPS(v.num("minusinf", math.Inf(-1)), top)
	c.MOVQ(at(a, waVecs), n)
	c.MOVQ(s, p)
	c.Label("max")
	c.VMAXPS(at(p, 0), top, top)
	c.VMAXPS(at(p, 32), top, top)
	c.ADDQ(operand.U8(64), p)
	c.DECQ(n)
	c.JNZ(operand.LabelRef("max"))
	v.foldMax(top, t)
	c.VBROADCASTSS(at(m, 0), f)
	c.VMAXPS(f, top, top)
	c.VMOVSS(top.AsX(), at(m, 0))
	c.VSUBPS(top, f, f)
	e.of(f)
	v.zero(sum[0])
	v.zero(sum[1])
	c.MOVQ(at(a, waVecs), n)
	c.MOVQ(s, p)
	c.Label("exp")
	for i := range sum {
		c.VMOVUPS(at(p, 32*i), t)
		c.VSUBPS(top, t, t)
		e.of(t)
		c.VMOVUPS(t, at(p, 32*i))
		c.VADDPS(t, sum[i], sum[i])
	}
	c.ADDQ(operand.U8(64), p)
	c.DECQ(n)
	c.JNZ(operand.LabelRef("exp"))
	for i := range sum {
		c.VFMADD231PS(at(sums, 32*i), f, sum[i])
		c.VMOVUPS(sum[i], at(sums, 32*i))
	}
	c.VMOVUPS(e.one, t)
	c.VUCOMISS(t.AsX(), f.AsX())
	c.JP(operand.LabelRef("scale"))
	c.JE(operand.LabelRef("next"))
	c.Label("scale")
	c.MOVQ(at(a, waCols), n)
	c.MOVQ(acc, p)
	c.Label("col")
	for i := range 2 {
		c.VMULPS(at(p, 32*i), f, t)
		c.VMOVUPS(t, at(p, 32*i))
	}
	c.ADDQ(operand.U8(64), p)
	c.DECQ(n)
	c.JNZ(operand.LabelRef("col"))
	c.Label("next")
	c.ADDQ(operand.I32(scoreStride), s)
	c.ADDQ(operand.U8(4), m)
	c.ADDQ(operand.U8(64), sums)
	c.ADDQ(at(a, waLdAcc), acc)
	c.DECQ(left)
	c.JNZ(operand.LabelRef("row"))
	end()
}

// attnMerge joins the softmax of two ranges of positions.
func (v isa) attnMerge() {
	a, get := begin("attnMerge"+v.name, "mergeArgs", "adds a second range of positions to a first.", "",
		"\tfor r := range rows {",
		"\t\tm' = max(m[r], m2[r]);  f = exp(m[r]-m');  f2 = exp(m2[r]-m');  m[r] = m'",
		"\t\tsums[r] = f·sums[r] + f2·sums2[r];  acc[r] = f·acc[r] + f2·acc2[r] }")
	m, sums, acc, m2, sums2, acc2 := get(eaMax), get(eaSums), get(eaAcc), get(eaMax2), get(eaSums2), get(eaAcc2)
	left := get(eaRows)
	e := newExponential(v)
	f, f2, top, t := v.reg(), v.reg(), v.reg(), v.reg()
	c.Label("row")
	c.VBROADCASTSS(at(m, 0), f)
	c.VBROADCASTSS(at(m2, 0), f2)
	c.VMAXPS(f, f2, top)
	c.VMOVSS(top.AsX(), at(m, 0))
	for _, x := range []reg.VecVirtual{f, f2} {
		c.VSUBPS(top, x, x)
		e.of(x)
	}
	join := func(p, p2 reg.GPVirtual) {
		for i := range v.parts() {
			c.VMULPS(at(p, i*v.bytes()), f, t)
			c.VFMADD231PS(at(p2, i*v.bytes()), f2, t)
			c.VMOVUPS(t, at(p, i*v.bytes()))
		}
	}
	join(sums, sums2)
	n, p, p2 := c.GP64(), c.GP64(), c.GP64()
	c.MOVQ(at(a, eaCols), n)
	c.MOVQ(acc, p)
	c.MOVQ(acc2, p2)
	c.Label("col")
	join(p, p2)
	c.ADDQ(operand.U8(64), p)
	c.ADDQ(operand.U8(64), p2)
	c.DECQ(n)
	c.JNZ(operand.LabelRef("col"))
	c.ADDQ(operand.U8(4), m)
	c.ADDQ(operand.U8(4), m2)
	c.ADDQ(operand.U8(64), sums)
	c.ADDQ(operand.U8(64), sums2)
	c.ADDQ(at(a, eaLdAcc), acc)
	c.ADDQ(at(a, eaLdAcc2), acc2)
	c.DECQ(left)
	c.JNZ(operand.LabelRef("row"))
	end()
}

// attnFinish divides by the sum of the weights.
func (v isa) attnFinish() {
	a, get := begin("attnFinish"+v.name, "mergeArgs", "divides by the sum of the weights.", "",
		"\tfor r := range rows { for d := range 16·cols { acc2[r][d] = acc[r][d] / Σ_i sums[r][i] } }")
	sums, acc, acc2, left := get(eaSums), get(eaAcc), get(eaAcc2), get(eaRows)
	s, t := v.reg(), v.reg()
	c.Label("row")
	c.VMOVUPS(at(sums, 0), s)
	if v.wide() {
		sumTo(s, t)
	} else {
		c.VADDPS(at(sums, 32), s, s)
		sumYMM(s, t)
	}
	c.VBROADCASTSS(s.AsX(), s)
	n, p, p2 := c.GP64(), c.GP64(), c.GP64()
	c.MOVQ(at(a, eaCols), n)
	c.MOVQ(acc, p)
	c.MOVQ(acc2, p2)
	c.Label("col")
	for i := range v.parts() {
		c.VMOVUPS(at(p, i*v.bytes()), t)
		c.VDIVPS(s, t, t)
		c.VMOVUPS(t, at(p2, i*v.bytes()))
	}
	c.ADDQ(operand.U8(64), p)
	c.ADDQ(operand.U8(64), p2)
	c.DECQ(n)
	c.JNZ(operand.LabelRef("col"))
	c.ADDQ(operand.U8(64), sums)
	c.ADDQ(at(a, eaLdAcc), acc)
	c.ADDQ(at(a, eaLdAcc2), acc2)
	c.DECQ(left)
	c.JNZ(operand.LabelRef("row"))
	end()
}
