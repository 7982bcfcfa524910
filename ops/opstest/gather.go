package opstest

import (
	"slices"

	"graphrun/graph"
	"graphrun/ops"
)

func gatherCases() []*Case {
	var cases []*Case
	for _, dt := range graph.DTypes() {
		if !ops.IsWeightType(dt) {
			continue
		}
		for _, tokens := range [][]int32{{}, {6}, {0, 5, 5, 3, 6}} {
			c := newCase("embed", "%s/%d", dt, len(tokens))
			const d = 512
			w := Weight(c.Name, dt, 7, d)
			all := dense(w)
			var want []float64
			for _, id := range tokens {
				want = append(want, all[int(id)*d:int(id+1)*d]...)
			}
			// Decoding is exact.
			y := ops.Embed(c.b, c.index("tokens", graph.Rows("T"), tokens, len(tokens)), c.weight("w", w))
			c.output("y", y, want, exactly(len(want)))
			cases = append(cases, c.done())
		}
	}
	for _, rows := range [][]int32{{}, {4}, {4, 0, 0, 2}} {
		c := newCase("selectrows", "%d", len(rows))
		x := normal(random(c.Name), 5*33, 1)
		var want []float64
		for _, r := range rows {
			want = append(want, wide(x[r*33:(r+1)*33])...)
		}
		y := ops.SelectRows(c.b, c.input("x", "T", x, 5, 33), c.index("rows", graph.Rows("R"), rows, len(rows)))
		c.output("y", y, want, exactly(len(want)))
		cases = append(cases, c.done())
	}
	for _, rows := range [][]int32{{}, {2, 2, 0}} {
		c := newCase("selectrows", "i32/%d", len(rows))
		x := []int32{7, -1, 1 << 30}
		var want []int32
		for _, r := range rows {
			want = append(want, x[r])
		}
		c.outputInts("y", ops.SelectRows(c.b, c.index("x", graph.Rows("T"), x, 3), c.index("rows", graph.Rows("R"), rows, len(rows))), want)
		cases = append(cases, c.done())
	}
	for _, t := range Rows {
		cases = append(cases, viewCase(t), strideCase(t))
	}
	return cases
}

// viewCase takes a row apart by reshape, cols and slice.
func viewCase(t int) *Case {
	c := newCase("cols", "views/%d", t)
	x := normal(random(c.Name), t*24, 1)
	v := c.input("x", "T", x, t, 24)
	pick := func(from, to int) []float64 {
		var y []float64
		for r := range t {
			y = append(y, wide(x[r*24+from:r*24+to])...)
		}
		return y
	}
	// Outputs are computed from the views, so that a backend may leave views
	// without storage of their own.
	twice := func(y []float64) []float64 { return f64s(len(y), func(i int) float64 { return 2 * y[i] }) }
	out := func(name string, v *graph.Value, y []float64) {
		c.output(name, ops.Scale(c.b, v, 2), twice(y), exactly(len(y)))
	}
	out("reshape", ops.Reshape(c.b, v, 4, 6), wide(x))
	out("cols", ops.Cols(c.b, v, 5, 12), pick(5, 12))
	out("all", ops.Cols(c.b, v, 0, 24), wide(x))
	out("slice", ops.Slice(c.b, ops.Reshape(c.b, v, 4, 6), 2), pick(12, 18))
	out("heads", ops.Reshape(c.b, ops.Cols(c.b, v, 8, 20), 3, 4), pick(8, 20))
	return c.done()
}

// strideCase feeds views whose rows are apart to operations of each family.
func strideCase(t int) *Case {
	c := newCase("cols", "strided/%d", t)
	x := normal(random(c.Name), t*96, 1)
	v := c.input("x", "T", x, t, 96)
	left, right := ops.Cols(c.b, v, 0, 32), ops.Cols(c.b, v, 64, 96)
	var sum, product []float64
	w := Weight(c.Name, graph.F32, 3, 32)
	for r := range t {
		row := wide(x[r*96 : (r+1)*96])
		for i := range 32 {
			sum = append(sum, row[i]+row[64+i])
		}
		for n := range 3 {
			s := 0.0
			for i := range 32 {
				s += row[64+i] * float64(w.F32[n*32+i])
			}
			product = append(product, s)
		}
	}
	c.output("sum", ops.Add(c.b, left, right), sum, relative(sum, 0x1p-23, 0))
	// 32 products of size about 1 in f32.
	c.output("product", ops.MatMul(c.b, right, c.weight("w", w)), product, relative(product, 0, 2e-5))
	picked := slices.Clone(sum)
	for i := range picked {
		picked[i] = siluOf(picked[i])
	}
	c.output("silu", ops.Act(c.b, ops.Add(c.b, right, left), ops.SiLU), picked, relative(picked, 4e-6, 4e-6))
	return c.done()
}
