//go:build !((amd64 || arm64) && gc && !noasm)

package kern

import "graphrun/graph"

const haveAsm = false

func mul(y []float32, ldy int, w *Mat, x []byte, ldx int, T, lo, hi int, scratch []byte) {
	mulGeneric(y, ldy, w, x, ldx, T, lo, hi)
}

func scratchBytes(w *Mat, T int) int { return 0 }

func grain(w *Mat, T int) int { return 1 }

func quantizeRow(p *actParts, x []float32) { quantizeRowGeneric(p, x) }

func dequantRow(t graph.DType, dst []float32, src []byte) { dequantRowGeneric(t, dst, src) }
