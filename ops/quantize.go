package ops

import (
	"encoding/binary"
	"fmt"
	"math"

	"graphrun/graph"
)

var opQuantize = graph.Register(&graph.Op{
	Name: "quantize", Doc: "int8 numbers with a scale per 32 (q8) or 256 (q8k) elements",
	MinArgs: 1, MaxArgs: 1, Flags: graph.Pure,
	Attrs: []graph.AttrSpec{{Name: "to", Default: "", Required: true}},
	Infer: inferQuantize, Prepare: prepareLast, Kernel: quantizeKernel,
})

// Quantize rounds activations to int8 for products with block weights.
//
//	d = max_j |x[j]| / 127 over a block,  q[j] = round(x[j] / d)
//
// x is f32 [T,K] or [T,U,K], to is Q8 (blocks of 32) or Q8K (blocks of 256),
// the result has that type and x's shape. Each vector of the last dimension is
// a row of its own, in three parts one after the other, little-endian:
//
//	q8:  K int8 numbers, K/32 f32 scales, K/32 int32 sums of the 32 numbers
//	q8k: K int8 numbers, K/256 f32 scales, K/16 int16 sums of 16 numbers each
//
// Ties round to even. Scales are f32, so no finite x overflows them; a block of
// numbers below 2^-100 becomes zeros with scale 0. A block with a NaN or an
// infinity in it becomes zeros with a scale that is not finite, so that the
// fault shows in the product.
// The builder records ErrShape if K is no multiple of the block.
func Quantize(b *graph.Builder, x *graph.Value, to graph.DType) *graph.Value {
	return b.Op(opQuantize, graph.MakeAttrs("to", to.String()), x)
}

func inferQuantize(a []graph.Type, at graph.Attrs) (graph.Type, error) {
	if err := checkRows(0, "x", a[0], 2); err != nil {
		return graph.Type{}, err
	}
	to, _ := graph.DTypeByName(at.Str("to"))
	if to != graph.Q8 && to != graph.Q8K {
		return graph.Type{}, fmt.Errorf("attribute to is %q, want \"q8\" or \"q8k\"", at.Str("to"))
	}
	if n := to.BlockElems(); a[0].Shape.Last()%n != 0 {
		return graph.Type{}, misfit(0, "x", a[0], "a last dimension of whole blocks of %d", n)
	}
	return graph.Type{DType: to, Shape: a[0].Shape}, nil
}

// ActType returns the type products with weights of type w read quantized
// activations in: Q8 for blocks of 32, Q8K for blocks of 256, and F32 for
// weights that are multiplied by f32 activations only.
func ActType(w graph.DType) graph.DType {
	switch {
	case !IsWeightType(w) || !w.Quantized():
		return graph.F32
	case w.BlockElems() == 256:
		return graph.Q8K
	}
	return graph.Q8
}

// quantMin is the smallest maximum a block is quantized with: it keeps 127/max
// finite and scales above the subnormal range, where arithmetic is slow.
const quantMin = 0x1p-100

func quantizeKernel(c *graph.Call, lo, hi int) {
	k := c.Param.(int)
	n := c.Out.DType.RowBytes(k)
	for t := lo; t < hi; t++ {
		x, y := c.In[0].Row(t), c.Out.RawRow(t)
		for ; len(x) > 0; x, y = x[k:], y[n:] {
			quantizeRow(c.Out.DType, y[:n], x[:k])
		}
	}
}

// quantizeRow writes one row of q8 or q8k.
func quantizeRow(to graph.DType, y []byte, x []float32) {
	block := to.BlockElems()
	for at := 0; at < len(x); at += block {
		quantizeAt(to, y, len(x), at, x[at:at+block])
	}
}

// quantizeAt writes the block x, the elements of a row of k from at on.
func quantizeAt(to graph.DType, y []byte, k, at int, x []float32) {
	block := to.BlockElems()
	b, q := at/block, y[at:at+block]
	scales, sums := y[k:], y[k+4*(k/block):]
	d := quantizeBlock(q, x)
	binary.LittleEndian.PutUint32(scales[4*b:], math.Float32bits(d))
	if to == graph.Q8 {
		binary.LittleEndian.PutUint32(sums[4*b:], uint32(sumInt8(q)))
		return
	}
	for g := range block / 16 {
		binary.LittleEndian.PutUint16(sums[2*(16*b+g):], uint16(sumInt8(q[16*g:16*g+16])))
	}
}

// quantizeBlock writes the int8 numbers of x to q and returns their scale.
func quantizeBlock(q []byte, x []float32) float32 {
	amax := float32(0)
	for _, z := range x {
		amax = max(amax, z, -z) // max is NaN if an operand is
	}
	bad := amax != amax || math.IsInf(float64(amax), 0)
	d := amax / 127
	if bad || amax < quantMin {
		clear(q)
		if bad {
			return float32(math.NaN())
		}
		return 0
	}
	inv := 127 / amax
	for i, z := range x {
		q[i] = byte(int8(math.RoundToEven(float64(z * inv))))
	}
	return d
}

func sumInt8(q []byte) int {
	n := 0
	for _, b := range q {
		n += int(int8(b))
	}
	return n
}

// actBlock returns the int8 numbers of the block of a quantized row of k
// elements that starts at element at, and their scale.
func actBlock(dt graph.DType, row []byte, k, at int) (q []byte, scale float32) {
	n := dt.BlockElems()
	s := k + 4*(at/n)
	return row[at : at+n], math.Float32frombits(binary.LittleEndian.Uint32(row[s:]))
}
