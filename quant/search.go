package quant

// nearest returns the nearest integer of |v| below 2^22, ties to even.
func nearest(v float32) float32 {
	// Adding 1.5·2^23 leaves no bits for a fraction.
	const shift = 0x1.8p23
	return float32(v+shift) - shift
}

// symmetric returns the scale d, an f16 of either sign, and 1/d, for which
//
//	Σ w·(x - d·q)²,  q = clamp(round(x/d), lo, hi)
//
// is about least. It tries scales at which the largest element falls near lo,
// each followed by the least squares solution d = Σwxq / Σwq² of its integers.
func symmetric(x, w []float32, lo, hi float32) (d, inv float32) {
	most := largest(x)
	if max(most, -most) < minScale {
		return 0, 0
	}
	bestXQ, bestQQ := float32(0), float32(1)
	try := func(inv float32) {
		xq, qq := float32(0), float32(0)
		for i, v := range x {
			q := min(max(nearest(min(max(float32(v*inv), -1000), 1000)), lo), hi)
			wq := w[i] * q
			xq += float32(wq * v)
			qq += float32(wq * q)
		}
		// The error falls by (Σwxq)²/Σwq².
		if qq > 0 && float32(xq*xq)*bestQQ > float32(bestXQ*bestXQ)*qq {
			bestXQ, bestQQ = xq, qq
		}
	}
	for s := -9; s <= 9; s++ {
		try((lo + 0.1*float32(s)) / most)
	}
	for range 2 {
		if bestXQ != 0 {
			try(bestQQ / bestXQ)
		}
	}
	return stored(bestXQ / bestQQ)
}

// stored returns the f16 that d is stored as, and its inverse.
func stored(d float32) (scale, inv float32) {
	d = fromF16(toF16(d))
	if d == 0 {
		return 0, 0
	}
	return d, 1 / d
}

// affine returns the scale d ≥ 0 and the minimum m, both f16, and 1/d, for which
//
//	Σ w·(x - d·q - m)²,  q = clamp(round((x - m)/d), 0, top)
//
// is about least. It tries scales around the one that spans all elements, each
// followed by the least squares solution of its integers.
func affine(x, w []float32, top int) (d, inv, m float32) {
	least, most := x[0], x[0]
	sw, sx, sxx := float32(0), float32(0), float32(0)
	for i, v := range x {
		least, most = min(least, v), max(most, v)
		wx := w[i] * v
		sw += w[i]
		sx += wx
		sxx += float32(wx * v)
	}
	least, most = max(least, -maxScale), min(most, maxScale)
	_, inv = inverse((most - least) / float32(top))
	d, m = (most-least)/float32(top), least
	bestErr := float32(-1)
	try := func(inv, m0 float32) {
		sq, sqq, sxq := float32(0), float32(0), float32(0)
		for i, v := range x {
			q := nearest(min(max(float32((v-m0)*inv), 0), float32(top)))
			wq := w[i] * q
			sq += wq
			sqq += float32(wq * q)
			sxq += float32(wq * v)
		}
		det := float32(sw*sqq) - float32(sq*sq)
		if det <= 0 {
			return
		}
		nd := (float32(sw*sxq) - float32(sx*sq)) / det
		nm := (float32(sqq*sx) - float32(sq*sxq)) / det
		err := sxx - float32(nd*sxq) - float32(nm*sx)
		if nd > 0 && (bestErr < 0 || err < bestErr) {
			bestErr, d, m = max(err, 0), nd, nm
		}
	}
	if inv > 0 {
		for s := -10; s <= 9; s++ {
			try((float32(top)+0.1*float32(s))/(most-least), least)
		}
		try(1/d, m)
	}
	d, inv = stored(d)
	return d, inv, fromF16(toF16(m))
}
