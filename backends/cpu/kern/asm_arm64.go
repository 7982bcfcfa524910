//go:build arm64 && gc && !noasm

package kern

import (
	"math"
	"unsafe"

	"graphrun/graph"
)

const haveAsm = true

func mul(y []float32, ldy int, w *Mat, x []byte, ldx int, T, lo, hi int, scratch []byte) {
	switch {
	case !features.neon:
		mulGeneric(y, ldy, w, x, ldx, T, lo, hi)
	case formats[w.Type].act == graph.F32:
		mulFloatNEON(y, ldy, w, x, ldx, T, lo, hi)
	case !features.dot:
		mulDecoded(y, ldy, w, x, ldx, T, lo, hi, scratch)
	case T >= panelFrom():
		mulTiles(y, ldy, w, x, ldx, T, lo, hi, scratch)
	case T == 1:
		mulFused(y, ldy, w, x, lo, hi, scratch)
	default:
		mulDecoded(y, ldy, w, x, ldx, T, lo, hi, scratch)
	}
}

// panelFrom returns the number of tokens from which on panels are used: where
// fours of tokens are full enough to pay for joining rows.
func panelFrom() int {
	switch forced {
	case wayPanels:
		return 1
	case wayRows:
		return math.MaxInt
	}
	return 8
}

func scratchBytes(w *Mat, T int) int {
	if !features.neon || formats[w.Type].act == graph.F32 {
		return 0
	}
	need := max(scratchDecoded(w, T), scratchFused(w))
	if features.dot && T >= panelFrom() {
		need = max(need, scratchTiles(w, T))
	}
	return need
}

func grain(w *Mat, T int) int {
	switch {
	case !features.neon:
		return 1
	case T == 1:
		return 4
	}
	return decodedRows
}

// fusedArgs is what the kernels for one token take that decode weights in
// registers. The generator knows the offsets.
type fusedArgs struct {
	w      unsafe.Pointer // first row
	stride int            // bytes from row to row
	rows   int
	groups int // fours of blocks, or superblocks
	lacks  int // blocks that the first four lack
	bias   int // their bytes
	x      unsafe.Pointer
	dx     unsafe.Pointer // f32 by block, empty blocks included
	sums   unsafe.Pointer // f32 by block, empty ones included; superblocks: int16 by group
	y      unsafe.Pointer
}

func scratchFused(w *Mat) int { return 32 * layoutOf(w).groups }

// mulFused is Mul for one token: rows are decoded in registers.
func mulFused(y []float32, ldy int, w *Mat, x []byte, lo, hi int, scratch []byte) {
	l, rb := layoutOf(w), w.rowBytes()
	a := fusedArgs{stride: rb, groups: l.groups, lacks: l.lacks, bias: l.lacks * w.Type.BlockBytes(), x: ptr(x, 0), dx: ptr(x, w.K)}
	if l.f.act == graph.Q8 {
		if l.lacks > 0 || l.f.min {
			a.dx, a.sums = ptr(scratch, 0), ptr(scratch, 16*l.groups)
			clear(scratch[:4*l.lacks])
			copy(scratch[4*l.lacks:], x[w.K:w.K+4*l.blocks])
		}
		if l.f.min {
			sums := scratch[16*l.groups:]
			clear(sums[:4*l.lacks])
			for b := range l.blocks {
				putF32(sums, 4*(l.lacks+b), float32(i32at(x, w.K+4*(l.blocks+b))))
			}
		}
	} else {
		a.sums = ptr(x, w.K+4*l.blocks)
	}
	chunk := rowsPerCall(w.K, 1)
	for n := lo; n < hi; n += chunk {
		a.rows = min(chunk, hi-n)
		a.w, a.y = ptr(w.Data, n*rb), ptr(y, n)
		fusedChunk(w.Type, &a)
	}
}

// rowsPerCall returns how many rows of k elements are multiplied with T tokens
// in one call, so that the time inside assembly, where nothing can interrupt a
// goroutine, stays near 100 µs.
func rowsPerCall(k, T int) int { return max(1, min(64, 1<<20/(k*T))) }

// floatArgs is what the kernels of plain types take. The generator knows the
// offsets.
type floatArgs struct {
	w            unsafe.Pointer
	stride, rows int
	x            unsafe.Pointer
	ldx          int
	y            unsafe.Pointer
	ldy          int
	steps        int // of 8 elements
}

