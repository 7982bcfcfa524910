package main

// Offsets in fusedArgs.
const fuW, fuStride, fuRows, fuGroups, fuLacks, fuBias, fuX, fuDx, fuSums, fuY = 0, 8, 16, 24, 32, 40, 48, 56, 64, 72

// genRows generates the products of one token that decode weights in
// registers, for processors with SDOT.
func genRows(g *group) {
	for _, t := range forms {
		if t.super {
			rowSuper(g, t)
		} else {
			row32(g, t)
		}
	}
}

// row32 does four blocks of 32 at a time, one to a lane: the lanes are the
// partial sums. The first four of a row may lack blocks.
func row32(g *group, t *form) {
	f := g.function("row"+t.name+"NEONDot", "fusedArgs", "multiplies rows of "+t.name+" with one token:", "",
		"\tfor r := range rows { y[r] = Σ_b dx[b]·(d[b]·Σ q·x + m[b]·sums[b]), in four partial sums }")
	f.get(8, fuW)
	f.get(9, fuStride)
	f.get(10, fuRows)
	f.get(12, fuLacks)
	f.get(13, fuBias)
	f.get(14, fuX)
	f.get(19, fuY)
	f.o("sub x8, x8, x13")
	f.o("sub x14, x14, x12, lsl #5")
	t.setup(f)
	f.label("L_row")
	f.o("mov x2, x8")
	f.o("mov x3, x14")
	f.get(4, fuDx)
	f.get(5, fuSums)
	f.get(6, fuGroups)
	for _, v := range []int{0, 4, 5, 6, 7, 8, 9} {
		f.o("movi v%d.16b, #0", v)
	}
	f.o("cbz x12, L_block0")
	f.o("cmp x12, #2")
	f.o("b.lo L_block1")
	f.o("b.eq L_block2")
	f.o("b L_block3")
	for b := range 4 {
		f.label([]string{"L_block0", "L_block1", "L_block2", "L_block3"}[b])
		off := b * t.size
		f.o("ldp q2, q3, [x3, #%d]", 32*b)
		t.chunk(f, off)
		f.o("movi v%d.16b, #0", 4+b)
		f.o("sdot v%d.4s, v16.16b, v2.16b", 4+b)
		f.o("sdot v%d.4s, v17.16b, v3.16b", 4+b)
		if t.scale < 0 {
			f.o("ldrb w7, [x2, #%d]", off)
			f.o("sub w16, w7, #1")
			f.o("lsl w16, w16, #23")
			f.o("cmp w7, #2")
			f.o("csel w16, wzr, w16, lo")
			f.o("mov v8.s[%d], w16", b)
		} else {
			f.o("ldr h10, [x2, #%d]", off+t.scale)
			f.o("mov v8.h[%d], v10.h[0]", b)
		}
		if t.min {
			f.o("ldr h11, [x2, #%d]", off+t.least)
			f.o("mov v9.h[%d], v11.h[0]", b)
		}
	}
	f.o("addp v4.4s, v4.4s, v5.4s")
	f.o("addp v6.4s, v6.4s, v7.4s")
	f.o("addp v4.4s, v4.4s, v6.4s")
	f.o("ldr q13, [x4], #16")
	f.o("scvtf v4.4s, v4.4s")
	d := 8
	if t.scale >= 0 {
		f.o("fcvtl v10.4s, v8.4h")
		d = 10
	}
	f.o("fmul v4.4s, v4.4s, v%d.4s", d)
	if t.min {
		f.o("fcvtl v11.4s, v9.4h")
		f.o("ldr q12, [x5], #16")
		f.o("fmul v11.4s, v11.4s, v12.4s")
		f.o("fadd v4.4s, v4.4s, v11.4s")
	}
	f.o("fmul v4.4s, v4.4s, v13.4s")
	f.o("fadd v0.4s, v0.4s, v4.4s")
	f.o("add x2, x2, #%d", 4*t.size)
	f.o("add x3, x3, #128")
	f.o("subs x6, x6, #1")
	f.o("b.ne L_block0")
	f.sumParts(0, 1)
	f.o("str s0, [x19], #4")
	f.o("add x8, x8, x9")
	f.o("subs x10, x10, #1")
	f.o("b.ne L_row")
}

