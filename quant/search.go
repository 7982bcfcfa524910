package quant

import "math"

// round32 adds 1.5·2^23 to a number of magnitude below 2^22, which leaves no
// bits for a fraction: the low bits are the nearest integer, ties to even.
const (
	shift     = 0x1.8p23
	shiftBits = 0x4b400000
)

// nearest returns the integer nearest to v, |v| < 2^22.
func nearest(v float32) int32 {
	return int32(math.Float32bits(v+shift)) - shiftBits
}

// stored returns the f16 that d is stored as, and its inverse, 0 for 0.
func stored(d float32) (scale, inv float32) {
	d = fromF16(toF16(d))
	if d == 0 {
		return 0, 0
	}
	return d, 1 / d
}

// scaled is a scale for a group, and the sums Σwxq and Σwq² of its integers,
// whose quotient it is. The error of a group falls by (Σwxq)²/Σwq² from Σwx².
type scaled struct{ xq, qq float32 }

func (s scaled) d() float32 {
	if s.xq == 0 {
		return 0
	}
	return s.xq / s.qq
}

// keep replaces s by t if that is better.
func (s *scaled) keep(t scaled) {
	if t.qq > 0 && float32(t.xq*t.xq)*s.qq > float32(s.xq*s.xq)*t.qq {
		*s = t
	}
}

// symmetric looks for the scale d, of either sign, for which
//
//	Σ w·(x - d·q)²,  q = clamp(round(x/d), lo, hi)
//
// is about least. It tries scales at which the largest element falls within
// reach tenths of a step of lo, and where there are few integers also those of
// the opposite sign, with the largest element near hi; each candidate's integers are given their least
// squares scale, and the best is followed for two rounds.
func symmetric(x, w []float32, lo, hi float32, reach, step int) scaled {
	most := largest(x)
	best := scaled{0, 1}
	if max(most, -most) < minScale {
		return best
	}
	for s := -reach; s <= reach; s += step {
		best.keep(project(x, w, (lo+0.1*float32(s))/most, lo, hi))
	}
	for s := -reach; s <= reach && hi < 16; s += step {
		best.keep(project(x, w, (hi+0.1*float32(s))/most, lo, hi))
	}
	for range 2 {
		if best.xq != 0 {
			best.keep(project(x, w, best.qq/best.xq, lo, hi))
		}
	}
	return best
}

// project returns the sums of the integers that 1/inv gives.
func project(x, w []float32, inv, lo, hi float32) scaled {
	w = w[:len(x)]
	var xq, qq, xq1, qq1 float32
	for i := 0; i+1 < len(x); i += 2 {
		q, p := x[i]*inv, x[i+1]*inv
		if q < lo {
			q = lo
		}
		if p < lo {
			p = lo
		}
		if q > hi {
			q = hi
		}
		if p > hi {
			p = hi
		}
		q, p = float32(q+shift)-shift, float32(p+shift)-shift
		wq, wp := w[i]*q, w[i+1]*p
		xq += float32(wq * x[i])
		xq1 += float32(wp * x[i+1])
		qq += float32(wq * q)
		qq1 += float32(wp * p)
	}
	return scaled{xq + xq1, qq + qq1}
}

// affine looks for the scale d ≥ 0 and the minimum m of a group for which
//
//	Σ w·(x - d·q - m)²,  q = clamp(round((x - m)/d), 0, top)
//
// is about least; m ≤ 0 unless free. x has at most 32 elements. It tries the
// scales at which the range of x spans top + s/10 steps, s from first to last by step;
// each candidate's integers are given their least squares solution, and the best
// is followed.
func affine(x, w []float32, top float32, free bool, first, last, step int) (f fitting) {
	least, most := x[0], x[0]
	for _, v := range x {
		if v < least {
			least = v
		}
		if v > most {
			most = v
		}
	}
	if !free && least > 0 {
		least = 0
	}
	f = fitting{n: len(x), top: top, free: free, m: least, err: float32(math.Inf(1))}
	if most-least < minScale {
		return f
	}
	for i, v := range x {
		wx := w[i] * v
		f.x[i], f.weight[i], f.wx[i] = v, w[i], wx
		f.sw += w[i]
		f.sx += wx
		f.sxx += float32(wx * v)
	}
	f.d = (most - least) / f.top
	span := 1 / (most - least)
	for s := first; s <= last; s += step {
		f.try((f.top+0.1*float32(s))*span, least)
	}
	for range 2 {
		if f.d <= 0 || !f.try(1/f.d, f.m) {
			break
		}
	}
	return f
}

// fitting is the best solution that affine has found.
type fitting struct {
	x, weight, wx [32]float32
	n             int
	sw, sx, sxx   float32 // Σw, Σwx, Σwx²
	top           float32
	d, m, err     float32
	sq, sqq       float32 // Σwq, Σwq²
	free          bool
}

// try fits d and m to the integers that inv and m0 give, and keeps them if they
// are better.
func (f *fitting) try(inv, m0 float32) bool {
	var sq, sqq, sxq, sq1, sqq1, sxq1 float32
	top := f.top
	for i := 0; i < f.n && i < 31; i += 2 {
		q, p := (f.x[i]-m0)*inv, (f.x[i+1]-m0)*inv
		if q > top {
			q = top
		}
		if p > top {
			p = top
		}
		if q < 0 {
			q = 0
		}
		if p < 0 {
			p = 0
		}
		q, p = float32(q+shift)-shift, float32(p+shift)-shift
		wq, wp := f.weight[i]*q, f.weight[i+1]*p
		sq += wq
		sq1 += wp
		sqq += float32(wq * q)
		sqq1 += float32(wp * p)
		sxq += float32(f.wx[i] * q)
		sxq1 += float32(f.wx[i+1] * p)
	}
	sq, sqq, sxq = sq+sq1, sqq+sqq1, sxq+sxq1
	det := float32(f.sw*sqq) - float32(sq*sq)
	if !(det > 0) {
		return false
	}
	d := (float32(f.sw*sxq) - float32(f.sx*sq)) / det
	m := (float32(sqq*f.sx) - float32(sq*sxq)) / det
	if m > 0 && !f.free {
		d, m = sxq/sqq, 0
	}
	// Σw(x-dq-m)² at the solution, where the derivatives are 0.
	err := f.sxx - float32(d*sxq) - float32(m*f.sx)
	if !(d > 0) || !(err < f.err) {
		return false
	}
	f.d, f.m, f.err, f.sq, f.sqq = d, m, err, sq, sqq
	return true
}
