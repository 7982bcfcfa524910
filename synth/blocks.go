package synth

import (
	"encoding/binary"
	"math"

	"github.com/x448/float16"

	"graphrun/graph"
)

// random is a stream of random bits: SplitMix64, which needs no set-up and
// passes the usual tests.
// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number
// generators", 2014.
type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// fill writes random bytes.
func (r *random) fill(p []byte) {
	for ; len(p) >= 8; p = p[8:] {
		binary.LittleEndian.PutUint64(p, r.next())
	}
	if len(p) > 0 {
		var last [8]byte
		binary.LittleEndian.PutUint64(last[:], r.next())
		copy(p, last[:])
	}
}

// least is the smallest scale a block gets: the least normal f16, as kernels
// are slow with smaller ones.
const least = 6.103515625e-5

// scale returns |x| or more as f16, never subnormal, with the sign of x.
func scale(x float64) uint16 {
	if math.Abs(x) < least {
		x = math.Copysign(least, x)
	}
	return float16.Fromfloat32(float32(x)).Bits()
}

// A filler writes blocks of one type whose numbers have mean 0 and the standard
// deviation sigma. p is a whole number of blocks.
type filler func(r *random, p []byte, sigma float64)

var fillers = map[graph.DType]filler{
	graph.F32: fillF32, graph.F16: fillF16, graph.BF16: fillBF16,
	// spread is the root mean square of the quants: (2^b)/sqrt(12) for b bits.
	graph.Q8_0:   simple{bytes: 34, spread: 73.9, signed: true, after: noMinus128}.fill,
	graph.Q4_0:   simple{bytes: 18, spread: 4.64, signed: true}.fill,
	graph.Q5_0:   simple{bytes: 22, spread: 9.25, signed: true}.fill,
	graph.IQ4_NL: simple{bytes: 18, spread: 70, signed: true}.fill,
	graph.Q4_1:   simple{bytes: 20, spread: 4.61, min: 7.5}.fill,
	graph.Q5_1:   simple{bytes: 24, spread: 9.23, min: 15.5}.fill,
	graph.Q6_K:   simple{bytes: 210, at: 208, spread: 18.5 * 3.67, after: scalesQ6K}.fill,
	graph.Q3_K:   simple{bytes: 110, at: 108, spread: 2.35 * 18.5}.fill,
	graph.IQ3_S:  simple{bytes: 110, spread: 6.5 * 4.58, after: scalesIQ3S}.fill,
	graph.IQ4_XS: simple{bytes: 136, spread: 70 * 1.58, after: scalesIQ4XS}.fill,
	graph.TQ1_0:  simple{bytes: 54, at: 52, spread: 0.816, after: digitsTQ1}.fill,
	graph.TQ2_0:  simple{bytes: 66, at: 64, spread: 0.816, after: digitsTQ2}.fill,
	graph.Q2_K:   simple{bytes: 84, at: 80, spread: 1.118 * 11.7, min: 1.5, after: scalesQ2K}.fill,
	graph.Q4_K:   simple{bytes: 144, spread: 4.61 * 11.7, min: 7.5, after: scalesOf(8, 7)}.fill,
	graph.Q5_K:   simple{bytes: 176, spread: 9.23 * 7.86, min: 15.5, after: scalesOf(4, 7)}.fill,
	graph.MXFP4:  fillMXFP4,
}

// simple describes blocks with one f16 scale.
type simple struct {
	bytes  int
	at     int     // of the scale
	spread float64 // root mean square of a number where the scale is 1
	signed bool    // the scale's sign is random, so that quants without symmetry have mean 0
	min    float64 // a second f16 follows: this times the scale, subtracted
	after  func(r *random, block []byte)
}

func (s simple) fill(r *random, p []byte, sigma float64) {
	// The scale of a block is one of 64, from 0.8 to 1.2 times the mean.
	var scales, mins [64]uint16
	for i := range scales {
		d := max(sigma/s.spread*(0.8+0.4*float64(i)/63), least)
		scales[i], mins[i] = scale(d), scale(s.min*d)
		if s.bytes < 32 { // Q4_1 and Q5_1 add their minimum
			mins[i] = scale(-s.min * d)
		}
	}
	r.fill(p)
	for ; len(p) > 0; p = p[s.bytes:] {
		x := r.next()
		d := scales[x&63]
		if s.signed {
			d |= uint16(x >> 48 & 0x8000)
		}
		binary.LittleEndian.PutUint16(p[s.at:], d)
		if s.min != 0 {
			binary.LittleEndian.PutUint16(p[s.at+2:], mins[x&63])
		}
		if s.after != nil {
			s.after(r, p)
		}
	}
}

