package opstest

import (
	"math"

	"graphrun/graph"
	"graphrun/ops"
)

// size is T rows of K elements times a matrix [N,K].
type size struct{ t, n, k int }

// plainSizes are for weights of single elements, blockSizes(32) and (256) for
// weights in blocks: every tail of tiles and vectors, and rows longer than one
// step of any kernel.
var plainSizes = []size{
	{0, 3, 8}, {1, 1, 1}, {1, 5, 7}, {2, 3, 8}, {3, 17, 15}, {1, 33, 16}, {5, 16, 17}, {6, 31, 33}, {7, 32, 64},
	{1, 65, 255}, {13, 48, 256}, {4, 64, 257}, {2, 7, 509}, {1, 96, 1024}, {65, 34, 96}, {130, 3, 40},
}

func blockSizes(block int) []size {
	var s []size
	for i, t := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 13, 65} {
		n := []int{3, 1, 5, 16, 17, 31, 32, 33, 9, 34, 18}[i]
		k := block * []int{1, 1, 2, 3, 4, 5, 1, 2, 3, 2, 1}[i]
		s = append(s, size{t, n, k})
	}
	return append(s, size{1, 67, 8 * block}, size{1, 3, 17 * block})
}

// some takes every step-th size: operations that share their inner loop with
// matmul need not repeat all of its sizes.
func some(s []size, step int) []size {
	var out []size
	for i := 0; i < len(s); i += step {
		out = append(out, s[i])
	}
	return out
}

func sizesOf(dt graph.DType) []size {
	if dt.BlockElems() == 1 {
		return plainSizes
	}
	return blockSizes(dt.BlockElems())
}

// product returns the product of row x and row w and how far a backend may be
// off. rounded says that it may round x to int8 in blocks of the given size.
//
// f32 sums in 16 lanes: each of the K/16 steps of a lane, and the few steps that
// join lanes and scales, may be off by 2^-24 of what has been added up. Formats
// with an offset or a minimum add numbers as large as the row's largest weight
// where the weight itself is small. Rounding x to int8 moves each element by up
// to half a step, 1/254 of its block's largest.
func product(w []float64, x []float32, block int, rounded bool) (y, tol float64) {
	wmax, xsum := 0.0, 0.0
	for i, z := range w {
		y += z * float64(x[i])
		wmax = max(wmax, math.Abs(z))
		xsum += math.Abs(float64(x[i]))
	}
	tol = float64(16+len(w)/16) * 0x1p-24 * wmax * xsum
	if rounded {
		for b := 0; b < len(w); b += block {
			amax, wsum := 0.0, 0.0
			for i := b; i < b+block; i++ {
				amax = max(amax, math.Abs(float64(x[i])))
				wsum += math.Abs(w[i])
			}
			tol += wsum * amax / 254 * 1.001
		}
	}
	return y, tol
}

// products is product for all rows of x and w, in the order [T,N].
func products(w []float64, x []float32, s size, dt graph.DType, exact bool) (y, tol []float64) {
	act := ops.ActType(dt)
	for t := range s.t {
		for n := range s.n {
			a, b := product(w[n*s.k:(n+1)*s.k], x[t*s.k:(t+1)*s.k], act.BlockElems(), !exact && act != graph.F32)
			y, tol = append(y, a), append(tol, b)
		}
	}
	return y, tol
}

// spread is the scale of activations of a case: models go from 1e-3 to 1e6
// (field report NU-01).
func spread(i int) float64 { return []float64{1, 0.01, 30, 1e5}[i%4] }

func matmulCases(exact bool) []*Case {
	var cases []*Case
	for _, dt := range graph.DTypes() {
		if !ops.IsWeightType(dt) {
			continue
		}
		for i, s := range sizesOf(dt) {
			c := newCase("matmul", "%s/%dx%dx%d", dt, s.t, s.n, s.k)
			x := normal(random(c.Name), s.t*s.k, spread(i))
			w := Weight(c.Name, dt, s.n, s.k)
			y, tol := products(dense(w), x, s, dt, exact)
			c.output("y", ops.MatMul(c.b, c.input("x", "T", x, s.t, s.k), c.weight("w", w)), y, tol)
			cases = append(cases, c.done())
		}
	}
	return cases
}

// gateOf returns the function of a kind of gate and a bound of its slope.
func gateOf(kind string) (f func(g, u float64) float64, slope func(g, u float64) (dg, du float64)) {
	act := siluOf
	switch kind {
	case ops.SwigluOAI:
		h := func(g float64) float64 { g = min(g, 7); return g / (1 + math.Exp(-1.702*g)) }
		clamp := func(u float64) float64 { return max(-7, min(7, u)) }
		return func(g, u float64) float64 { return h(g) * (clamp(u) + 1) },
			func(g, u float64) (float64, float64) { return 1.2 * math.Abs(clamp(u)+1), math.Abs(h(g)) }
	case ops.GELU:
		act = geluOf
	}
	return func(g, u float64) float64 { return act(g) * u },
		func(g, u float64) (float64, float64) { return 1.2 * math.Abs(u), math.Abs(act(g)) } // |gelu'|, |silu'| < 1.13
}

