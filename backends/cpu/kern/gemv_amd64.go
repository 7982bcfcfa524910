//go:build amd64 && gc && !noasm

package kern

import "unsafe"

// gemvArgs is what the row kernels of plain types take. The generator knows
// the offsets.
type gemvArgs struct {
	w      unsafe.Pointer // first row
	stride int            // bytes from row to row
	rows   int            // at least 1
	steps  int            // whole steps of 64 elements of a row
	x      unsafe.Pointer // first token's activations
	ldx    int            // bytes from token to token
	y      unsafe.Pointer // first token's result for the first row
	ldy    int            // bytes from token to token
	mask   [3]uint64      // elements beyond the whole steps; only the first word is used
	tail   int            // their number

	// Of parts of rows:
	acc   unsafe.Pointer // sums of the first row, 4 vectors a row
	after int            // bytes from the last row to what is read after it
}

// rowsPerCall returns how many rows of k elements are multiplied with T tokens
// in one call, so that the time inside assembly, where nothing can interrupt a
// goroutine, stays near 100 µs.
func rowsPerCall(k, T int) int { return max(1, min(64, 2<<20/(k*T))) }

// Rows of at least partsLeast elements are multiplied with one token in parts of
// about partElems, partRows rows at a time: a whole row's activations leave no
// room for weights in a first-level cache of 32 KB and would come from the second
// one for each row anew.
const (
	partsLeast = 6144
	partElems  = 4096
	partRows   = 16
)

// mulRows is Mul with the row kernels of plain types. Each chunk of rows is
// multiplied with all tokens before the next one.
func mulRows(y []float32, ldy int, w *Mat, x []byte, ldx int, T, lo, hi int) {
	if T == 1 && w.K >= partsLeast {
		mulParts(y, w, x, lo, hi)
		return
	}
	rb, most := w.rowBytes(), gemvMost(w.Type)
	a := gemvArgs{stride: rb, steps: w.K / 64, ldx: ldx, ldy: 4 * ldy, tail: w.K % 64}
	a.mask[0] = lowBits(a.tail)
	chunk := rowsPerCall(w.K, min(T, most))
	for n, rows := lo, 0; n < hi; n += rows {
		rows = min(chunk, hi-n)
		a.rows = rows
		a.w = ptr(w.Data, n*rb)
		for t := 0; t < T; {
			// Equal groups, so that no small one is left over.
			calls := (T - t + most - 1) / most
			group := (T - t + calls - 1) / calls
			a.x, a.y = ptr(x, t*ldx), ptr(y, t*ldy+n)
			gemvChunk(w.Type, group, &a)
			t += group
		}
	}
}

// mulParts is mulRows for one token and long rows. The order of additions is that
// of whole rows.
func mulParts(y []float32, w *Mat, x []byte, lo, hi int) {
	var acc [partRows * 4 * 16]float32
	rb, steps := w.rowBytes(), w.K/64
	parts := (w.K + partElems/2) / partElems
	size := w.Type.RowBytes(64)
	for n := lo; n < hi; n += partRows {
		a := gemvArgs{stride: rb, rows: min(partRows, hi-n), acc: unsafe.Pointer(&acc)}
		clear(acc[:])
		for p := range parts {
			from, to := steps*p/parts, steps*(p+1)/parts
			a.w, a.x, a.steps = ptr(w.Data, n*rb+from*size), ptr(x, from*256), to-from
			a.after = to*size - from*size - (a.rows-1)*rb
			if p == parts-1 {
				a.after = rb - from*size
				a.tail, a.y = w.K%64, ptr(y, n)
				a.mask[0] = lowBits(a.tail)
			}
			partsChunk(w.Type, &a)
		}
	}
}

// lowBits returns a word with the n lowest bits set, for any n.
func lowBits(n int) uint64 {
	switch {
	case n <= 0:
		return 0
	case n >= 64:
		return ^uint64(0)
	}
	return 1<<n - 1
}
