package ops

// dequantQ3K decodes a block of 256: 16 groups of 16 with a 6-bit scale each.
//
//	byte h[32], byte q[64], byte s[12], f16 d;  group g of elements 16g..16g+15:
//	y = d·(scale(g) - 32)·(q2 - 4 + 4·hbit)
//
// Each half of 128 elements has 32 bytes of q; its elements 32j+i are bits 2j
// and 2j+1 of byte i. The third bit of element 32j+i of the whole block is bit j
// of h[i]. The low 4 bits of the scales 0..7 and 8..15 are the nibbles of
// s[0..7], the high 2 bits of scale g are bits 2·(g/4) of s[8+g%4].
func dequantQ3K(y []float32, b []byte) {
	h, q, s := b[:32], b[32:96], b[96:108]
	d := f16At(b, 108)
	for g := range 16 {
		scale := d * float32(int(s[g%8]>>(g/8*4)&15|s[8+g%4]>>(g/4*2)&3<<4)-32)
		shift := g % 8 / 2 * 2
		from, high := q[g/8*32+g%2*16:], h[g%2*16:]
		for i := range 16 {
			y[16*g+i] = scale * float32(int(from[i]>>shift&3|high[i]>>(g/2)&1<<2)-4)
		}
	}
}
