package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// nibbleFormat describes a format with 16 bytes of nibbles per block of 32:
// byte i holds element i in its low and element i+16 in its high half.
type nibbleFormat struct {
	name              string
	block, nib, scale int    // bytes per block; where nibbles and f16 scale lie
	min               int    // where the f16 minimum lies, or 0
	fifth             int    // where 32 fifth bits lie, or 0
	values            string // "iq4" or "mxfp4": a table of values replaces the nibble
}

var nibbleFormats = []*nibbleFormat{
	{name: "Q4_0", block: 18, nib: 2},
	{name: "Q4_1", block: 20, nib: 4, min: 2},
	{name: "Q5_0", block: 22, nib: 6, fifth: 2},
	{name: "Q5_1", block: 24, nib: 8, min: 2, fifth: 4},
	{name: "IQ4_NL", block: 18, nib: 2, values: "iq4"},
	{name: "MXFP4", block: 17, nib: 1, values: "mxfp4"},
}

// nibbleRegs are the constants of one format, for the first and the second
// four of eight blocks.
type nibbleRegs struct {
	gather, scales, mins               [2]reg.VecVirtual
	low, values, one, bitMask, bit4, z reg.VecVirtual
	lanes                              reg.Register
}

// source returns where byte o of four blocks lies in the two registers that
// hold them: the first four begin with the first register, the others where
// they begin within the second.
func (f *nibbleFormat) source(sub, o int) int { return o + sub*(4*f.block-64) }

func (f *nibbleFormat) setup() *nibbleRegs {
	r := &nibbleRegs{low: splat("low0f", 0x0f0f0f0f), z: c.ZMM()}
	zero(r.z)
	switch f.values {
	case "iq4":
		r.values = iq4Table()
	case "mxfp4":
		r.values = mxfp4Table()
		r.one = splat("one", 1)
		r.lanes = c.K()
		t := c.GP64()
		c.MOVQ(operand.U64(0x1111111111111111), t)
		c.KMOVQ(t, r.lanes)
	}
	if f.fifth > 0 {
		r.bit4 = splat("bit4", 0x10101010)
		r.bitMask = loadTable("bitmask", bytesOf(64, func(i int) byte { return 1 << (i % 8) }))
	}
	for sub := range 2 {
		word := func(field int) []byte {
			return wordsOf(32, func(i int) uint16 { return uint16(f.source(sub, i/4%4*f.block+field) / 2) })
		}
		r.gather[sub] = loadTable(fmt.Sprintf("nib%s%d", f.name, sub), bytesOf(64, func(i int) byte {
			return byte(f.source(sub, i/16*f.block+f.nib+i%16))
		}))
		if f.values == "mxfp4" {
			r.scales[sub] = loadTable(fmt.Sprintf("e%s%d", f.name, sub), bytesOf(64, func(i int) byte { return byte(f.source(sub, i/16*f.block)) }))
		} else {
			r.scales[sub] = loadTable(fmt.Sprintf("dw%s%d", f.name, sub), word(f.scale))
		}
		if f.min > 0 {
			r.mins[sub] = loadTable(fmt.Sprintf("mw%s%d", f.name, sub), word(f.min))
		}
	}
	return r
}

// load reads eight blocks.
func (f *nibbleFormat) load(w reg.GPVirtual, tail bool) (z [3]reg.VecVirtual) {
	for i := range z {
		z[i] = c.ZMM()
	}
	rest := 8*f.block - 128 // bytes in the third register
	if tail {
		c.VMOVDQU8_Z(at(w, 0), masks[0], z[0])
		c.VMOVDQU8_Z(at(w, 64), masks[1], z[1])
		c.VMOVDQU8_Z(at(w, 128), masks[2], z[2])
		return z
	}
	load64(w, 0, z[0])
	load64(w, 64, z[1])
	switch {
	case rest == 8:
		c.VMOVQ(at(w, 128), z[2].AsX())
	case rest == 16:
		c.VMOVDQU32(at(w, 128), z[2].AsX())
	case rest == 32:
		c.VMOVDQU32(at(w, 128), z[2].AsY())
	case rest == 48:
		c.VMOVDQU32(at(w, 128), z[2].AsY())
		c.VINSERTI64X4(operand.U8(1), at(w, 144), z[2], z[2])
		c.VSHUFI32X4(operand.U8(0xf4), z[2], z[2], z[2]) // lanes 0 1 3 3
	default:
		load64(w, 128, z[2])
	}
	return z
}

