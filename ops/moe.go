package ops

import (
	"fmt"
	"math"

	"graphrun/graph"
)

var (
	opTopK = graph.Register(&graph.Op{
		Name: "topk", Doc: "ids of the k largest numbers of a row, largest first",
		MinArgs: 1, MaxArgs: 1, Flags: graph.Pure,
		Attrs: []graph.AttrSpec{{Name: "k", Default: 0, Required: true}},
		Infer: inferTopK, Kernel: topKKernel,
	})
	opTopKWeights = graph.Register(&graph.Op{
		Name: "topkweights", Doc: "y[t,u] = scale · p[t,ids[t,u]], normalized on demand",
		MinArgs: 2, MaxArgs: 2, Flags: graph.Pure,
		Attrs: []graph.AttrSpec{
			{Name: "normalize", Default: false},
			{Name: "softmax", Default: false},
			{Name: "min_sum", Default: float32(0)},
			{Name: "scale", Default: float32(1)},
		},
		Infer: inferTopKWeights, Prepare: prepareTopKWeights, Kernel: topKWeightsKernel,
	})
	opExpertMatMul = graph.Register(&graph.Op{
		Name: "expertmatmul", Doc: "y[t,u,n] = sum_k x[t,(u,)k] · w[ids[t,u],n,k]",
		MinArgs: 3, MaxArgs: 3, Flags: graph.Pure,
		Infer: inferExpertMatMul, Units: columnUnits, Kernel: expertMatMulKernel, Cost: expertMatMulCost,
	})
	opExpertAdd = graph.Register(&graph.Op{
		Name: "expertadd", Doc: "z[t,u,n] = y[t,u,n] + bias[ids[t,u],n]",
		MinArgs: 3, MaxArgs: 3, Flags: graph.Pure,
		Infer: inferExpertAdd, Kernel: expertAddKernel,
	})
	opExpertSum = graph.Register(&graph.Op{
		Name: "expertsum", Doc: "z[t,n] = sum_u weights[t,u] · y[t,u,n]",
		MinArgs: 2, MaxArgs: 2, Flags: graph.Pure,
		Infer: inferExpertSum, Kernel: expertSumKernel,
	})
	opGatherScale = graph.Register(&graph.Op{
		Name: "gatherscale", Doc: "y[t,u] = weights[t,u] · scale[ids[t,u]]",
		MinArgs: 3, MaxArgs: 3, Flags: graph.Pure,
		Infer: inferGatherScale, Kernel: gatherScaleKernel,
	})
)

// TopK finds the k largest numbers of each row.
//
//	ids[t,0] = argmax_e p[t,e],  ids[t,u] = argmax over the rest
//
// p is f32 [T,E], the result is i32 [T,k]. Of equal numbers the lower index
// comes first; a NaN counts as less than any number.
// The builder records ErrShape if p has another form, and an error unless
// 1 <= k <= E.
func TopK(b *graph.Builder, p *graph.Value, k int) *graph.Value {
	return b.Op(opTopK, graph.MakeAttrs("k", k), p)
}

// TopKWeightsParams say how the weights of chosen experts are made of the
// router's numbers.
type TopKWeightsParams struct {
	// Normalize divides by the sum of the chosen, or by MinSum if that is larger.
	Normalize bool
	// SoftmaxOverChosen takes the numbers for logits and makes probabilities
	// of the chosen alone.
	SoftmaxOverChosen bool
	// MinSum is the least divisor of Normalize.
	MinSum float32
	// Scale multiplies the weights at the end. 0 means 1.
	Scale float32
}

