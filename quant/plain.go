package quant

import (
	"encoding/binary"
	"math"
)

// encodeF32 writes numbers as they are.
func encodeF32(b []byte, x []float32) {
	for i, v := range x {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
	}
}

// encodeF16 rounds to the nearest f16, ties to even; numbers beyond 65504 become
// ±65504.
func encodeF16(b []byte, x []float32) {
	for i, v := range x {
		binary.LittleEndian.PutUint16(b[2*i:], toF16(v))
	}
}

// encodeBF16 rounds to the nearest bf16, ties to even; numbers that would round
// to infinity become the largest.
func encodeBF16(b []byte, x []float32) {
	for i, v := range x {
		u := math.Float32bits(v)
		u += 0x7fff + u>>16&1
		if u&0x7f800000 == 0x7f800000 {
			u -= 0x8000
		}
		binary.LittleEndian.PutUint16(b[2*i:], uint16(u>>16))
	}
}

// toF16 returns the nearest f16 of a finite number, ties to even, at most the
// largest finite one in magnitude.
func toF16(x float32) uint16 {
	u := math.Float32bits(x)
	sign, u := uint16(u>>16&0x8000), u&0x7fffffff
	switch {
	case u >= 0x477ff000: // rounds to 65536 or more
		return sign | 0x7bff
	case u < 0x38800000: // below 2^-14: a multiple of 2^-24
		// Adding 0.5 leaves the number in units of 2^-24 in the low bits.
		y := math.Float32frombits(u) + 0.5
		return sign | uint16(math.Float32bits(y)-math.Float32bits(0.5))
	}
	u += 0xfff + u>>13&1
	return sign | uint16(u>>13-(127-15)<<10)
}

// fromF16 returns the number a finite f16 stands for.
func fromF16(h uint16) float32 {
	sign, rest := uint32(h&0x8000)<<16, uint32(h&0x7fff)
	if rest < 0x400 {
		return math.Float32frombits(sign | math.Float32bits(float32(rest)*0x1p-24))
	}
	return math.Float32frombits(sign | (rest<<13 + (127-15)<<23))
}

// putF16 stores a scale and returns what it decodes to.
func putF16(b []byte, d float32) float32 {
	h := toF16(d)
	binary.LittleEndian.PutUint16(b, h)
	return fromF16(h)
}
