package cpu

import (
	"fmt"

	"graphrun/backends/cpu/kern"
	"graphrun/graph"
	"graphrun/ops"
)

// lowering makes the kernel of a value whose operands are bound in c. It
// returns nil when the operation's plain-Go kernel is to be used.
type lowering func(l *lowered, c *graph.Call) error

// lowered is what a lowering decides.
type lowered struct {
	run     kernel
	units   func(c *graph.Call) int
	grain   func(c *graph.Call) int
	scratch func(c *graph.Call) int // bytes per worker at the plan's largest sizes
	// exclusive calls use memory of the program and never run side by side.
	exclusive bool
	plain     bool     // the plain-Go kernel of the operation
	store     *storage // of the program
	// mats are the weights that units read, in the order in which they do.
	mats []matRows
	// cost returns the nanoseconds a unit takes, about: how finely the work is
	// divided depends on it, never a result.
	cost func(c *graph.Call) float64
}

// lowerings maps operations to kernels of package kern. Every other operation
// runs the plain-Go kernel of its definition.
var lowerings = map[string]lowering{
	"attention":        lowerAttention,
	"embed":            lowerEmbed,
	"quantize":         lowerQuantize,
	"matmul":           lowerMatMul,
	"matmuls":          lowerMatMul,
	"matmuladd":        lowerMatMulAdd,
	"matmulcap":        lowerMatMulCap,
	"gatedmatmul":      lowerGatedMatMul,
	"gatedmatmulquant": lowerGatedMatMul,
	"expertmatmul":     lowerExpertMatMul,
	"rmsnormquant":     lowerRMSNormQuant,
}

// lower chooses the kernel of a call.
func lower(c *graph.Call, store *storage) (lowered, error) {
	op := c.Value.Op
	l := lowered{
		store: store,
		units: op.Units,
		grain: func(*graph.Call) int { return 1 },
		cost:  rowCost,
	}
	if l.units == nil {
		l.units = func(c *graph.Call) int { return c.Out.Rows() }
	}
	if op.Is(graph.View) {
		// A view of an input: its storage is another one in each step.
		from := ops.ViewOffset(c.Value)
		l.units = func(*graph.Call) int { return 1 }
		l.run = func(c *graph.Call, _, _ int, _ []byte) {
			c.Out.F32, c.Out.Stride = c.In[0].F32[min(from, len(c.In[0].F32)):], c.In[0].Stride
		}
		return l, nil
	}
	if op.Name == "attention" {
		l.cost = func(c *graph.Call) float64 { return attentionCost(c) / float64(max(1, l.units(c))) }
	}
	if low := lowerings[op.Name]; low != nil {
		if err := low(&l, c); err != nil {
			return l, fmt.Errorf("cpu: %s %s: %w", c.Value, c.Value.Label(), err)
		}
	}
	if l.run == nil {
		if op.Kernel == nil {
			return l, fmt.Errorf("cpu: operation %s has no kernel", op.Name)
		}
		l.run, l.plain = func(c *graph.Call, lo, hi int, _ []byte) { op.Kernel(c, lo, hi) }, true
	}
	return l, nil
}

// rowCost is the cost of operations that go over the numbers of a row of the
// result once.
func rowCost(c *graph.Call) float64 {
	n := 1
	for _, d := range c.Out.Dims[min(1, len(c.Out.Dims)):] {
		n *= d
	}
	return 0.3 * float64(n)
}

// matCost is the cost of a row of a product for t tokens: reading it from
// memory, or multiplying it.
func matCost(w *kern.Mat, t int) float64 {
	rate := 300.0 // multiply-adds per nanosecond
	if !w.Type.Quantized() {
		rate = 80
	}
	return max(float64(w.Type.RowBytes(w.K))/30, float64(t)*float64(w.K)/rate)
}

// matOf views a weight as a matrix of kern: the last dimension is a row, all
// others count rows.
func (l *lowered) matOf(w *graph.Tensor) (kern.Mat, error) {
	if !kern.Supported(w.DType) {
		return kern.Mat{}, fmt.Errorf("weights of type %s have no product", w.DType)
	}
	k := w.Dims[len(w.Dims)-1]
	n := 1
	for _, d := range w.Dims[:len(w.Dims)-1] {
		n *= d
	}
	return kern.Mat{Type: w.DType, Data: bytesOf(w), N: n, K: k, Uniform: l.store.uniform}, nil
}

func bytesOf(t *graph.Tensor) []byte {
	if t.Raw != nil {
		return t.Raw
	}
	return rawFloats(t.F32)
}

// rows returns the bytes of an activation and the distance between its rows.
func rows(t *graph.Tensor) (data []byte, stride int) {
	if t.Raw != nil {
		return t.Raw, t.Stride
	}
	return rawFloats(t.F32), 4 * t.Stride
}

func rowBytesOf(t *graph.Tensor, i int) []byte {
	if t.Raw != nil {
		return t.RawRow(i)
	}
	return rawFloats(t.Row(i))
}

func checkAct(x *graph.Tensor, w kern.Mat) error {
	if want := kern.ActType(w.Type); x.DType != want {
		return fmt.Errorf("%s weights take %s activations, the graph has %s: the pass \"quantize\" is required", w.Type, want, x.DType)
	}
	return nil
}

func lowerEmbed(l *lowered, c *graph.Call) error {
	w := c.In[1]
	if w.DType == graph.F32 {
		return nil
	}
	if !kern.Supported(w.DType) {
		return fmt.Errorf("an embedding of type %s cannot be read", w.DType)
	}
	l.run = func(c *graph.Call, lo, hi int, _ []byte) {
		w := c.In[1]
		for t := lo; t < hi; t++ {
			kern.DequantRow(w.DType, c.Out.Row(t), w.RawRow(int(c.In[0].I32[t])))
		}
	}
	return nil
}

func lowerQuantize(l *lowered, c *graph.Call) error {
	l.run = func(c *graph.Call, lo, hi int, _ []byte) {
		for t := lo; t < hi; t++ {
			x, q := c.In[0].Row(t), c.Out.RawRow(t)
			k := c.In[0].Dims[len(c.In[0].Dims)-1]
			step := c.Out.DType.RowBytes(k)
			for ; len(x) > 0; x, q = x[k:], q[step:] {
				kern.QuantizeRow(c.Out.DType, q[:step], x[:k])
			}
		}
	}
	return nil
}
