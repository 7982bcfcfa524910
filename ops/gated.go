package ops

import (
	"fmt"
	"math"

	"graphrun/graph"
)

var (
	opGated = graph.Register(&graph.Op{
		Name: "gated", Doc: "y = act(gate) · up",
		MinArgs: 2, MaxArgs: 2, Flags: graph.Pure,
		Attrs: []graph.AttrSpec{{Name: "act", Default: "", Required: true}},
		Infer: inferGated, Prepare: prepareAct, Kernel: gatedKernel,
	})
	opGatedHalves = graph.Register(&graph.Op{
		Name: "gatedhalves", Doc: "y[..,f] = act(x[..,f]) · x[..,F+f]",
		MinArgs: 1, MaxArgs: 1, Flags: graph.Pure,
		Attrs: []graph.AttrSpec{{Name: "act", Default: "", Required: true}},
		Infer: inferGatedHalves, Prepare: prepareAct, Kernel: gatedHalvesKernel,
	})
	opGatedMatMul = graph.Register(&graph.Op{
		Name: "gatedmatmul", Doc: "y[t,n] = act(x·wgᵀ)[t,n] · (x·wuᵀ)[t,n]",
		MinArgs: 3, MaxArgs: 3, Flags: graph.Pure,
		Attrs: []graph.AttrSpec{{Name: "act", Default: "", Required: true}},
		Infer: inferGatedMatMul, Prepare: prepareAct, Units: columnUnits, Kernel: gatedMatMulKernel, Cost: matmulCost,
	})
	opGatedMatMulQuant = graph.Register(&graph.Op{
		Name: "gatedmatmulquant", Doc: "gatedmatmul and quantize in one go",
		MinArgs: 3, MaxArgs: 3, Flags: graph.Pure,
		Attrs: []graph.AttrSpec{{Name: "act", Default: "", Required: true}, {Name: "to", Default: "", Required: true}},
		Infer: inferGatedMatMulQuant, Prepare: prepareAct, Units: blockUnits, Kernel: gatedMatMulQuantKernel, Cost: matmulCost,
	})
)

// Gated is the middle of a gated feed-forward block.
//
//	silu, gelu:  y = act(gate) · up
//	swiglu_oai:  y = g·sigmoid(1.702·g) · (u + 1),  g = min(gate, 7),  u = min(max(up, -7), 7)
//
// gate and up are f32 of the same type, [T,F] or [T,U,F], which is the result's
// type. kind is SiLU, GELU or SwigluOAI.
// The builder records ErrShape if the types differ, and an error for another
// kind.
// Source: Shazeer, 2020; gpt-oss reference program, 2025, for swiglu_oai.
func Gated(b *graph.Builder, gate, up *graph.Value, kind string) *graph.Value {
	return b.Op(opGated, graph.MakeAttrs("act", kind), gate, up)
}

// GatedHalves is Gated for a product that holds gate and up side by side.
//
//	y[..,f] = act(x[..,f]) · x[..,F+f]
//
// x is f32 [T,2F] or [T,U,2F], the result f32 [T,F] or [T,U,F]. kind as Gated's.
// The builder records ErrShape if x's last dimension is odd, and an error for
// another kind.
func GatedHalves(b *graph.Builder, x *graph.Value, kind string) *graph.Value {
	return b.Op(opGatedHalves, graph.MakeAttrs("act", kind), x)
}

// GatedMatMul is two products of the same rows and the gate between them, made
// by the pass fuse-gated.
//
//	y[t,n] = act(sum_k x[t,k]·wg[n,k]) · (sum_k x[t,k]·wu[n,k])
//
// x is as in MatMul, wg and wu are [N,K] of weight types that x fits, the
// result is f32 [T,N]. kind as Gated's. A unit is a column n of the result.
// The builder records ErrShape as MatMul and if wg and wu differ in shape, and
// an error for another kind.
func GatedMatMul(b *graph.Builder, x, wg, wu *graph.Value, kind string) *graph.Value {
	return b.Op(opGatedMatMul, graph.MakeAttrs("act", kind), x, wg, wu)
}

// GatedMatMulQuant is a GatedMatMul whose result is only wanted in the quantized
// form, made by the pass fuse-gated-quantize: Quantize(GatedMatMul(x, wg, wu)).
//
// Operands are GatedMatMul's, the result is of the type to, q8 or q8k, [T,N]. A
// unit is a block of the result.
// The builder records ErrShape as GatedMatMul and Quantize.
func GatedMatMulQuant(b *graph.Builder, x, wg, wu *graph.Value, kind string, to graph.DType) *graph.Value {
	return b.Op(opGatedMatMulQuant, graph.MakeAttrs("act", kind, "to", to.String()), x, wg, wu)
}

func inferGated(a []graph.Type, at graph.Attrs) (graph.Type, error) {
	if err := checkRows(0, "gate", a[0], 2); err != nil {
		return graph.Type{}, err
	}
	if !a[1].Equal(a[0]) {
		return graph.Type{}, misfit(1, "up", a[1], "%s, the type of operand 0 (gate)", a[0])
	}
	_, err := gateOf(at)
	return a[0], err
}

