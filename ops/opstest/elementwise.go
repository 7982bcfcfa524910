package opstest

import (
	"math"

	"graphrun/graph"
	"graphrun/ops"
)

// geluOf is the tanh form.
func geluOf(x float64) float64 {
	u := math.Sqrt(2/math.Pi) * (x + 0.044715*x*x*x)
	if u < -5 { // 1 + tanh u loses its digits; (1+tanh u)/2 = e^2u / (1 + e^2u)
		return x * math.Exp(2*u) / (1 + math.Exp(2*u))
	}
	return x / 2 * (1 + math.Tanh(u))
}

func siluOf(x float64) float64 { return x / (1 + math.Exp(-x)) }

// edges are inputs at which activations go wrong: where exp overflows, where a
// cube overflows f32, and where 1 + tanh is 0. From field report NU-14.
var edges = []float32{-1e30, -1e13, -1e4, -104, -89, -88, -87, -20, -10.06, -5, -1, -0.5, -1e-6, -1e-30, 0,
	1e-30, 1e-6, 0.5, 1, 5, 10, 20, 87, 88, 89, 104, 1e4, 1e13, 1e30}

func elementwiseCases() []*Case {
	type unary struct {
		op    string
		build func(b *graph.Builder, x *graph.Value) *graph.Value
		f     func(x float64) float64
		tol   func(y float64) float64
	}
	// One rounding of an exact product.
	round := func(y float64) float64 { return 0x1p-23 * math.Abs(y) }
	// exp by polynomial and a division: 2e-6 of the result, and absolutely
	// where the result is small beside the input (field report NU-14).
	smooth := func(y float64) float64 { return 2e-6 * max(1, math.Abs(y)) }
	unaries := []unary{
		{"silu", func(b *graph.Builder, x *graph.Value) *graph.Value { return ops.Act(b, x, ops.SiLU) }, siluOf, smooth},
		{"gelu", func(b *graph.Builder, x *graph.Value) *graph.Value { return ops.Act(b, x, ops.GELU) }, geluOf, smooth},
		{"scale", func(b *graph.Builder, x *graph.Value) *graph.Value { return ops.Scale(b, x, 25.298221) },
			func(x float64) float64 { return x * float64(float32(25.298221)) }, round},
		{"softcap", func(b *graph.Builder, x *graph.Value) *graph.Value { return ops.Softcap(b, x, 30) },
			func(x float64) float64 { return 30 * math.Tanh(x/30) }, func(y float64) float64 { return 1e-5 }},
	}
	var cases []*Case
	for _, u := range unaries {
		add := func(c *Case, x []float32, t, n int) {
			f := f64s(t*n, func(i int) float64 { return u.f(float64(x[i])) })
			tol := f64s(t*n, func(i int) float64 { return u.tol(f[i]) })
			c.output("y", u.build(c.b, c.input("x", "T", x, t, n)), f, tol)
			cases = append(cases, c.done())
		}
		for i, n := range Widths {
			t := Rows[i%len(Rows)]
			c := newCase(u.op, "%dx%d", t, n)
			add(c, normal(random(c.Name), t*n, 3), t, n)
		}
		add(newCase(u.op, "edges"), edges, 1, len(edges))
	}
	cases = append(cases, softcapTable())
	return append(cases, binaryCases()...)
}

// softcapTable is field report NU-12.
func softcapTable() *Case {
	c := newCase("softcap", "table")
	x := c.input("x", "T", []float32{10, 30, 100, -45}, 1, 4)
	want := []float64{9.645382, 22.847825, 29.923739, -27.154448}
	c.output("y", ops.Softcap(c.b, x, 30), want, relative(want, 0, 1e-5))
	return c.done()
}

func binaryCases() []*Case {
	var cases []*Case
	for _, op := range []string{"add", "mul"} {
		build, f := ops.Add, func(x, y float64) float64 { return x + y }
		if op == "mul" {
			build, f = ops.Mul, func(x, y float64) float64 { return x * y }
		}
		for i, n := range Widths {
			t := Rows[i%len(Rows)]
			// tail: the dimensions behind T; at: which small element meets i.
			check := func(variant string, tail []int, small int, at func(i int) int, swap bool) {
				c := newCase(op, "%s/%dx%v", variant, t, tail)
				size := t
				for _, d := range tail {
					size *= d
				}
				r := random(c.Name)
				xs := normal(r, size, 1)
				x := c.input("x", "T", xs, append([]int{t}, tail...)...)
				var s *graph.Value
				var ss []float32
				if small < 0 {
					ss = normal(r, size, 1)
					s = c.input("s", "T", ss, append([]int{t}, tail...)...)
				} else {
					w := Weight(c.Name, graph.F32, small)
					ss, s = w.F32, c.weight("s", w)
				}
				want := f64s(size, func(i int) float64 { return f(float64(xs[i]), float64(ss[at(i)])) })
				if swap {
					x, s = s, x
				}
				// One rounding.
				c.output("y", build(c.b, x, s), want, relative(want, 0x1p-23, 0))
				cases = append(cases, c.done())
			}
			check("same", []int{n}, -1, func(i int) int { return i }, false)
			check("vector", []int{n}, n, func(i int) int { return i % n }, false)
			check("scalar", []int{n}, 1, func(int) int { return 0 }, false)
			check("swapped", []int{n}, n, func(i int) int { return i % n }, true)
			check("heads", []int{3, n}, n, func(i int) int { return i % n }, false)
		}
	}
	return cases
}
