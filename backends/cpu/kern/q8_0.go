package kern

// decodeQ8_0 reads 34 bytes: f16 d, 32 int8 q. Element i is q[i]·d.
func decodeQ8_0(b *block32, p []byte) {
	b.d = f16at(p, 0)
	for i, v := range p[2:34] {
		b.q[i] = int8(v)
	}
}
