package quant

import "math"

// affineK is a block of 256 in groups with a scale and a minimum each, both
// small integers in units of an f16 of the block:
//
//	y = d·s[g]·q - dmin·m[g]
//
// Q2_K, Q4_K and Q5_K are such formats.
type affineK struct {
	size int   // elements of a group
	top  int32 // q is 0..top
	most int32 // s and m are 0..most
	// of the search, see affine
	first, last, step int

	d, dmin float32 // as f16 holds them
	s, m    [16]byte
	q       [256]byte
}

// fit chooses everything. The scales and minima of the groups come first, each
// by its own search; then they are rounded to what the block can hold, and the
// two scales of the block are fitted to the integers that result.
func (k *affineK) fit(x, w []float32) {
	var weights [256]float32
	errorWeights(weights[:], x, w, k.size)
	groups := 256 / k.size
	var group [16]target
	var mostScale, mostLeast float32
	for g := range groups {
		at := g * k.size
		f := affine(x[at:at+k.size], weights[at:at+k.size], float32(k.top), false, k.first, k.last, k.step)
		group[g] = target{f.d, -f.m, f.sqq, f.sq, f.sw}
		mostScale, mostLeast = max(mostScale, f.d), max(mostLeast, -f.m)
	}
	k.d, _ = stored(mostScale / float32(k.most))
	k.dmin, _ = stored(mostLeast / float32(k.most))
	if k.d == 0 && k.dmin == 0 {
		return
	}
	var fit blockFit
	for g := range groups {
		at := g * k.size
		k.choose(g, &group[g])
		k.round(g, x[at:at+k.size])
		fit.add(x[at:at+k.size], weights[at:at+k.size], k.q[at:], float32(k.s[g]), float32(k.m[g]))
	}
	d, dmin := fit.solve()
	if !(d > 0) || dmin < 0 {
		return
	}
	k.d, _ = stored(float32(d))
	k.dmin, _ = stored(float32(dmin))
	for g := range groups {
		k.round(g, x[g*k.size:][:k.size])
	}
}

// target is what a group would like: scale d and minimum m. With its integers
// kept, other ones add dd·Δd² - 2dm·ΔdΔm + mm·Δm² to the error.
type target struct{ d, m, dd, dm, mm float32 }

// choose sets s and m of a group: of the two nearest to each, the pair that adds
// least.
func (k *affineK) choose(g int, t *target) {
	s0, m0 := int32(0), int32(0)
	if k.d > 0 {
		s0 = min(int32(t.d/k.d), k.most)
	}
	if k.dmin > 0 {
		m0 = min(int32(t.m/k.dmin), k.most)
	}
	best := float32(math.Inf(1))
	for s := s0; s <= min(s0+1, k.most); s++ {
		for m := m0; m <= min(m0+1, k.most); m++ {
			dd, dm := t.d-float32(k.d*float32(s)), t.m-float32(k.dmin*float32(m))
			if add := float32(float32(t.dd*dd)*dd) - float32(2*float32(t.dm*dd)*dm) + float32(float32(t.mm*dm)*dm); add < best {
				best = add
				k.s[g], k.m[g] = byte(s), byte(m)
			}
		}
	}
}

// round sets the integers of a group to the nearest ones.
func (k *affineK) round(g int, x []float32) {
	d, m, inv := float32(k.d*float32(k.s[g])), float32(k.dmin*float32(k.m[g])), float32(0)
	if d > 0 {
		inv = 1 / d
	}
	top := float32(k.top)
	q := k.q[g*k.size:][:len(x)]
	for i, v := range x {
		y := (v + m) * inv
		if y > top {
			y = top
		}
		if y < 0 {
			y = 0
		}
		q[i] = byte(nearest(y))
	}
}

// blockFit sums what the least squares problem of a block's two scales needs.
type blockFit struct{ aa, ab, bb, xa, xb float64 }

func (f *blockFit) add(x, w []float32, q []byte, ls, lm float32) {
	q = q[:len(x)]
	w = w[:len(x)]
	s, m := float64(ls), float64(lm)
	var qq, sq, xq, sx, sw float32
	for i, v := range x {
		p := float32(q[i])
		wp := w[i] * p
		qq += float32(wp * p)
		sq += wp
		xq += float32(wp * v)
		sx += float32(w[i] * v)
		sw += w[i]
	}
	f.aa += s * s * float64(qq)
	f.ab += s * m * float64(sq)
	f.bb += m * m * float64(sw)
	f.xa += s * float64(xq)
	f.xb += m * float64(sx)
}

