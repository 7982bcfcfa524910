package quant

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"graphrun/graph"
	"graphrun/loaders"
	"graphrun/ops"
)

// Options say how a file is quantized.
type Options struct {
	Mixture Mixture
	// Pure, Rules: as in Assignment.
	Pure  bool
	Rules []Rule
	// Imatrix has importance weights; nil is none.
	Imatrix *Imatrix
	// Requantize allows tensors that are quantized already to get another type.
	Requantize bool
	// NoFallback makes rows that do not divide into blocks an error.
	NoFallback bool
	// Workers is the number of goroutines, 0 is one for each processor.
	Workers int
	// Progress is called with the bytes of tensor data written so far.
	Progress func(done int)
}

// Plan says what a quantized file will hold.
type Plan struct {
	Tensors []PlanTensor
	// Weights counts the numbers of all tensors, From and Bytes are their sizes
	// before and after.
	Weights, From, Bytes int
	// Fallbacks counts the matrices whose rows do not divide into the blocks of
	// the type they should have: "q4_k as q5_0".
	Fallbacks map[string]int
	// FallbackWeights counts the numbers of these matrices.
	FallbackWeights int
	// Unused lists the indexes of rules that decided nothing.
	Unused []int
	// Unweighted lists matrices that get blocks and have no entry in the
	// importance matrix, if there is one.
	Unweighted []string

	source *loaders.Model
	meta   *loaders.Metadata
	o      Options
}

// PlanTensor is a tensor of the file.
type PlanTensor struct {
	Name     string
	Shape    []int
	From     graph.DType
	Type     graph.DType
	Wanted   graph.DType // differs from Type where rows do not divide
	Kept     bool        // not a matrix that is quantized, or a rule says so
	Bytes    int
	weights  [][]float32 // for each matrix
	original *loaders.Tensor
}

// Bits returns the bits per weight.
func (t *PlanTensor) Bits() float64 {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return 8 * float64(t.Bytes) / float64(n)
}

// Bits returns the bits per weight of all tensors.
func (p *Plan) Bits() float64 { return 8 * float64(p.Bytes) / float64(max(p.Weights, 1)) }

// RequantizeError says that tensors are quantized already.
type RequantizeError struct {
	File    string
	Example string // the first of them, and its type
	Count   int
}

func (e *RequantizeError) Error() string {
	return fmt.Sprintf("quant: %s: %d matrices are quantized already (%s); a second time loses more than once from F16, BF16 or F32, so it has to be asked for", e.File, e.Count, e.Example)
}

// NewPlan chooses the type of every tensor of a model. Nothing is read but the
// header. m must stay open until Write has returned.
func NewPlan(m *loaders.Model, o Options) (*Plan, error) {
	if !slices.Contains(types, o.Mixture.Base) {
		_, err := MixtureByName("")
		known := &loaders.UnsupportedError{}
		errors.As(err, &known)
		return nil, &loaders.UnsupportedError{What: "encoding as", Name: o.Mixture.Name, Known: known.Known}
	}
	infos := make([]loaders.TensorInfo, len(m.Tensors))
	for i, t := range m.Tensors {
		infos[i] = loaders.TensorInfo{Name: t.Name, DType: t.DType, Shape: t.Shape}
	}
	a := Assignment{Mixture: o.Mixture, Sizes: SizesOf(m.Meta), Pure: o.Pure, Imatrix: o.Imatrix != nil, Rules: o.Rules}
	choices, err := a.Choose(infos)
	if err != nil {
		return nil, err
	}
	p := &Plan{Fallbacks: map[string]int{}, source: m, o: o}
	var again *RequantizeError
	for i, t := range m.Tensors {
		c := choices[i]
		pt := PlanTensor{Name: t.Name, Shape: t.Shape, From: t.DType, Type: c.Type, Wanted: c.Wanted, Kept: c.Kept, original: t}
		infos[i].DType = c.Type
		if pt.Bytes, err = infos[i].Bytes(); err != nil {
			return nil, &loaders.TensorError{File: t.File, Name: t.Name, Err: err}
		}
		if c.Type != t.DType {
			if !ops.IsWeightType(t.DType) {
				return nil, &loaders.TensorError{File: t.File, Name: t.Name, Err: fmt.Errorf("has type %s, which is no type of weights; leave it as it is: --tensor %s=keep", t.DType, t.Name)}
			}
			if t.DType.Quantized() {
				if again == nil {
					again = &RequantizeError{File: m.Path, Example: fmt.Sprintf("%s is %s", t.Name, t.DType)}
				}
				again.Count++
			}
		}
		if c.Type != c.Wanted {
			p.Fallbacks[fmt.Sprintf("%s as %s", c.Wanted, c.Type)]++
			p.FallbackWeights += t.Elems()
			if o.NoFallback {
				return nil, &loaders.TensorError{File: t.File, Name: t.Name, Err: fmt.Errorf("%w: %d numbers in blocks of %d (%s), which would be %s", ErrFallback, t.Shape[len(t.Shape)-1], c.Wanted.BlockElems(), c.Wanted, c.Type)}
			}
		}
		if err := p.weigh(&pt); err != nil {
			return nil, err
		}
		p.Tensors = append(p.Tensors, pt)
		p.Weights += t.Elems()
		p.From += t.Size()
		p.Bytes += pt.Bytes
	}
	if again != nil && !o.Requantize {
		return nil, again
	}
	for j := range o.Rules {
		if !slices.ContainsFunc(choices, func(c Choice) bool { return c.Rule == j }) {
			p.Unused = append(p.Unused, j)
		}
	}
	p.setMeta()
	return p, nil
}

