package graph

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// DotOptions chooses what WriteDot draws. The zero value draws everything but
// weights and consts, which are named inside the values that use them.
type DotOptions struct {
	// Leaves draws weights and consts as nodes of their own.
	Leaves bool
	// Layers draws only the values of these layers and their direct arguments;
	// nil draws all, -1 stands for the values outside of any layer.
	Layers []int
}

// WriteDot writes the graph for Graphviz: a box per value, a frame per layer,
// edges from arguments to users with the type that flows. Views are dashed,
// writes to a cache and caches are filled.
func (g *Graph) WriteDot(w io.Writer, o DotOptions) error {
	d := dotWriter{Writer: bufio.NewWriter(w), o: o}
	d.choose(g)
	fmt.Fprintf(d, "digraph %s {\n", strconv.Quote(g.Name))
	d.WriteString("  node [shape=box fontname=\"Helvetica\" fontsize=10 margin=\"0.08,0.04\"]\n  edge [fontname=\"Helvetica\" fontsize=8 color=\"#666666\"]\n")
	for _, layer := range slices.Sorted(maps.Keys(d.layers)) {
		d.cluster(g, layer)
	}
	for _, v := range g.Values {
		for _, a := range v.Args {
			if d.drawn[v] && d.drawn[a] {
				fmt.Fprintf(d, "  %s -> %s [label=%s]\n", a, v, strconv.Quote(a.Type.String()))
			}
		}
	}
	for i, out := range g.Outputs {
		if d.drawn[out.Value] {
			fmt.Fprintf(d, "  out%d [shape=oval label=%s]\n  %s -> out%d\n", i, strconv.Quote(out.Name), out.Value, i)
		}
	}
	d.WriteString("}\n")
	return d.Flush()
}

type dotWriter struct {
	*bufio.Writer
	o      DotOptions
	drawn  map[*Value]bool
	layers map[int]bool
}

// choose decides which values are drawn.
func (d *dotWriter) choose(g *Graph) {
	d.drawn, d.layers = map[*Value]bool{}, map[int]bool{}
	draw := func(v *Value) {
		if d.o.Leaves || v.Op != OpWeight && v.Op != OpConst {
			d.drawn[v] = true
			d.layers[v.Layer] = true
		}
	}
	for _, v := range g.Values {
		if d.o.Layers != nil && !slices.Contains(d.o.Layers, v.Layer) {
			continue
		}
		draw(v)
		for _, a := range v.Args {
			draw(a)
		}
	}
}

// cluster writes the values of a layer inside a frame.
func (d *dotWriter) cluster(g *Graph, layer int) {
	indent := "  "
	open := false
	for _, v := range g.Values {
		if v.Layer != layer || !d.drawn[v] {
			continue
		}
		if layer >= 0 && !open {
			fmt.Fprintf(d, "  subgraph cluster_%d {\n    label=\"layer %d\" fontname=\"Helvetica\" color=\"#bbbbbb\"\n", layer, layer)
			indent, open = "    ", true
		}
		fmt.Fprintf(d, "%s%s [label=%s%s]\n", indent, v, strconv.Quote(d.label(v)), dotStyle(v))
	}
	if open {
		d.WriteString("  }\n")
	}
}

// label returns operation and id, role, attributes, undrawn arguments and type.
func (d *dotWriter) label(v *Value) string {
	lines := []string{v.Op.Name + " " + v.String()}
	if v.Name != "" {
		lines = append(lines, v.Name)
	}
	if a := string(v.appendAttrs(nil)); a != "" {
		lines = append(lines, strings.TrimSpace(a))
	}
	for _, a := range v.Args {
		if !d.drawn[a] {
			lines = append(lines, a.Label()+" "+a.Type.String())
		}
	}
	return strings.Join(append(lines, v.Type.String()), "\n")
}

func dotStyle(v *Value) string {
	switch {
	case v.Op == OpCache || v.Op.Is(State):
		return ` style=filled fillcolor="#fde9c9"`
	case v.Op.Is(View):
		return " style=dashed"
	case v.Op.Is(Leaf):
		return ` style=filled fillcolor="#e3eefb"`
	}
	return ""
}
