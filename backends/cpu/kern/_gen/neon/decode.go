package main

// form is a block format. Its code reads the block at x2, may use v16 to v23
// and x7, x9 to x17, and finds in v24 to v31 what setup puts there.
type form struct {
	name   string
	size   int // bytes of a block
	super  bool
	min    bool
	group  int // superblocks: elements that share a scale
	scale  int // blocks of 32: where the f16 scale lies, −1 for e8m0
	least  int // blocks of 32: where the f16 minimum lies
	symbol string
	setup  func(f *function)
	// chunk leaves the 32 numbers of the block at x2+off in v16 and v17.
	chunk func(f *function, off int)
	// head leaves the int16 scales of a superblock in v4 and v5 (groups of 32:
	// v4), the minima in v6 and v7, d in v12.s[0] and dmin in v12.s[1].
	head func(f *function)
	// chunks calls emit with the registers of 32 numbers, for all eight c.
	chunks func(f *function, emit func(c, lo, hi int))
}

var forms = []*form{
	{name: "Q8_0", size: 34, scale: 0, setup: func(*function) {}, chunk: func(f *function, off int) {
		f.ldq(16, 2, off+2)
		f.ldq(17, 2, off+18)
	}},
	nibbles("Q4_0", 18, 2, 0, 8),
	nibbles("Q4_1", 20, 4, 2, 0),
	fifths("Q5_0", 22, 6, 0, 2, 16),
	fifths("Q5_1", 24, 8, 2, 4, 0),
	valued("IQ4_NL", 18, 2, 0, iq4Values),
	valued("MXFP4", 17, 1, -1, mxfp4Values),
	q2k, q3k, q4k(false), q4k(true), q6k, iq4xs, iq3s, tq1, tq2,
}

var iq4Values = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// mxfp4Values are twice the values of e2m1.
var mxfp4Values = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

func bytesOf(f func(i int) int) []byte {
	b := make([]byte, 16)
	for i := range b {
		b[i] = byte(f(i))
	}
	return b
}

// halvesOf is bytesOf for eight halfwords.
func halvesOf(f func(i int) int) []byte {
	return bytesOf(func(i int) int { return f(i/2) >> (i % 2 * 8) })
}

// wordsOf is bytesOf for four words.
func wordsOf(f func(i int) int) []byte {
	return bytesOf(func(i int) int { return f(i/4) >> (i % 4 * 8) })
}

// each byte of v becomes b.
func (f *function) splat(v, b int) { f.o("movi v%d.16b, #%d", v, b) }

// split leaves the low and high nibbles of the 16 bytes at off in v16 and v17.
func split(f *function, off int) {
	f.ldq(16, 2, off)
	f.o("ushr v17.16b, v16.16b, #4")
	f.o("and v16.16b, v16.16b, v31.16b")
}

func nibbles(name string, size, at, least, off int) *form {
	return &form{name: name, size: size, min: least > 0, least: least, setup: func(f *function) {
		f.splat(31, 15)
		if off > 0 {
			f.splat(30, off)
		}
	}, chunk: func(f *function, o int) {
		split(f, o+at)
		if off > 0 {
			f.o("sub v16.16b, v16.16b, v30.16b")
			f.o("sub v17.16b, v17.16b, v30.16b")
		}
	}}
}

// fifths are nibbles with 32 more bits at high.
func fifths(name string, size, at, least, high, off int) *form {
	return &form{name: name, size: size, min: least > 0, least: least, setup: func(f *function) {
		f.splat(31, 15)
		f.splat(30, 16)
		f.loadConst(29, bytesOf(func(i int) int { return 1 << (i % 8) })...)
		f.loadConst(28, bytesOf(func(i int) int { return i / 8 })...)
		f.loadConst(27, bytesOf(func(i int) int { return 2 + i/8 })...)
	}, chunk: func(f *function, o int) {
		f.o("add x17, x2, #%d", o+high)
		f.o("ldr s20, [x17]")
		split(f, o+at)
		f.o("tbl v21.16b, {v20.16b}, v28.16b")
		f.o("tbl v22.16b, {v20.16b}, v27.16b")
		for i := range 2 {
			f.o("cmtst v%d.16b, v%d.16b, v29.16b", 21+i, 21+i)
			f.o("and v%d.16b, v%d.16b, v30.16b", 21+i, 21+i)
			f.o("orr v%d.16b, v%d.16b, v%d.16b", 16+i, 16+i, 21+i)
			if off > 0 {
				f.o("sub v%d.16b, v%d.16b, v30.16b", 16+i, 16+i)
			}
		}
	}}
}

