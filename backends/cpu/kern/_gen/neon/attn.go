package main

import (
	"fmt"
	"math"
)

// Offsets in scoreArgs, mixArgs, weighArgs, mergeArgs and cacheArgs.
const (
	saQ, saLdQ, saRows, saK, saKStep, saBlocks, saDims, saS = 0, 8, 16, 32, 40, 48, 56, 64

	maP, maRows, maV, maVStep, maPos, maCols, maAcc, maLdAcc = 0, 8, 24, 32, 40, 48, 56, 64

	waS, waRows, waMax, waSums, waAcc, waLdAcc, waCols, waVecs = 0, 8, 16, 24, 32, 40, 48, 64

	eaMax, eaSums, eaAcc, eaMax2, eaSums2, eaAcc2, eaRows, eaLdAcc, eaCols, eaLdAcc2 = 0, 8, 16, 24, 32, 40, 48, 56, 64, 72

	uaSrc, uaDst, uaN = 0, 8, 16
)

// scoreStride is the number of bytes from one row of scores to the next.
const scoreStride = (128 + 16) * 4

// attnRows is the most rows of queries that are done at once.
const attnRows = 4

func genAttn(g *group) {
	for _, f16 := range []bool{true, false} {
		attnScores(g, f16)
		attnMix(g, f16)
	}
	attnWeigh(g)
	attnMerge(g)
	attnFinish(g)
	unpackKeysQ8(g)
	unpackValuesQ8(g)
}

func cacheType(f16 bool) (name string, bytes int) {
	if f16 {
		return "F16", 2
	}
	return "F32", 4
}

// loadCache loads 16 numbers of a cache at register x into v20 to v23.
func loadCache(f *function, f16 bool, x int) {
	if !f16 {
		f.o("ldp q20, q21, [x%d]", x)
		f.o("ldp q22, q23, [x%d, #32]", x)
		return
	}
	f.o("ldp q20, q22, [x%d]", x)
	for _, v := range []int{20, 22} {
		f.o("fcvtl2 v%d.4s, v%d.8h", v+1, v)
		f.o("fcvtl v%d.4s, v%d.4h", v, v)
	}
}

// chooseRows jumps to the body for as many rows as are left, at most four.
func chooseRows(f *function) {
	f.label("L_rows")
	f.o("cmp x10, #%d", attnRows)
	f.o("b.hs L_R%d", attnRows)
	for i := attnRows - 1; i > 1; i-- {
		f.o("cmp x10, #%d", i)
		f.o("b.eq L_R%d", i)
	}
	f.o("cbz x10, L_done")
	f.o("b L_R1")
}

// attnScores multiplies rows of queries with blocks of keys, positions being
// lanes.
func attnScores(g *group, f16 bool) {
	typ, size := cacheType(f16)
	f := g.function("attnScores"+typ+"NEON", "scoreArgs", "computes scores of blocks of 16 keys.", "",
		"\tfor r := range rows { for b := range blocks { for i := range 16 {",
		"\t\ts[r][16·b+i] = Σ_d q[r][d]·k[b][d][i] } } }", "",
		"The sum over d is one chain of fused multiply-adds from d = 0 up, however rows",
		"are grouped.")
	f.get(2, saQ)
	f.get(9, saLdQ)
	f.get(10, saRows)
	f.get(12, saKStep)
	f.get(19, saS)
	chooseRows(f)
	q := [attnRows]int{3, 4, 5, 6}
	for r := attnRows; r >= 1; r-- {
		f.label(fmt.Sprintf("L_R%d", r))
		f.get(13, saK)
		f.get(14, saBlocks)
		f.o("mov x15, x19")
		f.label(fmt.Sprintf("L_R%dblock", r))
		for i := range 4 * r {
			f.o("movi v%d.16b, #0", i)
		}
		f.o("mov x3, x2")
		for t := 1; t < r; t++ {
			f.o("add x%d, x%d, x9", q[t], q[t-1])
		}
		f.o("mov x7, x13")
		f.get(8, saDims)
		f.label(fmt.Sprintf("L_R%ddims", r))
		for t := range r {
			f.o("ldr q%d, [x%d], #16", 16+t, q[t])
		}
		for u := range 4 {
			loadCache(f, f16, 7)
			f.o("add x7, x7, #%d", 16*size)
			for t := range r {
				for j := range 4 {
					f.o("fmla v%d.4s, v%d.4s, v%d.s[%d]", 4*t+j, 20+j, 16+t, u)
				}
			}
		}
		f.o("subs x8, x8, #4")
		f.o("b.ne L_R%ddims", r)
		f.o("mov x16, x15")
		for t := range r {
			f.o("stp q%d, q%d, [x16]", 4*t, 4*t+1)
			f.o("stp q%d, q%d, [x16, #32]", 4*t+2, 4*t+3)
			f.o("add x16, x16, #%d", scoreStride)
		}
		f.o("add x13, x13, x12")
		f.o("add x15, x15, #64")
		f.o("subs x14, x14, #1")
		f.o("b.ne L_R%dblock", r)
		f.o("add x19, x19, #%d", r*scoreStride)
		f.o("mov x16, #%d", r)
		f.o("madd x2, x9, x16, x2")
		f.o("sub x10, x10, #%d", r)
		f.o("b L_rows")
	}
	f.label("L_done")
}