// mulFloatNEON multiplies plain rows. What is left of a row after steps of 8
// elements is added in plain code.
func mulFloatNEON(y []float32, ldy int, w *Mat, x []byte, ldx int, T, lo, hi int) {
	rb := w.rowBytes()
	a := floatArgs{stride: rb, ldx: ldx, ldy: 4 * ldy, steps: w.K / 8}
	whole := a.steps * 8
	chunk := rowsPerCall(w.K, min(T, 4))
	if T > 4 {
		chunk = min(chunk, decodedRows)
	}
	for n := lo; n < hi; n += chunk {
		a.rows = min(chunk, hi-n)
		for t := 0; t < T; {
			size := groupOf4(T - t)
			if a.steps > 0 {
				a.w, a.x, a.y = ptr(w.Data, n*rb), ptr(x, t*ldx), ptr(y, t*ldy+n)
				floatChunk(w.Type, size, &a)
			}
			for r := n; whole < w.K && r < n+a.rows; r++ {
				row := w.Data[r*rb : (r+1)*rb]
				for i := t; i < t+size; i++ {
					s := float32(0)
					for k := whole; k < w.K; k++ {
						s += elem(w.Type, row, k) * f32at(x, i*ldx+4*k)
					}
					if a.steps > 0 {
						s += y[i*ldy+r]
					}
					y[i*ldy+r] = s
				}
			}
			t += size
		}
	}
}

// quantArgs is what the quantizing kernels take.
type quantArgs struct {
	x, q, scales, sums unsafe.Pointer
	blocks             int
}

func quantizeRow(p *actParts, x []float32) {
	blocks := len(x) / p.t.BlockElems()
	if !features.neon || blocks == 0 {
		quantizeRowGeneric(p, x)
		return
	}
	var a quantArgs // written where it stays, as vecArgs are
	a.x, a.q, a.scales, a.sums, a.blocks = ptr(x, 0), ptr(p.q, 0), ptr(p.scales, 0), ptr(p.sums, 0), blocks
	if p.t == graph.Q8 {
		quantizeQ8NEON(&a)
	} else {
		quantizeQ8KNEON(&a)
	}
}

// expandArgs is what the kernels take that write f32.
type expandArgs struct {
	q, scales, mins, d, dst unsafe.Pointer
	n                       int // blocks, or steps of 8 elements of plain types
}

// dequantPiece is the number of elements that are decoded at a time.
const dequantPiece = 512

func dequantRow(t graph.DType, dst []float32, src []byte) {
	f := &formats[t]
	switch {
	case !features.neon || len(dst) == 0:
		dequantRowGeneric(t, dst, src)
	case t == graph.F32:
		copy(unsafe.Slice((*byte)(ptr(dst, 0)), 4*len(dst)), src)
	case f.act == graph.F32:
		n := len(dst) / 8
		if n > 0 {
			a := expandArgs{q: ptr(src, 0), dst: ptr(dst, 0), n: n}
			if t == graph.F16 {
				expandF16NEON(&a)
			} else {
				expandBF16NEON(&a)
			}
		}
		dequantRowGeneric(t, dst[8*n:], src[16*n:])
	default:
		var (
			q          [dequantPiece]int8
			scales, mn [dequantPiece / 16 * 2]byte // as f32 by 32, or int16 by 16
			d          [dequantPiece / 256 * 8]byte
		)
		for len(dst) > 0 {
			n := min(len(dst), dequantPiece)
			blocks := n / t.BlockElems()
			u := rowArgs{src: ptr(src, 0), q: ptr(q[:], 0), scales: ptr(scales[:], 0), mins: ptr(mn[:], 0), d: ptr(d[:], 0), blocks: blocks, exact: 1}
			decodeBlocks(t, &u)
			a := expandArgs{q: u.q, scales: u.scales, mins: u.mins, d: u.d, dst: ptr(dst, 0), n: blocks}
			switch {
			case f.act == graph.Q8K:
				expand256NEON(&a)
			case f.min:
				expand32MinNEON(&a)
			default:
				expand32NEON(&a)
			}
			dst, src = dst[n:], src[blocks*t.BlockBytes():]
		}
	}
}
