package graph

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// drawing is what the tests look at of a picture.
type drawing struct {
	XMLName xml.Name `xml:"svg"`
	Label   string   `xml:"aria-label,attr"`
	Boxes   []struct {
		Class string   `xml:"class,attr"`
		ID    string   `xml:"id,attr"`
		Title string   `xml:"title"`
		Rect  svgRect  `xml:"rect"`
		Text  []string `xml:"text"`
	} `xml:"g"`
	Rects []svgRect `xml:"rect"`
	Texts []struct {
		Spans []string `xml:"tspan"`
		Own   string   `xml:",chardata"`
	} `xml:"text"`
	Paths []struct {
		Class string `xml:"class,attr"`
	} `xml:"path"`
}

type svgRect struct {
	Class string  `xml:"class,attr"`
	X     float64 `xml:"x,attr"`
	Y     float64 `xml:"y,attr"`
	W     float64 `xml:"width,attr"`
	H     float64 `xml:"height,attr"`
}

func drawSVG(t testing.TB, g *Graph, o SVGOptions) (drawing, []byte) {
	t.Helper()
	var b bytes.Buffer
	if err := g.WriteSVG(&b, o); err != nil {
		t.Fatal(err)
	}
	var d drawing
	if err := xml.Unmarshal(b.Bytes(), &d); err != nil {
		t.Fatalf("not XML: %v\n%s", err, b.Bytes())
	}
	return d, b.Bytes()
}

func (d *drawing) paths(class string) (n int) {
	for _, p := range d.Paths {
		if p.Class == class {
			n++
		}
	}
	return n
}

func (d *drawing) frames() (texts []string) {
	for _, x := range d.Texts {
		if x.Spans != nil {
			texts = append(texts, strings.Join(x.Spans, " "))
		} else if strings.HasPrefix(x.Own, "layer ") {
			texts = append(texts, x.Own)
		}
	}
	return texts
}

// apart reports two boxes that overlap.
func (d *drawing) apart() error {
	for i, a := range d.Boxes {
		for _, b := range d.Boxes[:i] {
			p, q := a.Rect, b.Rect
			if p.X < q.X+q.W && q.X < p.X+p.W && p.Y < q.Y+q.H && q.Y < p.Y+p.H {
				return fmt.Errorf("%s and %s overlap", a.ID, b.ID)
			}
		}
	}
	return nil
}

