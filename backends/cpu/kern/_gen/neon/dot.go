package main

import "fmt"

// Offsets in dotArgs.
const doQ, doScales, doMins, doD, doX, doLdx, doSide, doY, doLdy, doBlocks, doRows, doLdRow = 0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88

// genDot generates the products of decoded rows with one to four tokens, with
// SDOT and without.
func genDot(g *group) {
	for _, dot := range []bool{true, false} {
		for n := 1; n <= 4; n++ {
			for _, least := range []bool{false, true} {
				dot32(g, n, least, dot)
				dot256(g, n, least, dot)
			}
		}
	}
}

// variant names a kernel.
func variant(stem string, least bool, n int, dot bool) string {
	if least {
		stem += "Min"
	}
	stem = fmt.Sprintf("%sT%dNEON", stem, n)
	if dot {
		stem += "Dot"
	}
	return stem
}

// sums leaves in dst, four words, sums of products of int8 registers w and x;
// first tells that dst held nothing before. Without SDOT, v20 is overwritten:
// two products of int8 fit into 16 bits, since x is never −128.
func (f *function) sums(dot, first bool, dst, w, x int) {
	if dot {
		if first {
			f.o("movi v%d.16b, #0", dst)
		}
		f.o("sdot v%d.4s, v%d.16b, v%d.16b", dst, w, x)
		return
	}
	f.o("smull v20.8h, v%d.8b, v%d.8b", w, x)
	f.o("smlal2 v20.8h, v%d.16b, v%d.16b", w, x)
	if first {
		f.o("saddlp v%d.4s, v20.8h", dst)
	} else {
		f.o("sadalp v%d.4s, v20.8h", dst)
	}
}

// tokenRegs are the pointers to the activations of tokens.
var tokenRegs = [4]int{3, 11, 12, 13}

// tokens sets the pointers to n tokens.
func (f *function) tokens(n int) {
	f.get(tokenRegs[0], doX)
	if n > 1 {
		f.get(16, doLdx)
	}
	for t := 1; t < n; t++ {
		f.o("add x%d, x%d, x16", tokenRegs[t], tokenRegs[t-1])
	}
}

// decoded starts a kernel over decoded rows: fields at the pointers of the
// argument move from row to row. x15 counts rows, x19 is the result, x20 ldy.
func (f *function) decoded(fields map[int]int) {
	f.get(15, doRows)
	f.get(14, doLdRow)
	f.get(19, doY)
	f.get(20, doLdy)
	regs := [...]int{21, 22, 23, 24}
	i := 0
	order := [...]int{doQ, doScales, doMins, doD}
	at := map[int]int{}
	for _, off := range order {
		if _, ok := fields[off]; ok {
			f.get(regs[i], off)
			at[off] = regs[i]
			i++
		}
	}
	f.label("L_row")
	for _, off := range order {
		if r, ok := fields[off]; ok {
			f.o("mov x%d, x%d", r, at[off])
			f.o("add x%d, x%d, x14", at[off], at[off])
		}
	}
	f.get(4, doSide)
	f.get(8, doBlocks)
}

// dot32 does four blocks of 32 at a time, one to a lane: the lanes are the
// partial sums.
func dot32(g *group, n int, least, dot bool) {
	f := g.function(variant("dot32", least, n, dot), "dotArgs", fmt.Sprintf("multiplies decoded rows of blocks of 32 with %d tokens.", n))
	fields := map[int]int{doQ: 2, doScales: 9}
	if least {
		fields[doMins] = 10
	}
	f.decoded(fields)
	f.tokens(n)
	for t := range n {
		f.o("movi v%d.16b, #0", t)
	}
	f.label("L_group")
	for b := range 4 {
		f.o("ldp q16, q17, [x2, #%d]", 32*b)
		for t := range n {
			dst := 8 + b%2*4 + t
			f.o("ldp q18, q19, [x%d, #%d]", tokenRegs[t], 32*b)
			f.sums(dot, true, dst, 16, 18)
			f.sums(dot, false, dst, 17, 19)
			switch b {
			case 1:
				f.o("addp v%d.4s, v%d.4s, v%d.4s", 4+t, 8+t, 12+t)
			case 3:
				f.o("addp v%d.4s, v%d.4s, v%d.4s", 8+t, 8+t, 12+t)
				f.o("addp v%d.4s, v%d.4s, v%d.4s", 4+t, 4+t, 8+t)
			}
		}
	}
	f.o("ldr q24, [x9], #16")
	if least {
		f.o("ldr q25, [x10], #16")
	}
	for t := range n {
		f.o("scvtf v%d.4s, v%d.4s", 4+t, 4+t)
		f.o("ldr q26, [x4, #%d]", 16*t)
		f.o("fmul v%d.4s, v%d.4s, v24.4s", 4+t, 4+t)
		if least {
			f.o("ldr q27, [x4, #%d]", 16*(n+t))
			f.o("fmul v27.4s, v25.4s, v27.4s")
			f.o("fadd v%d.4s, v%d.4s, v27.4s", 4+t, 4+t)
		}
		f.o("fmul v%d.4s, v%d.4s, v26.4s", 4+t, 4+t)
		f.o("fadd v%d.4s, v%d.4s, v%d.4s", t, t, 4+t)
	}
	if least {
		f.o("add x4, x4, #%d", 32*n)
	} else {
		f.o("add x4, x4, #%d", 16*n)
	}
	f.o("add x2, x2, #128")
	for t := range n {
		f.o("add x%d, x%d, #128", tokenRegs[t], tokenRegs[t])
	}
	f.o("subs x8, x8, #1")
	f.o("b.ne L_group")
	f.o("mov x16, x19")
	for t := range n {
		f.sumParts(t, 28)
		f.o("str s%d, [x16]", t)
		if t+1 < n {
			f.o("add x16, x16, x20")
		}
	}
	f.nextRow()
}

