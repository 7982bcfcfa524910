package ops

// dequantQ4_0 decodes a block of 32.
//
//	f16 d, byte q[16]:  y[i] = (q[i] & 15 - 8) · d,  y[16+i] = (q[i] >> 4 - 8) · d
func dequantQ4_0(y []float32, b []byte) {
	d := f16At(b, 0)
	for i := range 16 {
		q := b[2+i]
		y[i] = float32(int(q&15)-8) * d
		y[16+i] = float32(int(q>>4)-8) * d
	}
}
