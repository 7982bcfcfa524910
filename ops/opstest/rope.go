package opstest

import (
	"math"

	"graphrun/graph"
	"graphrun/ops"
)

// Llama3Factors returns the frequency divisors of Llama 3's scaling for heads
// of k elements: 1 for pairs whose wavelength is below context/high, factor above
// context/low, between them a ramp.
// Source: Llama 3.1 configuration, 2024.
func Llama3Factors(k int, base, factor, low, high, context float64) []float32 {
	f := make([]float32, k/2)
	for i := range f {
		wavelength := 2 * math.Pi * math.Pow(base, 2*float64(i)/float64(k))
		switch {
		case wavelength < context/high:
			f[i] = 1
		case wavelength > context/low:
			f[i] = float32(factor)
		default:
			m := (context/wavelength - low) / (high - low)
			f[i] = float32(1 / ((1-m)/factor + m))
		}
	}
	return f
}

// ropeSpec is one setting; angle gives the angle of pair i per position before
// the factors.
type ropeSpec struct {
	name    string
	k       int
	p       ops.RopeParams
	factors []float32
	angle   func(i int) float64
	m       float64
}

func ropeCases() []*Case {
	power := func(base float64, dims int) func(i int) float64 {
		return func(i int) float64 { return math.Pow(base, -2*float64(i)/float64(dims)) }
	}
	// YaRN of gpt-oss: pairs below lo keep their frequency, from hi on it is
	// divided, between them a ramp. lo and hi by hand: K = 64, base 150000,
	// context 4096: d(32) = 8.09, d(1) = 17.40.
	yarn := func(i int) float64 {
		keep := 1 - min(1, max(0, (float64(i)-8)/(18-8)))
		return power(150000, 64)(i) * ((1-keep)/32 + keep)
	}
	proportional := f64s(32, func(i int) float64 { return 1 })
	gemma := make([]float32, 32)
	for i := range proportional {
		gemma[i] = 1
		if i >= 8 {
			gemma[i] = 1e30
		}
	}
	specs := []ropeSpec{
		{"adjacent", 64, ops.RopeParams{Base: 10000}, nil, power(10000, 64), 1},
		{"half", 64, ops.RopeParams{Base: 10000, Half: true}, nil, power(10000, 64), 1},
		{"adjacent-partial", 80, ops.RopeParams{Base: 10000, Dims: 32}, nil, power(10000, 32), 1},
		{"half-partial", 80, ops.RopeParams{Base: 10000, Dims: 32, Half: true}, nil, power(10000, 32), 1},
		{"half-narrow", 6, ops.RopeParams{Base: 500000, Half: true}, nil, power(500000, 6), 1},
		{"adjacent-narrow", 2, ops.RopeParams{Base: 500000}, nil, power(500000, 2), 1},
		{"linear", 32, ops.RopeParams{Base: 1e6, Half: true, Linear: 8}, nil, func(i int) float64 { return power(1e6, 32)(i) / 8 }, 1},
		{"llama3", 64, ops.RopeParams{Base: 500000}, Llama3Factors(64, 500000, 32, 1, 4, 8192), power(500000, 64), 1},
		{"proportional", 64, ops.RopeParams{Base: 1e6, Half: true}, gemma, power(1e6, 64), 1},
		{"yarn", 64, ops.RopeParams{Base: 150000, Half: true, Yarn: ops.Yarn{Factor: 32, OrigContext: 4096}}, nil, yarn, 1 + 0.1*math.Log(32)},
		{"yarn-attn", 64, ops.RopeParams{Base: 150000, Yarn: ops.Yarn{Factor: 32, OrigContext: 4096, AttnFactor: 0.5}}, nil, yarn, (1 + 0.1*math.Log(32)) / 2},
	}
	// Positions out of order, equal, at page borders and far out.
	positions := [][]int32{{}, {0}, {3000}, {63, 64, 65, 0, 7, 7}, {131071, 1, 40000}}
	var cases []*Case
	for _, s := range specs {
		for i, pos := range positions {
			cases = append(cases, ropeCase(s, pos, 1+i))
		}
	}
	return cases
}

func ropeCase(s ropeSpec, pos []int32, heads int) *Case {
	t, dims := len(pos), s.p.Dims
	if dims == 0 {
		dims = s.k
	}
	c := newCase("rope", "%s/%dx%dx%d", s.name, t, heads, s.k)
	x := normal(random(c.Name), t*heads*s.k, 1)
	want, tol := wide(x), exactly(len(x))
	for o := 0; o < len(x); o += s.k {
		p := float64(pos[o/s.k/heads])
		for i := range dims / 2 {
			a, b := 2*i, 2*i+1
			if s.p.Half {
				a, b = i, i+dims/2
			}
			f := 1.0
			if s.factors != nil {
				f = float64(s.factors[i])
			}
			phi := p * s.angle(i) / f
			u, v := float64(x[o+a]), float64(x[o+b])
			want[o+a] = s.m * (u*math.Cos(phi) - v*math.Sin(phi))
			want[o+b] = s.m * (u*math.Sin(phi) + v*math.Cos(phi))
			// cos and sin rounded to f32, two products and a sum; angles are
			// computed in float64, so the position does not enter.
			tol[o+a] = s.m * (math.Abs(u) + math.Abs(v)) * 0x1p-22
			tol[o+b] = tol[o+a]
		}
	}
	var factors *graph.Value
	if s.factors != nil {
		w := graph.NewTensor(graph.Type{DType: graph.F32, Shape: graph.ShapeOf(dims / 2)}, nil)
		copy(w.F32, s.factors)
		factors = c.weight("rope_freqs.weight", w)
	}
	y := ops.Rope(c.b, c.input("x", "T", x, t, heads, s.k), c.index("pos", graph.Rows("T"), pos, t), factors, s.p)
	c.output("y", y, want, tol)
	return c.done()
}
