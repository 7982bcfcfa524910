package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"graphrun/backends"
	"graphrun/backends/cpu"
	"graphrun/backends/ref"
	"graphrun/engine"
	"graphrun/graph"
	"graphrun/loaders"
)

// graphFlags are the flags of run that take a graph from a text.
type graphFlags struct {
	graph   string
	weights string
	inputs  []string
	dims    []string
}

func (f *graphFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.graph, "graph", "", "run this graph, in the text form of --dump: with MODEL instead of the model's own, else with --weights and --input")
	fs.StringVar(&f.weights, "weights", "", "with --graph: the file with the graph's weights, .safetensors or .gguf")
	fs.StringArrayVar(&f.inputs, "input", nil, "with --graph: NAME=1,2,3;4,5,6 (rows) or NAME=@FILE.safetensors; once for each input")
	fs.StringArrayVar(&f.dims, "dim", nil, "with --graph: S=64, the size of a dimension that no input has")
}

// alone reports whether the graph is to be run without a model, and refuses
// flags that do not go together.
func (f *graphFlags) alone() (bool, error) {
	rest := f.weights != "" || len(f.inputs) > 0 || len(f.dims) > 0
	if rest && f.graph == "" {
		return false, usagef("--weights, --input and --dim need --graph FILE")
	}
	return rest, nil
}

// readGraph parses the graph. Its operations are those of the program.
func (f *graphFlags) readGraph(cmd *cobra.Command) (*graph.Graph, error) {
	text, err := readInput(cmd, f.graph)
	if err != nil {
		return nil, err
	}
	g, err := graph.Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.graph, err)
	}
	return g, nil
}

// runGraph runs a graph that is no language model once, and prints its outputs.
func (f *runFlags) runGraph(cmd *cobra.Command) error {
	g, err := f.graphFlags.readGraph(cmd)
	if err != nil {
		return err
	}
	o, err := f.modelFlags.options()
	if err != nil {
		return err
	}
	w, closeWeights, err := f.graphFlags.openWeights(g)
	if err != nil {
		return err
	}
	defer closeWeights()
	feeds, dims, err := f.graphFlags.feeds(g)
	if err != nil {
		return err
	}
	var backend backends.Backend = cpu.Backend{}
	if f.backend == "ref" {
		backend = ref.Backend{}
	}
	p, err := backend.Compile(g, w, backends.Options{Threads: f.threads, Dims: dims, Off: o.Off, Check: o.Check, Finite: o.Finite, Deterministic: o.Deterministic})
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Run(cmd.Context(), feeds); err != nil {
		return err
	}
	return printOutputs(cmd, g, p, f.output)
}

// openWeights opens the file with the weights. A graph may have none.
func (f *graphFlags) openWeights(g *graph.Graph) (w backends.Weights, closeFile func(), err error) {
	if f.weights == "" {
		if i := slices.IndexFunc(g.Values, func(v *graph.Value) bool { return v.Op == graph.OpWeight }); i >= 0 {
			return nil, nil, usagef("the graph has weights, %q %s first: give their file with --weights FILE", g.Values[i].Name, g.Values[i].Type)
		}
		return backends.Tensors{}, func() {}, nil
	}
	m, err := openTensors(f.weights)
	if err != nil {
		return nil, nil, err
	}
	return engine.Weights(m), func() { m.Close() }, nil
}

// openTensors opens a file of tensors by its extension.
func openTensors(path string) (*loaders.Model, error) {
	if strings.HasSuffix(strings.ToLower(path), ".safetensors") {
		return loaders.OpenSafetensors(path)
	}
	return loaders.Open(path)
}

// feeds makes the inputs, and the sizes of all dimensions the graph names.
func (f *graphFlags) feeds(g *graph.Graph) ([]backends.Feed, graph.Dims, error) {
	dims := graph.Dims{}
	for _, d := range f.dims {
		name, text, _ := strings.Cut(d, "=")
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > 1<<30 || name == "" {
			return nil, nil, usagef("--dim is %q, want NAME=NUMBER", d)
		}
		dims[name] = n
	}
	given := map[string]string{}
	for _, in := range f.inputs {
		name, text, ok := strings.Cut(in, "=")
		if !ok || name == "" {
			return nil, nil, usagef("--input is %q, want NAME=NUMBERS or NAME=@FILE", in)
		}
		if _, twice := given[name]; twice {
			return nil, nil, usagef("--input %s is given twice", name)
		}
		given[name] = text
	}
	var feeds []backends.Feed
	var names []string
	for _, v := range g.Values {
		if v.Op != graph.OpInput {
			continue
		}
		names = append(names, v.Name)
		text, ok := given[v.Name]
		if !ok {
			return nil, nil, usagef("the graph has an input %q %s: give it with --input %s=…", v.Name, v.Type, v.Name)
		}
		t, err := inputTensor(v, text)
		if err != nil {
			return nil, nil, err
		}
		for i, d := range v.Type.Shape {
			if d.Name != "" && i < len(t.Dims) {
				dims[d.Name] = max(dims[d.Name], t.Dims[i])
			}
		}
		feeds = append(feeds, backends.Feed{Name: v.Name, Tensor: t})
	}
	for name := range given {
		if !slices.Contains(names, name) {
			return nil, nil, usagef("--input %s: the graph has no such input; it has %s", name, strings.Join(names, ", "))
		}
	}
	for _, v := range g.Values {
		for _, d := range v.Type.Shape {
			if _, ok := dims[d.Name]; !ok && d.Name != "" {
				return nil, nil, usagef("no input says how large dimension %s of %s %s is: give it with --dim %s=…", d.Name, v.Label(), v.Type, d.Name)
			}
		}
	}
	return feeds, dims, nil
}

