package graph

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// SVGOptions chooses what WriteSVG draws.
type SVGOptions struct {
	// AllLayers draws every layer. Otherwise blocks that repeat are drawn once,
	// with the layers they stand for and dashed lines back to where they begin
	// again.
	AllLayers bool
}

// WriteSVG draws the graph as one picture, from top to bottom: a box per value,
// a frame per layer, lines from arguments to users. Inputs, weights and constants
// are named inside the values that use them. A line that would cross more than
// 40 levels is a mark at the user instead. The picture follows the reader's
// light or dark setting.
func (g *Graph) WriteSVG(w io.Writer, o SVGOptions) error {
	d := &svgWriter{Writer: bufio.NewWriter(w), g: g}
	d.choose(o)
	d.measure()
	d.draw()
	return d.Flush()
}

type svgWriter struct {
	*bufio.Writer
	g      *Graph
	kinds  []int
	runs   []run
	period int // layers after which the runs repeat

	drawn []*Value
	at    map[*Value]int      // index in drawn
	twin  map[*Value]*Value   // of each computed value, the one drawn in its place
	like  map[*Value][]*Value // of each drawn value, the others it stands for
	text  [][]string          // lines of each box
	links []link
	back  []link // from a block to the begin of its next repetition
	lay   *layout
	outs  map[*Value][]string
}

// choose decides which values are drawn, and which stand for others.
func (d *svgWriter) choose(o SVGOptions) {
	d.kinds = LayerKinds(d.g)
	d.runs, d.period = fold(d.kinds)
	if o.AllLayers {
		d.runs, d.period = nil, len(d.kinds)
		for l := range d.kinds {
			d.runs = append(d.runs, run{l, 1})
		}
	}
	first := make([]int, len(d.kinds)) // layer drawn for each layer
	for _, r := range d.runs {
		for l := r.first; l < r.first+r.count; l++ {
			first[l] = r.first
		}
	}
	for l := d.period; l < len(first); l++ {
		first[l] = first[l-d.period]
	}
	d.at, d.twin, d.outs, d.like = map[*Value]int{}, map[*Value]*Value{}, map[*Value][]string{}, map[*Value][]*Value{}
	members := make([][]*Value, len(d.kinds))
	for _, v := range d.g.Values {
		if v.Layer >= 0 {
			members[v.Layer] = append(members[v.Layer], v)
		}
	}
	for l, list := range members {
		like := members[first[l]]
		if len(like) != len(list) { // two kinds with one hash
			like = list
		}
		for i, v := range list {
			d.twin[v] = like[i]
		}
	}
	for _, v := range d.g.Values {
		if inBox(v) {
			continue
		}
		if d.twin[v] == nil {
			d.twin[v] = v
		}
		if t := d.twin[v]; t != v {
			d.like[t] = append(d.like[t], v)
		} else {
			d.at[v] = len(d.drawn)
			d.drawn = append(d.drawn, v)
		}
	}
	seen := map[link]bool{}
	for _, v := range d.g.Values {
		if inBox(v) {
			continue
		}
		for _, a := range v.Args {
			if inBox(a) {
				continue
			}
			k := link{d.at[d.twin[a]], d.at[d.twin[v]]}
			switch {
			case seen[k]:
			case k.from < k.to && d.twin[v] == v:
				d.links = append(d.links, k)
				seen[k] = true
			case k.from >= k.to:
				d.back = append(d.back, k)
				seen[k] = true
			}
		}
	}
	for _, out := range d.g.Outputs {
		if v := d.twin[out.Value]; v != nil {
			d.outs[v] = append(d.outs[v], out.Name)
		}
	}
}

// inBox reports whether v is named inside the boxes that use it.
func inBox(v *Value) bool { return v.Op == OpWeight || v.Op == OpConst || v.Op == OpInput }

// Widths of the fonts of the picture, in pixels per character: text is measured
// without them, so that the picture is the same everywhere.
const (
	boldW = 7.5
	sansW = 6.9
	monoW = 6.1
	lineH = 15
	padX  = 9
)

