package opstest

import (
	"math"

	"graphrun/graph"
	"graphrun/ops"
)

// fusedCases are for the operations that fusions make. Most are built from
// graphs by passes in practice; here they are built by hand, with the expected
// values of the operations they stand for.
func fusedCases(exact bool) []*Case {
	var cases []*Case
	for _, dt := range []graph.DType{graph.F32, graph.BF16, graph.Q8_0, graph.Q4_0, graph.Q4_K, graph.Q6_K} {
		for i, s := range some(sizesOf(dt), 2) {
			cases = append(cases, matmulsCase(dt, s, i, exact), matmulAddCase(dt, s, i, exact), matmulCapCase(dt, s, exact))
		}
	}
	for i, n := range Widths {
		cases = append(cases, rmsnormAddCase(Rows[i%len(Rows)], n))
	}
	for _, dt := range []graph.DType{graph.Q8_0, graph.Q4_1, graph.Q6_K} {
		block := ops.ActType(dt).BlockElems()
		for i, s := range some(blockSizes(block), 3) {
			cases = append(cases, rmsnormQuantCase(dt, s, i%2 == 0), gatedQuantCase(dt, s, i))
		}
	}
	return cases
}

func matmulsCase(dt graph.DType, s size, i int, exact bool) *Case {
	c := newCase("matmuls", "%s/%dx%dx%d", dt, s.t, s.n, s.k)
	x := normal(random(c.Name), s.t*s.k, spread(i))
	other := dt
	if dt == graph.Q4_K {
		other = graph.Q6_K // another type that takes the same rows
	}
	var ws []*graph.Value
	var ys, tols [3][]float64
	sizes := []int{s.n, 1, s.n + 3}
	for j, n := range sizes {
		t := dt
		if j == 2 {
			t = other
		}
		w := Weight(c.Name+string(rune('a'+j)), t, n, s.k)
		ws = append(ws, c.weight("w"+string(rune('a'+j)), w))
		ys[j], tols[j] = products(dense(w), x, size{s.t, n, s.k}, t, exact)
	}
	var want, tol []float64
	for t := range s.t {
		for j, n := range sizes {
			want, tol = append(want, ys[j][t*n:(t+1)*n]...), append(tol, tols[j][t*n:(t+1)*n]...)
		}
	}
	c.output("y", ops.MatMuls(c.b, c.input("x", "T", x, s.t, s.k), ws...), want, tol)
	return c.done()
}

func matmulAddCase(dt graph.DType, s size, i int, exact bool) *Case {
	c := newCase("matmuladd", "%s/%dx%dx%d", dt, s.t, s.n, s.k)
	r := random(c.Name)
	x := normal(r, s.t*s.k, spread(i))
	w := Weight(c.Name, dt, s.n, s.k)
	y, tol := products(dense(w), x, s, dt, exact)
	var z []float32
	var zv *graph.Value
	if i%2 == 0 {
		z = normal(r, s.t*s.n, 3)
		zv = c.input("z", "T", z, s.t, s.n)
	} else {
		b := Weight(c.Name+"z", graph.F32, s.n)
		z, zv = b.F32, c.weight("z", b)
	}
	for j := range y {
		y[j] += float64(z[j%len(z)])
		tol[j] += 0x1p-23 * (math.Abs(y[j]) + math.Abs(float64(z[j%len(z)])))
	}
	c.output("y", ops.MatMulAdd(c.b, c.input("x", "T", x, s.t, s.k), c.weight("w", w), zv), y, tol)
	return c.done()
}

func matmulCapCase(dt graph.DType, s size, exact bool) *Case {
	c := newCase("matmulcap", "%s/%dx%dx%d", dt, s.t, s.n, s.k)
	x := normal(random(c.Name), s.t*s.k, 1)
	w := Weight(c.Name, dt, s.n, s.k)
	y, tol := products(dense(w), x, s, dt, exact)
	for i := range y { // the slope of the cap is at most 1
		y[i] = 30 * math.Tanh(y[i]/30)
		tol[i] += 1e-5
	}
	c.output("y", ops.MatMulCap(c.b, c.input("x", "T", x, s.t, s.k), c.weight("w", w), 30), y, tol)
	return c.done()
}

const normEps = float32(1e-6)

// normed is the norm of the rows of x, each of n elements, with a weight or nil.
func normed(x []float32, w []float32, n int) []float64 {
	var y []float64
	for o := 0; o < len(x); o += n {
		sum := 0.0
		for _, z := range x[o : o+n] {
			sum += float64(z) * float64(z)
		}
		for j, z := range x[o : o+n] {
			v := float64(z) / math.Sqrt(sum/float64(n)+float64(normEps))
			if w != nil {
				v *= float64(w[j])
			}
			y = append(y, v)
		}
	}
	return y
}

