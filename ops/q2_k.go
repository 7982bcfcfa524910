package ops

// dequantQ2K decodes a block of 256: 16 groups of 16, each with a 4-bit scale
// and a 4-bit minimum.
//
//	byte s[16], byte q[64], f16 d, dmin;  group g of elements 16g..16g+15:
//	y = d·(s[g] & 15)·q2 - dmin·(s[g] >> 4)
//
// Each half of 128 elements has 32 bytes of q; its elements 32j+i are bits 2j
// and 2j+1 of byte i.
func dequantQ2K(y []float32, b []byte) {
	s, q := b[:16], b[16:80]
	d, dmin := f16At(b, 80), f16At(b, 82)
	for g := range 16 {
		scale, least := d*float32(s[g]&15), dmin*float32(s[g]>>4)
		shift := g % 8 / 2 * 2
		from := q[g/8*32+g%2*16:]
		for i := range 16 {
			y[16*g+i] = float32(scale*float32(from[i]>>shift&3)) - least
		}
	}
}