// sumParts adds the four partial sums in v, in order, into its lane 0.
func (f *function) sumParts(v, tmp int) {
	for i := 1; i < 4; i++ {
		f.o("mov s%d, v%d.s[%d]", tmp+i-1, v, i)
	}
	for i := 1; i < 4; i++ {
		f.o("fadd s%d, s%d, s%d", v, v, tmp+i-1)
	}
}

// rowSuper does a superblock at a time.
func rowSuper(g *group, t *form) {
	f := g.function("row"+t.name+"NEONDot", "fusedArgs", "multiplies rows of "+t.name+" with one token:", "",
		"\tfor r := range rows { y[r] = Σ_b dx[b]·(d[b]·Σ_j sc[j]·Σ q·x − dmin[b]·Σ_j mn[j]·Σ x) }")
	f.symbol = t.symbol
	f.get(8, fuW)
	f.get(20, fuStride)
	f.get(21, fuRows)
	f.get(22, fuX)
	f.get(23, fuY)
	t.setup(f)
	f.label("L_row")
	f.o("mov x2, x8")
	f.o("mov x3, x22")
	f.get(4, fuDx)
	f.get(5, fuSums)
	f.get(6, fuGroups)
	f.o("movi v13.16b, #0")
	f.label("L_block")
	t.head(f)
	switch t.group {
	case 16:
		for i := range 2 {
			f.o("sxtl v%d.4s, v%d.4h", 8+2*i, 4+i)
			f.o("sxtl2 v%d.4s, v%d.8h", 9+2*i, 4+i)
		}
	case 32:
		f.o("sxtl v8.4s, v4.4h")
		f.o("sxtl2 v9.4s, v4.8h")
	}
	f.o("movi v0.16b, #0")
	f.o("movi v1.16b, #0")
	t.chunks(f, func(c, lo, hi int) {
		f.o("ldp q2, q3, [x3, #%d]", 32*c)
		switch t.group {
		case 16:
			f.o("movi v14.16b, #0")
			f.o("movi v15.16b, #0")
			f.o("sdot v14.4s, v%d.16b, v2.16b", lo)
			f.o("sdot v15.4s, v%d.16b, v3.16b", hi)
			f.o("mla v0.4s, v14.4s, v%d.s[%d]", 8+c/2, c%2*2)
			f.o("mla v1.4s, v15.4s, v%d.s[%d]", 8+c/2, c%2*2+1)
		case 32:
			f.o("movi v%d.16b, #0", 14+c%2)
			f.o("sdot v%d.4s, v%d.16b, v2.16b", 14+c%2, lo)
			f.o("sdot v%d.4s, v%d.16b, v3.16b", 14+c%2, hi)
			f.o("mla v%d.4s, v%d.4s, v%d.s[%d]", c%2, 14+c%2, 8+c/4, c%4)
		default:
			f.o("sdot v0.4s, v%d.16b, v2.16b", lo)
			f.o("sdot v1.4s, v%d.16b, v3.16b", hi)
		}
	})
	f.o("add v0.4s, v0.4s, v1.4s")
	f.o("addv s0, v0.4s")
	f.o("scvtf s0, s0")
	f.o("fmul s0, s0, v12.s[0]")
	if t.min {
		f.o("ldp q2, q3, [x5], #32")
		if t.group == 32 {
			f.o("addp v2.8h, v2.8h, v3.8h")
			f.o("smull v1.4s, v2.4h, v6.4h")
			f.o("smlal2 v1.4s, v2.8h, v6.8h")
		} else {
			f.o("smull v1.4s, v2.4h, v6.4h")
			f.o("smlal2 v1.4s, v2.8h, v6.8h")
			f.o("smlal v1.4s, v3.4h, v7.4h")
			f.o("smlal2 v1.4s, v3.8h, v7.8h")
		}
		f.o("addv s1, v1.4s")
		f.o("scvtf s1, s1")
		f.o("fmul s1, s1, v12.s[1]")
		f.o("fsub s0, s0, s1")
	}
	f.o("ldr s15, [x4], #4")
	f.o("fmul s0, s0, s15")
	f.o("fadd s13, s13, s0")
	f.o("add x2, x2, #%d", t.size)
	f.o("add x3, x3, #256")
	f.o("subs x6, x6, #1")
	f.o("b.ne L_block")
	f.o("str s13, [x23], #4")
	f.o("add x8, x8, x20")
	f.o("subs x21, x21, #1")
	f.o("b.ne L_row")
}
