package quant

import "math"

// levelsMXFP4 are twice the magnitudes of the 4-bit float E2M1.
var levelsMXFP4 = [8]float32{0, 1, 2, 3, 4, 6, 8, 12}

// nearestE2M1 maps floor(2y) to the index of the level nearest to y: the middles
// between levels are multiples of 1/2.
var nearestE2M1 = func() (t [32]uint8) {
	l := 0
	for i := range t {
		for l < 7 && float32(i)+0.5 > levelsMXFP4[l]+levelsMXFP4[l+1] {
			l++
		}
		t[i] = uint8(l)
	}
	return t
}()

// encodeMXFP4 encodes a block of 32 with a power of two as scale. The largest
// element has the exponent of the largest level, or half of that: whichever
// leaves the smaller error. (The specification takes the first, which cuts
// numbers above 6/4 of the power of two off.)
// Source: OCP Microscaling Formats specification 1.0.
func encodeMXFP4(b []byte, x, w []float32) {
	amax := largest(x)
	amax = max(amax, -amax)
	if amax == 0 {
		clear(b)
		return
	}
	_, e := math.Frexp(float64(amax)) // 2^(e-1) ≤ amax < 2^e
	// The scale of levels of twice the size is 2^(b[0]-128), and the largest has
	// the exponent 3.
	const most = 252 // 12 times 2^(253-128) is infinite
	first := min(max(e-1-3+128, 0), most)
	best := float32(math.Inf(1))
	for try := first; try <= min(first+1, most); try++ {
		inv, sum := float32(math.Ldexp(1, 128-try)), float32(0)
		for i, v := range x {
			y := max(v, -v) * inv
			d := y - levelsMXFP4[levelMXFP4(y)]
			d *= d
			if w != nil {
				d *= w[i]
			}
			sum += d
		}
		// In units of the first scale: twice as large errors count four times.
		if try != first {
			sum *= 4
		}
		if sum < best {
			best, b[0] = sum, byte(try)
		}
	}
	inv := float32(math.Ldexp(1, 128-int(b[0])))
	for i := range 16 {
		b[1+i] = bitsMXFP4(x[i]*inv) | bitsMXFP4(x[16+i]*inv)<<4
	}
}

// levelMXFP4 returns the index of the level nearest to y, which is not negative.
func levelMXFP4(y float32) uint8 {
	if y > 15 {
		y = 15
	}
	return nearestE2M1[int32(2*y)&31] & 7
}

// bitsMXFP4 returns the 4 bits of the level nearest to y.
func bitsMXFP4(y float32) byte {
	if y < 0 {
		if l := levelMXFP4(-y); l > 0 { // minus zero is not written
			return 8 | l
		}
		return 0
	}
	return levelMXFP4(y)
}
