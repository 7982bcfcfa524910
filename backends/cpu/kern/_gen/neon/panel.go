package main

import "fmt"

// Offsets in interArgs and tileArgs.
const (
	inSrc, inStride, inDst, inN = 0, 8, 16, 24

	tiQ, tiScales, tiMins, tiD, tiHalf, tiX, tiLdx, tiSide, tiY, tiLdy, tiBlocks = 0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80
)

// genPanel generates the products of panels of eight decoded rows, in two
// halves, with four tokens.
func genPanel(g *group) {
	interleave(g, "interleaveWords", "writes the words of four rows in turn: those of all rows, then the next.", "st4 {v0.4s, v1.4s, v2.4s, v3.4s}, [x2], #64")
	interleave(g, "interleaveHalves", "writes the halfwords of four rows in turn.", "st4 {v0.8h, v1.8h, v2.8h, v3.8h}, [x2], #64")
	interleave(g, "interleavePairs", "writes for each 16 bytes of four rows the eights of rows 0 and 1 in turn, then those of rows 2 and 3.",
		"st2 {v0.2d, v1.2d}, [x2], #32", "st2 {v2.2d, v3.2d}, [x2], #32")
	for _, mm := range []bool{false, true} {
		for _, least := range []bool{false, true} {
			tile32(g, least, mm)
			tile256(g, 16, least, mm)
			tile256(g, 32, least, mm)
		}
	}
}

// interleave joins four rows of n times 16 bytes.
func interleave(g *group, name, doc string, store ...string) {
	f := g.function(name+"NEON", "interArgs", doc)
	f.get(3, inSrc)
	f.get(7, inStride)
	f.get(2, inDst)
	f.get(8, inN)
	for i := range 3 {
		f.o("add x%d, x%d, x7", 4+i, 3+i)
	}
	f.label("L_step")
	for i := range 4 {
		f.o("ldr q%d, [x%d], #16", i, 3+i)
	}
	for _, s := range store {
		f.o("%s", s)
	}
	f.o("subs x8, x8, #1")
	f.o("b.ne L_step")
}

func tileName(stem string, least, mm bool) string {
	if least {
		stem += "Min"
	}
	if mm {
		return stem + "NEONMM"
	}
	return stem + "NEONDot"
}

// tile is the code both kinds of tiles share. x2 and x5 are the quants of the
// halves, x3 and x11 to x13 the tokens (with SMMLA: x3, all four).
type tile struct {
	*function
	mm bool
}

// zero clears registers first to first+7.
func (f *tile) zero(first int) {
	for i := range 8 {
		f.o("movi v%d.16b, #0", first+i)
	}
}

// sixteen multiplies 16 elements: number i of the block, at 64·i of each half.
// Sums are in v0 to v7: with SDOT those of half h and token t in 2t+h, with
// SMMLA those of row pair p and token pair u in 2p+u.
func (f *tile) sixteen(i int) {
	if !f.mm {
		for t := range 4 {
			f.o("ldr q%d, [x%d, #%d]", 20+t, tokenRegs[t], 16*i)
		}
		for k := range 4 {
			w := 16 + k%2*2
			f.o("ldr q%d, [x2, #%d]", w, 64*i+16*k)
			f.o("ldr q%d, [x5, #%d]", w+1, 64*i+16*k)
			for t := range 4 {
				for h := range 2 {
					f.o("sdot v%d.4s, v%d.16b, v%d.4b[%d]", 2*t+h, w+h, 20+t, k)
				}
			}
		}
		return
	}
	f.o("ldp q20, q21, [x3, #%d]", 64*i)
	f.o("ldp q22, q23, [x3, #%d]", 64*i+32)
	for h := range 2 {
		x := []int{2, 5}[h]
		f.o("ldp q16, q17, [x%d, #%d]", x, 64*i)
		f.o("ldp q18, q19, [x%d, #%d]", x, 64*i+32)
		for k := range 2 {
			for p := range 2 {
				for u := range 2 {
					f.o("smmla v%d.4s, v%d.16b, v%d.16b", 2*(2*h+p)+u, 16+2*p+k, 20+2*u+k)
				}
			}
		}
	}
}