// weigh finds the importance weights of a tensor that gets blocks.
func (p *Plan) weigh(t *PlanTensor) (err error) {
	m := p.o.Imatrix
	if m == nil || !t.Type.Quantized() || t.Type == t.From {
		return nil
	}
	m.unstack(t.Name, t.Shape[len(t.Shape)-1])
	if t.weights, err = m.Weights(t.Name, t.Shape); err != nil {
		return err
	}
	if !slices.ContainsFunc(t.weights, func(w []float32) bool { return w != nil }) {
		p.Unweighted = append(p.Unweighted, t.Name)
	}
	return nil
}

// setMeta makes the keys of the new file.
func (p *Plan) setMeta() {
	p.meta = p.source.GGUFMeta()
	p.meta.Set("general.file_type", p.o.Mixture.FileType)
	if slices.ContainsFunc(p.Tensors, func(t PlanTensor) bool { return t.Type.Quantized() }) {
		p.meta.Set("general.quantization_version", uint32(2))
	} else {
		p.meta.Delete("general.quantization_version")
	}
	for _, key := range p.meta.Keys() {
		if strings.HasPrefix(key, "quantize.imatrix.") {
			p.meta.Delete(key)
		}
	}
	if m := p.o.Imatrix; m != nil {
		p.meta.Set("quantize.imatrix.file", m.Path)
		p.meta.Set("quantize.imatrix.dataset", m.Dataset)
		p.meta.Set("quantize.imatrix.entries_count", uint32(len(m.entries)))
		p.meta.Set("quantize.imatrix.chunks_count", uint32(m.Chunks))
	}
}

// Progress sets the function that is called with the bytes of tensor data
// written so far.
func (p *Plan) Progress(f func(done int)) { p.o.Progress = f }

// Report is what writing found.
type Report struct {
	// Clipped counts numbers beyond the Limit of their type, by tensor.
	Clipped map[string]int
}

// Write writes the file of the plan at path. It appears under its name when it is
// whole, and nothing is left when writing fails or ctx ends. A file of the model
// itself is refused.
func (p *Plan) Write(ctx context.Context, path string) (*Report, error) {
	if st, err := os.Stat(path); err == nil {
		for _, f := range p.source.Files {
			if s, err := os.Stat(f); err == nil && os.SameFile(s, st) {
				return nil, fmt.Errorf("quant: %s is a file of the model that is read; give another name", path)
			}
		}
	}
	r := &Report{Clipped: map[string]int{}}
	done := 0
	err := loaders.Create(path, p.meta, p.infos(), p.writer(ctx, r, &done))
	if err != nil {
		return nil, p.cause(err)
	}
	return r, nil
}