func inferGatedHalves(a []graph.Type, at graph.Attrs) (graph.Type, error) {
	if err := checkRows(0, "x", a[0], 2); err != nil {
		return graph.Type{}, err
	}
	n := a[0].Shape.Last()
	if n%2 != 0 {
		return graph.Type{}, misfit(0, "x", a[0], "an even last dimension")
	}
	out := graph.Type{DType: graph.F32, Shape: append(graph.Shape{}, a[0].Shape...)}
	out.Shape[len(out.Shape)-1] = graph.Fix(n / 2)
	_, err := gateOf(at)
	return out, err
}

func inferGatedMatMul(a []graph.Type, at graph.Attrs) (graph.Type, error) {
	if _, err := gateOf(at); err != nil {
		return graph.Type{}, err
	}
	return inferProduct(a[0], a[1:])
}

func inferGatedMatMulQuant(a []graph.Type, at graph.Attrs) (graph.Type, error) {
	t, err := inferGatedMatMul(a, at)
	if err != nil {
		return graph.Type{}, err
	}
	return inferQuantize([]graph.Type{t}, at)
}

// blockUnits counts the blocks of a quantized row.
func blockUnits(c *graph.Call) int {
	return c.Out.Dims[len(c.Out.Dims)-1] / c.Out.DType.BlockElems()
}

// gateOf returns the function an act attribute names.
func gateOf(a graph.Attrs) (func(gate, up float32) float32, error) {
	switch kind := a.Str("act"); kind {
	case SiLU:
		return siluGate, nil
	case GELU:
		return geluGate, nil
	case SwigluOAI:
		return swigluOAI, nil
	default:
		return nil, fmt.Errorf("attribute act is %q, want gelu, silu or swiglu_oai", kind)
	}
}

func prepareAct(v *graph.Value) (any, error) { return gateOf(v.Attrs) }

func siluGate(gate, up float32) float32 { return silu(gate) * up }

func geluGate(gate, up float32) float32 { return gelu(gate) * up }

// The numbers of gpt-oss: the slope of its sigmoid and the bound of both halves.
const (
	swigluAlpha = 1.702
	swigluLimit = 7
)

func swigluOAI(gate, up float32) float32 {
	g := float64(min(gate, swigluLimit))
	u := min(max(up, -swigluLimit), swigluLimit)
	return float32(g/(1+math.Exp(-swigluAlpha*g))) * (u + 1)
}

func gatedKernel(c *graph.Call, lo, hi int) {
	f := c.Param.(func(gate, up float32) float32)
	for t := lo; t < hi; t++ {
		gate, up, y := c.In[0].Row(t), c.In[1].Row(t), c.Out.Row(t)
		for i, g := range gate {
			y[i] = f(g, up[i])
		}
	}
}

func gatedHalvesKernel(c *graph.Call, lo, hi int) {
	f := c.Param.(func(gate, up float32) float32)
	n := c.Out.Dims[len(c.Out.Dims)-1]
	for t := lo; t < hi; t++ {
		x, y := c.In[0].Row(t), c.Out.Row(t)
		for ; len(y) > 0; x, y = x[2*n:], y[n:] {
			for i := range n {
				y[i] = f(x[i], x[n+i])
			}
		}
	}
}

func gatedMatMulKernel(c *graph.Call, lo, hi int) {
	f := c.Param.(func(gate, up float32) float32)
	x, wg, wu := vectorsOf(c.In[0]), weightsOf(c.In[1]), weightsOf(c.In[2])
	var gate, up [tileRows]float32
	total := c.Out.Rows()
	for n := lo; n < hi; n++ {
		for t := 0; t < total; t += tileRows {
			m := min(tileRows, total-t)
			dotRows(gate[:m], &wg, &x, n, t)
			dotRows(up[:m], &wu, &x, n, t)
			for i := range m {
				c.Out.F32[(t+i)*c.Out.Stride+n] = f(gate[i], up[i])
			}
		}
	}
}

func gatedMatMulQuantKernel(c *graph.Call, lo, hi int) {
	f := c.Param.(func(gate, up float32) float32)
	x, wg, wu := vectorsOf(c.In[0]), weightsOf(c.In[1]), weightsOf(c.In[2])
	n, block := c.Out.Dims[1], c.Out.DType.BlockElems()
	var row [chunkElems]float32
	var gate, up [1]float32
	for t := range c.Out.Rows() {
		for b := lo; b < hi; b++ {
			for i := range block {
				dotRows(gate[:], &wg, &x, b*block+i, t)
				dotRows(up[:], &wu, &x, b*block+i, t)
				row[i] = f(gate[0], up[0])
			}
			quantizeAt(c.Out.DType, c.Out.RawRow(t), n, b*block, row[:block])
		}
	}
}
