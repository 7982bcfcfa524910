package ops

// dequantQ6K decodes a block of 256: 16 groups of 16 with an int8 scale each.
//
//	byte l[128], byte h[64], int8 s[16], f16 d;  group g of elements 16g..16g+15:
//	y = d·s[g]·(l4 + 16·h2 - 32)
//
// In each half of 128 elements, with 64 bytes of l and 32 of h, elements 32j+i
// have the nibble j/2 of byte 32·(j%2)+i of l and bits 2j and 2j+1 of byte i of h.
func dequantQ6K(y []float32, b []byte) {
	l, h, s := b[:128], b[128:192], b[192:208]
	d := f16At(b, 208)
	for g := range 16 {
		scale := d * float32(int8(s[g]))
		half, j, at := g/8, g%8/2, g%2*16
		low, high := l[64*half+j%2*32+at:], h[32*half+at:]
		for i := range 16 {
			y[16*g+i] = scale * float32(int(low[i]>>(j/2*4)&15|high[i]>>(2*j)&3<<4)-32)
		}
	}
}