// nextRow ends the loop over decoded rows.
func (f *function) nextRow() {
	f.o("add x19, x19, #4")
	f.o("subs x15, x15, #1")
	f.o("b.ne L_row")
}

// addTree leaves the sum of the lanes of register first+t in lane t of first.
func (f *function) addTree(first, n int) {
	r := func(t int) int { return first + min(t, n-1) }
	f.o("addp v%d.4s, v%d.4s, v%d.4s", r(0), r(0), r(1))
	if n > 2 {
		f.o("addp v%d.4s, v%d.4s, v%d.4s", r(2), r(2), r(3))
		f.o("addp v%d.4s, v%d.4s, v%d.4s", r(0), r(0), r(2))
	} else {
		f.o("addp v%d.4s, v%d.4s, v%d.4s", r(0), r(0), r(0))
	}
}

// dot256 does a superblock at a time; from its sums on, the lanes are tokens.
func dot256(g *group, n int, least, dot bool) {
	f := g.function(variant("dot256", least, n, dot), "dotArgs", fmt.Sprintf("multiplies decoded rows of superblocks with %d tokens.", n))
	fields := map[int]int{doQ: 2, doScales: 9, doD: 7}
	if least {
		fields[doMins] = 10
	}
	f.decoded(fields)
	f.tokens(n)
	f.o("movi v31.16b, #0")
	f.label("L_block")
	f.o("ldp q20, q21, [x9], #32")
	for i := range 2 {
		f.o("sxtl v%d.4s, v%d.4h", 24+2*i, 20+i)
		f.o("sxtl2 v%d.4s, v%d.8h", 25+2*i, 20+i)
	}
	for t := range n {
		f.o("movi v%d.16b, #0", t)
		f.o("movi v%d.16b, #0", 4+t)
	}
	for c := range 8 {
		f.o("ldp q16, q17, [x2, #%d]", 32*c)
		for t := range n {
			f.o("ldp q18, q19, [x%d, #%d]", tokenRegs[t], 32*c)
			for h := range 2 {
				f.sums(dot, true, 22+h, 16+h, 18+h)
				f.o("mla v%d.4s, v%d.4s, v%d.s[%d]", 4*h+t, 22+h, 24+c/2, c%2*2+h)
			}
		}
	}
	f.o("ldr q28, [x4], #16")
	f.o("ldr d29, [x7], #8")
	if least {
		f.o("ldp q20, q21, [x10], #32")
		for t := range n {
			f.o("ldp q18, q19, [x4], #32")
			f.o("smull v%d.4s, v18.4h, v20.4h", 8+t)
			f.o("smlal2 v%d.4s, v18.8h, v20.8h", 8+t)
			f.o("smlal v%d.4s, v19.4h, v21.4h", 8+t)
			f.o("smlal2 v%d.4s, v19.8h, v21.8h", 8+t)
		}
		f.addTree(8, n)
		f.o("scvtf v8.4s, v8.4s")
		f.o("fmul v8.4s, v8.4s, v29.s[1]")
	}
	for t := range n {
		f.o("add v%d.4s, v%d.4s, v%d.4s", t, t, 4+t)
	}
	f.addTree(0, n)
	f.o("scvtf v0.4s, v0.4s")
	f.o("fmul v0.4s, v0.4s, v29.s[0]")
	if least {
		f.o("fsub v0.4s, v0.4s, v8.4s")
	}
	f.o("fmul v0.4s, v0.4s, v28.4s")
	f.o("fadd v31.4s, v31.4s, v0.4s")
	f.o("add x2, x2, #256")
	for t := range n {
		f.o("add x%d, x%d, #256", tokenRegs[t], tokenRegs[t])
	}
	f.o("subs x8, x8, #1")
	f.o("b.ne L_block")
	f.o("mov x16, x19")
	for t := range n {
		f.o("st1 {v31.s}[%d], [x16]", t)
		if t+1 < n {
			f.o("add x16, x16, x20")
		}
	}
	f.nextRow()
}
