package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"graphrun/backends"
	"graphrun/engine"
	"graphrun/graph"
)

// checkFlags are the flags of graphrun check.
type checkFlags struct {
	modelFlags
	tokens    string
	against   string
	output    string
	tolerance float64
	all       bool

	server      string
	serverModel string
	serverMode  string
	top         int
}

// checkText is what models read unless other tokens are given.
const checkText = "The quick brown fox jumps over the lazy dog, and 3 cats watch it."

// checkMost bounds the tokens of checkText.
const checkMost = 32

func checkCmd() *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check [MODEL]",
		Short: "Compare the backends value by value",
		Long: `check runs the slow reference backend and the cpu backend on the same tokens, all
but the last four in one step and these one by one, and compares every value
that both compute, from the embedding to the logits. It prints the worst
difference for each operation and each kind of value, and names the first value
out of tolerance. The KV cache is f32 unless --kv says otherwise.

A value's error is the root mean square of its difference to the reference,
divided by the root mean square of the reference, in the row where it is
largest; where activations are quantized, as for most weight types, in the
median row, because such noise may flip the choice of an expert. Errors add up
from layer to layer. The tolerance is 0.001 where activations stay f32, 0.3
where they are quantized, unless --tolerance is given.

--against compares the logits of both with a file of T rows of V little-endian
float32 numbers, such as graphrun logits or another engine writes. The exit code
is 1 if anything is out of tolerance.

--server compares, instead, the most likely tokens at each position with those
that a server of OpenAI's API finds for the same tokens: another engine with the
same model. OPENAI_API_KEY is its key. The tolerance is 0.2 for tokens of a
hundredth of the probability or more.`,
		Example: `  graphrun check model.gguf --tokens 1,15,27 --against logits.f32
  graphrun check model.gguf --server http://127.0.0.1:8080`,
		Args: args(0, 1),
		RunE: f.run,
	}
	f.modelFlags.register(cmd)
	fs := cmd.Flags()
	fs.StringVar(&f.tokens, "tokens", "", "token ids, separated by commas; the default is a short English text")
	fs.StringVar(&f.against, "against", "", "compare the logits with this file of raw float32 numbers as well")
	fs.Float64Var(&f.tolerance, "tolerance", 0, "largest error of a value; 0 is the default for the model")
	fs.BoolVar(&f.all, "all", false, "print every value")
	fs.StringVarP(&f.output, "output", "o", "text", "text or json")
	fs.StringVar(&f.server, "server", "", "compare with the log-probabilities of the server at this URL")
	fs.StringVar(&f.serverModel, "server-model", "", "id of the model there, if the server wants one")
	fs.StringVar(&f.serverMode, "server-mode", "auto", "echo: one request for all positions; step: one for each; auto tries the first")
	fs.IntVar(&f.top, "top", 5, "tokens to compare at each position of --server")
	fs.MarkHidden("backend")
	return cmd
}

// difference is how far a value is from the reference.
type difference struct {
	Value string  `json:"value"` // name and layer
	Op    string  `json:"op"`
	Worst float64 `json:"worst"` // absolute
	Error float64 `json:"error"` // relative, see checkCmd
	Bad   bool    `json:"out_of_tolerance,omitempty"`

	layer int
	name  string // without the layer
	rows  []float64
}

// against is how far logits are from those of another engine.
type against struct {
	Backend string  `json:"backend"`
	Worst   float64 `json:"worst"`
	RMS     float64 `json:"rms"`
	Error   float64 `json:"error"`
	Top1    int     `json:"top1"` // rows with the same likeliest token
	Rows    int     `json:"rows"`
	Bad     bool    `json:"out_of_tolerance,omitempty"`
}

// checkReport is what check found.
type checkReport struct {
	Model     string       `json:"model"`
	Tokens    []int32      `json:"tokens"`
	Quantized bool         `json:"quantized_activations"`
	Tolerance float64      `json:"tolerance"`
	Values    []difference `json:"values"`
	First     string       `json:"first_out_of_tolerance,omitempty"`
	Against   []against    `json:"against,omitempty"`
}

// errTolerance ends a check that found something.
var errTolerance = errors.New("out of tolerance")

