package graph

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawGraph builds a random graph over the test operations: activations f32[T,4]
// and constant rows, two caches with chains of writes, views, dead values.
func drawGraph(t *rapid.T) *Graph {
	b := NewBuilder("random")
	acts := []*Value{b.Input("x", F32, Rows("T", 4)), b.Input("z", F32, Rows("T", 4))}
	rows := []*Value{b.Const("c", []float32{1, -2, 3, 0}, 4), b.Weight("w.row", F32, ShapeOf(4))}
	mats := []*Value{b.Weight("w.a", F32, ShapeOf(4, 4)), b.Weight("w.b", F32, ShapeOf(4, 4))}
	caches := []*Value{b.Cache("k0", Type{F32, ShapeOf(4, 4)}, 0), b.Cache("k1", Type{F32, ShapeOf(4, 4)}, 0)}
	pick := func(vs []*Value) *Value { return vs[rapid.IntRange(0, len(vs)-1).Draw(t, "arg")] }
	for range rapid.IntRange(1, 40).Draw(t, "values") {
		b.SetLayer(rapid.IntRange(-1, 3).Draw(t, "layer"))
		var v *Value
		switch rapid.IntRange(0, 11).Draw(t, "op") {
		case 0, 1:
			v = b.Op(opTestAdd, nil, pick(acts), pick(acts))
		case 2:
			v = b.Op(opTestMul, nil, pick(acts), pick(rows))
		case 3, 4:
			v = b.Op(opTestNeg, nil, pick(acts))
		case 5:
			v = b.Op(opTestScale, MakeAttrs("by", float32(rapid.IntRange(-2, 2).Draw(t, "by"))), pick(acts))
		case 6:
			v = b.Op(opTestMatMul, nil, pick(acts), pick(mats))
		case 7:
			wide := b.Op(opTestReshape, MakeAttrs("shape", []int{2, 2}), pick(acts))
			v = b.Op(opTestReshape, MakeAttrs("shape", []int{4}), wide)
		case 8:
			i := rapid.IntRange(0, 1).Draw(t, "cache")
			caches[i] = b.Op(opTestWrite, nil, caches[i], pick(acts))
			continue
		case 9:
			v = b.Op(opTestRead, nil, pick(caches), pick(acts))
		case 10:
			rows = append(rows, b.Op(opTestNeg, nil, b.Const("", []float32{1, 2, 0, -1}, 4)))
			continue
		case 11:
			rows = append(rows, b.Op(opTestAdd, nil, pick(rows), pick(rows)))
			continue
		}
		if rapid.Bool().Draw(t, "named") {
			b.Name(v, fmt.Sprintf("role.%d", v.ID))
		}
		acts = append(acts, v)
	}
	b.Output("last", acts[len(acts)-1])
	b.Output("some", pick(acts))
	g, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// genericPasses are the passes of this package in their usual order.
var genericPasses = []Pass{
	{Name: "constfold", Run: ConstFold},
	{Name: "rewrite", Run: Rules(testRules[:3]...)},
	{Name: "cse", Run: CSE},
	{Name: "dce", Run: DCE},
	{Name: "schedule", Run: Schedule, Required: true, Orders: true},
	{Name: "memplan", Run: func(g *Graph) error { g.Bound = Dims{"T": 3}; return MemPlan(g) }, Required: true, Orders: true},
}

// TestPassesKeepMeaning evaluates random graphs before and after each pass. All
// numbers are small integers, so equal means equal.
func TestPassesKeepMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		dims := Dims{"T": 3}
		want := evaluate(g, dims)
		for _, p := range genericPasses {
			before := g.String()
			if err := p.Run(g); err != nil {
				t.Fatalf("%s: %v\n%s", p.Name, err, before)
			}
			if err := Verify(g); err != nil {
				t.Fatalf("%s: %v\nbefore\n%safter\n%s", p.Name, err, before, g)
			}
			got := evaluate(g, dims)
			for i := range want {
				if !slices.Equal(got[i], want[i]) {
					t.Fatalf("%s: result %d is %v, want %v\nbefore\n%safter\n%s", p.Name, i, got[i], want[i], before, g)
				}
			}
		}
	})
}

// TestShuffleChangesNothing runs the pipeline on two orders of one graph: the
// scheduled and planned results are the same bytes, and check mode agrees.
func TestShuffleChangesNothing(t *testing.T) {
	p := MustPipeline(genericPasses, nil)
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		shuffled, checked := g.Clone(), g.Clone()
		if err := shuffled.Shuffle(rapid.Uint64().Draw(t, "seed")); err != nil {
			t.Fatal(err)
		}
		if err := Verify(shuffled); err != nil {
			t.Fatal(err)
		}
		for _, x := range []*Graph{g, shuffled} {
			if _, err := p.Run(x, RunOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.Run(checked, RunOptions{Check: true, Seed: 7}); err != nil {
			t.Fatal(err)
		}
		if g.String() != shuffled.String() || g.String() != checked.String() {
			t.Fatalf("got\n%s\nshuffled\n%s\nchecked\n%s", g, shuffled, checked)
		}
	})
}

// TestTextRoundTrip prints and reads random graphs, planned ones too.
func TestTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		for _, p := range genericPasses[:rapid.IntRange(0, len(genericPasses)).Draw(t, "passes")] {
			if err := p.Run(g); err != nil {
				t.Fatal(err)
			}
		}
		back, err := Parse(g.String())
		if err != nil {
			t.Fatalf("%v\n%s", err, g)
		}
		if err := sameGraph(g, back); err != nil {
			t.Fatalf("%v\n%s", err, g)
		}
		if back.String() != g.String() {
			t.Fatalf("got\n%s\nwant\n%s", back, g)
		}
	})
}

// sameGraph compares every field that the text form carries.
func sameGraph(a, b *Graph) error {
	if a.Name != b.Name || a.Arena != b.Arena || a.nextID != b.nextID || a.Bound.String() != b.Bound.String() || len(a.Values) != len(b.Values) || len(a.Outputs) != len(b.Outputs) {
		return fmt.Errorf("headers differ: %q %d %d %s, %q %d %d %s", a.Name, a.Arena, a.nextID, a.Bound, b.Name, b.Arena, b.nextID, b.Bound)
	}
	ids := func(vs []*Value) []int {
		out := []int{}
		for _, v := range vs {
			out = append(out, v.ID)
		}
		return out
	}
	for i, v := range a.Values {
		w := b.Values[i]
		if v.ID != w.ID || v.Op != w.Op || !v.Type.Equal(w.Type) || v.Name != w.Name || v.Layer != w.Layer || v.Origin != w.Origin ||
			!v.Attrs.Equal(w.Attrs) || !slices.Equal(ids(v.Args), ids(w.Args)) || floatsText(v.Data) != floatsText(w.Data) ||
			(v.Mem == nil) != (w.Mem == nil) || v.Mem != nil && *v.Mem != *w.Mem {
			return fmt.Errorf("got %s, want %s", w.Line(), v.Line())
		}
	}
	for i, o := range a.Outputs {
		if o.Name != b.Outputs[i].Name || o.Value.ID != b.Outputs[i].Value.ID {
			return fmt.Errorf("output %d differs", i)
		}
	}
	return nil
}
