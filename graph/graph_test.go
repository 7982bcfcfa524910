package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// decoder builds a graph with the shape of a decoder of the given depth: about
// 17 values a layer, two caches chains long enough to matter.
func decoder(layers int) *Graph {
	b := NewBuilder("decoder")
	const d = 64
	x := b.Input("x", F32, Rows("T", d))
	for l := range layers {
		b.SetLayer(l)
		w := func(name string, sizes ...int) *Value {
			return b.Weight(fmt.Sprintf("blk.%d.%s", l, name), F32, ShapeOf(sizes...))
		}
		n := b.Name(b.Op(opTestMul, nil, x, w("norm", d)), "attn.norm")
		q := b.Name(b.Op(opTestMatMul, nil, n, w("q", d, d)), "attn.q")
		k := b.Op(opTestMatMul, nil, n, w("k", d, d))
		q = b.Op(opTestScale, MakeAttrs("by", float32(0.125)), q)
		kv := b.Op(opTestWrite, nil, b.Cache("kv", Type{F32, ShapeOf(128, d)}, 0), k)
		ctx := b.Op(opTestRead, nil, kv, q)
		x = b.Op(opTestAdd, nil, x, b.Op(opTestMatMul, nil, ctx, w("o", d, d)))
		up := b.Op(opTestMatMul, nil, x, w("up", 4*d, d))
		x = b.Op(opTestAdd, nil, x, b.Op(opTestMatMul, nil, b.Op(opTestNeg, nil, up), w("down", d, 4*d)))
	}
	b.SetLayer(-1)
	b.Output("logits", b.Op(opTestMatMul, nil, x, b.Weight("head", F32, ShapeOf(256, d))))
	g, err := b.Finish()
	if err != nil {
		panic(err)
	}
	return g
}

