//go:build amd64 && gc && !noasm

package kern

import (
	"unsafe"

	"graphrun/graph"
)

const haveAsm = true

func mul(y []float32, ldy int, w *Mat, x []byte, ldx int, T, lo, hi int, scratch []byte) {
	switch {
	case !features.avx512 && features.avx2 && formats[w.Type].act == graph.F32:
		mulFloatAVX2(y, ldy, w, x, ldx, T, lo, hi)
	case !features.avx512 && features.avx2, w.byDecodedRows(T):
		mulDecoded(y, ldy, w, x, ldx, T, lo, hi, scratch)
	case !features.avx512:
		mulGeneric(y, ldy, w, x, ldx, T, lo, hi)
	case T < w.panelFrom() && formats[w.Type].act != graph.F32:
		mulQuantRows(y, ldy, w, x, ldx, T, lo, hi, scratch)
	case T < w.panelFrom():
		mulRows(y, ldy, w, x, ldx, T, lo, hi)
	default:
		mulPanels(y, ldy, w, x, ldx, T, lo, hi, scratch)
	}
}

// byDecodedRows tells where AVX2's way is the only one on AVX-512 too: IQ3_S
// looks numbers up one by one, and row kernels would wait longer for that.
func (w *Mat) byDecodedRows(T int) bool {
	return features.avx512 && w.Type == graph.IQ3_S && T < w.panelFrom()
}

// panelFrom returns the number of tokens from which on unpacking a panel is
// faster than the row kernels: measured with weights in memory, one thread.
func (w *Mat) panelFrom() int {
	switch {
	case w.Uniform && formats[w.Type].act == graph.F32:
		return 1
	case panelMin > 0:
		return panelMin
	}
	return int(panelFroms[w.Type])
}

var panelFroms = [graph.Q8]uint8{
	graph.F32: 10, graph.F16: 9, graph.BF16: 9,
	graph.Q8_0: 7, graph.Q4_0: 7, graph.Q4_1: 7, graph.Q5_0: 6, graph.Q5_1: 6, graph.IQ4_NL: 7, graph.MXFP4: 6,
	graph.Q2_K: 6, graph.Q3_K: 6, graph.Q4_K: 8, graph.Q5_K: 6, graph.Q6_K: 7,
	graph.IQ4_XS: 5, graph.IQ3_S: 9, graph.TQ1_0: 5, graph.TQ2_0: 7,
}

func scratchBytes(w *Mat, T int) int {
	if !features.avx512 {
		if features.avx2 && formats[w.Type].act != graph.F32 {
			return scratchDecoded(w, T)
		}
		return 0
	}
	need := 0
	if from := w.panelFrom(); w.byDecodedRows(min(T, from-1)) {
		need = scratchDecoded(w, min(T, from-1))
	} else if from > 1 && formats[w.Type].act != graph.F32 {
		need = rowScratch(w.Type, w.K, min(T, from-1))
	}
	if T >= w.panelFrom() {
		need = max(need, panelScratch(w, T))
	}
	return need
}

func grain(w *Mat, T int) int {
	if features.avx512 && T >= w.panelFrom() {
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
	if !features.avx2 && !features.avx512 || blocks == 0 {
		quantizeRowGeneric(t, dst, x)
		return
	}
	k := len(x)
	a := quantArgs{x: ptr(x, 0), q: ptr(dst, 0), scales: ptr(dst, k), sums: ptr(dst, k+4*blocks), blocks: blocks}
	switch {
	case features.avx512 && t == graph.Q8:
		quantizeQ8AVX512(&a)
	case features.avx512:
		quantizeQ8KAVX512(&a)
	case t == graph.Q8:
		quantizeQ8AVX2(&a)
	default:
		quantizeQ8KAVX2(&a)
	}
}