// WriteTo writes the file of the plan to w.
func (p *Plan) WriteTo(ctx context.Context, w io.Writer) (*Report, error) {
	r := &Report{Clipped: map[string]int{}}
	done := 0
	if err := loaders.Write(w, p.meta, p.infos(), p.writer(ctx, r, &done)); err != nil {
		return nil, p.cause(err)
	}
	return r, nil
}

func (p *Plan) infos() []loaders.TensorInfo {
	infos := make([]loaders.TensorInfo, len(p.Tensors))
	for i, t := range p.Tensors {
		infos[i] = loaders.TensorInfo{Name: t.Name, DType: t.Type, Shape: t.Shape}
	}
	return infos
}

// sourceError is about the tensor that is read, not the file that is written.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

// cause returns what is behind an error of writing: that of the model's files if
// they have one, since reading a file that was cut short meanwhile fails in many
// ways, or that of the tensor that was read.
func (p *Plan) cause(err error) error {
	if e := p.source.Check(); e != nil {
		return e
	}
	var source *sourceError
	if errors.As(err, &source) {
		return source.err
	}
	return err
}

func (p *Plan) writer(ctx context.Context, r *Report, done *int) func(w io.Writer, i int) error {
	return func(w io.Writer, i int) error {
		t := &p.Tensors[i]
		j := job{plan: p, t: t}
		count := countingWriter{w: w, done: done, plan: p}
		err := j.write(ctx, &count)
		if n := j.clipped.Load(); n > 0 {
			r.Clipped[t.Name] = int(n)
		}
		p.source.DropPages()
		if err == nil && i == len(p.Tensors)-1 {
			err = p.source.CheckData() // what was read may be of two files
		}
		return err
	}
}

// countingWriter tells how many bytes have passed, and lets go of pages that
// were read.
type countingWriter struct {
	w       io.Writer
	done    *int
	plan    *Plan
	dropped int
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	*c.done += n
	if c.plan.o.Progress != nil && err == nil {
		c.plan.o.Progress(*c.done)
	}
	if *c.done-c.dropped > 16<<20 {
		c.plan.source.DropPages()
		c.dropped = *c.done
	}
	return n, err
}

// job writes one tensor.
type job struct {
	plan    *Plan
	t       *PlanTensor
	clipped atomic.Int64
}

// chunk is the number of weights, about, that a worker encodes at a time.
const chunk = 1 << 18

func (j *job) write(ctx context.Context, w io.Writer) error {
	t := j.t
	k := t.Shape[len(t.Shape)-1]
	rows := max(1, chunk/k)
	if len(t.Shape) == 1 { // numbers that are made come one by one
		rows = 1
	}
	out := t.Type.RowBytes(k)
	return loaders.WriteChunks(ctx, w, t.Bytes, rows*out, j.plan.o.Workers, func(buf []byte, c int) error {
		if err := j.rows(buf, c*rows, k); err != nil {
			return &sourceError{&loaders.TensorError{File: t.original.File, Name: t.Name, Err: err}}
		}
		return nil
	})
}

// rows writes rows from first on, as many as buf takes.
func (j *job) rows(buf []byte, first, k int) error {
	t := j.t
	from, to := t.From.RowBytes(k), t.Type.RowBytes(k)
	n := len(buf) / to
	if t.From == t.Type {
		return j.read(buf, first*from)
	}
	raw := make([]byte, n*from)
	if err := j.read(raw, first*from); err != nil {
		return err
	}
	x := make([]float32, k)
	limit := Limit(t.Type)
	clipped := 0
	for i := range n {
		ops.DequantRow(t.From, x, raw[i*from:(i+1)*from])
		var w []float32
		if t.weights != nil {
			w = t.weights[(first+i)/t.Shape[len(t.Shape)-2]]
		}
		if err := Row(buf[i*to:(i+1)*to], x, t.Type, w); err != nil {
			return fmt.Errorf("row %d: %w", first+i, err)
		}
		for _, v := range x {
			if max(v, -v) > limit {
				clipped++
			}
		}
	}
	j.clipped.Add(int64(clipped))
	return nil
}

func (j *job) read(p []byte, off int) error {
	_, err := j.t.original.ReadAt(p, int64(off))
	return err
}
