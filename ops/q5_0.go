package ops

import "encoding/binary"

// dequantQ5_0 decodes a block of 32.
//
//	f16 d, uint32 h, byte q[16]; bit i of h is the fifth bit of element i:
//	y[i] = (q[i] & 15 + 16·h[i] - 16) · d,  y[16+i] = (q[i] >> 4 + 16·h[16+i] - 16) · d
func dequantQ5_0(y []float32, b []byte) {
	d, h := f16At(b, 0), binary.LittleEndian.Uint32(b[2:])
	for i := range 16 {
		q := uint32(b[6+i])
		y[i] = float32(int(q&15|h>>i&1<<4)-16) * d
		y[16+i] = float32(int(q>>4|h>>(16+i)&1<<4)-16) * d
	}
}
