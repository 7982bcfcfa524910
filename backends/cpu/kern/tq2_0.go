package kern

// decodeTQ2_0 reads 66 bytes: 64 bytes of 2-bit numbers in the order of Q2_K,
// f16 d. Element i is (q−1)·d.
func decodeTQ2_0(b *block256, p []byte) {
	b.d = f16at(p, 64)
	onlyScale(b)
	for h := range 2 {
		for l, v := range p[32*h : 32*h+32] {
			for s := range 4 {
				b.q[128*h+32*s+l] = int8(v>>(2*s)&3) - 1
			}
		}
	}
}