// solve returns d and dmin of least Σw(x - d·s·q + dmin·m)².
func (f *blockFit) solve() (d, dmin float64) {
	det := f.aa*f.bb - f.ab*f.ab
	if !(det > 1e-9*f.aa*f.bb) {
		if f.aa == 0 {
			return 0, 0
		}
		return f.xa / f.aa, 0
	}
	return (f.xa*f.bb - f.xb*f.ab) / det, (f.xa*f.ab - f.xb*f.aa) / det
}

// errorWeights returns how much the error of each element counts. Large
// elements count more, as the errors of few large products matter more than
// those of many small ones: without importance weights by mean plus magnitude,
// with them by sqrt(σ²+x²).
func errorWeights(dst, x, w []float32, size int) {
	if w == nil {
		for at := 0; at < len(x); at += size {
			sum := float32(0)
			for _, v := range x[at : at+size] {
				sum += float32(v * v)
			}
			mean := float32(math.Sqrt(float64(sum / float32(size))))
			for i, v := range x[at : at+size] {
				dst[at+i] = mean + max(v, -v)
			}
		}
		return
	}
	sum := float32(0)
	for _, v := range x {
		sum += float32(v * v)
	}
	variance := 2 * sum / float32(len(x))
	for i, v := range x {
		dst[i] = w[i] * float32(math.Sqrt(float64(variance+float32(v*v))))
	}
}

// encodeQ4_K and encodeQ5_K encode 8 groups of 32 with 6-bit scales and minima.
func encodeQ4K(b []byte, x, w []float32) {
	k := affineK{size: 32, top: 15, most: 63, first: -12, last: 8, step: 4}
	k.fit(x, w)
	putF16(b, k.d)
	putF16(b[2:], k.dmin)
	packScaleMin(b[4:16], &k)
	packNibbles(b[16:144], &k.q)
}

func encodeQ5K(b []byte, x, w []float32) {
	k := affineK{size: 32, top: 31, most: 63, first: -20, last: 10, step: 5}
	k.fit(x, w)
	putF16(b, k.d)
	putF16(b[2:], k.dmin)
	packScaleMin(b[4:16], &k)
	packNibbles(b[48:176], &k.q)
	high := b[16:48]
	clear(high)
	for i, q := range k.q {
		high[i%32] |= q >> 4 << (i / 32)
	}
}

// packNibbles writes the low nibbles of groups 2j and 2j+1 to 32 bytes.
func packNibbles(b []byte, q *[256]byte) {
	for j := range 4 {
		low, high := q[64*j:64*j+32], q[64*j+32:64*j+64]
		for i, v := range low {
			b[32*j+i] = v&15 | high[i]<<4
		}
	}
}

// packScaleMin packs 8 scales and minima of 6 bits into 12 bytes.
func packScaleMin(b []byte, k *affineK) {
	for g := range 4 {
		b[g] = k.s[g] | k.s[g+4]>>4<<6
		b[4+g] = k.m[g] | k.m[g+4]>>4<<6
		b[8+g] = k.s[g+4]&15 | k.m[g+4]<<4
	}
}

// encodeQ2_K encodes 16 groups of 16 with 4-bit scales and minima.
func encodeQ2K(b []byte, x, w []float32) {
	k := affineK{size: 16, top: 3, most: 15, first: -8, last: 4, step: 2}
	k.fit(x, w)
	for g := range 16 {
		b[g] = k.s[g] | k.m[g]<<4
	}
	packPairs(b[16:80], &k.q)
	putF16(b[80:], k.d)
	putF16(b[82:], k.dmin)
}

// packPairs writes the low two bits of each element: in each half of 128, 32
// bytes hold elements 32j+i at bits 2j of byte i.
func packPairs(b []byte, q *[256]byte) {
	for half := range 2 {
		from := q[128*half:][:128]
		for i := range 32 {
			b[32*half+i] = from[i]&3 | from[32+i]&3<<2 | from[64+i]&3<<4 | from[96+i]&3<<6
		}
	}
}