func valued(name string, size, at, scale int, values [16]int8) *form {
	return &form{name: name, size: size, scale: scale, setup: func(f *function) {
		f.splat(31, 15)
		f.loadConst(30, bytesOf(func(i int) int { return int(values[i]) })...)
	}, chunk: func(f *function, o int) {
		split(f, o+at)
		f.o("tbl v16.16b, {v30.16b}, v16.16b")
		f.o("tbl v17.16b, {v30.16b}, v17.16b")
	}}
}

// twoBits emits 64 bytes of 2-bit numbers at off; more changes a group of 32.
func twoBits(f *function, off int, emit func(c, lo, hi int), more func(c int)) {
	for h := range 2 {
		f.ldq(18, 2, off+32*h)
		f.ldq(19, 2, off+32*h+16)
		for s := range 4 {
			for i := range 2 {
				from := 18 + i
				if s > 0 {
					f.o("ushr v%d.16b, v%d.16b, #%d", 16+i, from, 2*s)
					from = 16 + i
				}
				if s < 3 {
					f.o("and v%d.16b, v%d.16b, v31.16b", 16+i, from)
				}
			}
			if more != nil {
				more(4*h + s)
			}
			emit(4*h+s, 16, 17)
		}
	}
}

// moveBit shifts bit from of all bytes of src to position to, in dst, and
// clears the others; mask holds that bit.
func moveBit(f *function, dst, src, from, to, mask int) {
	switch {
	case from < to:
		f.o("shl v%d.16b, v%d.16b, #%d", dst, src, to-from)
		src = dst
	case from > to:
		f.o("ushr v%d.16b, v%d.16b, #%d", dst, src, from-to)
		src = dst
	}
	f.o("and v%d.16b, v%d.16b, v%d.16b", dst, src, mask)
}

// half leaves the f16 at off of the block in v12.s[0].
func half(f *function, off int) {
	f.o("ldr h12, [x2, #%d]", off)
	f.o("fcvt s12, h12")
}

var q2k = &form{name: "Q2_K", size: 84, super: true, min: true, group: 16, setup: func(f *function) {
	f.splat(31, 3)
	f.splat(30, 15)
}, head: func(f *function) {
	f.o("ldr s12, [x2, #80]")
	f.o("fcvtl v12.4s, v12.4h")
	f.ldq(18, 2, 0)
	f.o("and v19.16b, v18.16b, v30.16b")
	f.o("ushr v18.16b, v18.16b, #4")
	f.o("uxtl v4.8h, v19.8b")
	f.o("uxtl2 v5.8h, v19.16b")
	f.o("uxtl v6.8h, v18.8b")
	f.o("uxtl2 v7.8h, v18.16b")
}, chunks: func(f *function, emit func(c, lo, hi int)) { twoBits(f, 16, emit, nil) }}

var q3k = &form{name: "Q3_K", size: 110, super: true, group: 16, setup: func(f *function) {
	f.splat(31, 3)
	f.splat(30, 15)
	f.splat(29, 4)
	f.splat(28, 32)
	f.loadConst(27, wordsOf(func(i int) int { return -2 * i })...)
}, head: func(f *function) {
	half(f, 108)
	f.o("ldr d18, [x2, #96]")
	f.o("and v19.8b, v18.8b, v30.8b")
	f.o("ushr v18.8b, v18.8b, #4")
	f.o("mov v19.d[1], v18.d[0]")
	f.o("ldr s20, [x2, #104]")
	f.o("dup v20.4s, v20.s[0]")
	f.o("ushl v20.4s, v20.4s, v27.4s")
	f.o("and v20.16b, v20.16b, v31.16b")
	f.o("shl v20.16b, v20.16b, #4")
	f.o("orr v19.16b, v19.16b, v20.16b")
	f.o("sub v19.16b, v19.16b, v28.16b")
	f.o("sxtl v4.8h, v19.8b")
	f.o("sxtl2 v5.8h, v19.16b")
}, chunks: func(f *function, emit func(c, lo, hi int)) {
	f.ldq(20, 2, 0)
	f.ldq(21, 2, 16)
	twoBits(f, 32, emit, func(c int) {
		for i := range 2 {
			moveBit(f, 22, 20+i, c, 2, 29)
			f.o("orr v%d.16b, v%d.16b, v22.16b", 16+i, 16+i)
			f.o("sub v%d.16b, v%d.16b, v29.16b", 16+i, 16+i)
		}
	})
}}

