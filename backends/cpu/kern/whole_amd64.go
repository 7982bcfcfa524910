//go:build amd64 && gc && !noasm

package kern

import "graphrun/graph"

// Rows of nibbles in blocks of 32 are multiplied with one token by kernels of
// their own if their steps are whole, as they are in most models: the steps
// of a group side by side, and the sums of four rows added up together.

// isWhole reports whether there is such a kernel for w.
func (w *Mat) isWhole() bool {
	return formats[w.Type].act == graph.Q8 && w.Type != graph.Q8_0 && w.K%(4*w.Type.BlockElems()) == 0
}

// wholeScratch returns the scratch memory of mulWhole.
func wholeScratch(w *Mat) int {
	p := planRows(w.Type, w.K, 1)
	return p.xBytes + p.side + p.scaled()
}

// scaled returns the bytes of the scaled sums of four rows.
func (p *rowPlan) scaled() int { return 4 * 64 * p.groups }

// mulWhole is Mul for one token and rows of whole steps.
func mulWhole(y []float32, w *Mat, x []byte, ldx, lo, hi int, scratch []byte) {
	p := planRows(w.Type, w.K, 1)
	side := scratch[p.xBytes:]
	p.arrange(w, x, ldx, 1, scratch, side)
	var a rowsArgs
	p.fill(&a, w, scratch, side)
	a.scaled = ptr(side, p.side)
	rb := w.rowBytes()
	chunk := max(4, rowsPerCall(w.K, 1)&^3)
	for r := lo; r < hi; r += chunk {
		a.rows = min(chunk, hi-r)
		a.w, a.y = ptr(w.Data, r*rb), ptr(y, r)
		wholesChunk(w.Type, &a)
	}
}
