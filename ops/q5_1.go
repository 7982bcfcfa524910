package ops

import "encoding/binary"

// dequantQ5_1 decodes a block of 32.
//
//	f16 d, m, uint32 h, byte q[16]; bit i of h is the fifth bit of element i:
//	y[i] = (q[i] & 15 + 16·h[i])·d + m,  y[16+i] = (q[i] >> 4 + 16·h[16+i])·d + m
func dequantQ5_1(y []float32, b []byte) {
	d, m, h := f16At(b, 0), f16At(b, 2), binary.LittleEndian.Uint32(b[4:])
	for i := range 16 {
		q := uint32(b[8+i])
		// The conversion keeps the compiler from fusing product and sum.
		y[i] = float32(float32(q&15|h>>i&1<<4)*d) + m
		y[16+i] = float32(float32(q>>4|h>>(16+i)&1<<4)*d) + m
	}
}
