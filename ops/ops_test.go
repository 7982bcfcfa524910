package ops_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"graphrun/graph"
	"graphrun/ops"
	"graphrun/ops/opstest"
)

func TestPlainKernels(t *testing.T) { opstest.RunExact(t, opstest.Plain) }

// bits returns everything a value's storage holds, for comparison.
func bits(x *graph.Tensor) []uint32 {
	var b []uint32
	for _, f := range x.F32 {
		b = append(b, math.Float32bits(f))
	}
	for _, i := range x.I32 {
		b = append(b, uint32(i))
	}
	for _, r := range x.Raw {
		b = append(b, uint32(r))
	}
	return b
}

// TestSplit cuts the units of every call at random points: the bits of all
// values stay the same.
func TestSplit(t *testing.T) {
	cases := slices.Clone(opstest.Cases(true))
	slices.SortStableFunc(cases, func(a, b *opstest.Case) int { return len(a.Name) - len(b.Name) })
	rapid.Check(t, func(rt *rapid.T) {
		c := cases[rapid.IntRange(0, len(cases)-1).Draw(rt, "case")]
		whole := opstest.NewMachine(t, c.Graph, c.Weights, c.Feeds)
		whole.Run(nil)
		split := opstest.NewMachine(t, c.Graph, c.Weights, c.Feeds)
		split.Run(func(units int) []int {
			at := rapid.SliceOfN(rapid.IntRange(0, units), 0, 4).Draw(rt, "cuts")
			slices.Sort(at)
			return at
		})
		for i, call := range whole.Calls {
			if !slices.Equal(bits(call.Out), bits(split.Calls[i].Out)) {
				rt.Fatalf("%s: %s has other bits when split", c.Name, call.Value.Line())
			}
		}
	})
}

// TestAllocations: no kernel allocates.
func TestAllocations(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range opstest.Cases(true) {
		if c.Feeds["x"] != nil && c.Feeds["x"].Rows() == 0 {
			continue
		}
		m := opstest.NewMachine(t, c.Graph, c.Weights, c.Feeds)
		m.Run(nil)
		for _, call := range m.Calls {
			key := call.Value.Op.Name
			for _, x := range call.In {
				key += " " + x.DType.String()
			}
			if seen[key] {
				continue
			}
			seen[key] = true
			units := call.Units()
			if n := testing.AllocsPerRun(1, func() { call.Value.Op.Kernel(call, 0, units) }); n != 0 {
				t.Errorf("%s: %v allocations", key, n)
			}
		}
	}
}

// TestCoverage: every operation of the vocabulary is in the suite.
func TestCoverage(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range opstest.Cases(true) {
		for _, v := range c.Graph.Values {
			seen[v.Op.Name] = true
		}
	}
	for _, op := range graph.Ops() {
		if !seen[op.Name] && op.Name != "const" && op.Name != "tap" { // taps have tests of their own
			t.Errorf("no case has the operation %s", op.Name)
		}
	}
}

// TestLlama3Factors is field report NU-05.
func TestLlama3Factors(t *testing.T) {
	for _, c := range []struct {
		k      int
		factor float64
		ones   int
		ramp   []float64
	}{
		{64, 32, 15, []float64{1.651329, 3.292262, 9.666729}},
		{128, 8, 29, []float64{1.207484, 1.553415, 2.026313, 2.694530, 3.684253, 5.257327}},
	} {
		got := opstest.Llama3Factors(c.k, 500000, c.factor, 1, 4, 8192)
		for i, g := range got {
			want := c.factor
			switch {
			case i < c.ones:
				want = 1
			case i < c.ones+len(c.ramp):
				want = c.ramp[i-c.ones]
			}
			if math.Abs(float64(g)-want) > 1e-5*want {
				t.Errorf("K %d factor %v pair %d: got %v, want %v", c.k, c.factor, i, g, want)
			}
		}
	}
}

// TestGELU is field report NU-14.
func TestGELU(t *testing.T) {
	b := graph.NewBuilder("gelu")
	b.Output("y", ops.Act(b, b.Input("x", graph.F32, graph.Rows("T", 4)), ops.GELU))
	g, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	x := &graph.Tensor{DType: graph.F32, Dims: []int{1, 4}, Stride: 4, F32: []float32{1e4, -1e4, float32(math.NaN()), math.MaxFloat32}}
	y := opstest.Plain(t, g, nil, map[string]*graph.Tensor{"x": x})["y"].F32
	if y[0] != 1e4 || y[1] != 0 || y[2] == y[2] || y[3] != math.MaxFloat32 {
		t.Errorf("gelu(%v) = %v", x.F32, y)
	}
}

// TestQuantizePass runs the suite after the pass "quantize": products with
// rounded rows stay within the tolerances of Run.
func TestQuantizePass(t *testing.T) {
	opstest.Run(t, func(t testing.TB, g *graph.Graph, weights, feeds map[string]*graph.Tensor) map[string]*graph.Tensor {
		g = g.Clone()
		for _, pass := range []func(*graph.Graph) error{ops.Algebra, ops.FuseGated, ops.QuantizeActivations, graph.CSE, graph.DCE, graph.Verify} {
			if err := pass(g); err != nil {
				t.Fatal(err)
			}
		}
		return opstest.Plain(t, g, weights, feeds)
	})
}

// TestFuseGated: the fused product has the bits of the three operations.
func TestFuseGated(t *testing.T) {
	for _, kind := range []string{ops.SiLU, ops.GELU, ops.SwigluOAI} {
		b := graph.NewBuilder("ffn")
		weights := map[string]*graph.Tensor{"g": opstest.Weight("g", graph.Q4_K, 17, 512), "u": opstest.Weight("u", graph.Q6_K, 17, 512)}
		x := b.Input("x", graph.F32, graph.Rows("T", 512))
		gate := ops.MatMul(b, x, b.Weight("g", graph.Q4_K, graph.ShapeOf(17, 512)))
		up := ops.MatMul(b, x, b.Weight("u", graph.Q6_K, graph.ShapeOf(17, 512)))
		b.Output("y", ops.Gated(b, gate, up, kind))
		g, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		feeds := map[string]*graph.Tensor{"x": opstest.Weight("x", graph.F32, 70, 512)}
		want := opstest.Plain(t, g, weights, feeds)["y"]
		if err := ops.FuseGated(g); err != nil {
			t.Fatal(err)
		}
		if g.Output("y").Op.Name != "gatedmatmul" {
			t.Fatalf("%s: not fused:\n%s", kind, g)
		}
		if got := opstest.Plain(t, g, weights, feeds)["y"]; !slices.Equal(bits(got), bits(want)) {
			t.Errorf("%s: other bits after fusion", kind)
		}
	}
}