func gatedCases(exact bool) []*Case {
	var cases []*Case
	for _, kind := range []string{ops.SiLU, ops.GELU, ops.SwigluOAI} {
		f, _ := gateOf(kind)
		for i, n := range Widths {
			t := Rows[i%len(Rows)]
			for _, form := range []string{"gated", "gatedhalves"} {
				c := newCase(form, "%s/%dx%d", kind, t, n)
				if i%3 == 2 {
					c = newCase(form, "%s/%dx2x%d", kind, t, n)
				}
				vectors, sizes := t, []int{t, n}
				if i%3 == 2 {
					vectors, sizes = 2*t, []int{t, 2, n}
				}
				r := random(c.Name)
				g, u := normal(r, vectors*n, 3), normal(r, vectors*n, 3)
				want := f64s(vectors*n, func(i int) float64 { return f(float64(g[i]), float64(u[i])) })
				// The activation to 2e-6 of itself or of 1, as in silu, times up.
				tol := f64s(vectors*n, func(i int) float64 { return 2e-6*math.Abs(want[i]) + 2e-6*(1+math.Abs(float64(u[i]))) })
				var y *graph.Value
				if form == "gated" {
					y = ops.Gated(c.b, c.input("gate", "T", g, sizes...), c.input("up", "T", u, sizes...), kind)
				} else {
					var both []float32
					for o := 0; o < len(g); o += n {
						both = append(append(both, g[o:o+n]...), u[o:o+n]...)
					}
					sizes[len(sizes)-1] = 2 * n
					y = ops.GatedHalves(c.b, c.input("x", "T", both, sizes...), kind)
				}
				c.output("y", y, want, tol)
				cases = append(cases, c.done())
			}
		}
	}
	for _, dt := range graph.DTypes() {
		if ops.IsWeightType(dt) {
			cases = append(cases, gatedMatMulCases(dt, exact)...)
		}
	}
	return cases
}

func gatedMatMulCases(dt graph.DType, exact bool) []*Case {
	var cases []*Case
	for i, s := range some(sizesOf(dt), 3) {
		kind := []string{ops.SiLU, ops.GELU, ops.SwigluOAI}[i%3]
		f, slope := gateOf(kind)
		c := newCase("gatedmatmul", "%s/%s/%dx%dx%d", dt, kind, s.t, s.n, s.k)
		x := normal(random(c.Name), s.t*s.k, 1)
		wg, wu := Weight(c.Name+"g", dt, s.n, s.k), Weight(c.Name+"u", dt, s.n, s.k)
		g, gt := products(dense(wg), x, s, dt, exact)
		u, ut := products(dense(wu), x, s, dt, exact)
		want := f64s(len(g), func(i int) float64 { return f(g[i], u[i]) })
		// The errors of both products, times the slopes of the gate.
		tol := f64s(len(g), func(i int) float64 {
			dg, du := slope(g[i], u[i])
			return gt[i]*(dg+1.2*ut[i]) + ut[i]*du + 2e-6*(math.Abs(want[i])+math.Abs(u[i])+1)
		})
		y := ops.GatedMatMul(c.b, c.input("x", "T", x, s.t, s.k), c.weight("wg", wg), c.weight("wu", wu), kind)
		c.output("y", y, want, tol)
		cases = append(cases, c.done())
	}
	return cases
}

// quantizeCases check quantize by products with quantized rows: they are as far
// off as rounding to int8 may be and no further. A block of zeros, one too small
// to count and one with outliers are among the rows.
func quantizeCases() []*Case {
	var cases []*Case
	for _, dt := range graph.DTypes() {
		to := ops.ActType(dt)
		if to == graph.F32 {
			continue
		}
		for i, s := range some(blockSizes(to.BlockElems()), 2) {
			c := newCase("quantize", "%s/%s/%dx%dx%d", to, dt, s.t, s.n, s.k)
			x := normal(random(c.Name), s.t*s.k, spread(i))
			for b := 0; b+32 <= len(x); b += 32 {
				switch b / 32 % 5 {
				case 1:
					clear(x[b : b+32])
				case 3:
					x[b+b/32%32] *= 1000
				}
			}
			if len(x) >= 256 && i%2 == 0 {
				for j := range 256 {
					x[j] *= 0x1p-126
				}
			}
			w := Weight(c.Name, dt, s.n, s.k)
			y, tol := products(dense(w), x, s, dt, false)
			for t := range s.t { // blocks below 2^-100 count as zero
				for n := range s.n {
					tol[t*s.n+n] += float64(s.k) * 0x1p-100 * 100
				}
			}
			q := ops.Quantize(c.b, c.input("x", "T", x, s.t, s.k), to)
			c.output("y", ops.MatMul(c.b, q, c.weight("w", w)), y, tol)
			cases = append(cases, c.done())
		}
	}
	return cases
}
