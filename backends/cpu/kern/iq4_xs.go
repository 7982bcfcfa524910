package kern

import "encoding/binary"

// decodeIQ4_XS reads 136 bytes: f16 d, 8 times the two high bits of the scales
// (u16), 4 bytes with their low nibbles, 128 bytes of nibbles; each 16 bytes
// hold 32 elements in the order of Q4_0. Element i of group j = i/32 is
// d·(sc[j]−32)·iq4Values[nibble].
func decodeIQ4_XS(b *block256, p []byte) {
	b.d = f16at(p, 0)
	b.dmin, b.mn = 0, [16]uint8{}
	high := binary.LittleEndian.Uint16(p[2:])
	for j := range 8 {
		s := int8(p[4+j/2]>>(4*(j%2))&15|uint8(high>>(2*j)&3)<<4) - 32
		b.sc[2*j], b.sc[2*j+1] = s, s
		for i, v := range p[8+16*j : 24+16*j] {
			b.q[32*j+i] = iq4Values[v&15]
			b.q[32*j+16+i] = iq4Values[v>>4]
		}
	}
}
