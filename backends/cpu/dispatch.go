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
	// mats are the weights of which unit i reads row i, in the order in which it
	// does.
	mats []kern.Mat
	// cost returns the nanoseconds a unit takes, about: how finely the work is
	// divided depends on it, never a result.
	cost func(c *graph.Call) float64
}

// lowerings maps operations to kernels of package kern. Every other operation
// runs the plain-Go kernel of its definition.
var lowerings = map[string]lowering{
	"attention":    lowerAttention,
	"embed":        lowerEmbed,
	"quantize":     lowerQuantize,
	"matmul":       lowerMatMul,
	"gatedmatmul":  lowerGatedMatMul,
	"expertmatmul": lowerExpertMatMul,
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

func lowerMatMul(l *lowered, c *graph.Call) error {
	w, err := l.matOf(c.In[1])
	if err != nil {
		return err
	}
	if err := checkAct(c.In[0], w); err != nil {
		return err
	}
	l.units = func(c *graph.Call) int {
		if c.In[0].Rows() == 0 {
			return 0
		}
		return w.N
	}
	l.mats = []kern.Mat{w}
	l.grain = func(c *graph.Call) int { return kern.Grain(&w, c.In[0].Rows()) }
	l.cost = func(c *graph.Call) float64 { return matCost(&w, c.In[0].Rows()) }
	l.scratch = func(c *graph.Call) int { return kern.ScratchBytes(&w, c.In[0].Rows()) }
	l.run = func(c *graph.Call, lo, hi int, scratch []byte) {
		x, stride := rows(c.In[0])
		kern.Mul(c.Out.F32, c.Out.Stride, &w, x, stride, c.In[0].Rows(), lo, hi, scratch)
	}
	return nil
}

// heldBytes bounds the rows of the up product that are held before they meet
// the gate, so that they stay in the second cache level. A product arranges its
// activations anew for each piece, which is a loss with few rows.
const heldBytes = 512 << 10

// heldRows returns the number of rows held for t tokens.
func heldRows(t int) int { return max(64, min(4096, heldBytes/(4*t)&^63)) }

func lowerGatedMatMul(l *lowered, c *graph.Call) error {
	gate, err := l.matOf(c.In[1])
	if err != nil {
		return err
	}
	up, err := l.matOf(c.In[2])
	if err != nil {
		return err
	}
	for _, w := range []kern.Mat{gate, up} {
		if err := checkAct(c.In[0], w); err != nil {
			return err
		}
	}
	gateOf, ok := c.Param.(func(gate, up float32) float32)
	if !ok {
		return fmt.Errorf("the operation's parameter is a %T, not a gate function", c.Param)
	}
	l.units = func(c *graph.Call) int {
		if c.In[0].Rows() == 0 {
			return 0
		}
		return gate.N
	}
	l.mats = []kern.Mat{up, gate}
	l.grain = func(c *graph.Call) int {
		return max(kern.Grain(&gate, c.In[0].Rows()), kern.Grain(&up, c.In[0].Rows()))
	}
	l.cost = func(c *graph.Call) float64 { return matCost(&gate, c.In[0].Rows()) + matCost(&up, c.In[0].Rows()) }
	l.scratch = func(c *graph.Call) int {
		t := c.In[0].Rows()
		return max(heldBytes, 4*64*t) + max(kern.ScratchBytes(&gate, t), kern.ScratchBytes(&up, t))
	}
	upRow := up.Type.RowBytes(up.K)
	gates := kern.GateOf(c.Value.Attrs.Str("act"))
	l.run = func(c *graph.Call, lo, hi int, scratch []byte) {
		t := c.In[0].Rows()
		x, stride := rows(c.In[0])
		most := heldRows(t)
		held, scratch := floats(scratch[:4*t*most]), scratch[4*t*most:]
		for n := lo; n < hi; n += most {
			b := min(most, hi-n)
			part := kern.Mat{Type: up.Type, Data: up.Data[n*upRow:], N: b, K: up.K, Uniform: up.Uniform}
			kern.Mul(held, most, &part, x, stride, t, 0, b, scratch)
			kern.Mul(c.Out.F32, c.Out.Stride, &gate, x, stride, t, n, n+b, scratch)
			for i := range t {
				y, u := c.Out.Row(i)[n:n+b], held[i*most:i*most+b]
				if gates != nil {
					gates(y, y, u)
					continue
				}
				for j := range y {
					y[j] = gateOf(y[j], u[j])
				}
			}
		}
	}
	return nil
}