// rows turns the sums in v(from) to v(from+7) into one register for each half
// and token and returns the first of them, 2t+h further on.
func (f *tile) rows(from int) int {
	if !f.mm {
		return from
	}
	for u := range 2 {
		for h := range 2 {
			a, b := from+4*h+u, from+4*h+2+u
			for i := range 2 {
				f.o("uzp%d v%d.4s, v%d.4s, v%d.4s", i+1, 16+2*(2*u+i)+h, a, b)
			}
		}
	}
	return 16
}

func (f *tile) start() {
	f.get(14, tiHalf)
	f.get(19, tiY)
	f.get(20, tiLdy)
	if !f.mm {
		f.get(21, tiLdx)
	}
}

// pointers sets the pointers to halves and tokens, skip bytes in.
func (f *tile) pointers() {
	f.get(2, tiQ)
	f.get(9, tiScales)
	f.get(10, tiMins)
	f.get(3, tiX)
	f.get(4, tiSide)
	f.get(8, tiBlocks)
}

func (f *tile) spread() {
	f.o("add x5, x2, x14")
	if !f.mm {
		for t := 1; t < 4; t++ {
			f.o("add x%d, x%d, x21", tokenRegs[t], tokenRegs[t-1])
		}
	}
}

func (f *tile) advanceTokens(n int) {
	if f.mm {
		f.o("add x3, x3, #%d", 4*n)
		return
	}
	for t := range 4 {
		f.o("add x%d, x%d, #%d", tokenRegs[t], tokenRegs[t], n)
	}
}

// tile32 does every fourth block, then the others: a partial sum at a time,
// added to the results.
func tile32(g *group, least, mm bool) {
	f := &tile{g.function(tileName("tile32", least, mm), "tileArgs", "multiplies a panel of eight rows of blocks of 32 with four tokens."), mm}
	f.start()
	f.o("mov x22, #0")
	f.label("L_part")
	f.pointers()
	f.o("add x2, x2, x22, lsl #7")
	f.o("add x9, x9, x22, lsl #4")
	f.o("add x10, x10, x22, lsl #4")
	f.o("add x4, x4, x22, lsl #2")
	if mm {
		f.o("add x3, x3, x22, lsl #7")
	} else {
		f.o("add x3, x3, x22, lsl #5")
	}
	f.spread()
	f.o("add x6, x9, x14")
	f.o("add x7, x10, x14")
	f.zero(8)
	f.label("L_block")
	f.zero(0)
	f.sixteen(0)
	f.sixteen(1)
	s := f.rows(0)
	f.o("ldr q24, [x9], #64")
	f.o("ldr q25, [x6], #64")
	if least {
		f.o("ldr q26, [x10], #64")
		f.o("ldr q27, [x7], #64")
	}
	for t := range 4 {
		f.o("ldr s28, [x4, #%d]", 16*t)
		if least {
			f.o("ldr s29, [x4, #%d]", 64+16*t)
		}
		for h := range 2 {
			v := s + 2*t + h
			f.o("scvtf v%d.4s, v%d.4s", v, v)
			f.o("fmul v%d.4s, v%d.4s, v%d.4s", v, v, 24+h)
			if least {
				f.o("fmul v%d.4s, v%d.4s, v29.s[0]", 30+h, 26+h)
				f.o("fadd v%d.4s, v%d.4s, v%d.4s", v, v, 30+h)
			}
			f.o("fmul v%d.4s, v%d.4s, v28.s[0]", v, v)
			f.o("fadd v%d.4s, v%d.4s, v%d.4s", 8+2*t+h, 8+2*t+h, v)
		}
	}
	f.o("add x2, x2, #512")
	f.o("add x5, x5, #512")
	if least {
		f.o("add x4, x4, #128")
	} else {
		f.o("add x4, x4, #64")
	}
	f.advanceTokens(128)
	f.o("subs x8, x8, #1")
	f.o("b.ne L_block")
	// The first part is stored, the others are added.
	f.o("mov x16, x19")
	f.o("cbz x22, L_store")
	for t := range 4 {
		f.o("ldp q0, q1, [x16]")
		f.o("add x16, x16, x20")
		for h := range 2 {
			f.o("fadd v%d.4s, v%d.4s, v%d.4s", 8+2*t+h, h, 8+2*t+h)
		}
	}
	f.o("mov x16, x19")
	f.label("L_store")
	for t := range 4 {
		f.o("stp q%d, q%d, [x16]", 8+2*t, 9+2*t)
		f.o("add x16, x16, x20")
	}
	f.o("add x22, x22, #1")
	f.o("cmp x22, #4")
	f.o("b.ne L_part")
}