// TopKWeights gives the weights of the chosen experts.
//
//	y[t,u] = Scale · p[t,ids[t,u]]
//	y[t,u] = Scale · p[t,ids[t,u]] / max(sum_u p[t,ids[t,u]], MinSum)      with Normalize
//	y[t,u] = Scale · softmax_u p[t,ids[t,u]]                               with SoftmaxOverChosen
//
// p is f32 [T,E], ids is i32 [T,U], the result is f32 [T,U].
// The builder records ErrShape if ids does not fit p, and an error if Normalize
// and SoftmaxOverChosen are both set.
func TopKWeights(b *graph.Builder, p, ids *graph.Value, w TopKWeightsParams) *graph.Value {
	a := graph.MakeAttrs("normalize", w.Normalize, "softmax", w.SoftmaxOverChosen, "min_sum", w.MinSum)
	if w.Scale != 0 {
		a = a.With("scale", w.Scale)
	}
	return b.Op(opTopKWeights, a, p, ids)
}

// ExpertMatMul multiplies each row of x by the matrices of its chosen experts.
//
//	y[t,u,n] = sum_k x[t,k] · w[ids[t,u],n,k]      or with x[t,u,k]
//
// x is [T,K], the same row for each chosen expert, or [T,U,K]; f32, or q8 or q8k
// as in MatMul. w is [E,N,K] of any weight type, ids is i32 [T,U], the result is
// f32 [T,U,N]. A unit is a column n of the result. Only the chosen experts'
// weights are read.
// The builder records ErrShape as MatMul and if ids does not fit x.
func ExpertMatMul(b *graph.Builder, x, w, ids *graph.Value) *graph.Value {
	return b.Op(opExpertMatMul, nil, x, w, ids)
}

// ExpertAdd adds the bias of the chosen experts.
//
//	z[t,u,n] = y[t,u,n] + bias[ids[t,u],n]
//
// y is f32 [T,U,N], bias is f32 [E,N], ids is i32 [T,U], the result has y's type.
// The builder records ErrShape if bias or ids do not fit y.
func ExpertAdd(b *graph.Builder, y, bias, ids *graph.Value) *graph.Value {
	return b.Op(opExpertAdd, nil, y, bias, ids)
}

// ExpertSum joins the results of the chosen experts.
//
//	z[t,n] = sum_u weights[t,u] · y[t,u,n]
//
// y is f32 [T,U,N], weights is f32 [T,U], the result is f32 [T,N]. The sum runs
// in the order of u.
// The builder records ErrShape if weights does not fit y.
func ExpertSum(b *graph.Builder, y, weights *graph.Value) *graph.Value {
	return b.Op(opExpertSum, nil, y, weights)
}

// GatherScale multiplies weights by a number of each chosen expert.
//
//	y[t,u] = weights[t,u] · scale[ids[t,u]]
//
// weights is f32 [T,U], scale is f32 [E], ids is i32 [T,U], the result is f32
// [T,U].
// The builder records ErrShape if scale or ids have another form.
func GatherScale(b *graph.Builder, weights, scale, ids *graph.Value) *graph.Value {
	return b.Op(opGatherScale, nil, weights, scale, ids)
}

func inferTopK(a []graph.Type, at graph.Attrs) (graph.Type, error) {
	if !isF32(a[0], 2) || !fixedTail(a[0].Shape) {
		return graph.Type{}, misfit(0, "p", a[0], "f32[T,E]")
	}
	k, n := at.Int("k"), a[0].Shape.Last()
	if k < 1 || k > n {
		return graph.Type{}, fmt.Errorf("attribute k is %d, want 1 to %d, the numbers of operand 0 %s", k, n, a[0])
	}
	return rows(graph.I32, a[0].Shape, k), nil
}

// checkIDs accepts i32 [T,U] with the leading dimension of like.
func checkIDs(i int, t graph.Type, like graph.Shape) error {
	if t.DType != graph.I32 || len(t.Shape) != 2 || !fixedTail(t.Shape) || t.Shape[0] != like[0] {
		return misfit(i, "ids", t, "i32[%s,U]", like[0])
	}
	return nil
}

