package ops

// dequantQ8_0 decodes a block of 32.
//
//	f16 d, int8 q[32]:  y[i] = q[i] · d
func dequantQ8_0(y []float32, b []byte) {
	d := f16At(b, 0)
	for i := range 32 {
		y[i] = float32(int8(b[2+i])) * d
	}
}
