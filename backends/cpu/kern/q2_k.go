package kern

// decodeQ2_K reads 84 bytes: 16 group bytes (low half scale, high half
// minimum), 64 bytes of 2-bit numbers, f16 d, f16 dmin. Within each half of
// 128 elements, byte l of 32 holds elements l, l+32, l+64, l+96, lowest bits
// first. Element i of group j is d·sc[j]·q − dmin·mn[j].
func decodeQ2_K(b *block256, p []byte) {
	b.d, b.dmin = f16at(p, 80), f16at(p, 82)
	for j, v := range p[:16] {
		b.sc[j] = int8(v & 15)
		b.mn[j] = v >> 4
	}
	for h := range 2 {
		for l, v := range p[16+32*h : 48+32*h] {
			for s := range 4 {
				b.q[128*h+32*s+l] = int8(v >> (2 * s) & 3)
			}
		}
	}
}
