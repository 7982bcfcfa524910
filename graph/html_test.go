package graph

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// blocks returns a network of layers that all look alike but for every
// special-th one.
func blocks(layers, special int) *Graph {
	b := NewBuilder("net")
	x := b.Input("x", F32, Rows("T", 4))
	for l := range layers {
		b.SetLayer(l)
		w := b.Weight("blk."+string(rune('a'+l%26))+strings.Repeat("'", l/26)+".w", F32, ShapeOf(4, 4))
		h := b.Name(b.Op(opTestMatMul, nil, x, w), "up")
		n := b.Name(b.Op(opTestNeg, nil, b.Op(opTestNeg, nil, h)), "act")
		if special > 0 && (l+1)%special == 0 {
			n = b.Op(opTestScale, MakeAttrs("by", float32(2)), n)
		}
		x = b.Name(b.Op(opTestAdd, nil, x, n), "res")
	}
	b.SetLayer(-1)
	b.Output("y", b.Name(b.Op(opTestScale, MakeAttrs("by", float32(0.5)), x), "out"))
	g, err := b.Finish()
	if err != nil {
		panic(err)
	}
	for _, v := range g.Values { // lines of this file would change the golden
		v.Origin = "net.go:" + string(rune('1'+v.ID%9))
	}
	return g
}

// history runs a pipeline over g and keeps what each pass left.
func history(t testing.TB, g *Graph) *History {
	t.Helper()
	p := MustPipeline([]Pass{
		{Name: "constfold", Run: ConstFold},
		{Name: "rewrite", Run: Rules(testRules...)},
		{Name: "dce", Run: DCE},
		{Name: "cse", Run: CSE},
		{Name: "memplan", Run: MemPlan, Orders: true},
	}, nil)
	var h History
	h.Begin(g)
	g = g.Clone()
	g.Bound = Dims{"T": 8}
	_, err := p.Run(g, RunOptions{Disable: []string{"constfold"}, Hook: h.Add})
	if err != nil {
		t.Fatal(err)
	}
	return &h
}

// pageJSON returns the data inside a page.
func pageJSON(t testing.TB, page string) []byte {
	t.Helper()
	_, rest, ok := strings.Cut(page, `<script type="application/json" id="data">`)
	data, _, ok2 := strings.Cut(rest, "</script>")
	if !ok || !ok2 {
		t.Fatal("the page has no data")
	}
	return []byte(data)
}

func TestHTML(t *testing.T) {
	var page strings.Builder
	if err := history(t, blocks(3, 0)).WriteHTML(&page, "net.gguf"); err != nil {
		t.Fatal(err)
	}
	data := pageJSON(t, page.String())
	if !json.Valid(data) {
		t.Fatalf("the data of the page is not JSON: %s", data)
	}
	lines := strings.NewReplacer("],[", "],\n[", "},{", "},\n{", `],"`, "],\n\"") // for people and diffs
	got := []byte(lines.Replace(string(data)) + "\n")
	golden := filepath.Join("testdata", "page.json")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the data of the page differ from %s (go test -update rewrites it):\n%s", golden, got)
	}
	for _, part := range []string{"<title>net.gguf · graphrun</title>", `id="cols"`, `id="canvas"`, "prefers-reduced-motion", `"use strict"`} {
		if !strings.Contains(page.String(), part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	for _, part := range []string{"http://", "https://", "src=", "@import", "url(", "{{"} {
		if strings.Contains(page.String(), part) {
			t.Errorf("the page has %q: it must stand alone", part)
		}
	}
}

// TestHTMLMerge wants passes that change nothing to share a column.
func TestHTMLMerge(t *testing.T) {
	h := history(t, blocks(3, 0))
	var got []string
	for _, s := range h.states {
		var names []string
		for _, p := range s.passes {
			names = append(names, p.Pass)
		}
		got = append(got, strings.Join(names, "="))
	}
	if want := []string{"build=constfold", "rewrite", "dce=cse", "memplan"}; !slices.Equal(got, want) {
		t.Errorf("columns %q, want %q", got, want)
	}
}

func TestHTMLHostileNames(t *testing.T) {
	g := blocks(1, 0)
	g.Name = "</title><script>alert(1)</script>"
	g.Values[0].Name = "</script><script>alert(1)</script>{{data}}"
	var page strings.Builder
	var h History
	h.Begin(g)
	if err := h.WriteHTML(&page, g.Name); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(page.String(), "<script"); n != 2 {
		t.Errorf("%d script elements, want 2", n)
	}
	var data pageData
	if err := json.Unmarshal(pageJSON(t, page.String()), &data); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(data.Names, g.Values[0].Name) || len(data.Steps) != 0 {
		t.Errorf("names %q, steps %v, want the input's name and no step: T is not bound", data.Names, data.Steps)
	}
}

func TestLayerKinds(t *testing.T) {
	if got, want := LayerKinds(blocks(7, 3)), []int{0, 0, 1, 0, 0, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("kinds %v, want %v", got, want)
	}
	g := blocks(3, 0)
	g.Find("act", 1).Type = Type{F32, Rows("T", 5)} // another type in the middle
	if got, want := LayerKinds(g), []int{0, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("kinds %v, want %v", got, want)
	}
	g.Values[1].Layer = 5 // leaves a gap
	if got := LayerKinds(g); len(got) != 6 || got[3] != -1 || got[4] != -1 {
		t.Errorf("kinds %v, want -1 for layers without values", got)
	}
}

func TestFold(t *testing.T) {
	for _, c := range []struct {
		kinds  []int
		runs   []run
		period int
	}{
		{nil, nil, 0},
		{[]int{0}, []run{{0, 1}}, 1},
		{[]int{0, 0, 0}, []run{{0, 3}}, 3},
		{[]int{0, 0, 1, 0, 0, 1, 0}, []run{{0, 2}, {2, 1}}, 3},
		{[]int{0, 1, 0}, []run{{0, 1}, {1, 1}, {2, 1}}, 3},
		{[]int{0, 0, 1, 1, 1}, []run{{0, 2}, {2, 3}}, 5},
	} {
		runs, period := fold(c.kinds)
		if !slices.Equal(runs, c.runs) || period != c.period {
			t.Errorf("fold(%v) = %v, period %d, want %v, %d", c.kinds, runs, period, c.runs, c.period)
		}
	}
}

// BenchmarkHTML writes the page of a model of 62 layers.
func BenchmarkHTML(b *testing.B) {
	h := history(b, blocks(500, 6)) // about 3000 values
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		var page bytes.Buffer
		if err := h.WriteHTML(&page, "net"); err != nil {
			b.Fatal(err)
		}
		n = page.Len()
	}
	b.ReportMetric(float64(n), "bytes/page")
}
