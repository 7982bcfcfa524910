package quant

import (
	"encoding/binary"
	"math"
)

// The formats with blocks of 32. Without weights they are encoded like the
// reference program does, byte for byte, from the largest element; with weights
// by the searches of search.go.

// largest returns the element of largest magnitude, the first of equals.
func largest(x []float32) float32 {
	best, abs := float32(0), float32(0)
	for _, v := range x {
		if a := max(v, -v); a > abs {
			best, abs = v, a
		}
	}
	return best
}

// inverse returns the scale a block decodes with, at most what f16 holds, and
// 1/d, or 0 if no f16 but zero is near d.
func inverse(d float32) (scale, inv float32) {
	d = min(max(d, -maxScale), maxScale)
	if max(d, -d) < minScale {
		return 0, 0
	}
	return d, 1 / d
}

const (
	maxScale = 65504   // the largest f16
	minScale = 0x1p-24 // the smallest
)

// encodeQ8_0 encodes a block of 32.
//
//	d = max|x| / 127,  q = round(x / d), halves away from zero
func encodeQ8_0(b []byte, x []float32) {
	amax := largest(x)
	d, inv := inverse(max(amax, -amax) / 127)
	putF16(b, d)
	for i, v := range x {
		y := v * inv
		y = min(max(y, -127), 127)
		b[2+i] = byte(int8(y + math.Float32frombits(math.Float32bits(y)&0x80000000|belowHalf)))
	}
}

// belowHalf is the number before 0.5: adding it and cutting the fraction off
// rounds halves away from zero, and what is just below a half to zero.
const belowHalf = 0x3effffff

// encodeQ4_0 encodes a block of 32: the largest element is -8 steps.
//
//	d = x_largest / -8,  q = floor(x/d + 8.5), 0..15
func encodeQ4_0(b []byte, x, w []float32) {
	d, inv := inverse(largest(x) / -8)
	if w != nil {
		var weights [32]float32
		errorWeights(weights[:], x, w, 32)
		d, inv = stored(symmetric(x, weights[:], -8, 7, 9, 3).d())
	}
	putF16(b, d)
	for i := range 16 {
		b[2+i] = byte(level(x[i], inv, 8, 15) | level(x[16+i], inv, 8, 15)<<4)
	}
}

// level returns floor(v/d + zero + 0.5) cut to 0..top.
func level(v, inv, zero float32, top uint32) uint32 {
	y := float32(v*inv) + (zero + 0.5)
	return uint32(min(max(y, 0), float32(top)))
}

// encodeQ4_1 encodes a block of 32.
//
//	d = (max x - min x) / 15,  q = floor((x - min)/d + 0.5), 0..15
func encodeQ4_1(b []byte, x, w []float32) {
	d, inv, least := ranged(x, w, 15)
	putF16(b, d)
	putF16(b[2:], least)
	for i := range 16 {
		b[4+i] = byte(level(x[i]-least, inv, 0, 15) | level(x[16+i]-least, inv, 0, 15)<<4)
	}
}

// ranged returns scale, its inverse and minimum of a block whose elements are
// least + d·(0..top).
func ranged(x, w []float32, top float32) (d, inv, least float32) {
	if w != nil {
		var weights [32]float32
		errorWeights(weights[:], x, w, 32)
		f := affine(x, weights[:], top, true, -9, 9, 3)
		d, inv = stored(f.d)
		return d, inv, fromF16(toF16(f.m))
	}
	least, most := x[0], x[0]
	for _, v := range x[1:] {
		least, most = min(least, v), max(most, v)
	}
	least, most = max(least, -maxScale), min(most, maxScale)
	d, inv = inverse((most - least) / top)
	return d, inv, least
}

// encodeQ5_0 encodes a block of 32: the largest element is -16 steps. The fifth
// bits lie together, before the nibbles.
//
//	d = x_largest / -16,  q = floor(x/d + 16.5), 0..31
func encodeQ5_0(b []byte, x, w []float32) {
	d, inv := inverse(largest(x) / -16)
	if w != nil {
		var weights [32]float32
		errorWeights(weights[:], x, w, 32)
		d, inv = stored(symmetric(x, weights[:], -16, 15, 9, 3).d())
	}
	putF16(b, d)
	high := uint32(0)
	for i := range 16 {
		l, h := level(x[i], inv, 16, 31), level(x[16+i], inv, 16, 31)
		b[6+i] = byte(l&15 | h&15<<4)
		high |= l>>4<<i | h>>4<<(16+i)
	}
	binary.LittleEndian.PutUint32(b[2:], high)
}

// encodeQ5_1 encodes a block of 32.
//
//	d = (max x - min x) / 31,  q = floor((x - min)/d + 0.5), 0..31
func encodeQ5_1(b []byte, x, w []float32) {
	d, inv, least := ranged(x, w, 31)
	putF16(b, d)
	putF16(b[2:], least)
	high := uint32(0)
	for i := range 16 {
		l, h := level(x[i]-least, inv, 0, 31), level(x[16+i]-least, inv, 0, 31)
		b[8+i] = byte(l&15 | h&15<<4)
		high |= l>>4<<i | h>>4<<(16+i)
	}
	binary.LittleEndian.PutUint32(b[4:], high)
}
