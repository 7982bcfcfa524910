//go:build amd64 && gc && !noasm

package kern

import (
	"unsafe"

	"graphrun/graph"
)

const haveAsm = true

func mul(y []float32, ldy int, w *Mat, x []byte, ldx int, T, lo, hi int, scratch []byte) {
	plain := formats[w.Type].act == graph.F32
	if !features.avx512 {
		switch {
		case !features.avx2:
			mulGeneric(y, ldy, w, x, ldx, T, lo, hi)
		case plain:
			mulFloatAVX2(y, ldy, w, x, ldx, T, lo, hi)
		default:
			mulDecoded(y, ldy, w, x, ldx, T, lo, hi, scratch)
		}
		return
	}
	switch w.way(T) {
	case wayPanels:
		mulPanels(y, ldy, w, x, ldx, T, lo, hi, scratch)
	case wayQuads:
		mulQuads(y, ldy, w, x, ldx, T, lo, hi, scratch)
	case wayFours:
		mulFours(y, w, x, ldx, lo, hi, scratch)
	case wayWhole:
		mulWhole(y, w, x, ldx, lo, hi, scratch)
	default:
		switch {
		case plain:
			mulRows(y, ldy, w, x, ldx, T, lo, hi)
		case w.byDecodedRows():
			mulDecoded(y, ldy, w, x, ldx, T, lo, hi, scratch)
		default:
			mulQuantRows(y, ldy, w, x, ldx, T, lo, hi, scratch)
		}
	}
}

// byDecodedRows tells where AVX2's way stands in for row kernels: IQ3_S looks
// numbers up one by one, and row kernels would wait longer for that.
func (w *Mat) byDecodedRows() bool { return w.Type == graph.IQ3_S }

// limits says up to how many tokens rows, then quads are the fastest way with
// AVX-512, weights in memory; no quads are used where quads is not above rows.
type limits struct{ rows, quads int }

var limitsOf = [graph.Q8]limits{
	graph.F32: {rows: 9}, graph.F16: {rows: 8}, graph.BF16: {rows: 8},
	graph.Q8_0: {4, 24}, graph.Q4_0: {4, 32}, graph.Q4_1: {4, 32}, graph.Q5_0: {4, 32}, graph.Q5_1: {4, 32}, graph.IQ4_NL: {4, 32}, graph.MXFP4: {4, 32},
	graph.Q2_K: {4, 8}, graph.Q3_K: {4, 8}, graph.Q4_K: {4, 9}, graph.Q5_K: {4, 12}, graph.Q6_K: {4, 16},
	graph.IQ4_XS: {2, 14}, graph.IQ3_S: {rows: 8}, graph.TQ1_0: {rows: 4}, graph.TQ2_0: {4, 10},
}

// way returns how a product of T tokens is computed.
func (w *Mat) way(T int) way {
	l := limitsOf[w.Type]
	switch {
	case formats[w.Type].act == graph.F32 && w.Uniform:
		return wayPanels
	case forced == wayRows, forced == wayPanels, forced == wayQuads && l.quads > 0:
		return forced
	case T == 1 && w.inFours() && (forced == wayFours || forced == wayBest && 4*w.rowBytes() <= foursMost):
		return wayFours
	case T == 1 && w.isWhole():
		return wayWhole
	case T <= l.rows:
		return wayRows
	case T <= l.quads:
		return wayQuads
	}
	return wayPanels
}

func scratchBytes(w *Mat, T int) int {
	plain := formats[w.Type].act == graph.F32
	if !features.avx512 {
		if features.avx2 && !plain {
			return scratchDecoded(w, T)
		}
		return 0
	}
	// What T tokens need, and what fewer do.
	need := 0
	l := limitsOf[w.Type]
	for _, n := range [...]int{T, min(T, l.quads), min(T, l.rows), min(T, 1)} {
		switch {
		case n == 0:
		case w.way(n) == wayPanels:
			need = max(need, panelScratch(w, n))
		case w.way(n) == wayQuads:
			need = max(need, quadScratch(w, n))
		case w.way(n) == wayFours:
			need = max(need, foursScratch(w))
		case w.way(n) == wayWhole:
			need = max(need, wholeScratch(w))
		case plain:
		case w.byDecodedRows():
			need = max(need, scratchDecoded(w, n))
		default:
			need = max(need, rowScratch(w.Type, w.K, n))
		}
	}
	return need
}

func grain(w *Mat, T int) int {
	if features.avx512 && w.way(T) == wayPanels {
		return panelRows
	}
	return quadRows
}

// quantArgs is what the quantizing kernels take.
type quantArgs struct {
	x, q, scales, sums unsafe.Pointer
	blocks             int
}

func quantizeRow(p *actParts, x []float32) {
	blocks := len(x) / p.t.BlockElems()
	if !features.avx2 && !features.avx512 || blocks == 0 {
		quantizeRowGeneric(p, x)
		return
	}
	var a quantArgs // written where it stays, as vecArgs are
	a.x, a.q, a.scales, a.sums, a.blocks = ptr(x, 0), ptr(p.q, 0), ptr(p.scales, 0), ptr(p.sums, 0), blocks
	switch {
	case features.avx512 && p.t == graph.Q8:
		quantizeQ8AVX512(&a)
	case features.avx512:
		quantizeQ8KAVX512(&a)
	case p.t == graph.Q8:
		quantizeQ8AVX2(&a)
	default:
		quantizeQ8KAVX2(&a)
	}
}
