// Package opstest is the suite every backend passes: for each operation, cases
// over shapes 0, 1, odd, vector width ±1 and large, with expected values
// computed in float64 by the suite itself, never by a kernel, and a tolerance
// for each number with its reason beside the formula.
package opstest

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"graphrun/graph"
)

// Exec evaluates a graph on a backend: weights by name, feeds by input name. It
// returns the outputs by name.
type Exec func(t testing.TB, g *graph.Graph, weights, feeds map[string]*graph.Tensor) map[string]*graph.Tensor

// Case is a small graph with all it needs and what it must give.
type Case struct {
	Name    string // operation/variant/shape
	Op      string // the operation under test
	Graph   *graph.Graph
	Weights map[string]*graph.Tensor
	Feeds   map[string]*graph.Tensor

	b     *graph.Builder
	wants []want
}

// want is the expected content of an output: exactly one of f and ints is set.
// A tolerance of +Inf says that the number is undefined.
type want struct {
	name string
	f    []float64
	tol  []float64
	ints []int32
}

// Run checks a backend that may round f32 activations to int8 before products
// with block weights, and may write q8_0 caches with another rounding of ties.
// Operations named in skip are left out.
func Run(t *testing.T, exec Exec, skip ...string) { run(t, exec, Cases(false), skip) }

// RunExact checks a backend that computes in f32 throughout.
func RunExact(t *testing.T, exec Exec, skip ...string) { run(t, exec, Cases(true), skip) }

func run(t *testing.T, exec Exec, cases []*Case, skip []string) {
	for _, c := range cases {
		if slices.Contains(skip, c.Op) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			c.Check(t, exec(t, c.Graph, c.Weights, c.Feeds))
		})
	}
}

// Cases returns the suite: the cases of RunExact if exact, else those of Run.
// The same call gives the same cases, which must not be changed.
func Cases(exact bool) []*Case {
	if exact {
		return exactCases()
	}
	return roundedCases()
}

var (
	exactCases   = sync.OnceValue(func() []*Case { return makeCases(true) })
	roundedCases = sync.OnceValue(func() []*Case { return makeCases(false) })
)

func makeCases(exact bool) []*Case {
	var all []*Case
	all = append(all, elementwiseCases()...)
	all = append(all, normCases()...)
	all = append(all, ropeCases()...)
	all = append(all, gatherCases()...)
	all = append(all, matmulCases(exact)...)
	all = append(all, gatedCases(exact)...)
	all = append(all, quantizeCases()...)
	all = append(all, expertCases(exact)...)
	all = append(all, attentionCases(exact)...)
	all = append(all, fusedCases(exact)...)
	return all
}

// newCase starts a case. name is what follows the operation.
func newCase(op, name string, args ...any) *Case {
	return &Case{
		Name: op + "/" + fmt.Sprintf(name, args...), Op: op,
		Weights: map[string]*graph.Tensor{}, Feeds: map[string]*graph.Tensor{},
		b: graph.NewBuilder(op),
	}
}

// input adds an f32 input whose leading dimension is named and has the size
// sizes[0].
func (c *Case) input(name, lead string, data []float32, sizes ...int) *graph.Value {
	t := graph.NewTensor(graph.Type{DType: graph.F32, Shape: graph.ShapeOf(sizes...)}, nil)
	copy(t.F32, data)
	c.Feeds[name] = t
	return c.b.Input(name, graph.F32, graph.Rows(lead, sizes[1:]...))
}

// index adds an i32 input; dims are the names or sizes of its dimensions.
func (c *Case) index(name string, shape graph.Shape, data []int32, sizes ...int) *graph.Value {
	t := graph.NewTensor(graph.Type{DType: graph.I32, Shape: graph.ShapeOf(sizes...)}, nil)
	copy(t.I32, data)
	c.Feeds[name] = t
	return c.b.Input(name, graph.I32, shape)
}

// weight adds a weight.
func (c *Case) weight(name string, t *graph.Tensor) *graph.Value {
	c.Weights[name] = t
	return c.b.Weight(name, t.DType, graph.ShapeOf(t.Dims...))
}

// output adds an output with the numbers it must have.
func (c *Case) output(name string, v *graph.Value, f, tol []float64) {
	c.b.Output(name, v)
	c.wants = append(c.wants, want{name: name, f: f, tol: tol})
}

// outputInts adds an i32 output.
func (c *Case) outputInts(name string, v *graph.Value, ints []int32) {
	c.b.Output(name, v)
	c.wants = append(c.wants, want{name: name, ints: ints})
}

// done finishes the graph. A case that cannot be built is a mistake in the suite.
func (c *Case) done() *Case {
	g, err := c.b.Finish()
	if err == nil {
		err = graph.Verify(g)
	}
	if err != nil {
		panic(fmt.Sprintf("opstest: %s: %v", c.Name, err))
	}
	c.Graph = g
	return c
}

// Check compares outputs with what the case expects.
func (c *Case) Check(t testing.TB, out map[string]*graph.Tensor) {
	t.Helper()
	for _, w := range c.wants {
		x := out[w.name]
		if x == nil {
			t.Errorf("no output %q", w.name)
			continue
		}
		if w.ints != nil {
			if got := x.I32[:len(w.ints)]; !slices.Equal(got, w.ints) {
				t.Errorf("%s %v: got %v, want %v", w.name, x.Dims, got, w.ints)
			}
			continue
		}
		compare(t, w, x)
	}
}

func compare(t testing.TB, w want, x *graph.Tensor) {
	t.Helper()
	n := x.RowElems()
	if got := x.Rows() * n; got != len(w.f) {
		t.Errorf("%s %v: got %d numbers, want %d", w.name, x.Dims, got, len(w.f))
		return
	}
	bad, worst := 0, 0.0
	for r := range x.Rows() {
		for i, y := range x.Row(r) {
			got, want, tol := float64(y), w.f[r*n+i], w.tol[r*n+i]
			d := math.Abs(got - want)
			if math.IsInf(tol, 1) || d <= tol || got == want || got != got && want != want {
				continue
			}
			if bad++; bad == 1 {
				t.Errorf("%s %v: [%d,%d] got %v, want %v, off by %.3g, tolerance %.3g", w.name, x.Dims, r, i, got, want, d, tol)
			}
			worst = max(worst, d/tol)
		}
	}
	if bad > 1 {
		t.Errorf("%s: %d of %d numbers differ, the worst by %.3g tolerances", w.name, bad, len(w.f), worst)
	}
}