// tile256 does superblocks whose groups have 16 or 32 elements.
func tile256(g *group, size int, least, mm bool) {
	f := &tile{g.function(tileName(fmt.Sprintf("tile256x%d", size), least, mm), "tileArgs",
		fmt.Sprintf("multiplies a panel of eight rows of superblocks, groups of %d, with four tokens.", size)), mm}
	f.start()
	f.pointers()
	f.get(22, tiD)
	f.spread()
	f.o("add x6, x9, x14")
	f.o("add x7, x10, x14")
	f.o("add x23, x22, x14")
	// Results start at 0.
	f.o("mov x16, x19")
	f.o("movi v0.16b, #0")
	for range 4 {
		f.o("stp q0, q0, [x16]")
		f.o("add x16, x16, x20")
	}
	f.label("L_block")
	f.zero(8)
	f.o("mov x15, #%d", 128/size)
	f.label("L_groups")
	// Two groups at a time.
	for range 2 {
		f.zero(0)
		for i := range size / 16 {
			f.sixteen(i)
		}
		f.o("ldr d24, [x9], #%d", size/2)
		f.o("ldr d25, [x6], #%d", size/2)
		f.o("sxtl v24.4s, v24.4h")
		f.o("sxtl v25.4s, v25.4h")
		if mm {
			for h := range 2 {
				f.o("zip1 v%d.4s, v%d.4s, v%d.4s", 26+2*h, 24+h, 24+h)
				f.o("zip2 v%d.4s, v%d.4s, v%d.4s", 27+2*h, 24+h, 24+h)
			}
		}
		for i := range 8 {
			scale := 24 + i%2
			if mm {
				scale = 26 + i/2
			}
			f.o("mla v%d.4s, v%d.4s, v%d.4s", 8+i, i, scale)
		}
		f.o("add x2, x2, #%d", 4*size)
		f.o("add x5, x5, #%d", 4*size)
		f.advanceTokens(size)
	}
	f.o("subs x15, x15, #1")
	f.o("b.ne L_groups")
	s := f.rows(8)
	f.o("ldr q24, [x22], #16")
	f.o("ldr q25, [x23], #16")
	for t := range 4 {
		for h := range 2 {
			v := s + 2*t + h
			f.o("scvtf v%d.4s, v%d.4s", v, v)
			f.o("fmul v%d.4s, v%d.4s, v%d.4s", v, v, 24+h)
		}
	}
	f.o("ldr q30, [x4], #16") // dx, a token to a lane
	f.o("ldr q24, [x22], #16")
	f.o("ldr q25, [x23], #16")
	if least {
		m := 24 - s // the eight registers that are free: 8 or 16
		for t := range 4 {
			f.o("ldp q%d, q%d, [x4], #32", 2*t, 2*t+1)
			if size == 32 {
				f.o("addp v%d.8h, v%d.8h, v%d.8h", 2*t, 2*t, 2*t+1)
			}
		}
		f.zero(m)
		for j := range 256 / size {
			f.o("ldr d26, [x10], #%d", size/2)
			f.o("ldr d27, [x7], #%d", size/2)
			for t := range 4 {
				for h := range 2 {
					f.o("smlal v%d.4s, v%d.4h, v%d.h[%d]", m+2*t+h, 26+h, 2*t+j/8, j%8)
				}
			}
		}
		for t := range 4 {
			for h := range 2 {
				v, w := m+2*t+h, s+2*t+h
				f.o("scvtf v%d.4s, v%d.4s", v, v)
				f.o("fmul v%d.4s, v%d.4s, v%d.4s", v, v, 24+h)
				f.o("fsub v%d.4s, v%d.4s, v%d.4s", w, w, v)
			}
		}
	}
	f.o("mov x16, x19")
	for t := range 4 {
		f.o("ldp q0, q1, [x16]")
		for h := range 2 {
			v := s + 2*t + h
			f.o("fmul v%d.4s, v%d.4s, v30.s[%d]", v, v, t)
			f.o("fadd v%d.4s, v%d.4s, v%d.4s", h, h, v)
		}
		f.o("stp q0, q1, [x16]")
		f.o("add x16, x16, x20")
	}
	f.o("subs x8, x8, #1")
	f.o("b.ne L_block")
}