// noMinus128 makes the one int8 that quantizers do not write, 0x80, 0x81.
func noMinus128(_ *random, p []byte) {
	const low, high = 0x7f7f7f7f7f7f7f7f, 0x8080808080808080
	for q := p[2:34]; len(q) >= 8; q = q[8:] {
		x := binary.LittleEndian.Uint64(q)
		y := x ^ high                     // a zero byte is what is looked for
		zero := ^(y&low + low | y) & high // its highest bit
		binary.LittleEndian.PutUint64(q, x|zero>>7)
	}
}

// scalesQ6K sets the 16 scales to 2..5 with a sign.
func scalesQ6K(r *random, p []byte) {
	for i, b := range p[192:208] {
		s := int8(2 + b&3)
		if b&0x80 != 0 {
			s = -s
		}
		p[192+i] = byte(s)
	}
}

// scalesQ2K makes each group's minimum its scale, 8..15.
func scalesQ2K(_ *random, p []byte) {
	for i, b := range p[:16] {
		p[i] = (8 + b&7) * 0x11
	}
}

// scalesOf sets the 6-bit scales and minima of Q4_K and Q5_K to lo plus the
// bits of mask, which is below 16 in sum, each minimum equal to its scale.
func scalesOf(lo, mask byte) func(r *random, p []byte) {
	return func(r *random, p []byte) {
		x := r.next()
		for j := range 4 {
			a, b := lo+byte(x>>(8*j))&mask, lo+byte(x>>(8*j+32))&mask
			p[4+j], p[8+j] = a, a
			p[12+j] = b | b<<4
		}
	}
}

// scalesIQ3S sets the scales to 1, 3, 5 or 7.
func scalesIQ3S(_ *random, p []byte) {
	for i := 106; i < 110; i++ {
		p[i] &= 0x33
	}
}

// scalesIQ4XS sets the scales to -2, -1, 1 or 2, stored with 32 added.
func scalesIQ4XS(r *random, p []byte) {
	x := r.next()
	high, low := uint16(0), [4]byte{}
	for j := range 8 {
		s := [4]byte{30, 31, 33, 34}[x>>(2*j)&3]
		high |= uint16(s>>4) << (2 * j)
		low[j/2] |= s & 15 << (4 * (j % 2))
	}
	binary.LittleEndian.PutUint16(p[2:], high)
	copy(p[4:8], low[:])
}

// digitsTQ1 makes each byte the code of ternary digits.
func digitsTQ1(_ *random, p []byte) {
	for i, b := range p[:52] {
		n := uint(b) * 243 >> 8
		p[i] = byte((n*256 + 242) / 243)
	}
}

// digitsTQ2 makes each byte four pairs of bits below 3, equally likely.
func digitsTQ2(_ *random, p []byte) {
	for i, b := range p[:64] {
		p[i] = fourDigits[b]
	}
}

// fourDigits maps bytes to four ternary digits.
var fourDigits = func() (t [256]byte) {
	for b := range t {
		n := b * 81 >> 8
		t[b] = byte(n%3 | n/3%3<<2 | n/9%3<<4 | n/27<<6)
	}
	return t
}()

// fillMXFP4 rounds the exponent up or down so that the mean fits.
func fillMXFP4(r *random, p []byte, sigma float64) {
	r.fill(p)
	e := 128 + math.Log2(sigma/5.85)
	low := math.Floor(e)
	for ; len(p) > 0; p = p[17:] {
		p[0] = byte(low)
		if float64(r.next()>>11)/(1<<53) < e-low {
			p[0]++
		}
	}
}

// bell holds quantiles of the normal distribution.
var bell = func() (t [4096]float32) {
	for i := range t {
		t[i] = float32(math.Sqrt2 * math.Erfinv(2*(float64(i)+0.5)/float64(len(t))-1))
	}
	return t
}()

func fillF32(r *random, p []byte, sigma float64) {
	fillPlain(r, p, 4, func(i uint64) uint32 { return math.Float32bits(bell[i] * float32(sigma)) })
}

func fillBF16(r *random, p []byte, sigma float64) {
	fillPlain(r, p, 2, func(i uint64) uint32 { return (math.Float32bits(bell[i]*float32(sigma)) + 0x8000) >> 16 })
}

func fillF16(r *random, p []byte, sigma float64) {
	fillPlain(r, p, 2, func(i uint64) uint32 {
		x := bell[i] * float32(sigma)
		if math.Abs(float64(x)) < least {
			return 0
		}
		return uint32(float16.Fromfloat32(x).Bits())
	})
}

// fillPlain writes numbers of size bytes drawn from a table of 4096.
func fillPlain(r *random, p []byte, size int, at func(i uint64) uint32) {
	var table [4096]uint32
	for i := range table {
		table[i] = at(uint64(i))
	}
	for len(p) > 0 {
		x := r.next()
		for n := 0; n < 5 && len(p) > 0; n++ {
			if v := table[x&4095]; size == 4 {
				binary.LittleEndian.PutUint32(p, v)
			} else {
				binary.LittleEndian.PutUint16(p, uint16(v))
			}
			x >>= 12
			p = p[size:]
		}
	}
}
