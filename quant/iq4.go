package quant

import "encoding/binary"

// levelsIQ4 are the 16 levels of IQ4_NL and IQ4_XS.
// Source: the format; see ops.
var levelsIQ4 = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// nearestLevel maps 256 + floor(2y) to the index of the level nearest to y: the
// middles between levels are multiples of 1/2.
var nearestLevel = func() (t [512]uint8) {
	l := 0
	for i := range t {
		y := float32(i-256)/2 + 0.25
		for l < 15 && 2*y > levelsIQ4[l]+levelsIQ4[l+1] {
			l++
		}
		t[i] = uint8(l)
	}
	return t
}()

// levelOf returns the index of the level nearest to y.
func levelOf(y float32) uint8 {
	if y < -128 {
		y = -128
	}
	if y > 127.5 {
		y = 127.5
	}
	return nearestLevel[int32(float32(2*y)+256)&511]
}

// searchLevels looks for the scale d, of either sign, for which
//
//	Σ w·(x - d·l)²,  l the level nearest to x/d
//
// is about least, in the way of symmetric: the largest element falls within
// reach of the least level, or of the greatest.
func searchLevels(x, w []float32, reach, step int) scaled {
	most := largest(x)
	best := scaled{0, 1}
	if max(most, -most) < minScale {
		return best
	}
	for s := -reach; s <= reach; s += step {
		best.keep(projectLevels(x, w, (levelsIQ4[0]+float32(s))/most))
	}
	for s := -reach; s <= reach; s += step {
		best.keep(projectLevels(x, w, (levelsIQ4[15]+float32(s))/most))
	}
	for range 2 {
		if best.xq != 0 {
			best.keep(projectLevels(x, w, best.qq/best.xq))
		}
	}
	return best
}

// projectLevels returns the sums of the levels that 1/inv gives.
func projectLevels(x, w []float32, inv float32) scaled {
	w = w[:len(x)]
	var s scaled
	for i, v := range x {
		l := levelsIQ4[levelOf(v*inv)&15]
		wl := w[i] * l
		s.xq += float32(wl * v)
		s.qq += float32(wl * l)
	}
	return s
}

// encodeIQ4NL encodes a block of 32 with an f16 scale.
func encodeIQ4NL(b []byte, x, w []float32) {
	var weights [32]float32
	errorWeights(weights[:], x, w, 32)
	d, inv := stored(searchLevels(x, weights[:], 14, 4).d())
	putF16(b, d)
	for i := range 16 {
		b[2+i] = levelOf(x[i]*inv) | levelOf(x[16+i]*inv)<<4
	}
}

// encodeIQ4XS encodes 8 groups of 32 with 6-bit scales.
func encodeIQ4XS(b []byte, x, w []float32) {
	k := scaleK{size: 32, least: -32, levels: true, reach: 14, step: 4}
	k.fit(x, w)
	putF16(b, k.d)
	high, low := uint16(0), b[4:8]
	clear(low)
	for g, v := range k.s[:8] {
		u := byte(v + 32)
		low[g/2] |= u & 15 << (g % 2 * 4)
		high |= uint16(u>>4) << (2 * g)
	}
	binary.LittleEndian.PutUint16(b[2:], high)
	for g := range 8 {
		q := k.q[32*g:][:32]
		for i := range 16 {
			b[8+16*g+i] = byte(q[i]) | byte(q[16+i])<<4
		}
	}
}