func TestSVG(t *testing.T) {
	d, text := drawSVG(t, blocks(7, 3), SVGOptions{})
	golden := filepath.Join("testdata", "blocks.svg")
	if *update {
		if err := os.WriteFile(golden, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, want) {
		t.Errorf("the picture differs from %s (go test -update rewrites it)", golden)
	}
	// Two kinds of layer are drawn, of 4 and 5 values, and the scale at the end.
	if len(d.Boxes) != 4+1+4+1+1-1 {
		t.Errorf("%d boxes, want 10", len(d.Boxes))
	}
	if got := strings.Join(d.frames(), "; "); got != "×5 layers 0–1, 3–4, 6; ×2 layers 2, 5" {
		t.Errorf("frames %q", got)
	}
	if d.paths("e back") == 0 {
		t.Error("no line back to where the blocks begin again")
	}
	if err := d.apart(); err != nil {
		t.Error(err)
	}
	all, _ := drawSVG(t, blocks(7, 3), SVGOptions{AllLayers: true})
	if len(all.Boxes) != 7*4+2+1 || len(all.frames()) != 7 || all.paths("e back") != 0 {
		t.Errorf("%d boxes, %d frames, %d lines back, want 31, 7 and 0", len(all.Boxes), len(all.frames()), all.paths("e back"))
	}
	if got := d.Boxes[0].Text; len(got) < 3 || !strings.HasPrefix(got[2], "a.w") && !strings.Contains(strings.Join(got, "|"), "f32[4,4]") {
		t.Errorf("the first box says %q, want its weight named", got)
	}
}

// TestSVGFar marks an argument that comes from far above instead of drawing a
// line, so that the picture stays linear.
func TestSVGFar(t *testing.T) {
	b := NewBuilder("far")
	x := b.Op(opTestNeg, nil, b.Input("x", F32, Rows("T", 4)))
	y := x
	for range 100 {
		y = b.Op(opTestAdd, nil, b.Op(opTestNeg, nil, y), x)
	}
	b.Output("y<&>", y)
	g, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	d, text := drawSVG(t, g, SVGOptions{})
	if n := bytes.Count(text, []byte("from v1 testneg")); n != 80 {
		t.Errorf("%d marks for the far argument, want 80", n)
	}
	if len(d.Boxes) != 201 || d.Boxes[200].Class != "box out" {
		t.Errorf("%d boxes, the last of class %q", len(d.Boxes), d.Boxes[len(d.Boxes)-1].Class)
	}
	if err := d.apart(); err != nil {
		t.Error(err)
	}
}

// TestSVGRandom draws random graphs: every value once, none over another.
func TestSVGRandom(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := NewBuilder("random")
		vals := []*Value{b.Op(opTestNeg, nil, b.Input("x", F32, Rows("T", 4)))}
		for range 60 {
			pick := func() *Value { return vals[r.IntN(len(vals))] }
			vals = append(vals, b.Op(opTestAdd, nil, pick(), pick()))
		}
		b.Output("y", vals[len(vals)-1])
		g, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		d, _ := drawSVG(t, g, SVGOptions{})
		if len(d.Boxes) != len(vals) {
			t.Fatalf("seed %d: %d boxes for %d values", seed, len(d.Boxes), len(vals))
		}
		if err := d.apart(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// TestSVGEmpty draws a graph that is an input alone.
func TestSVGEmpty(t *testing.T) {
	b := NewBuilder("empty")
	b.Output("y", b.Input("x", F32, Rows("T", 4)))
	g, _ := b.Finish()
	d, _ := drawSVG(t, g, SVGOptions{})
	if len(d.Boxes) != 0 {
		t.Errorf("%d boxes, want 0", len(d.Boxes))
	}
}

// TestSVGTime draws 10000 values, the limit is a second. Times belong to the
// slow checks: .ci/run asks for it.
func TestSVGTime(t *testing.T) {
	if os.Getenv("GRAPHRUN_TIMING") == "" {
		t.Skip("about time: GRAPHRUN_TIMING=1 asks for it")
	}
	g := blocks(2000, 7)
	best := time.Hour
	for range 3 { // the machine may be busy with other tests
		start := time.Now()
		if err := g.WriteSVG(io.Discard, SVGOptions{AllLayers: true}); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(start))
	}
	t.Logf("%d values in %v", len(g.Values), best)
	if best > time.Second {
		t.Errorf("%d values took %v, want a second at most", len(g.Values), best)
	}
}

type failing struct{ after int }

func (f *failing) Write(p []byte) (int, error) {
	if f.after -= len(p); f.after < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

func TestWritersReportErrors(t *testing.T) {
	g := blocks(20, 0)
	if err := g.WriteSVG(&failing{5000}, SVGOptions{AllLayers: true}); err == nil || err.Error() != "disk full" {
		t.Errorf("WriteSVG: %v, want the writer's error", err)
	}
	if err := history(t, g).WriteHTML(&failing{5000}, "x"); err == nil || err.Error() != "disk full" {
		t.Errorf("WriteHTML: %v, want the writer's error", err)
	}
}

func BenchmarkSVG(b *testing.B) {
	g := blocks(2000, 7)
	b.ReportAllocs()
	for b.Loop() {
		if err := g.WriteSVG(io.Discard, SVGOptions{AllLayers: true}); err != nil {
			b.Fatal(err)
		}
	}
}