// attnMix adds weighted value rows.
func attnMix(g *group, f16 bool) {
	typ, size := cacheType(f16)
	f := g.function("attnMix"+typ+"NEON", "mixArgs", "adds pos > 0 value rows of 16·cols numbers, weighted.", "",
		"\tfor r := range rows { for i := range pos { for d := range 16·cols {",
		"\t\tacc[r][d] += p[r][i]·v[i][d] } } }", "",
		"The sum over i is one chain of fused multiply-adds from i = 0 up.")
	f.get(2, maP)
	f.get(10, maRows)
	f.get(11, maVStep)
	f.get(12, maLdAcc)
	f.get(19, maAcc)
	chooseRows(f)
	acc := [attnRows]int{3, 4, 5, 6}
	for r := attnRows; r >= 1; r-- {
		f.label(fmt.Sprintf("L_R%d", r))
		f.get(13, maV)
		f.get(14, maCols)
		f.o("mov x15, x19")
		f.label(fmt.Sprintf("L_R%dcol", r))
		f.o("mov x3, x15")
		for t := 1; t < r; t++ {
			f.o("add x%d, x%d, x12", acc[t], acc[t-1])
		}
		for t := range r {
			f.o("ldp q%d, q%d, [x%d]", 4*t, 4*t+1, acc[t])
			f.o("ldp q%d, q%d, [x%d, #32]", 4*t+2, 4*t+3, acc[t])
		}
		f.o("mov x7, x13")
		f.o("mov x16, x2")
		f.get(8, maPos)
		f.label(fmt.Sprintf("L_R%dpos", r))
		loadCache(f, f16, 7)
		f.o("add x7, x7, x11")
		for t := range r {
			f.o("ldr s%d, [x16, #%d]", 24+t, t*scoreStride)
		}
		f.o("add x16, x16, #4")
		for t := range r {
			for j := range 4 {
				f.o("fmla v%d.4s, v%d.4s, v%d.s[0]", 4*t+j, 20+j, 24+t)
			}
		}
		f.o("subs x8, x8, #1")
		f.o("b.ne L_R%dpos", r)
		for t := range r {
			f.o("stp q%d, q%d, [x%d]", 4*t, 4*t+1, acc[t])
			f.o("stp q%d, q%d, [x%d, #32]", 4*t+2, 4*t+3, acc[t])
		}
		f.o("add x13, x13, #%d", 16*size)
		f.o("add x15, x15, #64")
		f.o("subs x14, x14, #1")
		f.o("b.ne L_R%dcol", r)
		f.o("add x2, x2, #%d", r*scoreStride)
		f.o("mov x16, #%d", r)
		f.o("madd x19, x12, x16, x19")
		f.o("sub x10, x10, #%d", r)
		f.o("b L_rows")
	}
	f.label("L_done")
}

