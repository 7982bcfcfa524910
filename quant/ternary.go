package quant

import (
	"math"
	"slices"
)

// ternary finds the scale d of a block of 256 and the digits 0, 1, 2 that stand
// for -d, 0, d, for which Σw(x - y)² is least. Of given magnitudes the largest n
// become ±d, d being their mean, so that the error falls by (Σw|x|)²/Σw: the
// best n is found by trying all.
func ternary(q *[256]byte, x, w []float32) (d float32) {
	var order [256]uint64 // magnitude, then index
	for i, v := range x {
		order[i] = uint64(math.Float32bits(v)&0x7fffffff)<<8 | uint64(i)
	}
	slices.Sort(order[:])
	sum, weight, best, mean := 0.0, 0.0, 0.0, 0.0
	for n := 255; n >= 0; n-- {
		i, a := order[n]&255, float64(math.Float32frombits(uint32(order[n]>>8)))
		k := 1.0
		if w != nil {
			k = float64(w[i])
		}
		sum += float64(k * a)
		weight += k
		if gain := sum * sum / weight; gain > best {
			best, mean = gain, sum/weight
		}
	}
	d, _ = stored(float32(mean))
	for i, v := range x {
		switch {
		case d == 0 || max(v, -v) <= d/2:
			q[i] = 1
		case v < 0:
			q[i] = 0
		default:
			q[i] = 2
		}
	}
	return d
}

// encodeTQ1 writes five digits to a byte v, the first digits in base 3 of the
// fraction v/256.
func encodeTQ1(b []byte, x, w []float32) {
	var q [256]byte
	d := ternary(&q, x, w)
	for i := range 32 {
		b[i] = fraction(q[i], q[32+i], q[64+i], q[96+i], q[128+i])
	}
	for i := range 16 {
		b[32+i] = fraction(q[160+i], q[176+i], q[192+i], q[208+i], q[224+i])
	}
	for i := range 4 {
		b[48+i] = fraction(q[240+i], q[244+i], q[248+i], q[252+i], 0)
	}
	putF16(b[52:], d)
}

// fraction returns the byte whose digits are the given ones: the number in base
// 3 times 256/243, rounded up.
func fraction(a, b, c, d, e byte) byte {
	n := (((uint(a)*3+uint(b))*3+uint(c))*3+uint(d))*3 + uint(e)
	return byte((n*256 + 242) / 243)
}

// encodeTQ2 writes digits as pairs of bits.
func encodeTQ2(b []byte, x, w []float32) {
	var q [256]byte
	d := ternary(&q, x, w)
	packPairs(b[:64], &q)
	putF16(b[64:], d)
}
