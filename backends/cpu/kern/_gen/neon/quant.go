package main

import "fmt"

// Offsets in quantArgs.
const qaX, qaQ, qaScales, qaSums, qaBlocks = 0, 8, 16, 24, 32

func genQuant(g *group) {
	quantize(g, "quantizeQ8NEON", 32)
	quantize(g, "quantizeQ8KNEON", 256)
}

// quantize does blocks of size. A block with an infinity or a NaN gets q = 0 of
// itself: 127/∞ is 0, and NaN converts to 0.
func quantize(g *group, name string, size int) {
	f := g.function(name, "quantArgs", fmt.Sprintf("quantizes blocks of %d as quantizeRowGeneric does.", size))
	f.get(2, qaX)
	f.get(3, qaQ)
	f.get(4, qaScales)
	f.get(5, qaSums)
	f.get(8, qaBlocks)
	f.loadWord(31, 0x42fe0000)    // 127
	f.loadWord(30, (127-100)<<23) // the least maximum, 2⁻¹⁰⁰
	f.label("L_block")
	// As integers, magnitudes order like the floats and NaN comes last.
	f.o("movi v20.16b, #0")
	f.o("movi v21.16b, #0")
	for i := 0; i < size/4; i += 4 {
		f.o("ldp q0, q1, [x2, #%d]", 16*i)
		f.o("ldp q2, q3, [x2, #%d]", 16*i+32)
		for j := range 4 {
			f.o("fabs v%d.4s, v%d.4s", j, j)
			f.o("umax v%d.4s, v%d.4s, v%d.4s", 20+j%2, 20+j%2, j)
		}
	}
	f.o("umax v20.4s, v20.4s, v21.4s")
	f.o("umaxv s20, v20.4s")
	f.o("cmhs v23.4s, v20.4s, v30.4s")
	f.o("fdiv s21, s20, s31")
	f.o("fdiv s22, s31, s20")
	f.o("and v21.8b, v21.8b, v23.8b")
	f.o("and v22.8b, v22.8b, v23.8b")
	f.o("str s21, [x4], #4")
	for b := 0; b < size; b += 32 {
		for h := range 2 {
			for j := 0; j < 4; j += 2 {
				f.o("ldp q%d, q%d, [x2], #32", j, j+1)
			}
			for j := range 4 {
				f.o("fmul v%d.4s, v%d.4s, v22.s[0]", j, j)
			}
			for j := range 4 {
				f.o("fcvtns v%d.4s, v%d.4s", j, j)
			}
			f.o("sqxtn v4.4h, v0.4s")
			f.o("sqxtn2 v4.8h, v1.4s")
			f.o("sqxtn v5.4h, v2.4s")
			f.o("sqxtn2 v5.8h, v3.4s")
			f.o("sqxtn v%d.8b, v4.8h", 6+h)
			f.o("sqxtn2 v%d.16b, v5.8h", 6+h)
			f.o("saddlv h%d, v%d.16b", 16+h, 6+h)
		}
		f.o("stp q6, q7, [x3], #32")
		if size == 32 {
			f.o("saddl v16.4s, v16.4h, v17.4h")
			f.o("str s16, [x5], #4")
		} else {
			f.o("str h16, [x5], #2")
			f.o("str h17, [x5], #2")
		}
	}
	f.o("subs x8, x8, #1")
	f.o("b.ne L_block")
}
