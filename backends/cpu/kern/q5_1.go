package kern

import "encoding/binary"

// decodeQ5_1 reads 24 bytes: f16 d, f16 m, 32 fifth bits, 16 bytes of nibbles
// as in Q5_0. Element i is bits·d + m.
func decodeQ5_1(b *block32, p []byte) {
	b.d, b.m = f16at(p, 0), f16at(p, 2)
	decode5(&b.q, binary.LittleEndian.Uint32(p[4:]), p[8:24], 0)
}
