package ops

// dequantTQ2_0 decodes a block of 256 ternary numbers of two bits each.
//
//	byte q[64], f16 d:  y = (q2 - 1) · d
//
// In each half of 128 elements, with 32 bytes of q, elements 32j+i are bits 2j
// and 2j+1 of byte i.
func dequantTQ2_0(y []float32, b []byte) {
	d := f16At(b, 64)
	for g := range 8 {
		from, shift := b[g/4*32:], g%4*2
		for i := range 32 {
			y[32*g+i] = float32(int(from[i]>>shift&3)-1) * d
		}
	}
}
