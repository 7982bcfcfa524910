package ops

// dequantQ5K decodes a block of 256: Q4_K with a fifth bit.
//
//	f16 d, dmin, byte s[12], byte h[32], byte q[128];  group g of elements 32g..32g+31:
//	y = d·scale(g)·(q4 + 16·hbit) - dmin·min(g)
//
// Groups 2j and 2j+1 are the low and the high nibbles of q[32j..32j+31]; the
// fifth bit of element 32g+i is bit g of h[i].
func dequantQ5K(y []float32, b []byte) {
	d, dmin, h, q := f16At(b, 0), f16At(b, 2), b[16:48], b[48:176]
	for g := range 8 {
		sc, m := scaleMinK(b[4:16], g)
		scale, least := d*float32(sc), dmin*float32(m)
		from, shift := q[g/2*32:], g%2*4
		for i := range 32 {
			y[32*g+i] = float32(scale*float32(from[i]>>shift&15|h[i]>>g&1<<4)) - least
		}
	}
}
