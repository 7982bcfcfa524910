package ops

// dequantQ4K decodes a block of 256: 8 groups of 32, each with a 6-bit scale
// and a 6-bit minimum.
//
//	f16 d, dmin, byte s[12], byte q[128];  group g of elements 32g..32g+31:
//	y = d·scale(g)·q4 - dmin·min(g)
//
// Groups 2j and 2j+1 are the low and the high nibbles of q[32j..32j+31].
func dequantQ4K(y []float32, b []byte) {
	d, dmin, q := f16At(b, 0), f16At(b, 2), b[16:144]
	for g := range 8 {
		sc, m := scaleMinK(b[4:16], g)
		scale, least := d*float32(sc), dmin*float32(m)
		from, shift := q[g/2*32:], g%2*4
		for i := range 32 {
			y[32*g+i] = float32(scale*float32(from[i]>>shift&15)) - least
		}
	}
}

// scaleMinK unpacks scale and minimum of group g from the 12 bytes Q4_K and
// Q5_K share: for groups 0..3 the low 6 bits of s[g] and s[4+g]; for groups 4..7
// the nibbles of s[4+g] with the two top bits of s[g-4] and s[g].
func scaleMinK(s []byte, g int) (scale, least byte) {
	if g < 4 {
		return s[g] & 63, s[4+g] & 63
	}
	return s[4+g]&15 | s[g-4]>>6<<4, s[4+g]>>4 | s[g]>>6<<4
}
