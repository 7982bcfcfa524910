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
	saQ, saLdQ, saRows, saRowStep, saK, saKStep, saBlocks, saDims, saS = 0, 8, 16, 24, 32, 40, 48, 56, 64

	maP, maRows, maRowStep, maV, maVStep, maPos, maCols, maAcc, maLdAcc = 0, 8, 16, 24, 32, 40, 48, 56, 64

	waS, waRows, waMax, waSums, waAcc, waLdAcc, waCols, waFirst, waCount, waVecs = 0, 8, 16, 24, 32, 40, 48, 56, 60, 64

	eaMax, eaSums, eaAcc, eaMax2, eaSums2, eaAcc2, eaRows, eaLdAcc, eaCols, eaLdAcc2 = 0, 8, 16, 24, 32, 40, 48, 56, 64, 72

	uaSrc, uaDst, uaN = 0, 8, 16
)

// scoreStride is the number of bytes from one row of scores to the next: a
// chunk of 128 and 16 more, so that rows do not fall into the same cache sets.
const scoreStride = (128 + 16) * 4

// most rows of queries that are multiplied at once, and the vectors they are
// multiplied with: 24 sums, enough to hide the latency of FMA.
const attnRows, attnVecs = 6, 4

func genAttn() {
	for _, f16 := range []bool{true, false} {
		attnScores(f16)
		attnMix(f16)
	}
	attnWeigh()
	attnMerge()
	attnFinish()
	unpackKeysQ8()
	unpackValuesQ8()
}

func cacheType(f16 bool) (name string, bytes int) {
	if f16 {
		return "F16", 2
	}
	return "F32", 4
}

