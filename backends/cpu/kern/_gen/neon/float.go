package main

import "fmt"

// Offsets in floatArgs.
const flW, flStride, flRows, flX, flLdx, flY, flLdy, flSteps = 0, 8, 16, 24, 32, 40, 48, 56

// genFloat generates the products of plain types. Every sum of a row and a
// token runs in eight lanes, element k in lane k mod 8, whatever the numbers of
// rows and tokens at a time.
func genFloat(g *group) {
	for _, typ := range []string{"F32", "F16", "BF16"} {
		for n := 1; n <= 4; n++ {
			floatRows(g, typ, n)
		}
		expandPlain(g, typ)
	}
	expand32(g)
	expand256(g)
}

// plain loads eight elements of a row at register x into v and v+1; v+1 may
// hold the raw ones meanwhile. The register moves on.
func plain(f *function, typ string, v, x int) {
	switch typ {
	case "F32":
		f.o("ldp q%d, q%d, [x%d], #32", v, v+1, x)
	case "F16":
		f.o("ldr q%d, [x%d], #16", v+1, x)
		f.o("fcvtl v%d.4s, v%d.4h", v, v+1)
		f.o("fcvtl2 v%d.4s, v%d.8h", v+1, v+1)
	case "BF16":
		f.o("ldr q%d, [x%d], #16", v+1, x)
		f.o("shll v%d.4s, v%d.4h, #16", v, v+1)
		f.o("shll2 v%d.4s, v%d.8h, #16", v+1, v+1)
	}
}

// floatRows multiplies rows with n tokens, two or four rows at a time, then the
// rest one by one.
func floatRows(g *group, typ string, n int) {
	f := g.function(fmt.Sprintf("float%sT%dNEON", typ, n), "floatArgs",
		fmt.Sprintf("multiplies %s rows with %d f32 tokens, in steps of 8 elements.", typ, n))
	most := 4
	if n > 2 {
		most = 2
	}
	f.get(2, flW)
	f.get(9, flStride)
	f.get(10, flRows)
	f.get(19, flY)
	f.get(20, flLdy)
	f.label("L_many")
	for _, rows := range []int{most, 1} {
		name := fmt.Sprintf("L_rows%d", rows)
		if rows > 1 {
			f.o("cmp x10, #%d", rows)
			f.o("b.lo L_few")
		} else {
			f.label("L_few")
			f.o("cbz x10, L_done")
		}
		w := [4]int{4, 5, 6, 7}
		x := [4]int{3, 11, 12, 13}
		f.o("mov x%d, x2", w[0])
		for r := 1; r < rows; r++ {
			f.o("add x%d, x%d, x9", w[r], w[r-1])
		}
		f.get(x[0], flX)
		f.get(16, flLdx)
		for t := 1; t < n; t++ {
			f.o("add x%d, x%d, x16", x[t], x[t-1])
		}
		f.get(8, flSteps)
		sum := func(r, t int) int { return 2 * (r*n + t) } // and the next
		for i := range 2 * rows * n {
			f.o("movi v%d.16b, #0", i)
		}
		f.label(name)
		for t := range n {
			f.o("ldp q%d, q%d, [x%d], #32", 16+2*t, 17+2*t, x[t])
		}
		for r := range rows {
			v := 24 + 2*(r%4)
			plain(f, typ, v, w[r])
			for t := range n {
				for h := range 2 {
					f.o("fmla v%d.4s, v%d.4s, v%d.4s", sum(r, t)+h, v+h, 16+2*t+h)
				}
			}
		}
		f.o("subs x8, x8, #1")
		f.o("b.ne %s", name)
		for r := range rows {
			f.o("add x16, x19, #%d", 4*r)
			for t := range n {
				v := sum(r, t)
				f.o("fadd v%d.4s, v%d.4s, v%d.4s", v, v, v+1)
				f.o("faddp v%d.4s, v%d.4s, v%d.4s", v, v, v)
				f.o("faddp s%d, v%d.2s", v, v)
				f.o("str s%d, [x16]", v)
				if t+1 < n {
					f.o("add x16, x16, x20")
				}
			}
		}
		f.o("add x19, x19, #%d", 4*rows)
		if rows > 1 {
			f.o("add x2, x2, x9, lsl #%d", map[int]int{2: 1, 4: 2}[rows])
		} else {
			f.o("add x2, x2, x9")
		}
		f.o("sub x10, x10, #%d", rows)
		if rows > 1 {
			f.o("b L_many")
		} else {
			f.o("b L_few")
		}
	}
	f.label("L_done")
}