// TestPlanIsTight holds the plan of a decoder against what is alive at once.
func TestPlanIsTight(t *testing.T) {
	g := decoder(12)
	g.Bound = Dims{"T": 33}
	if err := MemPlan(g); err != nil {
		t.Fatal(err)
	}
	if err := Verify(g); err != nil {
		t.Fatal(err)
	}
	s, err := Summarize(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.Arena > s.Floor+s.Floor/10 {
		t.Errorf("arena has %d bytes, %d are alive at once", s.Arena, s.Floor)
	}
	want := 12*(3*64*64+2*4*64*64)*33 + 256*64*33
	if s.MACs != want || s.Layers != 12 || s.Caches != 12*128*64*4 {
		t.Errorf("got %d multiply-adds, %d layers, %d bytes of cache, want %d", s.MACs, s.Layers, s.Caches, want)
	}
	if _, err := Summarize(g, Dims{}); err == nil || !strings.Contains(err.Error(), "T is not bound") {
		t.Errorf("got %v", err)
	}
}

// TestVerifyRules breaks the rules that no text can break.
func TestVerifyRules(t *testing.T) {
	last := func(g *Graph) *Value { return g.Values[len(g.Values)-1] }
	for rule, harm := range map[string]func(g *Graph){
		"order":  func(g *Graph) { last(g).Args[0] = last(g) },
		"id":     func(g *Graph) { last(g).ID = 0 },
		"op":     func(g *Graph) { last(g).Op = &Op{Name: "testadd"} },
		"attrs":  func(g *Graph) { last(g).Attrs = MakeAttrs("by", 1) },
		"type":   func(g *Graph) { last(g).Type.DType = F16 },
		"leaf":   func(g *Graph) { g.Values[0].Name = "" },
		"layer":  func(g *Graph) { last(g).Layer = -2 },
		"output": func(g *Graph) { g.Outputs[0].Value = &Value{Op: opTestNeg} },
		"plan":   func(g *Graph) { g.Arena = 64 },
	} {
		g := decoder(1)
		harm(g)
		var e *InvariantError
		if err := Verify(g); !errors.As(err, &e) || !errors.Is(err, ErrInvariant) || e.Rule != rule {
			t.Errorf("rule %s: got %v", rule, err)
		}
	}
}

// TestPipelineTables refuses tables that contradict themselves.
func TestPipelineTables(t *testing.T) {
	nop := func(*Graph) error { return nil }
	a, b := Pass{Name: "a", Run: nop}, Pass{Name: "b", Run: nop, Required: true}
	for _, c := range []struct {
		passes []Pass
		order  []Order
		want   string
	}{
		{[]Pass{a, a}, nil, "graph: pipeline: two passes named a"},
		{[]Pass{{Name: "x"}}, nil, "graph: pipeline: row 0 has no name or nothing to run"},
		{[]Pass{a, b}, []Order{{"b", "a", "b makes what a reads"}}, "graph: pipeline: b must run before a: b makes what a reads"},
		{[]Pass{a, b}, []Order{{"a", "b", ""}}, "graph: pipeline: rule a before b: no reason given"},
		{[]Pass{a, b}, []Order{{"a", "c", "why"}}, "graph: pipeline: rule a before c: no pass c; known: a, b"},
	} {
		if _, err := NewPipeline(c.passes, c.order); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	p := MustPipeline([]Pass{a, b}, []Order{{"a", "b", "why"}})
	for _, c := range []struct {
		o    RunOptions
		want string
	}{
		{RunOptions{Disable: []string{"c"}}, `graph: disable: unknown pass "c"; known: a, b`},
		{RunOptions{Disable: []string{"b"}}, "graph: disable: pass b is required; can be disabled: a"},
		{RunOptions{StopAfter: "c"}, `graph: stop after: unknown pass "c"; known: a, b`},
	} {
		if _, err := p.Run(decoder(1), c.o); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// TestPipelineRun looks at stats, hooks, disabled passes and failures.
func TestPipelineRun(t *testing.T) {
	p := MustPipeline(genericPasses, nil)
	var seen []string
	hook := func(_ *Graph, s PassStat) {
		seen = append(seen, fmt.Sprintf("%s %t %t", s.Pass, s.Changed, s.Disabled))
	}
	g := decoder(2)
	stats, err := p.Run(g, RunOptions{Disable: []string{"cse"}, StopAfter: "dce", Hook: hook, Check: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(seen, ", "); len(stats) != 4 || got != "constfold false false, rewrite false false, cse false true, dce false false" {
		t.Errorf("got %d stats, %s", len(stats), got)
	}
	if stats[0].Before != len(g.Values) || stats[0].Duration <= 0 {
		t.Errorf("got %+v", stats[0])
	}

	boom := Pass{Name: "boom", Run: func(g *Graph) error { g.Values[1].Args[9] = nil; return nil }}
	lame := Pass{Name: "lame", Run: func(g *Graph) error { g.Values[len(g.Values)-1].Layer = -7; return nil }}
	sad := Pass{Name: "sad", Run: func(*Graph) error { return ErrShape }}
	for _, c := range []struct {
		pass Pass
		want string
	}{
		{boom, "pass boom on graph decoder: panic: runtime error: index out of range [9] with length 0"},
		{sad, "pass sad on graph decoder: shape does not fit"},
		{lame, "pass lame on graph decoder: graph: decoder: rule layer: v"},
	} {
		_, err := MustPipeline([]Pass{c.pass}, nil).Run(decoder(1), RunOptions{Check: true})
		var e *PassError
		if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), c.want) || e.Dump == "" {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// TestPipelineSorts appends a value before its user and leaves the order to the
// pipeline.
func TestPipelineSorts(t *testing.T) {
	wrap := Pass{Name: "wrap", Run: func(g *Graph) error {
		u := g.Outputs[0].Value
		u.Args[0] = g.Add(&Value{Op: opTestNeg, Args: []*Value{u.Args[0]}, Type: u.Args[0].Type, Layer: -1})
		return nil
	}}
	g := decoder(1)
	if _, err := MustPipeline([]Pass{wrap}, nil).Run(g, RunOptions{Check: true}); err != nil {
		t.Fatal(err)
	}
	if n := len(g.Values); g.Values[n-2].Op != opTestNeg {
		t.Errorf("the new value is not right before its user\n%s", g)
	}
}

// TestRulesEnd stops tables that go round in circles and rules that change types.
func TestRulesEnd(t *testing.T) {
	flip := Rule{Name: "flip", Match: Pat("testadd", Any("a"), Any("b")),
		Make: func(m *Match) *Value { return m.New(opTestAdd, nil, m.Get("b"), m.Get("a")) }}
	if err := Rules(flip)(decoder(1)); err == nil || !strings.Contains(err.Error(), "do not come to an end") {
		t.Errorf("got %v", err)
	}
	self := Rule{Name: "self", Match: Pat("testadd", Any("a"), Any("b")).As("r"),
		Make: func(m *Match) *Value { return m.New(opTestNeg, nil, m.Get("r")) }}
	if err := Rules(self)(decoder(1)); err == nil || !strings.HasPrefix(err.Error(), "rule self at v") {
		t.Errorf("got %v", err)
	}
	wide := Rule{Name: "wide", Match: Pat("testadd", Any("a"), Pat("testmatmul")),
		Make: func(m *Match) *Value { return m.Get("a").Storage().Args[0] }, If: func(m *Match) bool { return len(m.Get("a").Args) > 0 }}
	if err := Rules(wide)(decoder(2)); err != nil {
		t.Errorf("got %v", err)
	}
	bad := Rule{Name: "bad", Match: Pat("testmatmul", Any("x"), Any("w")), Make: func(m *Match) *Value { return m.Get("w") }}
	if err := Rules(bad)(decoder(1)); err == nil || !strings.Contains(err.Error(), "what replaces it") {
		t.Errorf("got %v", err)
	}
}

// TestDumps compares the drawing and the JSON of a small plan with testdata.
func TestDumps(t *testing.T) {
	g := decoder(1)
	for _, v := range g.Values {
		v.Origin = "" // line numbers of this file would change with it
	}
	g.Bound = Dims{"T": 2}
	if err := MemPlan(g); err != nil {
		t.Fatal(err)
	}
	var dot, all, js bytes.Buffer
	g.WriteDot(&dot, DotOptions{})
	g.WriteDot(&all, DotOptions{Leaves: true, Layers: []int{-1}})
	if err := g.WriteJSON(&js, nil); err != nil || !json.Valid(js.Bytes()) {
		t.Fatalf("%v: %s", err, js.Bytes())
	}
	s, _ := Summarize(g, nil)
	got := txtar.Format(&txtar.Archive{Files: []txtar.File{{Name: "text", Data: []byte(g.String())}, {Name: "dot", Data: dot.Bytes()},
		{Name: "dot-leaves", Data: all.Bytes()}, {Name: "json", Data: js.Bytes()}, {Name: "summary", Data: []byte(s.String())}}})
	file := filepath.Join("testdata", "dumps.golden")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, _ := os.ReadFile(file); !bytes.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestDocListsRules keeps the list of invariants and the verifier together.
func TestDocListsRules(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for i, rule := range []string{"order", "id", "op", "attrs", "type", "leaf", "layer", "view", "state", "output", "plan"} {
		k := strings.Index(string(doc[at:]), fmt.Sprintf("%d. %s:", i+1, rule))
		if k < 0 {
			t.Fatalf("rule %d, %s, is not in the list or not in its place", i+1, rule)
		}
		at += k
	}
}

// BenchmarkCompile runs all passes of this package on about 3000 values.
func BenchmarkCompile(b *testing.B) {
	p := MustPipeline(genericPasses, nil)
	g := decoder(185)
	b.ReportMetric(float64(len(g.Values)), "values")
	for b.Loop() {
		b.StopTimer()
		c := g.Clone()
		b.StartTimer()
		if _, err := p.Run(c, RunOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPasses(b *testing.B) {
	g := decoder(185)
	g.Bound = Dims{"T": 3}
	for _, p := range append(genericPasses, Pass{Name: "verify", Run: Verify}, Pass{Name: "print", Run: func(g *Graph) error { _ = g.String(); return nil }},
		Pass{Name: "fingerprint", Run: func(g *Graph) error { g.Fingerprint(); return nil }}) {
		b.Run(p.Name, func(b *testing.B) {
			for b.Loop() {
				if err := p.Run(g); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
