package graph

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// FuzzParse reads any text: no panic, errors are of one line and one class, and
// what can be read is printed in a form that reads back to the same bytes.
// Verify and the passes must not panic on it either.
func FuzzParse(f *testing.F) {
	addGraphs(f)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<16 {
			return
		}
		g, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrFormat) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%q", err.Error())
			}
			return
		}
		printed := g.String()
		back, err := Parse(printed)
		if err != nil {
			t.Fatalf("%v\n%s", err, printed)
		}
		if err := sameGraph(g, back); err != nil {
			t.Fatal(err)
		}
		if again := back.String(); again != printed {
			t.Fatalf("got\n%s\nwant\n%s", again, printed)
		}
		if Verify(g) != nil {
			return
		}
		for _, p := range genericPasses[1:] {
			if p.Run(g) == nil {
				if err := Verify(g); err != nil {
					t.Fatalf("%s: %v\n%s", p.Name, err, printed)
				}
			}
		}
	})
}

// addGraphs adds the graphs of the pass tests.
func addGraphs(f *testing.F) {
	f.Helper()
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, x := range a.Files {
			f.Add(string(x.Data))
		}
	}
}

// FuzzDraw draws any valid graph: no panic, the picture is XML, the data of the
// page are JSON, and no name breaks out of them.
func FuzzDraw(f *testing.F) {
	addGraphs(f)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<14 {
			return
		}
		g, err := Parse(text)
		if err != nil || Verify(g) != nil {
			return
		}
		for _, all := range []bool{false, true} {
			drawSVG(t, g, SVGOptions{AllLayers: all})
		}
		var h History
		h.Begin(g)
		if DCE(g) == nil {
			h.Add(g, PassStat{Pass: "dce"})
		}
		var page strings.Builder
		if err := h.WriteHTML(&page, text); err != nil {
			t.Fatal(err)
		}
		if !json.Valid(pageJSON(t, page.String())) || strings.Count(page.String(), "<script") != 2 {
			t.Fatal("the page is broken")
		}
		if d := Compare(g, g.Clone()); !d.Equal() {
			t.Fatal("a graph differs from its copy")
		}
	})
}
