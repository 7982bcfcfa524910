package main

import (
	"bytes"
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets in quadArgs and quadStoreArgs.
const (
	qdW, qdX, qdLdx, qdBlocks, qdTotals, qdSums, qdAhead, qdAdvance = 0, 8, 16, 24, 32, 40, 48, 56

	qsTotals, qsY, qsLdy, qsTokens, qsMask = 0, 8, 16, 24, 32
)

// quadMost is the most tokens that a kernel for quads takes.
const quadMost = 4

// A quadLayout says where the parts of four blocks of 32, or of a superblock,
// lie, in bytes: of 16 decoded rows, and of an arranged token.
type quadLayout struct {
	group int // elements that share a scale: 32 or 16 in superblocks, 0 in blocks of 32
	min   bool

	// Rows: sc, mn, d and dmin (or m); w bytes in all.
	sc, mn, d, dmin, w int
	// Tokens: corrections or sums, and scales; x bytes in all.
	side, dx, x int
	// Bytes of the totals of a token.
	total int
}

func (l *quadLayout) name() string {
	s := "32"
	if l.group > 0 {
		s = fmt.Sprintf("256x%d", l.group)
	}
	if l.min {
		s += "Min"
	}
	return s
}

// parts is the number of integer sums that are scaled alone, for each of four
// lanes.
func (l *quadLayout) parts() int {
	if l.group == 0 {
		return 1
	}
	return 64 / l.group
}

// steps is the number of four elements in a part.
func (l *quadLayout) steps() int {
	if l.group == 16 {
		return 4
	}
	return 8
}

func quadLayouts() (all []*quadLayout) {
	for _, group := range []int{0, 32, 16} {
		for _, min := range []bool{false, true} {
			l := &quadLayout{group: group, min: min}
			if group == 0 {
				l.d, l.dmin, l.w = 2048, 2304, 2304
				if min {
					l.w += 256
				}
				l.side, l.dx, l.x = 128, 144, 160
				l.total = 256
			} else {
				l.sc = 4096
				l.mn = l.sc + 256*l.parts()
				l.side, l.dx = 256, 256+16*l.parts()
				l.d = l.mn
				if min {
					l.d += 8192 / group
					l.dx = 256 + 512/group
				}
				l.dmin = l.d + 64
				l.w = l.dmin + 64
				l.x = l.dx + 16
				l.total = 64
			}
			all = append(all, l)
		}
	}
	return all
}

func genQuad() {
	quadDecoders = nil
	for _, l := range quadLayouts() {
		for n := 1; n <= quadMost; n++ {
			quadProduct(l, n)
		}
		quadToken(l)
	}
	quadStore(true)
	quadStore(false)
	for _, d := range blockDecoders(byStep) {
		quadDecode32(d)
	}
	quadDecodeQ4K(false)
	quadDecodeQ4K(true)
	quadDecode16(superQ6K())
	quadDecode16(superQ2K())
	quadDecode16(superQ3K())
	quadDecodeTernary(superTQ2())
	quadDecodeIQ4XS()
}

// A quadKernel is the state while a product is generated.
type quadKernel struct {
	*quadLayout
	n            int // tokens
	w            reg.GPVirtual
	x            tokens
	totals, sums reg.GPVirtual
	ahead        reg.GPVirtual // what to prefetch, advance bytes with each step
	advance      reg.GPVirtual
	acc          [4][]reg.VecVirtual // [rows/4][tokens] of int32
}

// quadProduct generates the product of 16 decoded rows with n tokens.
func quadProduct(l *quadLayout, n int) {
	k := &quadKernel{quadLayout: l, n: n}
	name := fmt.Sprintf("quad%sT%dAVX512", l.name(), n)
	_, get := begin(name, "quadArgs", fmt.Sprintf("adds the products of 16 decoded rows with %d arranged tokens to totals.", n))
	k.w, k.x, k.totals, k.sums = get(qdW), tokensAt(get(qdX), get(qdLdx), n), get(qdTotals), get(qdSums)
	k.ahead, k.advance = get(qdAhead), get(qdAdvance)
	blocks := get(qdBlocks)
	none = c.ZMM()
	zero(none)
	for v := range k.acc {
		k.acc[v] = vectors(n)
	}
	c.Label("block")
	if l.group == 0 {
		k.block32()
	} else {
		k.block256()
	}
	c.ADDQ(operand.I32(l.w), k.w)
	k.x.advance(l.x)
	c.DECQ(blocks)
	c.JNZ(operand.LabelRef("block"))
	end()
}

// prefetchStep asks for what lies ahead and moves on by advance bytes, up to
// 64·lines.
func prefetchStep(ahead, advance reg.GPVirtual, lines int) {
	for i := range lines {
		c.PREFETCHT1(at(ahead, 64*i))
	}
	c.ADDQ(advance, ahead)
}

// dots adds the products of a part's steps to the integer sums, which start at
// the corrections that lie with every token, or at 0.
func (k *quadKernel) dots(part int) {
	for t := range k.n {
		start := none
		if !k.min {
			start = c.ZMM()
			c.VBROADCASTI32X4(k.x.at(t, k.side+16*part), start)
		}
		for v := range k.acc {
			c.VMOVDQA32(start, k.acc[v][t])
		}
	}
	for g := k.steps() * part; g < k.steps()*(part+1); g++ {
		prefetchStep(k.ahead, k.advance, 2)
		x := vectors(k.n)
		for t := range x {
			c.VBROADCASTI32X4(k.x.at(t, 16*g), x[t])
		}
		for v := range k.acc {
			w := c.ZMM()
			c.VMOVDQU32(at(k.w, 256*g+64*v), w)
			for t := range x {
				c.VPDPBUSD(x[t], w, k.acc[v][t])
			}
		}
	}
}

// block32 adds four blocks of 32 to the partial sums.
func (k *quadKernel) block32() {
	k.dots(0)
	for t := range k.n {
		dx, side := c.ZMM(), c.ZMM()
		c.VBROADCASTF32X4(k.x.at(t, k.dx), dx)
		if k.min {
			c.VBROADCASTF32X4(k.x.at(t, k.side), side)
		}
		for v := range k.acc {
			s, total := k.acc[v][t], at(k.totals, k.total*t+64*v)
			c.VCVTDQ2PS(s, s)
			c.VMULPS(at(k.w, k.d+64*v), s, s)
			if k.min {
				f := c.ZMM()
				c.VMULPS(at(k.w, k.dmin+64*v), side, f)
				c.VADDPS(f, s, s)
			}
			c.VMULPS(dx, s, s)
			c.VADDPS(total, s, s)
			c.VMOVUPS(s, total)
		}
	}
}

// block256 adds a superblock to the results.
func (k *quadKernel) block256() {
	for part := range k.parts() {
		k.dots(part)
		for v := range k.acc {
			sc := c.ZMM()
			c.VMOVDQU32(at(k.w, k.sc+256*part+64*v), sc)
			for t, s := range k.acc[v] {
				sum := at(k.sums, 64*(k.n*v+t))
				c.VPMULLD(sc, s, s)
				if part > 0 {
					c.VPADDD(sum, s, s)
				}
				if part < k.parts()-1 {
					c.VMOVDQU32(s, sum)
				}
			}
		}
	}
	for t := range k.n {
		s := addRows(k.acc[0][t], k.acc[1][t], k.acc[2][t], k.acc[3][t])
		c.VCVTDQ2PS(s, s)
		c.VMULPS(at(k.w, k.d), s, s)
		if k.min {
			m := k.addMins(t)
			c.VCVTDQ2PS(m, m)
			c.VMULPS(at(k.w, k.dmin), m, m)
			c.VSUBPS(m, s, s)
		}
		total := at(k.totals, k.total*t)
		c.VMULPS_BCST(k.x.at(t, k.dx), s, s)
		c.VADDPS(total, s, s)
		c.VMOVUPS(s, total)
	}
}

// addMins returns Σ mn·Σx of a token.
func (k *quadKernel) addMins(t int) reg.VecVirtual {
	m := vectors(4)
	for i := range 32 / k.group {
		x := c.ZMM()
		c.VBROADCASTI32X4(k.x.at(t, k.side+16*i), x)
		for v := range m {
			mn := at(k.w, k.mn+256*i+64*v)
			if i == 0 {
				c.VPMADDWD(mn, x, m[v])
			} else {
				c.VPDPWSSD(mn, x, m[v])
			}
		}
	}
	return addRows(m[0], m[1], m[2], m[3])
}

// addRows adds up the four numbers of every row: number v of lane i is the sum
// of lane i of register v.
func addRows(v0, v1, v2, v3 reg.VecVirtual) reg.VecVirtual {
	addDwords(v0, v1, v0)
	addDwords(v2, v3, v2)
	addQwords(v0, v2, v0)
	return v0
}

// quadStore generates the end of a product.
func quadStore(parts bool) {
	name, doc := "quadStore256AVX512", "writes the results of 16 rows."
	if parts {
		name, doc = "quadStore32AVX512", "adds up the partial sums of 16 rows and writes the results."
	}
	a, get := begin(name, "quadStoreArgs", doc)
	totals, y, ldy, left := get(qsTotals), get(qsY), get(qsLdy), get(qsTokens)
	mask := c.K()
	c.KMOVW(at(a, qsMask), mask)
	order := loadTable("quadrows", dwordsOf(16, func(i int) uint32 { return uint32(i%4*4 + i/4) }))
	c.Label("token")
	v, p, size := vectors(4), vectors(4), 64
	if parts {
		size = 256
		for r := range v {
			c.VMOVUPS(at(totals, 64*r), v[r])
		}
		for i := range 2 {
			a, b := c.ZMM(), c.ZMM()
			if i == 0 {
				c.VUNPCKLPS(v[1], v[0], a)
				c.VUNPCKLPS(v[3], v[2], b)
			} else {
				c.VUNPCKHPS(v[1], v[0], a)
				c.VUNPCKHPS(v[3], v[2], b)
			}
			c.VUNPCKLPD(b, a, p[2*i])
			c.VUNPCKHPD(b, a, p[2*i+1])
		}
		for i := 1; i < 4; i++ {
			c.VADDPS(p[i], p[0], p[0])
		}
		c.VPERMPS(p[0], order, p[0])
	} else {
		c.VPERMPS(at(totals, 0), order, p[0])
	}
	c.VMOVUPS(p[0], mask, at(y, 0))
	c.ADDQ(operand.I32(size), totals)
	c.ADDQ(ldy, y)
	c.DECQ(left)
	c.JNZ(operand.LabelRef("token"))
	end()
}

// Offsets in quadTokenArgs.
const qtX, qtScales, qtSums, qtDst, qtBlocks, qtMask, qtOff, qtLacks = 0, 8, 16, 24, 32, 40, 48, 56

// turned returns the index that brings dwords of four groups of steps dwords
// each into the order [steps][4 groups], 16 of them from number first on.
func turned(steps, first int) reg.VecVirtual {
	return loadTable(fmt.Sprintf("turn%d_%d", steps, first), dwordsOf(16, func(i int) uint32 {
		return uint32(i%4*steps + i/4 + first)
	}))
}

// quadToken generates the arrangement of one token.
func quadToken(l *quadLayout) {
	name := "quadToken" + l.name() + "AVX512"
	a, get := begin(name, "quadTokenArgs", "arranges one token for the kernels of decoded rows.")
	x, scales, sums, dst, blocks := get(qtX), get(qtScales), get(qtSums), get(qtDst), get(qtBlocks)
	off := c.ZMM()
	c.VPBROADCASTD(at(a, qtOff), off)
	half := [2]reg.VecVirtual{turned(8, 0), turned(8, 4)}
	pair := func(p, q reg.VecVirtual, disp int) {
		for i, r := range turnPair([2]reg.VecVirtual{p, q}, half) {
			c.VMOVDQU32(r, at(dst, disp+64*i))
		}
	}
	if l.group == 0 {
		// The mask tells which dwords of the first 128 bytes exist, and from bit
		// 32 on which scales.
		lo, hi, d, all, lacks := c.K(), c.K(), c.K(), c.GP64(), get(qtLacks)
		c.SHLQ(operand.U8(2), lacks)
		c.SUBQ(lacks, scales)
		c.SUBQ(lacks, sums)
		c.SHLQ(operand.U8(3), lacks)
		c.SUBQ(lacks, x)
		c.MOVQ(at(a, qtMask), all)
		c.KMOVW(all.As32(), lo)
		c.SHRQ(operand.U8(16), all)
		c.KMOVW(all.As32(), hi)
		c.SHRQ(operand.U8(16), all)
		c.KMOVW(all.As32(), d)
		c.Label("block")
		p, q := c.ZMM(), c.ZMM()
		c.VMOVDQU32_Z(at(x, 0), lo, p)
		c.VMOVDQU32_Z(at(x, 64), hi, q)
		pair(p, q, 0)
		s, f := c.XMM(), c.XMM()
		c.VMOVDQU32_Z(at(sums, 0), d, s)
		if l.min {
			c.VCVTDQ2PS(s, s)
		} else {
			c.VPMULLD(off.AsX(), s, s)
		}
		c.VMOVDQU32(s, at(dst, l.side))
		c.VMOVUPS_Z(at(scales, 0), d, f)
		c.VMOVUPS(f, at(dst, l.dx))
		for _, k := range []reg.Register{lo, hi, d} {
			c.KXNORW(k, k, k)
		}
		c.ADDQ(operand.I32(128), x)
		c.ADDQ(operand.I8(16), scales)
		c.ADDQ(operand.I8(16), sums)
	} else {
		c.Label("block")
		if l.group == 32 {
			for h := range 2 {
				p, q := c.ZMM(), c.ZMM()
				c.VMOVDQU32(at(x, 128*h), p)
				c.VMOVDQU32(at(x, 128*h+64), q)
				pair(p, q, 128*h)
			}
		} else {
			quarter := turned(4, 0)
			for i := range 4 {
				p := c.ZMM()
				c.VPERMD(at(x, 64*i), quarter, p)
				c.VMOVDQU32(p, at(dst, 64*i))
			}
		}
		s := c.ZMM()
		switch {
		case l.group == 16 && l.min:
			c.VMOVDQU32(at(sums, 0), s.AsY())
			c.VMOVDQU32(s.AsY(), at(dst, l.side))
		case l.group == 16:
			c.VPMOVSXWD(at(sums, 0), s)
			c.VPMULLD(off, s, s)
			c.VMOVDQU32(s, at(dst, l.side))
		default:
			y, w := c.YMM(), c.XMM()
			c.VMOVDQU32(at(sums, 0), y)
			c.VPMADDWD(off.AsY(), y, y)
			if l.min {
				c.VPMOVDW(y, w)
				c.VMOVDQU32(w, at(dst, l.side))
			} else {
				c.VMOVDQU32(y, at(dst, l.side))
			}
		}
		r := c.GP32()
		c.MOVL(at(scales, 0), r)
		c.MOVL(r, at(dst, l.dx))
		c.ADDQ(operand.I32(256), x)
		c.ADDQ(operand.I8(4), scales)
		c.ADDQ(operand.I8(32), sums)
	}
	c.ADDQ(operand.I32(l.x), dst)
	c.DECQ(blocks)
	c.JNZ(operand.LabelRef("block"))
	end()
}

// quadDispatch returns the source of the functions that call the kernels.
func quadDispatch() []byte {
	var b bytes.Buffer
	b.WriteString("// Code generated by _gen. DO NOT EDIT.\n\n//go:build amd64 && gc && !noasm\n\npackage kern\n\nimport \"graphrun/graph\"\n\n")
	layouts := quadLayouts()
	b.WriteString("// quadLayouts are the sizes of decoded rows and arranged tokens, by kind.\nvar quadLayouts = [...]quadLayout{\n")
	for _, l := range layouts {
		single := l.w
		if l.group > 0 {
			single = l.d
		}
		fmt.Fprintf(&b, "{w: %d, single: %d, x: %d, total: %d},\n", l.w, single, l.x, l.total)
	}
	b.WriteString("}\n\n// quadMul calls the kernel for rows of a kind and n tokens. It is a preemption\n// point, hence not inlined.\n//\n//go:noinline\nfunc quadMul(kind, n int, a *quadArgs) {\nswitch kind*8+n {\n")
	for i, l := range layouts {
		for n := 1; n <= quadMost; n++ {
			fmt.Fprintf(&b, "case %d*8+%d:\nquad%sT%dAVX512(a)\n", i, n, l.name(), n)
		}
	}
	b.WriteString("default:\npanic(\"kern: no kernel for quads\")\n}\n}\n\n// quadToken arranges a token for rows of a kind.\nfunc quadToken(kind int, a *quadTokenArgs) {\nswitch kind {\n")
	for i, l := range layouts {
		fmt.Fprintf(&b, "case %d:\nquadToken%sAVX512(a)\n", i, l.name())
	}
	b.WriteString("}\n}\n\n// quadDecode decodes rows. It is a preemption point, hence not inlined.\n//\n//go:noinline\nfunc quadDecode(t graph.DType, a *quadDecodeArgs) {\nswitch t {\n")
	for _, name := range quadDecoders {
		fmt.Fprintf(&b, "case graph.%s:\nquadDecode%sAVX512(a)\n", name, name)
	}
	b.WriteString("default:\npanic(\"kern: no decoder to quads\")\n}\n}\n")
	return b.Bytes()
}
