package kern

// iq4Values are the 16 numbers a nibble of IQ4_NL and IQ4_XS stands for.
// Source: the formats' definition in ggml.
var iq4Values = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// decodeIQ4_NL reads 18 bytes laid out as Q4_0. Element i is
// iq4Values[nibble]·d.
func decodeIQ4_NL(b *block32, p []byte) {
	b.d = f16at(p, 0)
	for i, v := range p[2:18] {
		b.q[i] = iq4Values[v&15]
		b.q[i+16] = iq4Values[v>>4]
	}
}