func (f *checkFlags) run(cmd *cobra.Command, list []string) error {
	if !isOneOf(f.output, []string{"text", "json"}) {
		return usagef("-o is %q, want text or json", f.output)
	}
	if f.tolerance < 0 || math.IsNaN(f.tolerance) {
		return usagef("--tolerance is %g, want above 0, or 0 for the default", f.tolerance)
	}
	if f.server != "" {
		return f.runServer(cmd, list)
	}
	path, err := modelArg(cmd, list)
	if err != nil {
		return err
	}
	if f.kv == "" {
		f.kv = "f32"
	}
	var other []float32
	if f.against != "" {
		if other, err = readLogits(f.against); err != nil {
			return err
		}
	}
	c := &checker{f: f, cmd: cmd}
	defer c.close()
	if err := c.open(path); err != nil {
		return err
	}
	r, err := c.compare(cmd.Context(), other)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(cmd.OutOrStdout())
	if f.output == "json" {
		err = json.NewEncoder(w).Encode(r)
	} else {
		err = r.print(w, f.all)
	}
	if err := errors.Join(err, w.Flush()); err != nil {
		return err
	}
	if r.First != "" {
		return fmt.Errorf("%s is the first value %w", r.First, errTolerance)
	}
	for _, a := range r.Against {
		if a.Bad {
			return fmt.Errorf("the logits of backend %s against %s: error %.3g: %w", a.Backend, f.against, a.Error, errTolerance)
		}
	}
	return nil
}

