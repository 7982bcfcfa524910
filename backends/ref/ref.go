// Package ref is the oracle: it evaluates a graph as it was built, before any
// pass, value by value, in f32. Weights are dequantized to f32 for each product
// and multiplied by gonum; every other operation runs its plain-Go kernel.
//
// It is slow and allocates freely. Its use is to say what is right:
// `graphrun check` and the tests of the other backends compare with it.
package ref

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"graphrun/backends"
	"graphrun/graph"
	"graphrun/ops"
)

// Backend compiles graphs to reference programs.
type Backend struct{}

// Name returns "ref".
func (Backend) Name() string { return "ref" }

// Compile implements backends.Backend. Of the options only Dims and Finite
// matter.
func (Backend) Compile(g *graph.Graph, w backends.Weights, o backends.Options) (backends.Program, error) {
	p := &program{finite: o.Finite, g: g.Clone(), max: o.Dims, kept: map[*graph.Value]*graph.Tensor{}, params: map[*graph.Value]any{}, byID: map[int]*graph.Value{}}
	p.dims = graph.Dims{}
	for k, n := range o.Dims {
		p.dims[k] = n
	}
	for _, v := range p.g.Values {
		p.byID[v.ID] = v
		if err := p.prepare(v, w); err != nil {
			return nil, err
		}
	}
	p.fed = make([]*graph.Tensor, len(p.inputs))
	return p, nil
}

type program struct {
	g      *graph.Graph
	max    graph.Dims
	dims   graph.Dims
	inputs []*graph.Value
	fed    []*graph.Tensor
	kept   map[*graph.Value]*graph.Tensor // weights, constants, caches
	params map[*graph.Value]any
	vals   map[*graph.Value]*graph.Tensor // of the last step
	byID   map[int]*graph.Value
	dense  []float32 // one dequantized matrix
	mem    backends.Memory
	finite bool // look at every value
}

func (p *program) prepare(v *graph.Value, w backends.Weights) error {
	switch v.Op {
	case graph.OpInput:
		p.inputs = append(p.inputs, v)
		return nil
	case graph.OpWeight:
		t, err := w.Weight(v.Name)
		if err != nil {
			return err
		}
		p.kept[v] = t
		p.mem.Weights += v.Type.Bytes(nil)
		return backends.CheckTensor(v, t)
	case graph.OpConst:
		p.kept[v] = &graph.Tensor{DType: graph.F32, Dims: backends.Sizes(v.Type.Shape, nil), Stride: v.Type.Shape.RowElems(), F32: v.Data}
		return nil
	case graph.OpCache:
		n := v.Type.Bytes(p.max)
		p.mem.Cache += n
		p.kept[v] = &graph.Tensor{DType: v.Type.DType, Dims: backends.Sizes(v.Type.Shape, p.max),
			Stride: v.Type.DType.RowBytes(v.Type.Shape.RowElems()), Raw: make([]byte, n)}
		return nil
	}
	if v.Op.Kernel == nil {
		return fmt.Errorf("ref: operation %s has no plain-Go kernel", v.Op.Name)
	}
	if v.Op.Prepare != nil {
		param, err := v.Op.Prepare(v)
		if err != nil {
			return fmt.Errorf("ref: %s: %w", v.Label(), err)
		}
		p.params[v] = param
	}
	return nil
}

// Run implements backends.Program. It looks at ctx before each value. A fault in
// the mapped file is a panic that eval makes an error.
func (p *program) Run(ctx context.Context, feeds []backends.Feed) error {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if err := backends.BindFeeds(p.inputs, feeds, p.max, p.dims, p.fed); err != nil {
		return err
	}
	p.vals = make(map[*graph.Value]*graph.Tensor, len(p.g.Values))
	for v, t := range p.kept {
		p.vals[v] = t
	}
	for i, v := range p.inputs {
		p.vals[v] = p.fed[i]
	}
	for _, v := range p.g.Values {
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.vals[v] == nil {
			if err := p.eval(v); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *program) eval(v *graph.Value) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("ref: %s %s %s: %w", v, v.Op.Name, v.Label(), backends.PanicError(r))
		}
	}()
	c := &graph.Call{Value: v, Param: p.params[v]}
	for _, a := range v.Args {
		c.In = append(c.In, p.vals[a])
	}
	switch {
	case v.Op.Is(graph.State):
		c.Out = c.In[0]
	case v.Op.Is(graph.View):
		p.vals[v] = backends.View(v, c.In[0], p.dims)
		return nil
	default:
		c.Out = graph.NewTensor(v.Type, p.dims)
	}
	p.vals[v] = c.Out
	if c.Out.Rows() == 0 {
		return nil
	}
	if v.Op.Name == "matmul" && c.In[0].DType == graph.F32 {
		p.matmul(c)
	} else {
		v.Op.Kernel(c, 0, units(c))
	}
	if p.finite {
		return backends.CheckCall(c, nil)
	}
	return nil
}

func units(c *graph.Call) int {
	if c.Value.Op.Units != nil {
		return c.Value.Op.Units(c)
	}
	return c.Out.Rows()
}

// matmul computes y = x·wᵀ with gonum, w dequantized to f32.
func (p *program) matmul(c *graph.Call) {
	x, w, y := c.In[0], c.In[1], c.Out
	n, k := w.Dims[0], w.Dims[1]
	dense := w.F32
	if w.DType != graph.F32 {
		p.dense = slices.Grow(p.dense[:0], n*k)[:n*k]
		dense = p.dense
		for i := range n {
			ops.DequantRow(w.DType, dense[i*k:(i+1)*k], w.RawRow(i))
		}
	}
	t := x.Rows()
	blas32.Gemm(blas.NoTrans, blas.Trans, 1,
		blas32.General{Rows: t, Cols: k, Stride: x.Stride, Data: x.F32},
		blas32.General{Rows: n, Cols: k, Stride: k, Data: dense},
		0, blas32.General{Rows: t, Cols: n, Stride: y.Stride, Data: y.F32})
}

// Output implements backends.Program.
func (p *program) Output(name string) *graph.Tensor {
	if v := p.g.Output(name); v != nil {
		return p.vals[v]
	}
	return nil
}

// Value implements backends.Inspector.
func (p *program) Value(v *graph.Value) *graph.Tensor { return p.vals[p.byID[v.ID]] }

// CopyPage implements backends.Program.
func (p *program) CopyPage(windowed bool, dst, src int) {
	for v, t := range p.kept {
		if v.Op == graph.OpCache && (v.Attrs.Int("window") > 0) == windowed {
			n := t.Stride * ops.PageSize
			copy(t.Raw[dst*n:(dst+1)*n], t.Raw[src*n:(src+1)*n])
		}
	}
}

// Graph implements backends.Program.
func (p *program) Graph() *graph.Graph { return p.g }

// Memory implements backends.Program.
func (p *program) Memory() backends.Memory { return p.mem }

// Close implements backends.Program.
func (p *program) Close() error { return nil }
