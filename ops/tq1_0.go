package ops

// dequantTQ1_0 decodes a block of 256 ternary numbers, five to a byte.
//
//	byte q[48], byte h[4], f16 d:  y = (digit - 1) · d
//
// A byte v holds the fraction v/256 whose first digits in base 3 are its
// numbers: digit n is the integer part of 3·frac(v·3^n/256). Elements 32n+i of
// the first 160 are digit n of q[i]; elements 160+16n+i are digit n of q[32+i];
// elements 240+4n+i are digit n of h[i], n < 4.
func dequantTQ1_0(y []float32, b []byte) {
	q, h := b[:48], b[48:52]
	d := f16At(b, 52)
	pow := byte(1) // 3^n modulo 256: the fraction's shift
	for n := range 5 {
		for i := range 32 {
			y[32*n+i] = trit(q[i]*pow) * d
		}
		for i := range 16 {
			y[160+16*n+i] = trit(q[32+i]*pow) * d
		}
		for i := 0; i < 4 && n < 4; i++ {
			y[240+4*n+i] = trit(h[i]*pow) * d
		}
		pow *= 3
	}
}

// trit returns the first base-3 digit of v/256, less 1.
func trit(v byte) float32 { return float32(int(uint16(v)*3>>8) - 1) }