// readLogits reads raw little-endian float32 numbers.
func readLogits(path string) ([]float32, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(b)%4 != 0 {
		return nil, fmt.Errorf("%s has %d bytes, which is no number of float32 numbers", path, len(b))
	}
	x := make([]float32, len(b)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return x, nil
}

// checker runs both backends.
type checker struct {
	f        *checkFlags
	cmd      *cobra.Command
	ref, cpu *checked
	ids      []int32
	values   []*difference
	byID     map[int]*difference
}

// checked is a model on one backend with a sequence of its own.
type checked struct {
	m      *engine.Model
	seq    *engine.Sequence
	prog   backends.Inspector
	logits []float32
}

func (c *checker) open(path string) error {
	// The number of tokens decides the sizes of a step; a model's vocabulary
	// reads the text before it is compiled.
	n := checkMost
	if c.f.tokens != "" {
		n = 1
		for _, r := range c.f.tokens {
			if r == ',' {
				n++
			}
		}
	}
	for _, name := range []string{"ref", "cpu"} {
		f := c.f.modelFlags
		f.backend = name
		m, err := f.open(c.cmd, path, func(o *engine.Options) {
			o.Chunk, o.MaxRows, o.Keep = n, n, true
			o.TokensOnly = c.f.tokens != ""
			if o.Context == 0 {
				o.Context = n
			}
		})
		if err != nil {
			return err
		}
		x := &checked{m: m}
		if name == "ref" {
			c.ref = x
		} else {
			c.cpu = x
		}
		prog, ok := m.Program().(backends.Inspector)
		if !ok {
			return fmt.Errorf("backend %s does not show its values", name)
		}
		x.prog = prog
		x.seq = m.Cache().NewSequence()
	}
	var err error
	if c.f.tokens != "" {
		c.ids, err = parseTokens(c.f.tokens, c.ref.m)
	} else {
		c.ids = c.ref.m.Encode(checkText)
		c.ids = c.ids[:min(len(c.ids), n)]
	}
	if err == nil && len(c.ids) > c.ref.m.Limits().Context {
		err = &engine.ContextError{Have: c.ref.m.Limits().Context, Want: len(c.ids)}
	}
	return err
}

func (c *checker) close() {
	for _, x := range []*checked{c.ref, c.cpu} {
		if x != nil {
			if x.seq != nil {
				x.seq.Drop()
			}
			x.m.Close()
		}
	}
}

// compare runs the tokens and collects differences.
func (c *checker) compare(ctx context.Context, other []float32) (*checkReport, error) {
	vocab := c.ref.m.Limits().Vocab
	if other != nil && len(other) != len(c.ids)*vocab {
		return nil, fmt.Errorf("%s has %d numbers, want %d: %d tokens of %d logits", c.f.against, len(other), len(c.ids)*vocab, len(c.ids), vocab)
	}
	c.byID = map[int]*difference{}
	inCPU := map[int]bool{}
	r := &checkReport{Model: c.ref.m.File.Path, Tokens: c.ids, Tolerance: c.f.tolerance}
	for _, v := range c.cpu.prog.Graph().Values {
		inCPU[v.ID] = true
		r.Quantized = r.Quantized || v.Type.DType == graph.Q8 || v.Type.DType == graph.Q8K
	}
	for _, v := range c.ref.prog.Graph().Values {
		if v.Op.Is(graph.Leaf) || v.Op.Is(graph.State) || !inCPU[v.ID] {
			continue
		}
		d := &difference{Value: v.Label(), Op: v.Op.Name, layer: v.Layer, name: v.Name}
		if d.name == "" {
			d.name = v.Op.Name
		}
		c.values = append(c.values, d)
		c.byID[v.ID] = d
	}
	if r.Tolerance == 0 {
		r.Tolerance = 1e-3
		if r.Quantized {
			r.Tolerance = 0.3
		}
	}
	bar := newProgress(c.cmd, "tokens", len(c.ids))
	defer bar.done()
	const single = 4
	for at := 0; at < len(c.ids); {
		n := 1
		if at == 0 && len(c.ids) > single {
			n = len(c.ids) - single
		}
		for _, x := range []*checked{c.ref, c.cpu} {
			if err := x.step(ctx, c.ids[at:at+n]); err != nil {
				return nil, err
			}
		}
		if err := c.step(); err != nil {
			return nil, err
		}
		bar.add(n)
		at += n
	}
	for _, d := range c.values {
		if len(d.rows) == 0 {
			continue
		}
		slices.Sort(d.rows)
		d.Error = d.rows[len(d.rows)-1]
		if r.Quantized {
			d.Error = d.rows[len(d.rows)/2]
		}
		d.Bad = !(d.Error <= r.Tolerance)
		if d.Bad && r.First == "" {
			r.First = d.Value
		}
		r.Values = append(r.Values, *d)
	}
	if other != nil {
		for _, x := range []struct {
			name string
			c    *checked
		}{{"ref", c.ref}, {"cpu", c.cpu}} {
			a := compareLogits(x.c.logits, other, vocab)
			a.Backend, a.Bad = x.name, !(a.Error <= r.Tolerance)
			r.Against = append(r.Against, a)
		}
	}
	return r, nil
}

// step runs tokens and keeps the logits.
func (x *checked) step(ctx context.Context, ids []int32) error {
	b, err := x.m.Acquire(ctx)
	if err != nil {
		return err
	}
	defer b.Release()
	items := []engine.Item{{Seq: x.seq, Tokens: ids, Rows: engine.RowsAll}}
	if err := b.Step(ctx, items); err != nil {
		return err
	}
	for k := range ids {
		x.logits = append(x.logits, b.Logits(&items[0], k)...)
	}
	return nil
}

// step compares the values of the step that both have run.
func (c *checker) step() error {
	for _, v := range c.ref.prog.Graph().Values {
		d := c.byID[v.ID]
		if d == nil {
			continue
		}
		want, got := c.ref.prog.Value(v), c.cpu.prog.Value(v)
		if want == nil || got == nil || want.DType != got.DType {
			continue
		}
		if !slices.Equal(want.Dims, got.Dims) {
			return fmt.Errorf("%s is %v on ref and %v on cpu", v.Label(), want.Dims, got.Dims)
		}
		d.add(want, got)
	}
	return nil
}

// add compares the rows of a tensor.
func (d *difference) add(want, got *graph.Tensor) {
	n := want.RowElems()
	for i := range want.Rows() {
		switch want.DType {
		case graph.F32:
			worst, e := rowError(got.F32[i*got.Stride:i*got.Stride+n], want.F32[i*want.Stride:i*want.Stride+n])
			d.Worst, d.rows = math.Max(d.Worst, worst), append(d.rows, e)
		case graph.I32:
			wrong := 0
			for k := range n {
				if got.I32[i*got.Stride+k] != want.I32[i*want.Stride+k] {
					wrong++
				}
			}
			d.Worst, d.rows = math.Max(d.Worst, float64(wrong)), append(d.rows, float64(wrong)/float64(max(n, 1)))
		}
	}
}

// rowError returns the largest difference and the root mean square of the
// difference over that of want. What is not finite is infinitely wrong.
func rowError(got, want []float32) (worst, relative float64) {
	var num, den float64
	for i := range want {
		w, d := float64(want[i]), float64(got[i])-float64(want[i])
		if math.IsInf(w, 0) && got[i] == want[i] {
			d, w = 0, 0
		}
		if math.IsNaN(d) || math.IsInf(d, 0) {
			return math.MaxFloat64, math.MaxFloat64
		}
		worst = max(worst, math.Abs(d))
		num += d * d
		den += w * w
	}
	n := math.Sqrt(float64(max(len(want), 1)))
	// Rows of almost nothing have no relative error.
	return worst, math.Sqrt(num) / max(math.Sqrt(den), 1e-6*n)
}

func compareLogits(got, want []float32, vocab int) against {
	var a against
	var num, den float64
	for i := 0; i < len(want); i += vocab {
		g, w := got[i:i+vocab], want[i:i+vocab]
		for k := range w {
			d := float64(g[k]) - float64(w[k])
			if math.IsNaN(d) || math.IsInf(d, 0) {
				d = math.MaxFloat32
			}
			a.Worst = max(a.Worst, math.Abs(d))
			num += d * d
			den += float64(w[k]) * float64(w[k])
		}
		a.Rows++
		if argmax(g) == argmax(w) {
			a.Top1++
		}
	}
	a.RMS = math.Sqrt(num / float64(max(len(want), 1)))
	a.Error = math.Sqrt(num) / max(math.Sqrt(den), 1e-6)
	return a
}

func argmax(x []float32) int {
	best := 0
	for i := range x {
		if x[i] > x[best] {
			best = i
		}
	}
	return best
}

// print writes the report for people.
func (r *checkReport) print(w io.Writer, all bool) error {
	kind := "f32 activations"
	if r.Quantized {
		kind = "quantized activations"
	}
	fmt.Fprintf(w, "%s: %d tokens, %s, tolerance %g\n", r.Model, len(r.Tokens), kind, r.Tolerance)
	r.table(w, "operation", func(d *difference) string { return d.Op })
	r.table(w, "value", func(d *difference) string { return d.name })
	if all {
		r.table(w, "value and layer", func(d *difference) string { return d.Value })
	}
	for _, a := range r.Against {
		fmt.Fprintf(w, "\nlogits of %s: worst difference %.3g, rms %.3g, error %.3g, same first choice in %d of %d rows\n", a.Backend, a.Worst, a.RMS, a.Error, a.Top1, a.Rows)
	}
	if r.First == "" {
		_, err := fmt.Fprintf(w, "\nall %d values are within tolerance\n", len(r.Values))
		return err
	}
	_, err := fmt.Fprintf(w, "\nfirst value out of tolerance: %s\n", r.First)
	return err
}

// table prints the worst difference of each group.
func (r *checkReport) table(w io.Writer, title string, group func(*difference) string) {
	var names []string
	count := map[string]int{}
	worst := map[string]*difference{}
	most := map[string]float64{}
	for i := range r.Values {
		d := &r.Values[i]
		k := group(d)
		if count[k]++; count[k] == 1 {
			names = append(names, k)
		}
		if worst[k] == nil || d.Error > worst[k].Error {
			worst[k] = d
		}
		most[k] = math.Max(most[k], d.Worst)
	}
	fmt.Fprintln(w)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tab, "%s\tvalues\tworst difference\tlargest error\tof\n", title)
	for _, k := range names {
		mark := ""
		if worst[k].Bad {
			mark = "  out of tolerance"
		}
		fmt.Fprintf(tab, "%s\t%d\t%.3g\t%.3g\t%s%s\n", k, count[k], most[k], worst[k].Error, worst[k].Value, mark)
	}
	tab.Flush()
}
