package kern

// decodeQ6_K reads 210 bytes: 128 bytes of low nibbles, 64 bytes of high bit
// pairs, 16 int8 scales, f16 d. In each half of 128 elements, nibble byte l
// (0..63) holds elements l and l+64, and pair byte l (0..31) the high bits of
// l, l+32, l+64, l+96. Element i of group j is d·sc[j]·(q−32).
func decodeQ6_K(b *block256, p []byte) {
	b.d = f16at(p, 208)
	b.dmin, b.mn = 0, [16]uint8{}
	for j := range 16 {
		b.sc[j] = int8(p[192+j])
	}
	for h := range 2 {
		lo, hi, q := p[64*h:64*h+64], p[128+32*h:160+32*h], b.q[128*h:128*h+128]
		for l := range 32 {
			q[l] = int8(lo[l]&15|hi[l]&3<<4) - 32
			q[l+32] = int8(lo[l+32]&15|hi[l]>>2&3<<4) - 32
			q[l+64] = int8(lo[l]>>4|hi[l]>>4&3<<4) - 32
			q[l+96] = int8(lo[l+32]>>4|hi[l]>>6<<4) - 32
		}
	}
}
