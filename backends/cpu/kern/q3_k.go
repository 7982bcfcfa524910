package kern

import "encoding/binary"

// decodeQ3_K reads 110 bytes: 32 bytes of high bits (bit s of byte l belongs
// to element 32s+l), 64 bytes of 2-bit numbers in the order of Q2_K, 12 bytes
// of 6-bit scales, f16 d. Element i of group j is d·(sc[j]−32)·(q−4), q with
// its high bit.
func decodeQ3_K(b *block256, p []byte) {
	b.d = f16at(p, 108)
	b.dmin, b.mn = 0, [16]uint8{}
	decodeScales3(&b.sc, p[96:108])
	for h := range 2 {
		for l, v := range p[32+32*h : 64+32*h] {
			for s := range 4 {
				b.q[128*h+32*s+l] = int8(v>>(2*s)&3|p[l]>>(4*h+s)&1<<2) - 4
			}
		}
	}
}

// decodeScales3 unpacks 16 6-bit numbers: four low bits from the nibbles of
// bytes 0..7 (low nibbles first), two high bits from bytes 8..11. The result
// is the number minus 32.
func decodeScales3(sc *[16]int8, p []byte) {
	lo := binary.LittleEndian.Uint64(p)
	hi := binary.LittleEndian.Uint32(p[8:])
	for j := range 8 {
		sc[j] = int8(lo >> (8 * j) & 15)
		sc[j+8] = int8(lo >> (8*j + 4) & 15)
	}
	for j := range 16 {
		sc[j] = (sc[j] | int8(hi>>(8*(j%4)+2*(j/4))&3)<<4) - 32
	}
}
