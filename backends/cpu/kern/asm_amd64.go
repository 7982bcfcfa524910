//go:build amd64 && gc && !noasm

package kern

import (
	"unsafe"

	"graphrun/graph"
)

const haveAsm = true

func mul(y []float32, ldy int, w *Mat, x []byte, ldx int, T, lo, hi int, scratch []byte) {
	if features.avx512 {
		if g := &gemvs[w.Type]; g.prep != prepNone {
			mulRows(g, y, ldy, w, x, ldx, T, lo, hi, scratch)
			return
		}
	}
	mulGeneric(y, ldy, w, x, ldx, T, lo, hi)
}

func scratchBytes(w *Mat, T int) int {
	if features.avx512 {
		if g := &gemvs[w.Type]; g.prep != prepNone {
			return T * g.preparedBytes(w.Type, w.K)
		}
	}
	return 0
}

func grain(w *Mat, T int) int { return 16 }

func quantizeRow(t graph.DType, dst []byte, x []float32) { quantizeRowGeneric(t, dst, x) }

func dequantRow(t graph.DType, dst []float32, src []byte) { dequantRowGeneric(t, dst, src) }

func ptr[T any](s []T, i int) unsafe.Pointer { return unsafe.Pointer(&s[i]) }