// attnWeigh is a step of the online softmax.
func attnWeigh(g *group) {
	f := g.function("attnWeighNEON", "weighArgs", "turns a chunk of scores into weights: a step of the online softmax.", "",
		"\tfor r := range rows {",
		"\t\tm' = max(m[r], max of s[r][i]);  f = exp(m[r]-m');  s[r][i] = exp(s[r][i]-m')",
		"\t\tsums[r][i mod 16] = f·sums[r][i mod 16] + Σ s[r][i];  acc[r] *= f;  m[r] = m' }", "",
		"Scores of the vecs vectors of 16 outside of the range must be -Inf.")
	f.get(2, waS)
	f.get(10, waRows)
	f.get(3, waMax)
	f.get(4, waSums)
	f.get(5, waAcc)
	f.get(6, waLdAcc)
	f.loadExp()
	f.loadFloat(31, math.Inf(-1))
	const m, fac, sum = 12, 13, 8
	f.label("L_row")
	f.o("mov v%d.16b, v31.16b", m)
	f.get(8, waVecs)
	f.o("mov x7, x2")
	f.label("L_max")
	f.o("ldp q0, q1, [x7], #32")
	f.o("ldp q6, q7, [x7], #32")
	f.o("fmax v0.4s, v0.4s, v1.4s")
	f.o("fmax v6.4s, v6.4s, v7.4s")
	f.o("fmax v0.4s, v0.4s, v6.4s")
	f.o("fmax v%d.4s, v%d.4s, v0.4s", m, m)
	f.o("subs x8, x8, #1")
	f.o("b.ne L_max")
	f.o("fmaxv s%d, v%d.4s", m, m)
	f.o("dup v%d.4s, v%d.s[0]", m, m)
	f.o("ld1r {v%d.4s}, [x3]", fac)
	f.o("fmax v%d.4s, v%d.4s, v%d.4s", m, m, fac)
	f.o("str s%d, [x3], #4", m)
	f.o("fsub v%d.4s, v%d.4s, v%d.4s", fac, fac, m)
	f.exp(fac)
	for i := range 4 {
		f.o("movi v%d.16b, #0", sum+i)
	}
	f.get(8, waVecs)
	f.o("mov x7, x2")
	f.label("L_exp")
	for i := range 4 {
		f.o("ldr q0, [x7]")
		f.o("fsub v0.4s, v0.4s, v%d.4s", m)
		f.exp(0)
		f.o("str q0, [x7], #16")
		f.o("fadd v%d.4s, v%d.4s, v0.4s", sum+i, sum+i)
	}
	f.o("subs x8, x8, #1")
	f.o("b.ne L_exp")
	for i := range 4 {
		f.o("ldr q0, [x4]")
		f.o("fmla v%d.4s, v0.4s, v%d.4s", sum+i, fac)
		f.o("str q%d, [x4], #16", sum+i)
	}
	f.o("fcmp s%d, s%d", fac, one)
	f.o("b.eq L_next")
	f.get(8, waCols)
	f.o("mov x7, x5")
	f.label("L_col")
	for range 2 {
		f.o("ldp q0, q1, [x7]")
		f.o("fmul v0.4s, v0.4s, v%d.4s", fac)
		f.o("fmul v1.4s, v1.4s, v%d.4s", fac)
		f.o("stp q0, q1, [x7], #32")
	}
	f.o("subs x8, x8, #1")
	f.o("b.ne L_col")
	f.label("L_next")
	f.o("add x2, x2, #%d", scoreStride)
	f.o("add x5, x5, x6")
	f.o("subs x10, x10, #1")
	f.o("b.ne L_row")
}

// attnMerge joins the softmax of two ranges of positions.
func attnMerge(g *group) {
	f := g.function("attnMergeNEON", "mergeArgs", "adds a second range of positions to a first.", "",
		"\tfor r := range rows {",
		"\t\tm' = max(m[r], m2[r]);  f = exp(m[r]-m');  f2 = exp(m2[r]-m');  m[r] = m'",
		"\t\tsums[r] = f·sums[r] + f2·sums2[r];  acc[r] = f·acc[r] + f2·acc2[r] }")
	for i, off := range []int{eaMax, eaSums, eaAcc, eaMax2, eaSums2, eaAcc2} {
		f.get(2+i, off)
	}
	f.get(10, eaRows)
	f.get(11, eaLdAcc)
	f.get(12, eaLdAcc2)
	f.loadExp()
	join := func(p, p2 int) {
		for range 4 {
			f.o("ldr q0, [x%d]", p)
			f.o("ldr q1, [x%d], #16", p2)
			f.o("fmul v0.4s, v0.4s, v12.4s")
			f.o("fmla v0.4s, v1.4s, v13.4s")
			f.o("str q0, [x%d], #16", p)
		}
	}
	f.label("L_row")
	f.o("ld1r {v12.4s}, [x2]")
	f.o("ld1r {v13.4s}, [x5], #4")
	f.o("fmax v14.4s, v12.4s, v13.4s")
	f.o("str s14, [x2], #4")
	for _, x := range []int{12, 13} {
		f.o("fsub v%d.4s, v%d.4s, v14.4s", x, x)
		f.exp(x)
	}
	join(3, 6)
	f.get(8, eaCols)
	f.o("mov x13, x4")
	f.o("mov x14, x7")
	f.label("L_col")
	join(13, 14)
	f.o("subs x8, x8, #1")
	f.o("b.ne L_col")
	f.o("add x4, x4, x11")
	f.o("add x7, x7, x12")
	f.o("subs x10, x10, #1")
	f.o("b.ne L_row")
}

