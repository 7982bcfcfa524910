package ops

// dequantQ4_1 decodes a block of 32.
//
//	f16 d, m, byte q[16]:  y[i] = (q[i] & 15)·d + m,  y[16+i] = (q[i] >> 4)·d + m
func dequantQ4_1(y []float32, b []byte) {
	d, m := f16At(b, 0), f16At(b, 2)
	for i := range 16 {
		q := b[4+i]
		// The conversion keeps the compiler from fusing product and sum.
		y[i] = float32(float32(q&15)*d) + m
		y[16+i] = float32(float32(q>>4)*d) + m
	}
}
