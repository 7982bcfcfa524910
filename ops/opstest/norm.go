package opstest

import (
	"math"

	"graphrun/graph"
	"graphrun/ops"
)

func normCases() []*Case {
	var cases []*Case
	for i, n := range Widths {
		t := Rows[i%len(Rows)]
		for _, v := range []struct {
			name   string
			heads  int
			spread float64
			weight bool
		}{{"weight", 0, 1, true}, {"plain", 0, 1, false}, {"heads", 3, 1, true}, {"large", 0, 1e7, true}, {"tiny", 0, 1e-4, true}} {
			c := newCase("rmsnorm", "%s/%dx%d", v.name, t, n)
			sizes, vectors := []int{t, n}, t
			if v.heads > 0 {
				sizes, vectors = []int{t, v.heads, n}, t*v.heads
			}
			x := normal(random(c.Name), vectors*n, v.spread)
			w := Weight(c.Name, graph.F32, n)
			const eps = float32(1e-6)
			want := make([]float64, 0, vectors*n)
			for o := 0; o < len(x); o += n {
				sum := 0.0
				for _, z := range x[o : o+n] {
					sum += float64(z) * float64(z)
				}
				for j, z := range x[o : o+n] {
					y := float64(z) / math.Sqrt(sum/float64(n)+float64(eps))
					if v.weight {
						y *= float64(w.F32[j])
					}
					want = append(want, y)
				}
			}
			var wv *graph.Value
			if v.weight {
				wv = c.weight("w", w)
			}
			// The mean in f32 lanes, an inverse root and two products.
			c.output("y", ops.RMSNorm(c.b, c.input("x", "T", x, sizes...), wv, eps), want, relative(want, 2e-6, 1e-30))
			cases = append(cases, c.done())
		}
		cases = append(cases, softmaxCase(t, n, 3), softmaxCase(t, n, 60))
	}
	return cases
}

func softmaxCase(t, n int, spread float64) *Case {
	c := newCase("softmax", "spread%g/%dx%d", spread, t, n)
	x := normal(random(c.Name), t*n, spread)
	want, tol := make([]float64, t*n), make([]float64, t*n)
	for o := 0; o < len(x); o += n {
		m, sum := math.Inf(-1), 0.0
		for _, z := range x[o : o+n] {
			m = max(m, float64(z))
		}
		for _, z := range x[o : o+n] {
			sum += math.Exp(float64(z) - m)
		}
		for i, z := range x[o : o+n] {
			want[o+i] = math.Exp(float64(z)-m) / sum
			// The difference to the maximum is rounded to f32, which exp turns
			// into a relative error; far below it may become 0.
			tol[o+i] = want[o+i]*(2e-6+0x1p-23*(m-float64(z))) + 1e-30
		}
	}
	c.output("y", ops.Softmax(c.b, c.input("x", "T", x, t, n)), want, tol)
	return c.done()
}