func rmsnormAddCase(t, n int) *Case {
	c := newCase("rmsnormadd", "%dx%d", t, n)
	r := random(c.Name)
	x, z := normal(r, t*n, 1), normal(r, t*n, 2)
	w := Weight(c.Name, graph.F32, n)
	want := normed(x, w.F32, n)
	tol := make([]float64, len(want))
	for i := range want {
		tol[i] = 2e-6*math.Abs(want[i]) + 1e-30
		want[i] += float64(z[i])
		tol[i] += 0x1p-23 * math.Abs(want[i])
	}
	y := ops.RMSNormAdd(c.b, c.input("x", "T", x, t, n), c.weight("w", w), c.input("z", "T", z, t, n), normEps)
	c.output("y", y, want, tol)
	return c.done()
}

// narrowed rounds to f32.
func narrowed(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, z := range x {
		y[i] = float32(z)
	}
	return y
}

// rmsnormQuantCase looks at the numbers through a product.
func rmsnormQuantCase(dt graph.DType, s size, weight bool) *Case {
	c := newCase("rmsnormquant", "%s/%v/%dx%dx%d", dt, weight, s.t, s.n, s.k)
	x := normal(random(c.Name), s.t*s.k, 1)
	var nw []float32
	var nv *graph.Value
	if weight {
		w := Weight(c.Name+"n", graph.F32, s.k)
		nw, nv = w.F32, c.weight("norm", w)
	}
	w := Weight(c.Name, dt, s.n, s.k)
	h := narrowed(normed(x, nw, s.k))
	y, tol := products(dense(w), h, s, dt, false)
	off := moved(dense(w), f64s(len(h), func(i int) float64 { return 2e-6 * math.Abs(float64(h[i])) }), s)
	for i := range tol {
		tol[i] += off[i]
	}
	q := ops.RMSNormQuant(c.b, c.input("x", "T", x, s.t, s.k), nv, normEps, ops.ActType(dt))
	c.output("y", ops.MatMul(c.b, q, c.weight("w", w)), y, tol)
	return c.done()
}

// moved is how far products move when element i of the rows moves by tol[i].
func moved(w, tol []float64, s size) []float64 {
	var off []float64
	for t := range s.t {
		for n := range s.n {
			sum := 0.0
			for k := range s.k {
				sum += math.Abs(w[n*s.k+k]) * tol[t*s.k+k]
			}
			off = append(off, sum)
		}
	}
	return off
}

// gatedQuantCase looks at the numbers through a product with one row.
func gatedQuantCase(dt graph.DType, s size, i int) *Case {
	kind := []string{ops.SiLU, ops.GELU, ops.SwigluOAI}[i%3]
	f, slope := gateOf(kind)
	to := ops.ActType(dt)
	n := (s.n + to.BlockElems() - 1) / to.BlockElems() * to.BlockElems()
	s.n = n
	c := newCase("gatedmatmulquant", "%s/%s/%dx%dx%d", dt, kind, s.t, s.n, s.k)
	x := normal(random(c.Name), s.t*s.k, 0.5)
	wg, wu, wd := Weight(c.Name+"g", dt, n, s.k), Weight(c.Name+"u", dt, n, s.k), Weight(c.Name+"d", dt, 1, n)
	g, gt := products(dense(wg), x, s, dt, false)
	u, ut := products(dense(wu), x, s, dt, false)
	h := f64s(len(g), func(i int) float64 { return f(g[i], u[i]) })
	ht := f64s(len(g), func(i int) float64 {
		dg, du := slope(g[i], u[i])
		return gt[i]*(dg+1.2*ut[i]) + ut[i]*du + 2e-6*(math.Abs(h[i])+math.Abs(u[i])+1)
	})
	down := size{s.t, 1, n}
	y, tol := products(dense(wd), narrowed(h), down, dt, false)
	// A block's largest number may be off too, and with it each step.
	for j, d := range moved(dense(wd), ht, down) {
		tol[j] += 2 * d
	}
	q := ops.GatedMatMulQuant(c.b, c.input("x", "T", x, s.t, s.k), c.weight("wg", wg), c.weight("wu", wu), kind, to)
	c.output("y", ops.MatMul(c.b, q, c.weight("wd", wd)), y, tol)
	return c.done()
}