// inputTensor reads the value of --input for v.
func inputTensor(v *graph.Value, text string) (*graph.Tensor, error) {
	if path, ok := strings.CutPrefix(text, "@"); ok {
		return inputFile(v, path)
	}
	rows := strings.Split(strings.TrimRight(text, ";"), ";")
	want := v.Type.Shape.RowElems()
	t := &graph.Tensor{DType: v.Type.DType, Dims: []int{len(rows)}, Stride: want}
	for _, d := range v.Type.Shape[min(1, len(v.Type.Shape)):] {
		t.Dims = append(t.Dims, d.Size)
	}
	if len(v.Type.Shape) == 1 { // numbers, not rows of one
		rows = strings.Split(strings.Join(rows, ","), ",")
		t.Dims[0] = len(rows)
	}
	for i, row := range rows {
		fields := strings.Split(row, ",")
		if len(fields) != want {
			return nil, usagef("--input %s: row %d has %d numbers, want %d for %s", v.Name, i, len(fields), want, v.Type)
		}
		for _, s := range fields {
			if err := appendNumber(t, strings.TrimSpace(s)); err != nil {
				return nil, usagef("--input %s: row %d: found %q, want a number of type %s", v.Name, i, s, t.DType)
			}
		}
	}
	return t, nil
}

func appendNumber(t *graph.Tensor, s string) error {
	switch t.DType {
	case graph.F32:
		x, err := strconv.ParseFloat(s, 32)
		t.F32 = append(t.F32, float32(x))
		return err
	case graph.I32:
		x, err := strconv.ParseInt(s, 10, 32)
		t.I32 = append(t.I32, int32(x))
		return err
	}
	return errors.New("no numbers")
}

// inputFile takes the tensor of that name, or the only one, of a file.
func inputFile(v *graph.Value, path string) (*graph.Tensor, error) {
	m, err := openTensors(path)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	name := v.Name
	if len(m.Tensors) == 1 {
		name = m.Tensors[0].Name
	}
	mapped, err := engine.Weights(m).Weight(name)
	if err != nil {
		return nil, err
	}
	t := *mapped // with elements of its own: the file is closed
	t.F32, t.I32, t.Raw = slices.Clone(t.F32), slices.Clone(t.I32), slices.Clone(t.Raw)
	return &t, nil
}

// printOutputs prints each output: name, type, and a line for each row.
func printOutputs(cmd *cobra.Command, g *graph.Graph, p backends.Program, format string) error {
	type output struct {
		Name   string `json:"name"`
		DType  string `json:"dtype"`
		Shape  []int  `json:"shape"`
		Values any    `json:"values"`
	}
	var all []output
	for _, o := range g.Outputs {
		t := p.Output(o.Name)
		out := output{Name: o.Name, DType: t.DType.String(), Shape: t.Dims}
		n := t.RowElems()
		switch {
		case t.F32 != nil:
			rows := packed(t.F32, t.Rows(), n, t.Stride)
			out.Values = rows
			if warnNotFinite(cmd, o.Name, rows) && format == "json" {
				out.Values = finiteOrNull(rows)
			}
		case t.I32 != nil:
			out.Values = packed(t.I32, t.Rows(), n, t.Stride)
		default:
			return fmt.Errorf("output %q is %s, which has no numbers to print", o.Name, o.Value.Type)
		}
		all = append(all, out)
	}
	w := cmd.OutOrStdout()
	if format == "json" {
		return json.NewEncoder(w).Encode(all)
	}
	for _, o := range all {
		fmt.Fprintf(w, "%s %s%v\n", o.Name, o.DType, o.Shape)
		switch rows := o.Values.(type) {
		case [][]float32:
			printRows(cmd, rows)
		case [][]int32:
			printRows(cmd, rows)
		}
	}
	return nil
}

// warnNotFinite says how many of an output's numbers are NaN or infinite, if any
// are.
func warnNotFinite(cmd *cobra.Command, name string, rows [][]float32) bool {
	total, nan, inf := 0, 0, 0
	for _, row := range rows {
		total += len(row)
		for _, x := range row {
			switch {
			case x != x:
				nan++
			case math.IsInf(float64(x), 0):
				inf++
			}
		}
	}
	if nan+inf == 0 {
		return false
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "graphrun: warning: output %q has %d NaN and %d infinite of %d numbers; --check=nan stops at the first value that has one\n", name, nan, inf, total)
	return true
}

// finiteOrNull returns rows for JSON, which has no words for NaN and infinities.
func finiteOrNull(rows [][]float32) [][]*float32 {
	out := make([][]*float32, len(rows))
	for i, row := range rows {
		out[i] = make([]*float32, len(row))
		for j := range row {
			if x := &row[j]; *x-*x == 0 {
				out[i][j] = x
			}
		}
	}
	return out
}

func packed[T any](x []T, rows, n, stride int) [][]T {
	out := make([][]T, rows)
	for i := range out {
		out[i] = x[i*stride : i*stride+n]
	}
	return out
}

func printRows[T any](cmd *cobra.Command, rows [][]T) {
	for _, r := range rows {
		fmt.Fprintln(cmd.OutOrStdout(), strings.Trim(fmt.Sprint(r), "[]"))
	}
}
