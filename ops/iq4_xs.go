package ops

import "encoding/binary"

// dequantIQ4XS decodes a block of 256: 8 groups of 32 with a 6-bit scale each.
//
//	f16 d, uint16 h, byte s[4], byte q[128];  group g of elements 32g..32g+31:
//	y = d·(scale(g) - 32)·level[q4]
//
// Bits 0..3 of scale g are nibble g%2 of s[g/2], bits 4 and 5 are bits 2g and
// 2g+1 of h. A group is 16 bytes: low nibbles first, then high nibbles.
func dequantIQ4XS(y []float32, b []byte) {
	d, h, s, q := f16At(b, 0), binary.LittleEndian.Uint16(b[2:]), b[4:8], b[8:136]
	for g := range 8 {
		sc := int(s[g/2]>>(g%2*4)&15) | int(h>>(2*g)&3)<<4
		scale := d * float32(sc-32)
		for i := range 16 {
			v := q[16*g+i]
			y[32*g+i] = scale * levelsIQ4[v&15]
			y[32*g+16+i] = scale * levelsIQ4[v>>4]
		}
	}
}
