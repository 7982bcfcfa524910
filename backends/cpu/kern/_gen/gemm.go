package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets in gemmArgs.
const (
	gmPanel, gmX, gmLdx, gmScales, gmSide, gmLdSide, gmSums, gmLdSums, gmY, gmLdy, gmBlocks, gmMask, gmTotals, gmInit = 0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104
)

// maxTile is the most tokens a panel kernel for quantized types takes.
const maxTile = 6

func genGEMM() {
	for t := 1; t <= maxTile; t++ {
		gemm32(t, false)
		gemm32(t, true)
	}
	for t := 1; t <= maxTile; t++ {
		for _, group := range []int{32, 16} {
			gemm256(t, group, false)
			gemm256(t, group, true)
		}
	}
	for _, t := range []int{1, 2, 3, 4, 6, 8, 12} {
		for _, f := range []string{"F32", "F16", "BF16"} {
			gemmFloat(f, t)
		}
	}
}

// tile is the state shared by the panel kernels: 2 vectors of 16 rows by n
// tokens.
type tile struct {
	a     reg.GPVirtual
	n     int
	x     tokens
	panel reg.GPVirtual
	sum   [][2]reg.VecVirtual // f32, or int32 within superblocks
	acc   [][2]reg.VecVirtual // int32
}

func newTile(name string, n int, doc ...string) *tile {
	c.Function(name)
	c.Attributes(noSplit)
	c.Pragma("noescape")
	c.Doc(append([]string{fmt.Sprintf("%s multiplies a panel of 32 rows with %d tokens:", name, n), ""}, doc...)...)
	signature("gemmArgs")
	k := &tile{n: n}
	k.a = c.Load(c.Param("a"), c.GP64()).(reg.GPVirtual)
	k.x = tokensAt(k.get(gmX), k.get(gmLdx), n)
	k.panel = k.get(gmPanel)
	k.sum, k.acc = make([][2]reg.VecVirtual, n), make([][2]reg.VecVirtual, n)
	for t := range n {
		for r := range 2 {
			k.sum[t][r], k.acc[t][r] = c.ZMM(), c.ZMM()
		}
	}
	return k
}

func (k *tile) get(off int) reg.GPVirtual { r := c.GP64(); c.MOVQ(at(k.a, off), r); return r }

func zero(z reg.VecVirtual) { c.VPXORD(z, z, z) }

// dots adds steps [from,to) of four elements to the integer accumulators. The
// weights lie at disp in the panel.
func (k *tile) dots(from, to, disp int) {
	for s := from; s < to; s++ {
		var w [2]reg.VecVirtual
		for r := range 2 {
			w[r] = c.ZMM()
			c.VMOVDQU32(at(k.panel, disp+128*s+64*r), w[r])
		}
		for t := range k.n {
			b := c.ZMM()
			c.VPBROADCASTD(k.x.at(t, 4*s), b)
			c.VPDPBUSD(b, w[0], k.acc[t][0])
			c.VPDPBUSD(b, w[1], k.acc[t][1])
		}
	}
}

// store writes f32 sums under the row masks.
func (k *tile) store(v [][2]reg.VecVirtual) {
	k0, k1 := c.K(), c.K()
	c.KMOVD(at(k.a, gmMask), k0)
	c.KSHIFTRD(operand.U8(16), k0, k1)
	y := tokensAt(k.get(gmY), k.get(gmLdy), k.n)
	for t := range k.n {
		c.VMOVUPS(v[t][0], k0, y.at(t, 0))
		c.VMOVUPS(v[t][1], k1, y.at(t, 64))
	}
	c.VZEROUPPER()
	c.RET()
}

