package ops

import "math"

// levelsMXFP4 are twice the numbers of the 4-bit float E2M1.
var levelsMXFP4 = [16]float32{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// dequantMXFP4 decodes a block of 32.
//
//	byte e, byte q[16]:  y[i] = 2^(e-128) · level[q[i] & 15],  y[16+i] = 2^(e-128) · level[q[i] >> 4]
//
// Level 8, minus zero, counts as zero.
// Source: OCP Microscaling Formats specification 1.0.
func dequantMXFP4(y []float32, b []byte) {
	// 2^(e-128) has the exponent bits e-1; e = 0 and 1 are subnormal.
	bits := (uint32(b[0]) - 1) << 23
	if b[0] < 2 {
		bits = 1 << (21 + uint32(b[0]))
	}
	d := math.Float32frombits(bits)
	for i := range 16 {
		q := b[1+i]
		y[i] = levelsMXFP4[q&15] * d
		y[16+i] = levelsMXFP4[q>>4] * d
	}
}
