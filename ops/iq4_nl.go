package ops

// levelsIQ4 are the 16 levels of IQ4_NL and IQ4_XS, fixed by the format: closer
// to each other near zero, where weights are dense.
var levelsIQ4 = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// dequantIQ4NL decodes a block of 32.
//
//	f16 d, byte q[16]:  y[i] = d · level[q[i] & 15],  y[16+i] = d · level[q[i] >> 4]
func dequantIQ4NL(y []float32, b []byte) {
	d := f16At(b, 0)
	for i := range 16 {
		q := b[2+i]
		y[i] = d * levelsIQ4[q&15]
		y[16+i] = d * levelsIQ4[q>>4]
	}
}
