package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// stepQ4K takes four superblocks of Q4_K, or of Q5_K if five is set, and one
// at a time at the end of a row. Prepared activations, for n superblocks: per
// superblock the groups of 32 in the order 0 2 1 3 4 6 5 7; then 8 int16 sums
// of each superblock's groups, padded to 64 bytes; then 16 f32, the scale of
// each superblock four times.
func stepQ4K(five bool) *stepper {
	name, block, quants := "Q4_K", 144, 16
	if five {
		name, block, quants = "Q5_K", 176, 48
	}
	s := &stepper{
		name: name, wBytes: 4 * block, xBytes: 4*256 + 128, tailW: block, tailX: 256 + 128, tailLoop: true, prefetch: 8192,
		doc: "\t\td·dx·Σ_j sc[j]·Σ q·x − dmin·dx·Σ_j m[j]·Σx   per superblock, groups j of 32",
	}
	if five {
		s.most = 5
	}
	var low, zero, bit4, raw reg.VecVirtual
	var groups, shifts [4]reg.VecVirtual
	first := [4]int{0, 1, 4, 5} // group in the lower half of 64 bytes; +2 in the upper
	s.setup = func() {
		low, raw = splat("low0f", 0x0f0f0f0f), c.ZMM()
		zero = c.ZMM()
		c.VPXORD(zero, zero, zero)
		for i := range groups {
			groups[i] = loadTable(fmt.Sprintf("group%d", first[i]), bytesOf(64, func(b int) byte {
				if b%2 == 1 {
					return 0x80
				}
				return byte(first[i] + b/32*2)
			}))
		}
		if five {
			bit4 = splat("bit4", 0x10101010)
			for i := range shifts {
				shifts[i] = loadTable(fmt.Sprintf("bits%d", first[i]), bytesOf(64, func(b int) byte {
					return byte(8*(b%8)+first[i]+b/32*2-4) & 63
				}))
			}
		}
	}
	s.step = func(w reg.GPVirtual, x tokens, acc []reg.VecVirtual, tail bool) {
		n := 4
		if tail {
			n = 1
		}
		head, sc, hi, dm := c.ZMM(), c.ZMM(), c.ZMM(), c.ZMM()
		c.VMOVDQU32(at(w, 0), head.AsX())
		for i := 1; i < n; i++ {
			c.VINSERTI32X4(operand.U8(i), at(w, block*i), head, head)
		}
		// The 12 bytes a, b, c of a header become 8 scales and 8 minima.
		c.VPSHUFD(operand.U8(0xed), head, sc)
		c.VPSRLVD(table("kshift", dwordsOf(16, func(i int) uint32 { return uint32(i % 4 / 3 * 4) })), sc, sc)
		c.VPANDD(table("kmask", dwordsOf(16, func(i int) uint32 { return 0x3f3f3f3f >> (i % 2 * 2) & (0x3f3f3f3f - uint32(i%2)*0x30303030) })), sc, sc)
		c.VPSHUFD(operand.U8(0x84), head, hi)
		c.VPSRLD(operand.U8(2), hi, hi)
		c.VPTERNLOGD(operand.U8(0xf8), table("khigh", dwordsOf(16, func(i int) uint32 { return uint32(i%2) * 0x30303030 })), hi, sc)
		idx, d, mins := c.ZMM(), c.ZMM(), c.ZMM()
		c.VMOVDQU32(table("kdmin", wordsOf(32, func(i int) uint16 { return uint16(i/4%4*8) + 1 })), idx)
		c.VPERMW(head, idx, dm)
		c.VCVTPH2PS(dm.AsY(), dm)
		c.VMOVDQU32(table("kd", wordsOf(32, func(i int) uint16 { return uint16(i / 4 % 4 * 8) })), idx)
		c.VPERMW(head, idx, d)
		c.VCVTPH2PS(d.AsY(), d)
		c.VPUNPCKHBW(zero, sc, mins)
		for t := range acc {
			m, f := c.ZMM(), c.ZMM()
			c.VPMADDWD(x.at(t, 256*n), mins, m)
			c.VCVTDQ2PS(m, m)
			c.VMULPS(x.at(t, 256*n+64), dm, f)
			c.VFNMADD231PS(f, m, acc[t])
		}
		for i := range n {
			sub := c.ZMM()
			c.VSHUFI32X4(operand.U8(i*0x55), sc, sc, sub)
			sum := make([]reg.VecVirtual, len(acc))
			high := c.ZMM()
			if five {
				c.VBROADCASTI64X4(at(w, block*i+16), high)
			}
			for half := range 2 {
				var q [2]reg.VecVirtual
				q[0], q[1] = raw, c.ZMM()
				load64(w, block*i+quants+64*half, q[0])
				c.VPSRLD(operand.U8(4), q[0], q[1])
				for p := range q {
					c.VPANDD(low, q[p], q[p])
					if five {
						bits := c.ZMM()
						c.VPMULTISHIFTQB(high, shifts[2*half+p], bits)
						c.VPTERNLOGD(operand.U8(0xf8), bit4, bits, q[p])
					}
					words := c.ZMM()
					c.VPSHUFB(groups[2*half+p], sub, words)
					for t := range acc {
						prod := c.ZMM()
						c.VPMADDUBSW(x.at(t, 256*i+128*half+64*p), q[p], prod)
						if half+p == 0 {
							sum[t] = c.ZMM()
							c.VPMADDWD(prod, words, sum[t])
						} else {
							c.VPDPWSSD(prod, words, sum[t])
						}
					}
				}
			}
			di := c.ZMM()
			c.VSHUFF32X4(operand.U8(i*0x55), d, d, di)
			for t := range acc {
				f := c.ZMM()
				c.VCVTDQ2PS(sum[t], sum[t])
				c.VMULPS_BCST(x.at(t, 256*n+64+16*i), di, f)
				c.VFMADD231PS(f, sum[t], acc[t])
			}
		}
	}
	return s
}