// q4k is Q4_K, or Q5_K with its fifth bits.
func q4k(five bool) *form {
	t := &form{name: "Q4_K", size: 144, super: true, min: true, group: 32}
	quants := 16
	if five {
		t.name, t.size, quants = "Q5_K", 176, 48
	}
	t.setup = func(f *function) {
		f.splat(31, 15)
		f.splat(30, 16)
	}
	t.head = func(f *function) {
		f.o("ldr s12, [x2]")
		f.o("fcvtl v12.4s, v12.4h")
		f.o("ldp w9, w10, [x2, #4]")
		f.o("ldr w11, [x2, #12]")
		f.o("and w12, w9, #0x3f3f3f3f")
		f.o("and w13, w10, #0x3f3f3f3f")
		f.o("and w14, w11, #0x0f0f0f0f")
		f.o("lsr w9, w9, #2")
		f.o("and w9, w9, #0x30303030")
		f.o("orr w14, w14, w9")
		f.o("lsr w11, w11, #4")
		f.o("and w11, w11, #0x0f0f0f0f")
		f.o("lsr w10, w10, #2")
		f.o("and w10, w10, #0x30303030")
		f.o("orr w11, w11, w10")
		f.o("orr x12, x12, x14, lsl #32")
		f.o("orr x13, x13, x11, lsl #32")
		f.o("fmov d4, x12")
		f.o("fmov d6, x13")
		f.o("uxtl v4.8h, v4.8b")
		f.o("uxtl v6.8h, v6.8b")
	}
	t.chunks = func(f *function, emit func(c, lo, hi int)) {
		if five {
			f.ldq(20, 2, 16)
			f.ldq(21, 2, 32)
		}
		for c := range 4 {
			f.ldq(18, 2, quants+32*c)
			f.ldq(19, 2, quants+32*c+16)
			for h := range 2 {
				for i := range 2 {
					if h == 0 {
						f.o("and v%d.16b, v%d.16b, v31.16b", 16+i, 18+i)
					} else {
						f.o("ushr v%d.16b, v%d.16b, #4", 16+i, 18+i)
					}
					if five {
						moveBit(f, 22, 20+i, 2*c+h, 4, 30)
						f.o("orr v%d.16b, v%d.16b, v22.16b", 16+i, 16+i)
					}
				}
				emit(2*c+h, 16, 17)
			}
		}
	}
	return t
}

var q6k = &form{name: "Q6_K", size: 210, super: true, group: 16, setup: func(f *function) {
	f.splat(31, 15)
	f.splat(30, 0x30)
	f.splat(29, 32)
}, head: func(f *function) {
	half(f, 208)
	f.ldq(18, 2, 192)
	f.o("sxtl v4.8h, v18.8b")
	f.o("sxtl2 v5.8h, v18.16b")
}, chunks: func(f *function, emit func(c, lo, hi int)) {
	for h := range 2 {
		f.ldq(20, 2, 128+32*h)
		f.ldq(21, 2, 144+32*h)
		for p := range 2 {
			f.ldq(18, 2, 64*h+32*p)
			f.ldq(19, 2, 64*h+32*p+16)
			for high := range 2 {
				for i := range 2 {
					if high == 0 {
						f.o("and v%d.16b, v%d.16b, v31.16b", 16+i, 18+i)
					} else {
						f.o("ushr v%d.16b, v%d.16b, #4", 16+i, 18+i)
					}
					moveBit(f, 22, 20+i, 4*high+2*p, 4, 30)
					f.o("orr v%d.16b, v%d.16b, v22.16b", 16+i, 16+i)
					f.o("sub v%d.16b, v%d.16b, v29.16b", 16+i, 16+i)
				}
				emit(4*h+2*high+p, 16, 17)
			}
		}
	}
}}

// eightNibbles leaves the eight nibbles of the word in v18 in v18.8b.
func eightNibbles(f *function) {
	f.o("and v19.8b, v18.8b, v31.8b")
	f.o("ushr v18.8b, v18.8b, #4")
	f.o("zip1 v18.8b, v19.8b, v18.8b")
}