// gemm32 is the kernel for formats with blocks of 32.
//
// A panel block is 8 steps of [2][16 rows][4 bytes], 2x16 f32 scales and, for
// formats with minima, 2x16 f32 minima.
func gemm32(n int, min bool) {
	name, formula := "gemm32", "\ty[t][r] = Σ_b dx[t][b]·(d[b][r]·(side[t][b] + Σ w·x))"
	if min {
		name, formula = "gemm32Min", "\ty[t][r] = Σ_b dx[t][b]·(d[b][r]·Σ w·x + m[b][r]·side[t][b])"
	}
	k := newTile(fmt.Sprintf("%sT%dAVX512", name, n), n, formula, "", "in four partial sums, one after the other")
	size := 1152
	if min {
		size = 1280
	}
	totals, part := k.get(gmTotals), c.GP64()
	k.zeroTotals(totals)
	// The next tile's activations are brought near meanwhile.
	ahead := k.get(gmX)
	for range n {
		c.ADDQ(k.x.stride, ahead)
	}
	c.XORQ(part, part)
	c.Label("part")
	// Block b has place (b+lacks)/4 in part (b+lacks) mod 4 of the panel; the
	// parts before number lacks have no first block.
	first, left, last := c.GP64(), k.get(gmBlocks), c.GP64()
	c.MOVQ(left, first)
	c.ADDQ(operand.U8(3), left)
	c.SHRQ(operand.U8(2), left)
	k.panel = c.GP64()
	c.MOVQ(left, k.panel)
	c.IMULQ(part, k.panel)
	c.MOVQ(part, last)
	c.ADDQ(first, last)
	c.ANDQ(operand.U8(3), last) // (part − lacks) mod 4
	c.CMPQ(last, part)
	c.MOVQ(last, first)
	c.JLE(operand.LabelRef("whole"))
	c.INCQ(k.panel)
	c.DECQ(left)
	c.JZ(operand.LabelRef("next"))
	c.Label("whole")
	c.IMUL3Q(operand.I32(size), k.panel, k.panel)
	c.ADDQ(at(k.a, gmPanel), k.panel)
	from := func(off, size int) reg.GPVirtual {
		r := c.GP64()
		c.IMUL3Q(operand.I32(size), first, r)
		c.ADDQ(at(k.a, off), r)
		return r
	}
	k.x = tokensAt(from(gmX, 32), k.x.stride, n)
	scales := tokensAt(from(gmScales, 4), k.x.stride, n)
	side := tokensAt(from(gmSide, 4), k.get(gmLdSide), n)
	for t := range n {
		zero(k.sum[t][0])
		zero(k.sum[t][1])
	}
	c.Label("block")
	for t := range n {
		if min {
			zero(k.acc[t][0])
			zero(k.acc[t][1])
		} else {
			c.VPBROADCASTD(side.at(t, 0), k.acc[t][0])
			c.VMOVDQA32(k.acc[t][0], k.acc[t][1])
		}
	}
	for line := 0; line < 40*n; line += 64 {
		c.PREFETCHT1(at(ahead, line))
	}
	c.ADDQ(operand.I32(40*n), ahead)
	k.dots(0, 8, 0)
	var d, m [2]reg.VecVirtual
	for r := range 2 {
		d[r], m[r] = c.ZMM(), c.ZMM()
		c.VMOVUPS(at(k.panel, 1024+64*r), d[r])
	}
	if min {
		for r := range 2 {
			c.VMOVUPS(at(k.panel, 1152+64*r), m[r])
		}
	}
	for t := range n {
		for r := range 2 {
			v := k.acc[t][r]
			c.VCVTDQ2PS(v, v)
			c.VMULPS(d[r], v, v)
			if min {
				f := c.ZMM()
				c.VMULPS_BCST(side.at(t, 0), m[r], f)
				c.VADDPS(f, v, v)
			}
			c.VMULPS_BCST(scales.at(t, 0), v, v)
			c.VADDPS(v, k.sum[t][r], k.sum[t][r])
		}
	}
	c.ADDQ(operand.I32(size), k.panel)
	k.x.advance(4 * 32)
	scales.advance(4 * 4)
	side.advance(4 * 4)
	c.DECQ(left)
	c.JNZ(operand.LabelRef("block"))
	for t := range n {
		for r := range 2 {
			c.VADDPS(at(totals, 128*t+64*r), k.sum[t][r], k.sum[t][r])
			c.VMOVUPS(k.sum[t][r], at(totals, 128*t+64*r))
		}
	}
	c.Label("next")
	c.INCQ(part)
	c.CMPQ(part, operand.U8(4))
	c.JNE(operand.LabelRef("part"))
	k.store(k.sum)
}

