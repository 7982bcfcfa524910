package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

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