// loadCache loads 16 numbers of a cache.
func loadCache(f16 bool, m operand.Mem, z reg.VecVirtual) {
	if f16 {
		c.VCVTPH2PS(m, z)
	} else {
		c.VMOVUPS(m, z)
	}
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
func newSums() (sums [attnRows][attnVecs]reg.VecVirtual) {
	for i := range sums {
		for j := range sums[i] {
			sums[i][j] = c.ZMM()
		}
	}
	return sums
}

// rowsAt addresses up to six rows that lie a constant number of bytes apart.
func rowsAt(first, stride reg.GPVirtual, n int) tokens { return tokensAt(first, stride, n) }

// attnScores multiplies rows of queries with blocks of keys, positions being
// lanes.
func attnScores(f16 bool) {
	typ, size := cacheType(f16)
	a, get := begin("attnScores"+typ+"AVX512", "scoreArgs", "computes scores of 1 to 4 blocks of 16 keys.", "",
		"\tfor r := range rows { for b := range blocks { for i := range 16 {",
		"\t\ts[r][16·b+i] = Σ_d q[r][d]·k[b][d][i] } } }", "",
		"The sum over d is one chain of fused multiply-adds from d = 0 up, however rows",
		"and blocks are grouped: rowStep rows, at most 6, are done at once. The struct is used up.")
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
	acc := newSums()
	choose(n, attnRows, "R")
	for r := 1; r <= attnRows; r++ {
		c.Label(fmt.Sprintf("R%d", r))
		c.CMPQ(blocks, operand.U8(4))
		c.JE(operand.LabelRef(fmt.Sprintf("R%dB4", r)))
		c.CMPQ(blocks, operand.U8(2))
		c.JGE(operand.LabelRef(fmt.Sprintf("R%dB2", r)))
		for _, b := range []int{1, 2, 4} {
			name := fmt.Sprintf("R%dB%d", r, b)
			c.Label(name)
			for i := range r {
				for j := range b {
					zero(acc[i][j])
				}
			}
			d, kp := c.GP64(), c.GP64()
			c.MOVQ(at(a, saDims), d)
			c.MOVQ(k, kp)
			qp := rowsAt(q, ldq, r)
			kb := tokensAt(kp, kstep, b)
			c.Label(name + "dims")
			const unroll = 4
			for u := range unroll {
				var key [attnVecs]reg.VecVirtual
				for j := range b {
					key[j] = c.ZMM()
					loadCache(f16, kb.at(j, u*16*size), key[j])
				}
				for i := range r {
					if b == 1 {
						c.VFMADD231PS_BCST(qp.at(i, 4*u), key[0], acc[i][0])
						continue
					}
					x := c.ZMM()
					c.VBROADCASTSS(qp.at(i, 4*u), x)
					for j := range b {
						c.VFMADD231PS(key[j], x, acc[i][j])
					}
				}
			}
			qp.advance(4 * unroll)
			kb.advance(16 * size * unroll)
			c.SUBQ(operand.U8(unroll), d)
			c.JNZ(operand.LabelRef(name + "dims"))
			for i := range r {
				for j := range b {
					c.VMOVUPS(acc[i][j], at(sp, i*scoreStride+64*j))
				}
			}
			c.ADDQ(operand.I32(64*b), sp)
			c.LEAQ(operand.Mem{Base: k, Index: kstep, Scale: uint8(b)}, k)
			c.SUBQ(operand.U8(b), blocks)
			if b == 4 {
				c.JMP(operand.LabelRef("next"))
			} else {
				c.JNZ(operand.LabelRef(fmt.Sprintf("R%d", r)))
				c.JMP(operand.LabelRef("next"))
			}
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
func attnMix(f16 bool) {
	typ, size := cacheType(f16)
	a, get := begin("attnMix"+typ+"AVX512", "mixArgs", "adds pos > 0 value rows of 16·cols numbers, weighted.", "",
		"\tfor r := range rows { for i := range pos { for d := range 16·cols {",
		"\t\tacc[r][d] += p[r][i]·v[i][d] } } }", "",
		"The sum over i is one chain of fused multiply-adds from i = 0 up. rowStep rows,",
		"at most 6, are done at once. The struct is used up.")
	p, acc, ld := get(maP), get(maAcc), get(maLdAcc)
	n := c.GP64()
	c.Label("rows")
	c.MOVQ(at(a, maRowStep), n)
	c.CMPQ(n, at(a, maRows))
	c.CMOVQGT(at(a, maRows), n)
	cols, v, to := c.GP64(), c.GP64(), c.GP64()
	c.MOVQ(at(a, maCols), cols)
	c.MOVQ(at(a, maV), v)
	c.MOVQ(acc, to)
	sum := newSums()
	choose(n, attnRows, "R")
	for r := 1; r <= attnRows; r++ {
		c.Label(fmt.Sprintf("R%d", r))
		c.CMPQ(cols, operand.U8(4))
		c.JGE(operand.LabelRef(fmt.Sprintf("R%dC4", r)))
		c.CMPQ(cols, operand.U8(2))
		c.JGE(operand.LabelRef(fmt.Sprintf("R%dC2", r)))
		for _, w := range []int{1, 2, 4} {
			name := fmt.Sprintf("R%dC%d", r, w)
			c.Label(name)
			rows := rowsAt(to, ld, r)
			for i := range r {
				for j := range w {
					c.VMOVUPS(rows.at(i, 64*j), sum[i][j])
				}
			}
			pos, vp, pp := c.GP64(), c.GP64(), c.GP64()
			c.MOVQ(at(a, maPos), pos)
			c.MOVQ(v, vp)
			c.MOVQ(p, pp)
			c.Label(name + "pos")
			var val [attnVecs]reg.VecVirtual
			for j := range w {
				val[j] = c.ZMM()
				loadCache(f16, at(vp, 16*size*j), val[j])
			}
			for i := range r {
				if w == 1 {
					c.VFMADD231PS_BCST(at(pp, i*scoreStride), val[0], sum[i][0])
					continue
				}
				x := c.ZMM()
				c.VBROADCASTSS(at(pp, i*scoreStride), x)
				for j := range w {
					c.VFMADD231PS(val[j], x, sum[i][j])
				}
			}
			c.ADDQ(at(a, maVStep), vp)
			c.ADDQ(operand.U8(4), pp)
			c.DECQ(pos)
			c.JNZ(operand.LabelRef(name + "pos"))
			for i := range r {
				for j := range w {
					c.VMOVUPS(sum[i][j], rows.at(i, 64*j))
				}
			}
			c.ADDQ(operand.I32(64*w), to)
			c.ADDQ(operand.I32(16*size*w), v)
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
	e := newExponential()
	least, inf := splatF("expleast", expLeast), splatF("minusinf", math.Inf(-1))
	lane, count, sixteen := loadTable("lanes", dwordsOf(16, func(i int) uint32 { return uint32(i) })), c.ZMM(), splat("sixteen", 16)
	first := c.ZMM()
	c.VPBROADCASTD(at(a, waFirst), first)
	c.VPSUBD(first, lane, lane)
	c.VPBROADCASTD(at(a, waCount), count)
	seen, ok := c.K(), c.K()
	top, t, f, sum, i16 := c.ZMM(), c.ZMM(), c.ZMM(), c.ZMM(), c.ZMM()
	old := c.ZMM()

	c.Label("row")
	n, p := c.GP64(), c.GP64()
	rescale := func(label string) {
		// New maximum in top: the factor of what came before.
		c.VBROADCASTSS(at(m, 0), old)
		foldMax(top, t)
		c.VMAXPS(old, top, top)
		c.VMOVSS(top.AsX(), at(m, 0))
		c.VSUBPS(top, old, f)
		c.VCMPPS(operand.U8(notLess), least, f, ok)
		e.of(f, ok)
	}
	finish := func(label string) {
		c.VFMADD231PS(at(sums, 0), f, sum)
		c.VMOVUPS(sum, at(sums, 0))
		c.VUCOMISS(e.one.AsX(), f.AsX())
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
	rescale("edge")
	c.VMOVDQA32(lane, i16)
	c.MOVQ(vecs, n)
	c.MOVQ(s, p)
	zero(sum)
	c.Label("exp")
	c.VPCMPUD(operand.U8(1), count, i16, seen)
	c.VMOVUPS(at(p, 0), t)
	c.VSUBPS(top, t, t)
	c.VCMPPS(operand.U8(notLess), least, t, seen, ok)
	e.of(t, ok)
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
	rescale("full")
	zero(sum)
	for i := range 8 {
		x := c.ZMM()
		c.VMOVUPS(at(s, 64*i), x)
		c.VSUBPS(top, x, x)
		c.VCMPPS(operand.U8(notLess), least, x, ok)
		e.of(x, ok)
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

// attnMerge joins the softmax of two ranges of positions.
func attnMerge() {
	a, get := begin("attnMergeAVX512", "mergeArgs", "adds a second range of positions to a first.", "",
		"\tfor r := range rows {",
		"\t\tm' = max(m[r], m2[r]);  f = exp(m[r]-m');  f2 = exp(m2[r]-m');  m[r] = m'",
		"\t\tsums[r] = f·sums[r] + f2·sums2[r];  acc[r] = f·acc[r] + f2·acc2[r] }")
	m, sums, acc, m2, sums2, acc2 := get(eaMax), get(eaSums), get(eaAcc), get(eaMax2), get(eaSums2), get(eaAcc2)
	left := get(eaRows)
	e := newExponential()
	least, ok := splatF("expleast", expLeast), c.K()
	f, f2, top, t := c.ZMM(), c.ZMM(), c.ZMM(), c.ZMM()
	c.Label("row")
	c.VBROADCASTSS(at(m, 0), f)
	c.VBROADCASTSS(at(m2, 0), f2)
	c.VMAXPS(f, f2, top)
	c.VMOVSS(top.AsX(), at(m, 0))
	for _, x := range []reg.VecVirtual{f, f2} {
		c.VSUBPS(top, x, x)
		c.VCMPPS(operand.U8(notLess), least, x, ok)
		e.of(x, ok)
	}
	join := func(p, p2 operand.Mem) {
		c.VMULPS(p, f, t)
		c.VFMADD231PS(p2, f2, t)
		c.VMOVUPS(t, p)
	}
	join(at(sums, 0), at(sums2, 0))
	n, p, p2 := c.GP64(), c.GP64(), c.GP64()
	c.MOVQ(at(a, eaCols), n)
	c.MOVQ(acc, p)
	c.MOVQ(acc2, p2)
	c.Label("col")
	join(at(p, 0), at(p2, 0))
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
func attnFinish() {
	a, get := begin("attnFinishAVX512", "mergeArgs", "divides by the sum of the weights.", "",
		"\tfor r := range rows { for d := range 16·cols { acc2[r][d] = acc[r][d] / Σ_i sums[r][i] } }")
	sums, acc, acc2, left := get(eaSums), get(eaAcc), get(eaAcc2), get(eaRows)
	s, t := c.ZMM(), c.ZMM()
	c.Label("row")
	c.VMOVUPS(at(sums, 0), s)
	sumTo(s, t)
	c.VBROADCASTSS(s.AsX(), s)
	n, p, p2 := c.GP64(), c.GP64(), c.GP64()
	c.MOVQ(at(a, eaCols), n)
	c.MOVQ(acc, p)
	c.MOVQ(acc2, p2)
	c.Label("col")
	c.VMOVUPS(at(p, 0), t)
	c.VDIVPS(s, t, t)
	c.VMOVUPS(t, at(p2, 0))
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

// unpackKeysQ8 turns key blocks into f32 ones.
func unpackKeysQ8() {
	_, get := begin("unpackKeysQ8AVX512", "cacheArgs", "turns n > 0 groups of 32 dimensions of q8_0 keys into f32.", "",
		"\tfor j := range n { for d := range 32 { for i := range 16 {",
		"\t\tdst[j][d][i] = src[j].scale[i]·src[j].key[d][i] } } }")
	src, dst, n := get(uaSrc), get(uaDst), get(uaN)
	scale, x := c.ZMM(), c.ZMM()
	c.Label("group")
	c.VCVTPH2PS(at(src, 0), scale)
	for d := range 32 {
		c.VPMOVSXBD(at(src, 32+16*d), x)
		c.VCVTDQ2PS(x, x)
		c.VMULPS(scale, x, x)
		c.VMOVUPS(x, at(dst, 64*d))
	}
	c.ADDQ(operand.I32(34*16), src)
	c.ADDQ(operand.I32(64*32), dst)
	c.DECQ(n)
	c.JNZ(operand.LabelRef("group"))
	end()
}

// unpackValuesQ8 turns q8_0 blocks into f32 numbers.
func unpackValuesQ8() {
	_, get := begin("unpackValuesQ8AVX512", "cacheArgs", "turns n > 0 blocks of q8_0 into f32.", "",
		"\tfor j := range n { for d := range 32 { dst[32·j+d] = src[j].scale·src[j].q[d] } }")
	src, dst, n := get(uaSrc), get(uaDst), get(uaN)
	scale, x, h := c.ZMM(), c.ZMM(), c.YMM()
	c.Label("block")
	c.VPBROADCASTW(at(src, 0), h)
	c.VCVTPH2PS(h, scale)
	for d := range 2 {
		c.VPMOVSXBD(at(src, 2+16*d), x)
		c.VCVTDQ2PS(x, x)
		c.VMULPS(scale, x, x)
		c.VMOVUPS(x, at(dst, 64*d))
	}
	c.ADDQ(operand.U8(34), src)
	c.ADDQ(operand.I32(128), dst)
	c.DECQ(n)
	c.JNZ(operand.LabelRef("block"))
	end()
}
