//go:build amd64 && gc && !noasm

package kern

import "unsafe"

// gemvArgs is what the row kernels of plain types take. The generator knows
// the offsets.
type gemvArgs struct {
	w      unsafe.Pointer // first row
	stride int            // bytes from row to row
	rows   int            // at least 1; of pairs, their number
	steps  int            // whole steps of 64 elements of a row
	x      unsafe.Pointer // first token's activations
	ldx    int            // bytes from token to token
	y      unsafe.Pointer // first token's result for the first row
	ldy    int            // bytes from token to token
	mask   [3]uint64      // elements beyond the whole steps; only the first word is used
	tail   int            // their number
}

// rowsPerCall returns how many rows of k elements are multiplied with T tokens
// in one call, so that the time inside assembly, where nothing can interrupt a
// goroutine, stays near 100 µs.
func rowsPerCall(k, T int) int { return max(1, min(64, 2<<20/(k*T))) }

// pairsLeast is the bytes of a token from which on pairs of rows are multiplied
// with it: it leaves no room for weights in a first-level cache of 32 KB, and is
// read half as often.
const pairsLeast = 24 << 10

// mulRows is Mul with the row kernels of plain types. Each chunk of rows is
// multiplied with all tokens before the next one.
func mulRows(y []float32, ldy int, w *Mat, x []byte, ldx int, T, lo, hi int) {
	rb, most := w.rowBytes(), gemvMost(w.Type)
	a := gemvArgs{stride: rb, steps: w.K / 64, ldx: ldx, ldy: 4 * ldy, tail: w.K % 64}
	a.mask[0] = lowBits(a.tail)
	chunk := rowsPerCall(w.K, min(T, most))
	for n, rows := lo, 0; n < hi; n += rows {
		rows = min(chunk, hi-n)
		a.rows = rows
		a.w = ptr(w.Data, n*rb)
		if pairs := rows / 2; pairs > 0 && T == 1 && 4*w.K >= pairsLeast {
			a.x, a.y, a.rows = ptr(x, 0), ptr(y, n), pairs
			pairsChunk(w.Type, &a)
			rows = 2 * pairs // an odd one is left for the next time
			continue
		}
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