// Offsets in expandArgs.
const exQ, exScales, exMins, exD, exDst, exN, exMin = 0, 8, 16, 24, 32, 40, 48

// expandPlain writes a plain row as f32.
func expandPlain(g *group, typ string) {
	f := g.function("expand"+typ+"NEON", "expandArgs", "writes n times 8 elements of "+typ+" as f32.")
	f.get(2, exQ)
	f.get(3, exDst)
	f.get(8, exN)
	f.label("L_step")
	plain(f, typ, 0, 2)
	f.o("stp q0, q1, [x3], #32")
	f.o("subs x8, x8, #1")
	f.o("b.ne L_step")
}

// widen turns 16 int8 in v into f32 in 16 to 19.
func widen(f *function, v int) {
	f.o("sxtl v20.8h, v%d.8b", v)
	f.o("sxtl2 v21.8h, v%d.16b", v)
	for i := range 2 {
		f.o("sxtl v%d.4s, v%d.4h", 16+2*i, 20+i)
		f.o("sxtl2 v%d.4s, v%d.8h", 17+2*i, 20+i)
	}
	for i := range 4 {
		f.o("scvtf v%d.4s, v%d.4s", 16+i, 16+i)
	}
}

// expand32 writes decoded blocks of 32 as f32.
func expand32(g *group) {
	for _, least := range []bool{false, true} {
		name := "expand32"
		if least {
			name += "Min"
		}
		f := g.function(name+"NEON", "expandArgs", "writes n decoded blocks of 32 as f32: q·d, or q·d + m.")
		f.get(2, exQ)
		f.get(4, exScales)
		f.get(5, exMins)
		f.get(3, exDst)
		f.get(8, exN)
		f.label("L_block")
		f.o("ldr s0, [x4], #4")
		if least {
			f.o("ld1r {v1.4s}, [x5], #4")
		}
		for range 2 {
			f.o("ldr q2, [x2], #16")
			widen(f, 2)
			for i := range 4 {
				f.o("fmul v%d.4s, v%d.4s, v0.s[0]", 16+i, 16+i)
				if least {
					f.o("fadd v%d.4s, v%d.4s, v1.4s", 16+i, 16+i)
				}
			}
			f.o("stp q16, q17, [x3], #32")
			f.o("stp q18, q19, [x3], #32")
		}
		f.o("subs x8, x8, #1")
		f.o("b.ne L_block")
	}
}

// expand256 writes decoded superblocks as f32, n groups of 16: (d·sc)·q − dmin·mn.
// Formats without minima have mn = 0 and dmin = 0.
func expand256(g *group) {
	f := g.function("expand256NEON", "expandArgs", "writes n decoded superblocks as f32: (d·sc)·q − dmin·mn.")
	f.get(2, exQ)
	f.get(4, exScales)
	f.get(5, exMins)
	f.get(6, exD)
	f.get(3, exDst)
	f.get(8, exN)
	f.label("L_block")
	f.o("ldr d0, [x6], #8")
	f.o("mov x9, #16")
	f.label("L_group")
	f.o("ldrsh w10, [x4], #2")
	f.o("scvtf s1, w10")
	f.o("fmul s1, s0, s1")
	f.o("ldrsh w10, [x5], #2")
	f.o("scvtf s2, w10")
	f.o("fmul s2, s2, v0.s[1]")
	f.o("dup v2.4s, v2.s[0]")
	f.o("ldr q3, [x2], #16")
	widen(f, 3)
	for i := range 4 {
		f.o("fmul v%d.4s, v%d.4s, v1.s[0]", 16+i, 16+i)
		f.o("fsub v%d.4s, v%d.4s, v2.4s", 16+i, 16+i)
	}
	f.o("stp q16, q17, [x3], #32")
	f.o("stp q18, q19, [x3], #32")
	f.o("subs x9, x9, #1")
	f.o("b.ne L_group")
	f.o("subs x8, x8, #1")
	f.o("b.ne L_block")
}
