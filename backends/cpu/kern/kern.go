package kern

import (
	"sync"

	"graphrun/graph"
)

// Mat is a weight matrix as it lies in the file: N rows of K elements, row n
// at Data[n*Type.RowBytes(K):]. K is a multiple of Type.BlockElems(). Data
// needs no alignment.
type Mat struct {
	Type graph.DType
	Data []byte
	N, K int
	// Uniform makes products of F32, F16 and BF16 independent of the number of
	// tokens, bit for bit, as those of quantized types always are: panels serve
	// one token as well as many. Products of one token are then about half as
	// fast.
	Uniform bool
}

func (w *Mat) rowBytes() int { return w.Type.RowBytes(w.K) }

// Supported reports whether t can be the type of a weight matrix.
func Supported(t graph.DType) bool { return int(t) < len(formats) && formats[t].act != graph.Invalid }

// ActType returns the activation type that products with a weight type take:
// F32 for F32, F16 and BF16; Q8 for the formats with blocks of 32; Q8K for
// those with blocks of 256. It panics if w is no weight type.
func ActType(w graph.DType) graph.DType {
	if !Supported(w) {
		panic("kern: not a weight type: " + w.String())
	}
	return formats[w].act
}

// Mul computes rows lo ≤ n < hi of a product for T tokens.
//
//	y[t*ldy+n] = Σ_k w[n,k]·x[t,k]
//
// x holds T activation rows of ActType(w.Type), ldx bytes apart; an F32 row is
// little-endian floats. scratch is at least ScratchBytes(w, T) bytes of memory
// that no other call uses at the same time; it should start at a multiple of
// 64. y must not overlap the inputs; no slice needs alignment. Rows outside
// [lo,hi) and tokens beyond T are not written.
//
// For quantized types the result is defined to the bit, the same for every T
// every split of rows and every instruction set. Integer sums are exact; every
// conversion, product and sum of a value v is rounded to f32, and no fused
// operations are used. For block b of a row of B blocks
//
//	Q8:   v[b] = dx[b]·((d·Σ q·x) + (m·Σ x))
//	Q8K:  v[b] = dx[b]·((d·Σ_j sc[j]·Σ q·x) − (dmin·Σ_j mn[j]·Σ x))
//
// where dx, x and Σ x are what QuantizeRow stores, d, m, q, sc, mn and dmin what
// the format's block holds; formats without minima have no second term, and a
// subnormal d counts as 0. The sums of a superblock stay below 2³¹ whatever it
// holds. Values are added in ascending order, starting with 0: for Q8K to y, for
// Q8 to four partial sums, b to number (b−B) mod 4, and y = ((p0+p1)+p2)+p3.
//
// Products of F32, F16 and BF16 depend on the instruction set and on whether T
// reaches the number from which on panels are used, by a few units of the last
// place of Σ |w·x|; apart from that they depend neither on T nor on the split.
//
// A non-finite activation or scale gives a non-finite result.
func Mul(y []float32, ldy int, w *Mat, x []byte, ldx int, T, lo, hi int, scratch []byte) {
	if lo < 0 || hi > w.N || lo > hi {
		panic("kern: row range outside the matrix")
	}
	if T == 0 || lo == hi {
		return
	}
	rb := w.rowBytes()
	if len(w.Data) < w.N*rb {
		panic("kern: weight data too short")
	}
	if len(y) < (T-1)*ldy+hi {
		panic("kern: y too short")
	}
	if len(x) < (T-1)*ldx+ActType(w.Type).RowBytes(w.K) {
		panic("kern: x too short")
	}
	if w.K == 0 {
		for t := range T {
			clear(y[t*ldy+lo : t*ldy+hi])
		}
		return
	}
	if len(scratch) < ScratchBytes(w, T) {
		panic("kern: scratch too short")
	}
	mul(y, ldy, w, x, ldx, T, lo, hi, scratch)
}

// ScratchBytes returns the bytes of scratch memory Mul needs for up to T
// tokens. It does not shrink when T grows.
func ScratchBytes(w *Mat, T int) int { return scratchBytes(w, T) }

// Grain returns the number of rows whose multiples make good values of lo and
// hi for Mul: a whole panel for many tokens, a few rows for one. It concerns
// speed only; results do not depend on the split.
func Grain(w *Mat, T int) int { return grain(w, T) }

var dotScratch = sync.Pool{New: func() any { return new([]byte) }}

// DotRow returns Σ_k w[n,k]·x[k] for one activation row x of
// ActType(w.Type). It is Mul for one token and one row.
func DotRow(w *Mat, n int, x []byte) float32 {
	s := dotScratch.Get().(*[]byte)
	if need := ScratchBytes(w, 1); len(*s) < need {
		*s = make([]byte, need)
	}
	var y [1]float32
	row := Mat{Type: w.Type, Data: w.Data[n*w.rowBytes():], N: 1, K: w.K}
	Mul(y[:], 1, &row, x, len(x), 1, 0, 1, *s)
	dotScratch.Put(s)
	return y[0]
}

// DequantRow writes the len(dst) elements of a row of type t as f32, with
// exactly the roundings of the format's definition. len(dst) must be a
// multiple of t.BlockElems().
func DequantRow(t graph.DType, dst []float32, src []byte) {
	if !Supported(t) {
		panic("kern: not a weight type: " + t.String())
	}
	if len(dst)%t.BlockElems() != 0 {
		panic("kern: dst is not whole blocks")
	}
	if len(src) < t.RowBytes(len(dst)) {
		panic("kern: src too short")
	}
	dequantRow(t, dst, src)
}
