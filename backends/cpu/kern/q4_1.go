package kern

// decodeQ4_1 reads 20 bytes: f16 d, f16 m, 16 bytes of nibbles in the order of
// Q4_0. Element i is nibble·d + m.
func decodeQ4_1(b *block32, p []byte) {
	b.d, b.m = f16at(p, 0), f16at(p, 2)
	for i, v := range p[4:20] {
		b.q[i] = int8(v & 15)
		b.q[i+16] = int8(v >> 4)
	}
}