// attnFinish divides by the sum of the weights.
func attnFinish(g *group) {
	f := g.function("attnFinishNEON", "mergeArgs", "divides by the sum of the weights.", "",
		"\tfor r := range rows { for d := range 16·cols { acc2[r][d] = acc[r][d] / Σ_i sums[r][i] } }")
	f.get(3, eaSums)
	f.get(4, eaAcc)
	f.get(7, eaAcc2)
	f.get(10, eaRows)
	f.get(11, eaLdAcc)
	f.get(12, eaLdAcc2)
	f.label("L_row")
	f.o("ldp q0, q1, [x3], #32")
	f.o("ldp q2, q3, [x3], #32")
	f.o("fadd v0.4s, v0.4s, v1.4s")
	f.o("fadd v2.4s, v2.4s, v3.4s")
	f.o("fadd v0.4s, v0.4s, v2.4s")
	f.o("faddp v0.4s, v0.4s, v0.4s")
	f.o("faddp s0, v0.2s")
	f.o("dup v16.4s, v0.s[0]")
	f.get(8, eaCols)
	f.o("mov x13, x4")
	f.o("mov x14, x7")
	f.label("L_col")
	for range 2 {
		f.o("ldp q0, q1, [x13], #32")
		f.o("fdiv v0.4s, v0.4s, v16.4s")
		f.o("fdiv v1.4s, v1.4s, v16.4s")
		f.o("stp q0, q1, [x14], #32")
	}
	f.o("subs x8, x8, #1")
	f.o("b.ne L_col")
	f.o("add x4, x4, x11")
	f.o("add x7, x7, x12")
	f.o("subs x10, x10, #1")
	f.o("b.ne L_row")
}

// unpackKeysQ8 turns key blocks into f32 ones.
func unpackKeysQ8(g *group) {
	f := g.function("unpackKeysQ8NEON", "cacheArgs", "turns n > 0 groups of 32 dimensions of q8_0 keys into f32.", "",
		"\tfor j := range n { for d := range 32 { for i := range 16 {",
		"\t\tdst[j][d][i] = src[j].scale[i]·src[j].key[d][i] } } }")
	f.get(2, uaSrc)
	f.get(3, uaDst)
	f.get(8, uaN)
	f.label("L_group")
	f.o("ldp q0, q2, [x2], #32")
	for _, v := range []int{0, 2} {
		f.o("fcvtl2 v%d.4s, v%d.8h", v+1, v)
		f.o("fcvtl v%d.4s, v%d.4h", v, v)
	}
	f.o("mov x9, #32")
	f.label("L_dim")
	f.o("ldr q4, [x2], #16")
	widen(f, 4)
	for i := range 4 {
		f.o("fmul v%d.4s, v%d.4s, v%d.4s", 16+i, 16+i, i)
	}
	f.o("stp q16, q17, [x3], #32")
	f.o("stp q18, q19, [x3], #32")
	f.o("subs x9, x9, #1")
	f.o("b.ne L_dim")
	f.o("subs x8, x8, #1")
	f.o("b.ne L_group")
}

// unpackValuesQ8 turns q8_0 blocks into f32 numbers.
func unpackValuesQ8(g *group) {
	f := g.function("unpackValuesQ8NEON", "cacheArgs", "turns n > 0 blocks of q8_0 into f32.", "",
		"\tfor j := range n { for d := range 32 { dst[32·j+d] = src[j].scale·src[j].q[d] } }")
	f.get(2, uaSrc)
	f.get(3, uaDst)
	f.get(8, uaN)
	f.label("L_block")
	f.o("ldr h0, [x2]")
	f.o("fcvt s0, h0")
	for h := range 2 {
		f.ldq(4, 2, 2+16*h)
		widen(f, 4)
		for i := range 4 {
			f.o("fmul v%d.4s, v%d.4s, v0.s[0]", 16+i, 16+i)
		}
		f.o("stp q16, q17, [x3], #32")
		f.o("stp q18, q19, [x3], #32")
	}
	f.o("add x2, x2, #34")
	f.o("subs x8, x8, #1")
	f.o("b.ne L_block")
}
