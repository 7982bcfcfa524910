//go:build amd64 && gc && !noasm

package kern

import (
	"unsafe"

	"graphrun/graph"
)

const haveAsm = true

func mul(y []float32, ldy int, w *Mat, x []byte, ldx int, T, lo, hi int, scratch []byte) {
	switch {
	case !features.avx512:
		mulGeneric(y, ldy, w, x, ldx, T, lo, hi)
	case T < panelFrom(w.Type):
		mulRows(&gemvs[w.Type], y, ldy, w, x, ldx, T, lo, hi, scratch)
	default:
		mulPanels(y, ldy, w, x, ldx, T, lo, hi, scratch)
	}
}

// panelFrom returns the number of tokens from which on unpacking a panel is
// faster than the row kernels, which lose about 5 % of their speed with every
// token.
func panelFrom(t graph.DType) int {
	switch {
	case gemvs[t].prep == prepNone:
		return 1
	case panelMin > 0:
		return panelMin
	}
	return 9
}

func scratchBytes(w *Mat, T int) int {
	if !features.avx512 {
		return 0
	}
	need := 0
	if from := panelFrom(w.Type); from > 1 {
		need = min(T, from-1) * gemvs[w.Type].preparedBytes(w.Type, w.K)
	}
	if T >= panelFrom(w.Type) {
		need = max(need, panelScratch(w, T))
	}
	return need
}

func grain(w *Mat, T int) int {
	if features.avx512 && T >= panelFrom(w.Type) {
		return panelRows
	}
	return 16
}

// quantArgs is what the quantizing kernels take.
type quantArgs struct {
	x, q, scales, sums unsafe.Pointer
	blocks             int
}

func quantizeRow(t graph.DType, dst []byte, x []float32) {
	blocks := len(x) / t.BlockElems()
	if !features.avx512 || blocks == 0 {
		quantizeRowGeneric(t, dst, x)
		return
	}
	k := len(x)
	a := quantArgs{x: ptr(x, 0), q: ptr(dst, 0), scales: ptr(dst, k), sums: ptr(dst, k+4*blocks), blocks: blocks}
	if t == graph.Q8 {
		quantizeQ8AVX512(&a)
	} else {
		quantizeQ8KAVX512(&a)
	}
}

func dequantRow(t graph.DType, dst []float32, src []byte) { dequantRowGeneric(t, dst, src) }

func ptr[T any](s []T, i int) unsafe.Pointer { return unsafe.Pointer(&s[i]) }
