package kern

// decodeQ4_K reads 144 bytes: f16 d, f16 dmin, 12 bytes of 6-bit scales and
// minima, 128 bytes of nibbles. Byte l of the 32 bytes c holds element 64c+l
// in its low and 64c+32+l in its high half. Element i of group j = i/32 is
// d·sc[j]·q − dmin·mn[j].
func decodeQ4_K(b *block256, p []byte) {
	b.d, b.dmin = f16at(p, 0), f16at(p, 2)
	decodeScales4(b, p[4:16])
	for c := range 4 {
		for l, v := range p[16+32*c : 48+32*c] {
			b.q[64*c+l] = int8(v & 15)
			b.q[64*c+32+l] = int8(v >> 4)
		}
	}
}

// decodeScales4 unpacks the 6-bit scales and minima of the eight groups of a
// Q4_K or Q5_K superblock.
func decodeScales4(b *block256, p []byte) {
	for j := range 8 {
		var s, m uint8
		if j < 4 {
			s, m = p[j]&63, p[j+4]&63
		} else {
			s = p[j+4]&15 | p[j-4]>>6<<4
			m = p[j+4]>>4 | p[j]>>6<<4
		}
		b.sc[2*j], b.sc[2*j+1] = int8(s), int8(s)
		b.mn[2*j], b.mn[2*j+1] = m, m
	}
}
