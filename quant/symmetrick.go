package quant

// scaleK is a block of 256 in groups with a scale each, a small signed integer
// in units of an f16 of the block:
//
//	y = d·s[g]·q
//
// Q3_K, Q6_K and IQ4_XS are such formats; of IQ4_XS q is one of 16 levels.
type scaleK struct {
	size   int     // elements of a group
	least  float32 // s is from least to -least-1
	levels bool    // q is a level of IQ4, else an integer from lo to hi
	lo, hi float32

	reach, step int // of the search, see symmetric

	d float32 // as f16 holds it
	s [16]int8
	q [256]int8
}

// fit chooses everything: a scale for each group, then the block's so that the
// largest is least, then the block's again to fit the integers that result.
func (k *scaleK) fit(x, w []float32) {
	var weights [256]float32
	errorWeights(weights[:], x, w, k.size)
	groups := 256 / k.size
	var scales [16]float32
	for g := range groups {
		at := g * k.size
		scales[g] = k.search(x[at:at+k.size], weights[at:at+k.size]).d()
	}
	most := largest(scales[:groups])
	k.d, _ = stored(most / k.least)
	if k.d == 0 {
		clear(k.s[:])
		clear(k.q[:])
		return
	}
	var sum scaled
	for g := range groups {
		at := g * k.size
		k.s[g] = int8(nearest(min(max(scales[g]/k.d, k.least), -k.least-1)))
		t := k.project(x[at:at+k.size], weights[at:at+k.size], k.inverse(g))
		s := float32(k.s[g])
		sum.xq += s * t.xq
		sum.qq += float32(s*s) * t.qq
	}
	if d, _ := stored(sum.d()); d != 0 {
		k.d = d
	}
	for g := range groups {
		k.round(g, x[g*k.size:][:k.size])
	}
}

// inverse returns 1/(d·s[g]), or 0 if s[g] is 0.
func (k *scaleK) inverse(g int) float32 {
	if k.s[g] == 0 {
		return 0
	}
	return 1 / (k.d * float32(k.s[g]))
}

func (k *scaleK) search(x, w []float32) scaled {
	if k.levels {
		return searchLevels(x, w, k.reach, k.step)
	}
	return symmetric(x, w, k.lo, k.hi, k.reach, k.step)
}

func (k *scaleK) project(x, w []float32, inv float32) scaled {
	if k.levels {
		return projectLevels(x, w, inv)
	}
	return project(x, w, inv, k.lo, k.hi)
}

// round sets the integers of a group to the nearest ones.
func (k *scaleK) round(g int, x []float32) {
	inv := k.inverse(g)
	q := k.q[g*k.size:][:len(x)]
	if k.levels {
		for i, v := range x {
			q[i] = int8(levelOf(v * inv))
		}
		return
	}
	for i, v := range x {
		y := v * inv
		if y < k.lo {
			y = k.lo
		}
		if y > k.hi {
			y = k.hi
		}
		q[i] = int8(nearest(y))
	}
}

// encodeQ3K encodes 16 groups of 16 with 6-bit scales; integers are -4..3.
func encodeQ3K(b []byte, x, w []float32) {
	k := scaleK{size: 16, least: -32, lo: -4, hi: 3, reach: 8, step: 4}
	k.fit(x, w)
	high, low, s := b[:32], b[32:96], b[96:108]
	clear(high)
	var q [256]byte
	for i, v := range k.q {
		q[i] = byte(v + 4)
		high[i%32] |= q[i] >> 2 << (i / 32)
	}
	packPairs(low, &q)
	clear(s)
	for g, v := range k.s {
		u := byte(v + 32)
		s[g%8] |= u & 15 << (g / 8 * 4)
		s[8+g%4] |= u >> 4 << (g / 4 * 2)
	}
	putF16(b[108:], k.d)
}

// encodeQ6K encodes 16 groups of 16 with int8 scales; integers are -32..31.
func encodeQ6K(b []byte, x, w []float32) {
	k := scaleK{size: 16, least: -128, lo: -32, hi: 31, reach: 30, step: 10}
	k.fit(x, w)
	for half := range 2 {
		q, low, high := k.q[128*half:][:128], b[64*half:][:64], b[128+32*half:][:32]
		for i := range 32 {
			q0, q1, q2, q3 := byte(q[i]+32), byte(q[32+i]+32), byte(q[64+i]+32), byte(q[96+i]+32)
			low[i] = q0&15 | q2<<4
			low[32+i] = q1&15 | q3<<4
			high[i] = q0>>4 | q1>>4<<2 | q2>>4<<4 | q3>>4<<6
		}
	}
	for g, v := range k.s {
		b[192+g] = byte(v)
	}
	putF16(b[208:], k.d)
}
