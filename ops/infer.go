package ops

import (
	"fmt"

	"graphrun/graph"
)

// misfit is the error of an operand that does not fit: which one, what it is
// and what was expected.
func misfit(i int, name string, got graph.Type, want string, args ...any) error {
	return fmt.Errorf("operand %d (%s) is %s, want %s", i, name, got, fmt.Sprintf(want, args...))
}

// isF32 reports whether t is f32 with the given number of dimensions.
func isF32(t graph.Type, rank int) bool { return t.DType == graph.F32 && len(t.Shape) == rank }

// isVector reports whether t is a fixed f32 vector of n elements.
func isVector(t graph.Type, n int) bool {
	return isF32(t, 1) && t.Shape[0] == graph.Fix(n)
}

// isIndex reports whether t is i32 with one entry per leading row of like.
func isIndex(t graph.Type, like graph.Shape) bool {
	return t.DType == graph.I32 && len(t.Shape) == 1 && t.Shape[0] == like[0]
}

// fixedTail reports whether all dimensions but the first have a size known now,
// and at least one element: what kernels and memory plans rely on.
func fixedTail(s graph.Shape) bool {
	for _, d := range s[min(1, len(s)):] {
		if d.Name != "" || d.Size <= 0 {
			return false
		}
	}
	return true
}

// checkRows accepts f32 of at least rank dimensions with a fixed tail.
func checkRows(i int, name string, t graph.Type, rank int) error {
	if t.DType != graph.F32 || len(t.Shape) < rank || !fixedTail(t.Shape) {
		return misfit(i, name, t, "f32 with %d or more dimensions, fixed but for the first", rank)
	}
	return nil
}

// checkWeight accepts a matrix [.., k] of a weight type with rank dimensions
// and whole blocks in a row.
func checkWeight(i int, name string, t graph.Type, rank, k int) error {
	if !IsWeightType(t.DType) {
		return misfit(i, name, t, "a weight type (f32, f16, bf16 or a block format)")
	}
	if len(t.Shape) != rank || !t.Shape.Fixed() || t.Shape.Last() != k || !fixedTail(t.Shape) {
		return misfit(i, name, t, "%d fixed dimensions, the last of %d", rank, k)
	}
	if n := t.DType.BlockElems(); k%n != 0 {
		return misfit(i, name, t, "rows of whole blocks of %d elements", n)
	}
	return nil
}

// checkActivation accepts rows to be multiplied by w: f32, or the quantized
// type that products with w's type read.
func checkActivation(i int, name string, x, w graph.Type) error {
	switch x.DType {
	case graph.F32:
		return nil
	case graph.Q8, graph.Q8K:
		if ActType(w.DType) != x.DType {
			return misfit(i, name, x, "f32 or %s beside %s weights", ActType(w.DType), w.DType)
		}
		if n := x.DType.BlockElems(); x.Shape.Last()%n != 0 {
			return misfit(i, name, x, "rows of whole blocks of %d elements", n)
		}
		return nil
	}
	return misfit(i, name, x, "f32, q8 or q8k")
}

// rows returns the type dt[lead, sizes...] with the leading dimension of like.
func rows(dt graph.DType, like graph.Shape, sizes ...int) graph.Type {
	return graph.Type{DType: dt, Shape: append(graph.Shape{like[0]}, graph.ShapeOf(sizes...)...)}
}

// traffic counts the bytes of all operands and the result, once each.
func traffic(v *graph.Value, b graph.Dims) int {
	n := v.Type.Bytes(b)
	for _, a := range v.Args {
		n += a.Type.Bytes(b)
	}
	return n
}