func inferTopKWeights(a []graph.Type, at graph.Attrs) (graph.Type, error) {
	if !isF32(a[0], 2) || !fixedTail(a[0].Shape) {
		return graph.Type{}, misfit(0, "p", a[0], "f32[T,E]")
	}
	if err := checkIDs(1, a[1], a[0].Shape); err != nil {
		return graph.Type{}, err
	}
	if at.Bool("normalize") && at.Bool("softmax") {
		return graph.Type{}, fmt.Errorf("attributes normalize and softmax are both set, want at most one")
	}
	for _, key := range []string{"min_sum", "scale"} {
		if f := float64(at.Float(key)); !(f >= 0) || math.IsInf(f, 0) {
			return graph.Type{}, fmt.Errorf("attribute %s is %v, want a finite number of at least 0", key, f)
		}
	}
	return rows(graph.F32, a[0].Shape, a[1].Shape.Last()), nil
}

func inferExpertMatMul(a []graph.Type, _ graph.Attrs) (graph.Type, error) {
	x, w, ids := a[0], a[1], a[2]
	if n := len(x.Shape); n != 2 && n != 3 || !fixedTail(x.Shape) {
		return graph.Type{}, misfit(0, "x", x, "[T,K] or [T,U,K]")
	}
	if err := checkWeight(1, "w", w, 3, x.Shape.Last()); err != nil {
		return graph.Type{}, err
	}
	if err := checkActivation(0, "x", x, w); err != nil {
		return graph.Type{}, err
	}
	if err := checkIDs(2, ids, x.Shape); err != nil {
		return graph.Type{}, err
	}
	u := ids.Shape.Last()
	if len(x.Shape) == 3 && x.Shape[1].Size != u {
		return graph.Type{}, misfit(0, "x", x, "%d rows for each token, as many as operand 2 (ids) names experts", u)
	}
	return rows(graph.F32, x.Shape, u, w.Shape[1].Size), nil
}

func inferExpertAdd(a []graph.Type, _ graph.Attrs) (graph.Type, error) {
	if !isF32(a[0], 3) || !fixedTail(a[0].Shape) {
		return graph.Type{}, misfit(0, "y", a[0], "f32[T,U,N]")
	}
	n := a[0].Shape.Last()
	if !isF32(a[1], 2) || !a[1].Shape.Fixed() || a[1].Shape.Last() != n {
		return graph.Type{}, misfit(1, "bias", a[1], "f32[E,%d]", n)
	}
	if err := checkIDs(2, a[2], a[0].Shape); err != nil {
		return graph.Type{}, err
	}
	if u := a[0].Shape[1].Size; a[2].Shape.Last() != u {
		return graph.Type{}, misfit(2, "ids", a[2], "i32[%s,%d]", a[0].Shape[0], u)
	}
	return a[0], nil
}

func inferExpertSum(a []graph.Type, _ graph.Attrs) (graph.Type, error) {
	if !isF32(a[0], 3) || !fixedTail(a[0].Shape) {
		return graph.Type{}, misfit(0, "y", a[0], "f32[T,U,N]")
	}
	s := a[0].Shape
	if !isF32(a[1], 2) || !a[1].Shape.Equal(s[:2]) {
		return graph.Type{}, misfit(1, "weights", a[1], "f32%s", s[:2])
	}
	return rows(graph.F32, s, s.Last()), nil
}

func inferGatherScale(a []graph.Type, _ graph.Attrs) (graph.Type, error) {
	if !isF32(a[0], 2) || !fixedTail(a[0].Shape) {
		return graph.Type{}, misfit(0, "weights", a[0], "f32[T,U]")
	}
	if !isF32(a[1], 1) || !a[1].Shape.Fixed() {
		return graph.Type{}, misfit(1, "scale", a[1], "f32[E]")
	}
	if a[2].DType != graph.I32 || !a[2].Shape.Equal(a[0].Shape) {
		return graph.Type{}, misfit(2, "ids", a[2], "i32%s", a[0].Shape)
	}
	return a[0], nil
}