// decode takes four blocks from the registers a and b: lo and hi are the
// unsigned weights of their first and second halves, d and m f32 scales and
// minima, four times each.
func (f *nibbleFormat) decode(r *nibbleRegs, a, b reg.VecVirtual, sub int) (lo, hi, d, m reg.VecVirtual) {
	lo, hi, d = c.ZMM(), c.ZMM(), c.ZMM()
	pick := func(index reg.VecVirtual, field int) reg.VecVirtual {
		to := c.ZMM()
		if f.source(sub, 3*f.block+field) < 64 {
			c.VPERMW(a, index, to)
		} else {
			c.VMOVDQA32(index, to)
			c.VPERMI2W(b, a, to)
		}
		c.VCVTPH2PS(to.AsY(), to)
		return to
	}
	if f.values == "mxfp4" {
		c.VMOVDQA32(r.scales[sub], d)
		c.VPERMI2B(b, a, d)
		c.VMOVDQU8_Z(d, r.lanes, d)
		exponent(d, r.one)
	} else {
		d = pick(r.scales[sub], f.scale)
	}
	if f.min > 0 {
		m = pick(r.mins[sub], f.min)
	}
	c.VMOVDQA32(r.gather[sub], lo)
	c.VPERMI2B(b, a, lo)
	c.VPSRLD(operand.U8(4), lo, hi)
	c.VPANDD(r.low, hi, hi)
	c.VPANDD(r.low, lo, lo)
	for h, q := range []reg.VecVirtual{lo, hi} {
		if f.fifth > 0 {
			k := c.K()
			t := loadTable(fmt.Sprintf("bits%s%d%d", f.name, sub, h), bytesOf(64, func(i int) byte {
				return byte(f.source(sub, i/16*f.block+f.fifth+2*h+i%16/8))
			}))
			c.VPERMI2B(b, a, t)
			c.VPTESTMB(r.bitMask, t, k)
			c.VPADDB(r.bit4, q, k, q)
		}
		if r.values != nil {
			c.VPSHUFB(q, r.values, q)
		}
	}
	return lo, hi, d, m
}

// stepNibble takes eight blocks. Prepared activations, per four blocks: their
// first halves, their second halves, 16 int32 corrections (−offset·Σ of a
// lane's 8 numbers) or 16 f32 dx·Σ for formats with minima, 16 f32 scales.
func stepNibble(f *nibbleFormat) *stepper {
	s := &stepper{
		name: f.name, wBytes: 8 * f.block, xBytes: 512, prefetch: 8192,
		doc: "\t\t(corr + Σ q·x) · (f32(d)·dx)   per lane of 8 elements",
	}
	if f.min > 0 {
		s.doc = "\t\t(Σ q·x) · (f32(d)·dx) + f32(m)·dx·Σ x   per lane of 8 elements"
	}
	var r *nibbleRegs
	s.setup = func() { r = f.setup() }
	s.step = func(w reg.GPVirtual, x tokens, acc []reg.VecVirtual, tail bool) {
		z := f.load(w, tail)
		for sub := range 2 {
			lo, hi, d, m := f.decode(r, z[sub], z[sub+1], sub)
			for t := range acc {
				i, g := c.ZMM(), c.ZMM()
				if m != nil {
					c.VFMADD231PS(x.at(t, 256*sub+128), m, acc[t])
					c.VMOVDQA32(r.z, i)
				} else {
					c.VMOVDQU32(x.at(t, 256*sub+128), i)
				}
				c.VPDPBUSD(x.at(t, 256*sub), lo, i)
				c.VPDPBUSD(x.at(t, 256*sub+64), hi, i)
				c.VCVTDQ2PS(i, i)
				c.VMULPS(x.at(t, 256*sub+192), d, g)
				c.VFMADD231PS(g, i, acc[t])
			}
		}
	}
	return s
}
