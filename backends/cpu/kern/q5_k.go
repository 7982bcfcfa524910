package kern

// decodeQ5_K reads 176 bytes: f16 d, f16 dmin, 12 bytes of scales and minima
// as in Q4_K, 32 bytes of fifth bits (bit j of byte l belongs to element
// 32j+l), 128 bytes of nibbles as in Q4_K.
func decodeQ5_K(b *block256, p []byte) {
	b.d, b.dmin = f16at(p, 0), f16at(p, 2)
	decodeScales4(b, p[4:16])
	high := p[16:48]
	for c := range 4 {
		for l, v := range p[48+32*c : 80+32*c] {
			b.q[64*c+l] = int8(v&15 | high[l]>>(2*c)&1<<4)
			b.q[64*c+32+l] = int8(v>>4 | high[l]>>(2*c+1)&1<<4)
		}
	}
}