var iq4xs = &form{name: "IQ4_XS", size: 136, super: true, group: 32, setup: func(f *function) {
	f.splat(31, 15)
	f.loadConst(30, bytesOf(func(i int) int { return int(iq4Values[i]) })...)
	f.loadConst(28, halvesOf(func(i int) int { return -2 * i })...)
	f.o("movi v27.8h, #3")
	f.o("movi v26.8h, #32")
}, head: func(f *function) {
	half(f, 0)
	f.o("ldr s18, [x2, #4]")
	eightNibbles(f)
	f.o("uxtl v4.8h, v18.8b")
	f.o("ldrh w9, [x2, #2]")
	f.o("dup v19.8h, w9")
	f.o("ushl v19.8h, v19.8h, v28.8h")
	f.o("and v19.16b, v19.16b, v27.16b")
	f.o("shl v19.8h, v19.8h, #4")
	f.o("orr v4.16b, v4.16b, v19.16b")
	f.o("sub v4.8h, v4.8h, v26.8h")
}, chunks: func(f *function, emit func(c, lo, hi int)) {
	for c := range 8 {
		split(f, 8+16*c)
		f.o("tbl v16.16b, {v30.16b}, v16.16b")
		f.o("tbl v17.16b, {v30.16b}, v17.16b")
		emit(c, 16, 17)
	}
}}

var iq3s = &form{name: "IQ3_S", size: 110, super: true, group: 32, symbol: "iq3Bytes", setup: func(f *function) {
	f.splat(31, 15)
	f.loadConst(29, bytesOf(func(i int) int { return 1 << (i % 8) })...)
	f.loadConst(28, bytesOf(func(i int) int { return i / 8 })...)
	f.loadConst(27, bytesOf(func(i int) int { return 2 + i/8 })...)
	f.o("movi v26.8h, #1")
}, head: func(f *function) {
	half(f, 0)
	f.o("ldur s18, [x2, #106]")
	eightNibbles(f)
	f.o("uxtl v4.8h, v18.8b")
	f.o("shl v4.8h, v4.8h, #1")
	f.o("add v4.8h, v4.8h, v26.8h")
}, chunks: func(f *function, emit func(c, lo, hi int)) {
	for c := range 8 {
		f.o("ldur x9, [x2, #%d]", 2+8*c)
		f.o("ldrb w10, [x2, #%d]", 66+c)
		for l := range 8 {
			f.o("ubfx x11, x9, #%d, #8", 8*l)
			f.o("ubfx w12, w10, #%d, #1", l)
			f.o("orr x11, x11, x12, lsl #8")
			f.o("add x11, x26, x11, lsl #2")
			f.o("ld1 {v%d.s}[%d], [x11]", 16+l/4, l%4)
		}
		f.o("ldur s20, [x2, #%d]", 74+4*c)
		f.o("tbl v21.16b, {v20.16b}, v28.16b")
		f.o("tbl v22.16b, {v20.16b}, v27.16b")
		for i := range 2 {
			f.o("cmtst v%d.16b, v%d.16b, v29.16b", 21+i, 21+i)
			f.o("eor v%d.16b, v%d.16b, v%d.16b", 16+i, 16+i, 21+i)
			f.o("sub v%d.16b, v%d.16b, v%d.16b", 16+i, 16+i, 21+i)
		}
		emit(c, 16, 17)
	}
}}

var tq1 = &form{name: "TQ1_0", size: 54, super: true, group: 256, setup: func(f *function) {
	f.splat(31, 1)
	f.splat(30, 3)
	f.loadConst(29, bytesOf(func(i int) int { return []int{1, 3, 9, 27}[i/4] })...)
}, head: func(f *function) { half(f, 52) }, chunks: func(f *function, emit func(c, lo, hi int)) {
	// Three times a byte is the next digit in the high half, what is left of
	// the fraction in the low one.
	digit := func(v, rest int) {
		f.o("umull v22.8h, v%d.8b, v30.8b", rest)
		f.o("umull2 v23.8h, v%d.16b, v30.16b", rest)
		f.o("uzp2 v%d.16b, v22.16b, v23.16b", v)
		f.o("uzp1 v%d.16b, v22.16b, v23.16b", rest)
		f.o("sub v%d.16b, v%d.16b, v31.16b", v, v)
	}
	f.ldq(18, 2, 0)
	f.ldq(19, 2, 16)
	f.ldq(20, 2, 32)
	for c := range 5 {
		digit(16, 18)
		digit(17, 19)
		emit(c, 16, 17)
	}
	for c := 5; c < 7; c++ {
		digit(16, 20)
		digit(17, 20)
		emit(c, 16, 17)
	}
	digit(16, 20)
	f.o("ldr s21, [x2, #48]")
	f.o("dup v21.4s, v21.s[0]")
	f.o("mul v21.16b, v21.16b, v29.16b")
	digit(17, 21)
	emit(7, 16, 17)
}}

