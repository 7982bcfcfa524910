package kern

// decodeTQ1_0 reads 54 bytes: 48 bytes of five ternary digits, 4 bytes of
// four, f16 d. A byte is the fraction 0.d0d1d2… in base 3, rounded up to 8
// bits; digit n is taken by multiplying with 3^n modulo 256 and then by 3.
// The first 32 bytes hold elements l+32n, the next 16 elements 160+l+16n, the
// last 4 elements 240+l+4n. Element i is (digit−1)·d.
func decodeTQ1_0(b *block256, p []byte) {
	b.d = f16at(p, 52)
	onlyScale(b)
	i := 0
	for _, part := range [...]struct{ from, to, digits int }{{0, 32, 5}, {32, 48, 5}, {48, 52, 4}} {
		pow := uint8(1)
		for range part.digits {
			for _, v := range p[part.from:part.to] {
				b.q[i] = int8(uint16(v*pow)*3>>8) - 1
				i++
			}
			pow *= 3
		}
	}
}

// onlyScale sets the groups of a superblock that has one scale.
func onlyScale(b *block256) {
	b.dmin, b.mn = 0, [16]uint8{}
	for j := range b.sc {
		b.sc[j] = 1
	}
}
