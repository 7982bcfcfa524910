//go:build amd64 && gc && !noasm

package kern

import "graphrun/graph"

// Short rows in blocks of 32 are multiplied with one token four at a time: what
// it takes to end a row, and to begin one whose blocks are no multiple of 16, is
// shared, and so are the activations that are read. Longer rows are not: read in
// four places that lie further apart, memory is slower than one row after the
// other.

// foursMost is the most bytes that four rows may have.
const foursMost = 2560

// inFours reports whether there is a kernel for four rows of w.
func (w *Mat) inFours() bool { return formats[w.Type].act == graph.Q8 }

// planFours is planRows for four rows and one token.
func planFours(w *Mat) rowPlan {
	p := rowPlan{fours: true, steps: 1}
	p.set(w.K/w.Type.BlockElems(), 4)
	return p
}

func foursScratch(w *Mat) int {
	p := planFours(w)
	return p.xBytes + p.side
}

// mulFours is Mul for one token, four rows at a time. The last ones may be
// fewer: the last row then stands in for those that lack.
func mulFours(y []float32, w *Mat, x []byte, ldx, lo, hi int, scratch []byte) {
	p := planFours(w)
	side := scratch[p.xBytes:]
	p.arrange(w, x, ldx, 1, scratch, side)
	var a rowsArgs
	p.fill(&a, w, scratch, side)
	rb := w.rowBytes()
	a.stride = 4 * rb
	a.bias4 = 4 * a.bias
	chunk := max(4, rowsPerCall(w.K, 1)&^3)
	for r := lo; r < hi; {
		n := min(chunk, hi-r)
		if n > 4 {
			n &^= 3
		}
		a.rows, a.store = (n+3)/4, lowBits(min(n, 4))
		for i := range a.apart {
			a.apart[i] = min(i+1, n-1) * rb
		}
		a.w, a.y = ptr(w.Data, r*rb), ptr(y, r)
		foursChunk(w.Type, &a)
		r += n
	}
}