var tq2 = &form{name: "TQ2_0", size: 66, super: true, group: 256, setup: func(f *function) {
	f.splat(31, 3)
	f.splat(30, 1)
}, head: func(f *function) { half(f, 64) }, chunks: func(f *function, emit func(c, lo, hi int)) {
	twoBits(f, 0, emit, func(int) {
		f.o("sub v16.16b, v16.16b, v30.16b")
		f.o("sub v17.16b, v17.16b, v30.16b")
	})
}}

// Offsets in rowArgs.
const rwSrc, rwQ, rwScales, rwMins, rwD, rwBlocks, rwExact = 0, 8, 16, 24, 32, 40, 48

// genDecode generates the decoding of rows.
func genDecode(g *group) {
	for _, t := range forms {
		f := g.function("decode"+t.name+"NEON", "rowArgs", "decodes blocks of "+t.name+" as decodeRowGeneric does.")
		f.symbol = t.symbol
		f.get(2, rwSrc)
		f.get(3, rwQ)
		f.get(4, rwScales)
		f.get(5, rwMins)
		f.get(6, rwD)
		f.get(8, rwBlocks)
		if t.scale < 0 {
			// The least exponent that counts: 2, or 0 for exact scales.
			f.get(16, rwExact)
			f.o("cmp x16, #0")
			f.o("mov w15, #2")
			f.o("csel w15, w15, wzr, eq")
		}
		t.setup(f)
		f.label("L_block")
		if t.super {
			t.head(f)
			switch t.group {
			case 16:
				f.o("stp q4, q5, [x4], #32")
			case 32:
				f.o("zip1 v18.8h, v4.8h, v4.8h")
				f.o("zip2 v19.8h, v4.8h, v4.8h")
				f.o("stp q18, q19, [x4], #32")
			case 256:
				f.o("movi v18.8h, #1")
				f.o("stp q18, q18, [x4], #32")
			}
			switch {
			case t.min && t.group == 16:
				f.o("stp q6, q7, [x5], #32")
			case t.min:
				f.o("zip1 v18.8h, v6.8h, v6.8h")
				f.o("zip2 v19.8h, v6.8h, v6.8h")
				f.o("stp q18, q19, [x5], #32")
			default:
				f.o("mov v12.s[1], wzr")
			}
			f.o("str d12, [x6], #8")
			t.chunks(f, func(c, lo, hi int) { f.o("stp q%d, q%d, [x3, #%d]", lo, hi, 32*c) })
			f.o("add x3, x3, #256")
		} else {
			if t.scale < 0 {
				f.o("ldrb w9, [x2]")
				f.exponent(10, 9)
				f.o("str w10, [x4], #4")
			} else {
				f.o("ldr h18, [x2, #%d]", t.scale)
				f.o("fcvt s18, h18")
				f.o("str s18, [x4], #4")
			}
			if t.min {
				f.o("ldr h18, [x2, #%d]", t.least)
				f.o("fcvt s18, h18")
				f.o("str s18, [x5], #4")
			}
			t.chunk(f, 0)
			f.o("stp q16, q17, [x3], #32")
		}
		f.o("add x2, x2, #%d", t.size)
		f.o("subs x8, x8, #1")
		f.o("b.ne L_block")
	}
}

// exponent makes 2^(e−128) of the byte e in w register from; e below 2 gives a
// subnormal number, or 0 if e is below w15.
func (f *function) exponent(to, from int) {
	f.o("sub w%d, w%d, #1", to, from)
	f.o("lsl w%d, w%d, #23", to, to)
	f.o("mov w11, #0x200000")
	f.o("lsl w11, w11, w%d", from)
	f.o("cmp w%d, #2", from)
	f.o("csel w%d, w11, w%d, lo", to, to)
	f.o("cmp w%d, w15", from)
	f.o("csel w%d, wzr, w%d, lo", to, to)
}