// measure makes the texts and the layout.
func (d *svgWriter) measure() {
	w, h := make([]float64, len(d.drawn)), make([]float64, len(d.drawn))
	late := make([]bool, len(d.drawn)) // what a layer cuts out of something earlier stands in the layer
	size := func() {
		for i := range d.drawn {
			h[i] = float64(len(d.text[i])*lineH + 12)
		}
	}
	for i, v := range d.drawn {
		late[i] = v.Layer >= 0
		d.text = append(d.text, d.lines(v))
		w[i] = boldW*textLen(v.Op.Name) + sansW*textLen(v.Name) + 8
		for _, s := range d.text[i][1:] {
			w[i] = max(w[i], monoW*textLen(s))
		}
		w[i] += 2 * padX
	}
	size()
	d.lay = newLayout(w, h, late, d.links)
	if len(d.lay.far) == 0 {
		return
	}
	// Boxes with marks for far arguments are taller: once more.
	for _, k := range d.lay.far {
		s := "from " + d.drawn[k.from].String() + " " + d.drawn[k.from].Label()
		d.text[k.to] = append(d.text[k.to], s)
		w[k.to] = max(w[k.to], monoW*textLen(s)+2*padX)
	}
	size()
	d.lay = newLayout(w, h, late, d.links)
}

// xmlText escapes s; what XML cannot hold becomes U+FFFD.
func xmlText(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(s)) //nolint:errcheck // a Builder does not fail
	return b.String()
}

func textLen(s string) float64 { return float64(len([]rune(s))) }

// lines returns the text of a box: operation and role, id and type, then what it
// uses from outside.
func (d *svgWriter) lines(v *Value) []string {
	lines := []string{v.Op.Name, v.String() + "  " + v.Type.String()}
	if a := strings.Trim(string(v.appendAttrs(nil)), " {}"); a != "" && !v.Op.Is(View) {
		lines = append(lines, a)
	}
	var inputs []string
	for i, a := range v.Args {
		switch a.Op {
		case OpWeight, OpConst:
			lines = append(lines, shortName(a.Name)+"  "+d.weightType(v, i))
		case OpInput:
			if !slices.Contains(inputs, a.Name) {
				inputs = append(inputs, a.Name)
			}
		}
	}
	if inputs != nil {
		lines = append(lines, "with "+strings.Join(inputs, ", "))
	}
	if out := d.outs[v]; out != nil {
		lines = append(lines, "output "+strings.Join(out, ", "))
	}
	for i, s := range lines {
		if r := []rune(s); len(r) > 60 {
			lines[i] = string(r[:59]) + "…"
		}
	}
	return lines
}

