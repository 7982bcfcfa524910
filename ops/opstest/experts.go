package opstest

import (
	"math"
	"math/rand/v2"
	"slices"

	"graphrun/graph"
	"graphrun/ops"
)

// choose returns u different experts of e for each of t tokens.
func choose(r *rand.Rand, t, u, e int) []int32 {
	var ids []int32
	for range t {
		for _, id := range r.Perm(e)[:u] {
			ids = append(ids, int32(id))
		}
	}
	return ids
}

func expertCases(exact bool) []*Case {
	cases := routerCases()
	for _, dt := range graph.DTypes() {
		if ops.IsWeightType(dt) {
			for i, s := range some(sizesOf(dt), 2) {
				cases = append(cases, expertMatMulCase(dt, s, 1+i%3, 4, i%2 == 1, exact))
			}
		}
	}
	for i, n := range Widths {
		t, u := Rows[i%len(Rows)], 1+i%4
		cases = append(cases, expertAddCase(t, u, n), expertSumCase(t, u, n))
	}
	return cases
}

func routerCases() []*Case {
	var cases []*Case
	for _, s := range []struct{ t, u, e int }{{0, 2, 8}, {1, 1, 1}, {3, 2, 8}, {5, 4, 32}, {7, 8, 128}, {13, 3, 17}} {
		c := newCase("topk", "%dx%dof%d", s.t, s.u, s.e)
		p := normal(random(c.Name), s.t*s.e, 1)
		for i := range p {
			if i%5 == 0 {
				p[i] = 0.5 // equal numbers: the lower index first
			}
		}
		var ids []int32
		for t := range s.t {
			row := p[t*s.e : (t+1)*s.e]
			order := make([]int32, s.e)
			for i := range order {
				order[i] = int32(i)
			}
			slices.SortStableFunc(order, func(a, b int32) int {
				switch {
				case row[a] > row[b]:
					return -1
				case row[a] < row[b]:
					return 1
				}
				return 0
			})
			ids = append(ids, order[:s.u]...)
		}
		if ids == nil {
			ids = []int32{}
		}
		c.outputInts("ids", ops.TopK(c.b, c.input("p", "T", p, s.t, s.e), s.u), ids)
		cases = append(cases, c.done())

		for _, w := range []ops.TopKWeightsParams{
			{}, {Scale: 2.5}, {Normalize: true}, {Normalize: true, MinSum: 1e3, Scale: 0.5}, {SoftmaxOverChosen: true}, {SoftmaxOverChosen: true, Scale: 3},
		} {
			cases = append(cases, topKWeightsCase(s.t, s.u, s.e, w))
		}
		cases = append(cases, gatherScaleCase(s.t, s.u, s.e))
	}
	return cases
}

func topKWeightsCase(t, u, e int, w ops.TopKWeightsParams) *Case {
	c := newCase("topkweights", "%+v/%dx%dof%d", w, t, u, e)
	r := random(c.Name)
	p := normal(r, t*e, 1)
	for i := range p {
		p[i] = float32(math.Abs(float64(p[i]))) // sums do not cancel
	}
	ids := choose(r, t, u, e)
	var want []float64
	for i := 0; i < len(ids); i += u {
		y, sum, top := make([]float64, u), 0.0, math.Inf(-1)
		for j, id := range ids[i : i+u] {
			y[j] = float64(p[i/u*e+int(id)])
			sum += y[j]
			top = max(top, y[j])
		}
		exps := 0.0
		for _, z := range y {
			exps += math.Exp(z - top)
		}
		for j := range y {
			switch {
			case w.SoftmaxOverChosen:
				y[j] = math.Exp(y[j]-top) / exps
			case w.Normalize:
				y[j] /= max(sum, float64(w.MinSum))
			}
			if w.Scale != 0 {
				y[j] *= float64(w.Scale)
			}
		}
		want = append(want, y...)
	}
	y := ops.TopKWeights(c.b, c.input("p", "T", p, t, e), c.index("ids", graph.Rows("T", u), ids, t, u), w)
	// A short sum, a division and exp of small numbers, all f32.
	c.output("y", y, want, relative(want, 3e-6, 1e-30))
	return c.done()
}

func gatherScaleCase(t, u, e int) *Case {
	c := newCase("gatherscale", "%dx%dof%d", t, u, e)
	r := random(c.Name)
	x, ids, s := normal(r, t*u, 1), choose(r, t, u, e), Weight(c.Name, graph.F32, e)
	want := f64s(t*u, func(i int) float64 { return float64(x[i]) * float64(s.F32[ids[i]]) })
	y := ops.GatherScale(c.b, c.input("x", "T", x, t, u), c.weight("s", s), c.index("ids", graph.Rows("T", u), ids, t, u))
	c.output("y", y, want, relative(want, 0x1p-23, 0))
	return c.done()
}

func expertMatMulCase(dt graph.DType, s size, u, e int, each, exact bool) *Case {
	c := newCase("expertmatmul", "%s/%dx%dof%dx%dx%d", dt, s.t, u, e, s.n, s.k)
	r := random(c.Name)
	vectors, sizes := 1, []int{s.t, s.k}
	if each {
		vectors, sizes = u, []int{s.t, u, s.k}
	}
	x, ids, w := normal(r, s.t*vectors*s.k, 1), choose(r, s.t, u, e), Weight(c.Name, dt, e, s.n, s.k)
	all := dense(w)
	var want, tol []float64
	for t := range s.t {
		for j := range u {
			o := (t*vectors + j%vectors) * s.k
			expert := all[int(ids[t*u+j])*s.n*s.k:][:s.n*s.k]
			y, d := products(expert, x[o:o+s.k], size{1, s.n, s.k}, dt, exact)
			want, tol = append(want, y...), append(tol, d...)
		}
	}
	y := ops.ExpertMatMul(c.b, c.input("x", "T", x, sizes...), c.weight("w", w), c.index("ids", graph.Rows("T", u), ids, s.t, u))
	c.output("y", y, want, tol)
	return c.done()
}

func expertAddCase(t, u, n int) *Case {
	const e = 6
	c := newCase("expertadd", "%dx%dx%d", t, u, n)
	r := random(c.Name)
	x, ids, bias := normal(r, t*u*n, 1), choose(r, t, u, e), Weight(c.Name, graph.F32, e, n)
	want := f64s(t*u*n, func(i int) float64 { return float64(x[i]) + float64(bias.F32[int(ids[i/n])*n+i%n]) })
	y := ops.ExpertAdd(c.b, c.input("y", "T", x, t, u, n), c.weight("bias", bias), c.index("ids", graph.Rows("T", u), ids, t, u))
	c.output("z", y, want, relative(want, 0x1p-23, 0))
	return c.done()
}

func expertSumCase(t, u, n int) *Case {
	c := newCase("expertsum", "%dx%dx%d", t, u, n)
	r := random(c.Name)
	x, w := normal(r, t*u*n, 1), normal(r, t*u, 1)
	want, tol := make([]float64, t*n), make([]float64, t*n)
	for i := range x {
		o := i/(u*n)*n + i%n
		z := float64(x[i]) * float64(w[i/n])
		want[o] += z
		tol[o] += math.Abs(z) * float64(u+1) * 0x1p-24 // U products and sums
	}
	c.output("z", ops.ExpertSum(c.b, c.input("y", "T", x, t, u, n), c.input("w", "T", w, t, u)), want, tol)
	return c.done()
}