// zeroTotals clears the totals of a tile.
func (k *tile) zeroTotals(totals reg.GPVirtual) {
	z := c.ZMM()
	zero(z)
	for t := range k.n {
		c.VMOVUPS(z, at(totals, 128*t))
		c.VMOVUPS(z, at(totals, 128*t+64))
	}
}

// gemm256 is the kernel for formats with superblocks of 256 and scales for
// groups of 32 or 16.
//
// A panel superblock is 8 times (8 steps of [2][16 rows][4 bytes], then one or
// two times 2x16 int32 scales); then 2x16 f32 d; for formats with minima then
// pairs of int16 minima of neighbouring groups [256/group/2][2][16], and 2x16
// f32 dmin.
func gemm256(n, group int, min bool) {
	name, formula := fmt.Sprintf("gemm256x%d", group), "\ty[t][r] = Σ_b dx[t][b]·(d[b][r]·Σ_j sc[b][j][r]·(side[t][b][j] + Σ w·x))"
	if min {
		name, formula = name+"Min", "\ty[t][r] = Σ_b dx[t][b]·(d[b][r]·Σ_j sc[b][j][r]·Σ w·x − dmin[b][r]·Σ_j m[b][j][r]·sums[t][b][j])"
	}
	k := newTile(fmt.Sprintf("%sT%dAVX512", name, n), n, formula)
	scales := tokensAt(k.get(gmScales), k.x.stride, n)
	var side tokens
	folds := 32 / group
	if min {
		side = tokensAt(k.get(gmSums), k.get(gmLdSums), n)
	} else {
		side = tokensAt(k.get(gmSide), k.get(gmLdSide), n)
	}
	totals, blocks := k.get(gmTotals), k.get(gmBlocks)
	k.zeroTotals(totals)
	c.Label("block")
	for t := range n {
		zero(k.sum[t][0])
		zero(k.sum[t][1])
	}
	groups := c.GP64()
	c.MOVQ(operand.U32(8), groups)
	c.Label("group")
	for f := range folds {
		for t := range n {
			if min {
				zero(k.acc[t][0])
				zero(k.acc[t][1])
			} else {
				c.VPBROADCASTD(side.at(t, 4*f), k.acc[t][0])
				c.VMOVDQA32(k.acc[t][0], k.acc[t][1])
			}
		}
		k.dots(8/folds*f, 8/folds*(f+1), 0)
		var sc [2]reg.VecVirtual
		for r := range 2 {
			sc[r] = c.ZMM()
			c.VMOVDQU32(at(k.panel, 1024+128*f+64*r), sc[r])
		}
		for t := range n {
			for r := range 2 {
				c.VPMULLD(sc[r], k.acc[t][r], k.acc[t][r])
				c.VPADDD(k.acc[t][r], k.sum[t][r], k.sum[t][r])
			}
		}
	}
	c.ADDQ(operand.I32(1024+128*folds), k.panel)
	k.x.advance(32)
	if !min {
		side.advance(4 * folds)
	}
	c.DECQ(groups)
	c.JNZ(operand.LabelRef("group"))
	var d [2]reg.VecVirtual
	for r := range 2 {
		d[r] = c.ZMM()
		c.VMOVUPS(at(k.panel, 64*r), d[r])
	}
	for t := range n {
		for r := range 2 {
			c.VCVTDQ2PS(k.sum[t][r], k.sum[t][r])
			c.VMULPS(d[r], k.sum[t][r], k.sum[t][r])
		}
	}
	size := 128
	if min {
		pairs := 128 / group
		for t := range n {
			zero(k.acc[t][0])
			zero(k.acc[t][1])
		}
		for p := range pairs {
			var m [2]reg.VecVirtual
			for r := range 2 {
				m[r] = c.ZMM()
				c.VMOVDQU32(at(k.panel, 128+128*p+64*r), m[r])
			}
			for t := range n {
				b := c.ZMM()
				c.VPBROADCASTD(side.at(t, 4*p), b)
				c.VPDPWSSD(b, m[0], k.acc[t][0])
				c.VPDPWSSD(b, m[1], k.acc[t][1])
			}
		}
		var dmin [2]reg.VecVirtual
		for r := range 2 {
			dmin[r] = c.ZMM()
			c.VMOVUPS(at(k.panel, 128+128*pairs+64*r), dmin[r])
		}
		for t := range n {
			for r := range 2 {
				c.VCVTDQ2PS(k.acc[t][r], k.acc[t][r])
				c.VMULPS(dmin[r], k.acc[t][r], k.acc[t][r])
				c.VSUBPS(k.acc[t][r], k.sum[t][r], k.sum[t][r])
			}
		}
		size += 128*pairs + 128
		side.advance(4 * pairs)
	}
	c.ADDQ(operand.I32(size), k.panel)
	for t := range n {
		for r := range 2 {
			c.VMULPS_BCST(scales.at(t, 0), k.sum[t][r], k.acc[t][r])
			c.VADDPS(at(totals, 128*t+64*r), k.acc[t][r], k.acc[t][r])
			c.VMOVUPS(k.acc[t][r], at(totals, 128*t+64*r))
		}
	}
	scales.advance(4)
	c.DECQ(blocks)
	c.JNZ(operand.LabelRef("block"))
	k.store(k.acc)
}