// weightType returns the type of argument i of v, a weight, with the element
// types it has in all layers that v stands for: q4_k|q6_k[576,576].
func (d *svgWriter) weightType(v *Value, i int) string {
	names := []string{v.Args[i].Type.DType.String()}
	for _, t := range d.like[v] {
		if n := t.Args[i].Type.DType.String(); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return strings.Join(names, "|") + v.Args[i].Type.Shape.String()
}

// shortName returns the name of a weight without what the frame says already.
func shortName(name string) string {
	if rest, ok := strings.CutPrefix(name, "blk."); ok {
		if _, part, ok := strings.Cut(rest, "."); ok {
			name = part
		}
	}
	return strings.TrimSuffix(name, ".weight")
}

const svgStyle = `
  svg { color-scheme: light dark; font: 12px system-ui, "Segoe UI", "Helvetica Neue", "DejaVu Sans", sans-serif; --bg: #fbfaf8; --box: #fff; --line: #c9c4ba; --text: #1f1d1a; --muted: #6b665e; --edge: #a8a196; --state: #fdf0d9; --frame: #f3f1ec; --out: #2456c8 }
  @media (prefers-color-scheme: dark) { svg { --bg: #131417; --box: #1f2227; --line: #454951; --text: #e8e6e1; --muted: #a19c93; --edge: #6d6a64; --state: #33291a; --frame: #191b1f; --out: #8db0ff } }
  .bg { fill: var(--bg) } .frame { fill: var(--frame); stroke: var(--line) } .of { fill: var(--muted) } .x { font-weight: 650; fill: var(--text) }
  .box rect { fill: var(--box); stroke: var(--line) } .state rect { fill: var(--state) } .view rect { stroke-dasharray: 4 3 } .out rect { stroke: var(--out); stroke-width: 2 }
  text { fill: var(--text) } .op { font-weight: 650 } .role, .m { fill: var(--muted) } .m { font: 10px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace }
  .e { fill: none; stroke: var(--edge); stroke-width: 1.3 } .back { stroke-dasharray: 5 4; stroke: var(--out) } .a { fill: var(--edge) } .b { fill: var(--out) }
`

const (
	svgMargin = 36
	svgHead   = 36
)

// draw writes the picture.
func (d *svgWriter) draw() {
	backs := d.backLanes()
	left := svgMargin + 14*float64(backs)
	w, h := d.lay.w+left+svgMargin, d.lay.h+svgHead+2*svgMargin-10
	title := fmt.Sprintf("%s: %d values", d.g.Name, len(d.g.Values))
	if n := len(d.kinds); n > 0 {
		title += fmt.Sprintf(", %d layers", n)
	}
	fmt.Fprintf(d, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`, w, h, w, h, xmlText(title))
	fmt.Fprintf(d, "\n<title>%s</title>\n<style>%s</style>\n", xmlText(title), svgStyle)
	d.WriteString(`<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path class="a" d="M0 0L8 4L0 8z"/></marker><marker id="b" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path class="b" d="M0 0L8 4L0 8z"/></marker></defs>` + "\n")
	fmt.Fprintf(d, `<rect class="bg" width="%.0f" height="%.0f"/>`+"\n", w, h)
	fmt.Fprintf(d, `<text x="%d" y="32" font-size="15" class="op">%s</text>`+"\n", svgMargin, xmlText(title))
	for i := range d.lay.boxes {
		d.lay.boxes[i].x += left
		d.lay.boxes[i].y += svgHead + svgMargin - 10
	}
	d.frames()
	d.edges()
	d.backEdges(left)
	for i, v := range d.drawn {
		d.box(i, v)
	}
	d.WriteString("</svg>\n")
}

// frames draws a frame around each run of layers.
func (d *svgWriter) frames() {
	around := d.extents()
	for _, r := range d.runs {
		e, ok := around[r.first]
		if !ok {
			continue
		}
		fmt.Fprintf(d, `<rect class="frame" x="%.0f" y="%.0f" width="%.0f" height="%.0f" rx="10"/>`, e.x0-12, e.y0-frameTop, e.x1-e.x0+24, e.y1-e.y0+frameTop+10)
		layers := d.layersOf(r)
		if len(layers) == 1 {
			fmt.Fprintf(d, `<text class="of" x="%.0f" y="%.0f">layer %d</text>`+"\n", e.x0, e.y0-9, layers[0])
			continue
		}
		fmt.Fprintf(d, `<text x="%.0f" y="%.0f"><tspan class="x">×%d</tspan><tspan class="of" dx="7">layers %s</tspan></text>`+"\n", e.x0, e.y0-9, len(layers), ranges(layers, 8))
	}
}

// layersOf returns the layers that a run stands for.
func (d *svgWriter) layersOf(r run) (layers []int) {
	for from := r.first; from < len(d.kinds); from += d.period {
		for l := from; l < min(from+r.count, len(d.kinds)); l++ {
			layers = append(layers, l)
		}
	}
	return layers
}

// ranges prints rising numbers: "0–4, 6–10"; after most ranges it ends in "…".
func ranges(list []int, most int) string {
	var parts []string
	for i := 0; i < len(list); {
		j := i + 1
		for j < len(list) && list[j] == list[j-1]+1 {
			j++
		}
		if len(parts) == most {
			return strings.Join(parts, ", ") + ", …"
		}
		part := strconv.Itoa(list[i])
		if j-i > 1 {
			part += "–" + strconv.Itoa(list[j-1])
		}
		parts = append(parts, part)
		i = j
	}
	return strings.Join(parts, ", ")
}

// extent is the smallest rectangle around the boxes of a layer.
type extent struct{ x0, y0, x1, y1 float64 }

func (d *svgWriter) extents() map[int]extent {
	around := map[int]extent{}
	for i, v := range d.drawn {
		b := &d.lay.boxes[i]
		e, ok := around[v.Layer]
		if !ok {
			e = extent{b.x, b.y, b.x, b.y}
		}
		around[v.Layer] = extent{min(e.x0, b.x-b.w/2), min(e.y0, b.y), max(e.x1, b.x+b.w/2), max(e.y1, b.y+b.h)}
	}
	return around
}

// edges draws the lines from box to box; a line through bends is one curve after
// the other.
func (d *svgWriter) edges() {
	for i := range d.lay.boxes {
		b := &d.lay.boxes[i]
		for _, k := range b.out {
			u := &d.lay.boxes[k]
			x0, y0, x1, y1 := b.x, b.y+b.h, d.port(u, int32(i)), u.y
			mark := ""
			if u.node >= 0 {
				mark = ` marker-end="url(#a)"`
			}
			m := (y0 + y1) / 2
			line := fmt.Sprintf("M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f", x0, y0, x0, m, x1, m, x1, y1)
			if u.node < 0 {
				line += fmt.Sprintf("V%.1f", u.y+u.h)
			}
			fmt.Fprintf(d, `<path class="e" d="%s"%s/>`+"\n", line, mark)
		}
	}
}

// port returns where on the top of u the line from box a ends.
func (d *svgWriter) port(u *box, a int32) float64 {
	if u.node < 0 || len(u.in) < 2 {
		return u.x
	}
	order := slices.Clone(u.in)
	slices.SortStableFunc(order, func(a, b int32) int { return int(d.lay.boxes[a].x - d.lay.boxes[b].x) })
	i := slices.Index(order, a)
	return u.x + u.w*0.6*((float64(i)+0.5)/float64(len(order))-0.5)
}

func (d *svgWriter) backLanes() int { return min(len(d.back), 6) }

// backEdges draws what a repetition hands to the next along the left side.
func (d *svgWriter) backEdges(left float64) {
	for n, k := range d.back {
		if n == d.backLanes() {
			break
		}
		a, u := &d.lay.boxes[k.from], &d.lay.boxes[k.to]
		lane := left - 22 - 14*float64(n)
		x0, y0, x1, y1 := a.x-a.w/2, a.y+a.h/2, u.x-u.w/2, u.y+u.h/2
		fmt.Fprintf(d, `<path class="e back" marker-end="url(#b)" d="M%.1f %.1fH%.1fQ%.1f %.1f %.1f %.1fV%.1fQ%.1f %.1f %.1f %.1fH%.1f"/>`+"\n",
			x0, y0, lane+10, lane, y0, lane, y0-10, y1+10, lane, y1, lane+10, y1, x1)
	}
}

// box draws a value.
func (d *svgWriter) box(i int, v *Value) {
	b := &d.lay.boxes[i]
	class := "box"
	switch {
	case v.Op == OpCache || v.Op.Is(State):
		class += " state"
	case v.Op.Is(View):
		class += " view"
	}
	if d.outs[v] != nil {
		class += " out"
	}
	x := b.x - b.w/2
	fmt.Fprintf(d, `<g class="%s" id="%s"><title>%s</title><rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="6"/>`, class, v, xmlText(v.Line()), x, b.y, b.w, b.h)
	fmt.Fprintf(d, `<text x="%.1f" y="%.1f"><tspan class="op">%s</tspan>`, x+padX, b.y+17, xmlText(v.Op.Name))
	if v.Name != "" {
		fmt.Fprintf(d, `<tspan class="role" dx="6">%s</tspan>`, xmlText(v.Name))
	}
	d.WriteString("</text>")
	for n, s := range d.text[i][1:] {
		fmt.Fprintf(d, `<text class="m" x="%.1f" y="%.1f">%s</text>`, x+padX, b.y+17+float64(lineH*(n+1)), xmlText(s))
	}
	d.WriteString("</g>\n")
}