// A superblock says how the row kernels decode a format whose groups of 16
// elements have scales of their own.
type superblock struct {
	name  string
	bytes int
	setup func()
	// quants returns elements 64c..64c+63 as unsigned bytes.
	quants func(w reg.GPVirtual, c int) reg.VecVirtual
	// begin loads what quants shares and returns 16 int16 scales in the low
	// half of a register, and minima likewise or nil.
	begin func(w reg.GPVirtual) (scales, mins reg.VecVirtual)
	d     int // where the f16 d lies
	dmin  int // where the f16 dmin lies, if there are minima
	shift int // log2 of the offset, if there are none
	most  int // see stepper
}

// step16 takes one superblock. Prepared activations: 256 int8, 16 int16 −Σ of
// 16, f32 scale, 28 unused bytes.
func step16(b *superblock) *stepper {
	s := &stepper{
		name: b.name, wBytes: b.bytes, xBytes: 320, prefetch: 8192,
		doc: "\t\td·dx·Σ_j sc[j]·(Σ q·x − off·Σx)   per superblock, groups j of 16",
	}
	var tmp reg.VecVirtual
	s.setup = func() {
		tmp = c.ZMM()
		b.setup()
	}
	s.step = func(w reg.GPVirtual, x tokens, acc []reg.VecVirtual, tail bool) {
		scales, mins := b.begin(w)
		d, dm := c.ZMM(), c.ZMM()
		c.VPBROADCASTW(at(w, b.d), d.AsY())
		c.VCVTPH2PS(d.AsY(), d)
		sum := make([]reg.VecVirtual, len(acc))
		if mins != nil {
			c.VPBROADCASTW(at(w, b.dmin), dm.AsY())
			c.VCVTPH2PS(dm.AsY(), dm)
		}
		for t := range acc {
			sum[t] = c.ZMM()
			if mins != nil {
				g := c.ZMM()
				c.VPMADDWD(x.at(t, 256), mins.AsY(), tmp.AsY())
				c.VCVTDQ2PS(tmp, tmp)
				c.VMULPS_BCST(x.at(t, 288), dm, g)
				c.VFMADD231PS(g, tmp, acc[t])
				c.VPXORD(sum[t], sum[t], sum[t])
			} else {
				c.VPMADDWD(x.at(t, 256), scales.AsY(), sum[t].AsY())
				c.VPSLLD(operand.U8(b.shift), sum[t], sum[t])
			}
		}
		for i := range 4 {
			q := b.quants(w, i)
			sw := loadTable(fmt.Sprintf("words%d", i), wordsOf(32, func(w int) uint16 { return uint16(4*i + w/8) }))
			c.VPERMW(scales, sw, sw)
			for t := range acc {
				prod := c.ZMM()
				c.VPMADDUBSW(x.at(t, 64*i), q, prod)
				c.VPDPWSSD(prod, sw, sum[t])
			}
		}
		finish256(x, d, sum, acc)
	}
	return s
}

// bitFields returns a control for VPMULTISHIFTQB that moves, in every byte,
// the field starting at bit lo (lower 32 bytes) or hi (upper 32 bytes) to bit
// position to.
func bitFields(name string, lo, hi, to int) reg.VecVirtual {
	return loadTable(name, bytesOf(64, func(b int) byte {
		from := lo
		if b >= 32 {
			from = hi
		}
		return byte(8*(b%8)+from-to) & 63
	}))
}

func superQ6K() *superblock {
	var low, mask reg.VecVirtual
	var fields [2]reg.VecVirtual
	var lo [2]reg.VecVirtual
	var hi [2]reg.VecVirtual
	b := &superblock{name: "Q6_K", bytes: 210, d: 208, shift: 5}
	b.setup = func() {
		low = splat("low0f", 0x0f0f0f0f)
		mask = splat("bits45", 0x30303030)
		fields = [2]reg.VecVirtual{bitFields("f02to4", 0, 2, 4), bitFields("f46to4", 4, 6, 4)}
		lo = [2]reg.VecVirtual{c.ZMM(), c.ZMM()}
	}
	b.begin = func(w reg.GPVirtual) (scales, mins reg.VecVirtual) {
		scales = c.ZMM()
		c.VPMOVSXBW(at(w, 192), scales.AsY())
		for h := range 2 {
			hi[h] = c.ZMM()
			load64(w, 64*h, lo[h])
			c.VBROADCASTI64X4(at(w, 128+32*h), hi[h])
		}
		return scales, nil
	}
	b.quants = func(w reg.GPVirtual, i int) reg.VecVirtual {
		q, bits := c.ZMM(), c.ZMM()
		if i%2 == 0 {
			c.VPANDD(low, lo[i/2], q)
		} else {
			c.VPSRLD(operand.U8(4), lo[i/2], q)
			c.VPANDD(low, q, q)
		}
		c.VPMULTISHIFTQB(hi[i/2], fields[i%2], bits)
		c.VPTERNLOGD(operand.U8(0xf8), mask, bits, q)
		return q
	}
	return b
}
