package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"graphrun/backends/cpu"
	"graphrun/engine"
	"graphrun/graph"
)

// dumpFormats are the values of --dump.
var dumpFormats = []string{"text", "dot", "svg", "html", "json", "summary"}

// dumpFlags are the flags of graphrun --dump.
type dumpFlags struct {
	modelFlags
	format string
	pass   string
	out    string
	layers bool
}

func (d *dumpFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&d.format, "dump", "", "print the compiled graph: text, dot, svg, html (every pass on one page), json or summary")
	fs.Lookup("dump").NoOptDefVal = "text"
	fs.StringVar(&d.pass, "pass", "", "with --dump: the state after this pass; \"build\" is before all")
	fs.BoolVar(&d.layers, "all-layers", false, "with --dump=svg: draw every layer, not one of each kind")
	fs.StringVarP(&d.out, "output", "o", "", "with --dump: write to this file instead of standard output")
	d.modelFlags.register(cmd)
}

// unused refuses a flag that says nothing without --dump.
func (d *dumpFlags) unused(cmd *cobra.Command) error {
	name := ""
	cmd.Flags().Visit(func(f *pflag.Flag) { name = f.Name })
	if name == "" {
		return nil
	}
	return usagef("--%s needs --dump or a command; see graphrun --help", name)
}

func (d *dumpFlags) run(cmd *cobra.Command, args []string) error {
	if !isOneOf(d.format, dumpFormats) {
		return usagef("--dump is %q, want one of %v", d.format, dumpFormats)
	}
	if d.passes == "list" {
		return d.list(cmd, args)
	}
	if err := d.knownPass(); err != nil {
		return err
	}
	path, err := modelArg(cmd, args)
	if err != nil {
		return err
	}
	if d.format == "html" {
		return d.html(cmd, path)
	}
	g, bound, err := d.graph(cmd, path)
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	switch d.format {
	case "text":
		err = g.WriteText(&buf)
	case "dot":
		err = g.WriteDot(&buf, graph.DotOptions{})
	case "svg":
		err = g.WriteSVG(&buf, graph.SVGOptions{AllLayers: d.layers})
	case "json":
		err = g.WriteJSON(&buf, g.Bound)
	case "summary":
		err = writeSummary(&buf, g, bound)
	}
	if err != nil {
		return err
	}
	return writeOutput(cmd, d.out, buf.Bytes(), path)
}

func (d *dumpFlags) knownPass() error {
	if d.pass == "" || d.pass == "build" {
		return nil
	}
	names := []string{"build"}
	for _, p := range cpu.Passes().Passes() {
		if p.Name == d.pass {
			return nil
		}
		names = append(names, p.Name)
	}
	return usagef("--pass: unknown pass %q; known: %v", d.pass, names)
}

// html writes the page that shows the graph after every pass.
func (d *dumpFlags) html(cmd *cobra.Command, path string) error {
	if d.pass != "" {
		return usagef("--pass: --dump=html shows the graph after every pass; leave --pass out")
	}
	var h graph.History
	m, err := d.open(cmd, path, func(o *engine.Options) {
		o.Threads, o.Overcommit, o.TokensOnly = 1, true, true
		o.OnPass = func(s graph.PassStat, g *graph.Graph) { h.Add(g, s) }
	})
	if err != nil {
		return err
	}
	defer m.Close()
	h.Begin(m.Graph)
	var buf bytes.Buffer
	if err := h.WriteHTML(&buf, filepath.Base(m.File.Path)); err != nil {
		return err
	}
	return writeOutput(cmd, d.out, buf.Bytes(), path)
}

// graph compiles the model and returns its graph after the wanted pass, and the
// sizes it was compiled for. The dump does not run it, so a model beyond the
// machine's memory is fine.
func (d *dumpFlags) graph(cmd *cobra.Command, path string) (*graph.Graph, graph.Dims, error) {
	var after *graph.Graph
	m, err := d.open(cmd, path, func(o *engine.Options) {
		o.Threads, o.Overcommit, o.TokensOnly = 1, true, true
		o.OnPass = func(s graph.PassStat, g *graph.Graph) {
			if s.Pass == d.pass {
				after = g.Clone()
			}
		}
	})
	if err != nil {
		return nil, nil, err
	}
	defer m.Close()
	final := m.Program().Graph()
	switch d.pass {
	case "":
		after = final
	case "build":
		after = m.Graph
	}
	return after, final.Bound, nil
}

// list prints the pass table with what each pass did and took.
func (d *dumpFlags) list(cmd *cobra.Command, args []string) error {
	path, err := modelArg(cmd, args)
	if err != nil {
		return err
	}
	d.passes = ""
	stats := map[string]graph.PassStat{}
	m, err := d.open(cmd, path, func(o *engine.Options) {
		o.Threads, o.Overcommit, o.TokensOnly = 1, true, true
		o.OnPass = func(s graph.PassStat, _ *graph.Graph) { stats[s.Pass] = s }
	})
	if err != nil {
		return err
	}
	defer m.Close()
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "pass\tvalues\tchanged\ttook\trequired\twhat it does")
	for _, p := range cpu.Passes().Passes() {
		s := stats[p.Name]
		fmt.Fprintf(w, "%s\t%d -> %d\t%s\t%s\t%s\t%s\n", p.Name, s.Before, s.After, yesNo(s.Changed), s.Duration.Round(time.Microsecond), yesNo(p.Required), p.Doc)
	}
	return w.Flush()
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// writeSummary counts the graph for a decode step of one token and for the
// largest step the plan was made for.
func writeSummary(w io.Writer, g *graph.Graph, bound graph.Dims) error {
	if bound == nil {
		s, err := graph.Summarize(g, nil)
		if err != nil {
			return err
		}
		_, err = io.WriteString(w, s.String())
		return err
	}
	one := graph.Dims{}
	for k, n := range bound {
		one[k] = n
	}
	one["T"], one["R"] = 1, 1
	for _, part := range []struct {
		title string
		dims  graph.Dims
	}{{"one token", one}, {"largest step", bound}} {
		s, err := graph.Summarize(g, part.dims)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s (%s)\n%s\n", part.title, part.dims, s)
	}
	return nil
}