// gemmFloat is the kernel for plain types and f32 activations. A panel holds,
// per element along k, 32 numbers of the type; BF16 panels hold pairs of
// elements: [k/2][32][2]. The products are added to y where init says so.
func gemmFloat(typ string, n int) {
	k := newTile(fmt.Sprintf("gemm%sT%dAVX512", typ, n), n, "\ty[t][r] = (init ? y[t][r] : 0) + Σ_k w[k][r]·x[t][k]")
	k0, k1 := c.K(), c.K()
	c.KMOVD(at(k.a, gmInit), k0)
	c.KSHIFTRD(operand.U8(16), k0, k1)
	y := tokensAt(k.get(gmY), k.get(gmLdy), n)
	for t := range n {
		c.VMOVUPS_Z(y.at(t, 0), k0, k.sum[t][0])
		c.VMOVUPS_Z(y.at(t, 64), k1, k.sum[t][1])
	}
	size := map[string]int{"F32": 4, "F16": 2, "BF16": 2}[typ]
	step := func(i int) {
		var w [2]reg.VecVirtual
		for r := range 2 {
			w[r] = c.ZMM()
			switch typ {
			case "F32":
				c.VMOVUPS(at(k.panel, 128*i+64*r), w[r])
			case "F16":
				c.VCVTPH2PS(at(k.panel, 64*i+32*r), w[r])
			case "BF16":
				if i%2 == 0 {
					c.VPSLLD(operand.U8(16), at(k.panel, 64*i+64*r), w[r])
				} else {
					c.VMOVDQU16_Z(at(k.panel, 64*(i-1)+64*r), odd, w[r])
				}
			}
		}
		for t := range n {
			b := c.ZMM()
			c.VBROADCASTSS(k.x.at(t, 4*i), b)
			c.VFMADD231PS(b, w[0], k.sum[t][0])
			c.VFMADD231PS(b, w[1], k.sum[t][1])
		}
	}
	if typ == "BF16" {
		odd = c.K()
		r := c.GP32()
		c.MOVL(operand.U32(0xaaaaaaaa), r)
		c.KMOVD(r, odd)
	}
	const unroll = 4
	steps := k.get(gmBlocks)
	rest := c.GP64()
	c.MOVQ(steps, rest)
	c.ANDQ(operand.U8(unroll-1), rest)
	c.SHRQ(operand.U8(2), steps)
	c.JZ(operand.LabelRef("rest"))
	c.Label("block")
	for i := range unroll {
		step(i)
	}
	c.ADDQ(operand.I32(unroll*32*size), k.panel)
	k.x.advance(4 * unroll)
	c.DECQ(steps)
	c.JNZ(operand.LabelRef("block"))
	c.Label("rest")
	for i := range unroll - 1 {
		c.CMPQ(rest, operand.U8(i))
		c.JE(operand.LabelRef("done"))
		step(i)
	}
	c.Label("done")
	k.store(k.sum)
}

// odd selects the odd words of a vector, in BF16 kernels.
var odd reg.Register
