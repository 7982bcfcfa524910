package kern

// decodeQ4_0 reads 18 bytes: f16 d, 16 bytes of nibbles; byte i holds element
// i in its low and element i+16 in its high half. Element i is (nibble−8)·d.
func decodeQ4_0(b *block32, p []byte) {
	b.d = f16at(p, 0)
	for i, v := range p[2:18] {
		b.q[i] = int8(v&15) - 8
		b.q[i+16] = int8(v>>4) - 8
	}
}
