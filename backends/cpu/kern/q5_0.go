package kern

import "encoding/binary"

// decodeQ5_0 reads 22 bytes: f16 d, 32 fifth bits (bit i for element i), 16
// bytes of nibbles in the order of Q4_0. Element i is (bits−16)·d.
func decodeQ5_0(b *block32, p []byte) {
	b.d = f16at(p, 0)
	decode5(&b.q, binary.LittleEndian.Uint32(p[2:]), p[6:22], 16)
}

func decode5(q *[32]int8, high uint32, nibbles []byte, off int8) {
	for i, v := range nibbles {
		q[i] = int8(v&15|uint8(high>>i)<<4&16) - off
		q[i+16] = int8(v>>4|uint8(high>>(i+16))<<4&16) - off
	}
}
