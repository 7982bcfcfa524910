package kern

import "math"

// mxfp4Values are twice the values of the 4-bit float e2m1.
// Source: OCP Microscaling Formats specification 1.0, table 5.
var mxfp4Values = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// decodeMXFP4 reads 17 bytes: an exponent e, 16 bytes of nibbles in the order
// of Q4_0. Element i is mxfp4Values[nibble]·2^(e−128); the halved scale makes
// up for the doubled values.
func decodeMXFP4(b *block32, p []byte) {
	b.d = e8m0Half(p[0])
	for i, v := range p[1:17] {
		b.q[i] = mxfp4Values[v&15]
		b.q[i+16] = mxfp4Values[v>>4]
	}
}

// e8m0Half returns 2^(e−128); e below 2 gives a subnormal number.
func e8m0Half(e uint8) float32 {
	if e < 2 {
		return math.Float32frombits(0x200000 << e)
	}
	return math.Float32frombits(uint32(e-1) << 23)
}
