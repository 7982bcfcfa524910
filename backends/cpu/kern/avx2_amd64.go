//go:build amd64 && gc && !noasm

package kern

import (
	"unsafe"

	"graphrun/graph"
)

// dotArgs is what the AVX2 row kernels take. The generator knows the offsets.
type dotArgs struct {
	q      unsafe.Pointer // decoded or plain row
	scales unsafe.Pointer // f32 per 16 elements
	x      unsafe.Pointer
	ldx    int
	dx     unsafe.Pointer // f32 per 32 elements
	lddx   int
	y      unsafe.Pointer
	ldy    int
	blocks int // of 32 elements, or 16 of plain types
}

// rowArgs is what the AVX2 decoding kernels take.
type rowArgs struct {
	src, q, scales, mins unsafe.Pointer
	blocks               int
}

// decodedRows is the number of rows that are decoded before they are
// multiplied with all tokens, so that four tokens stay in the first-level
// cache meanwhile.
const decodedRows = 16

// rowLayout says how decoded rows and prepared tokens lie in scratch memory:
// rows of q int8, then f32 scales per 16 elements, then f32 minima; tokens of
// f32 dx per 32 elements (Q8K only), then dx·Σ per group (with minima only).
type rowLayout struct {
	groups              int // minima per row, padded to whole steps of 16
	scales, mins, row   int // offsets and size of a decoded row
	tokenSums, tokenAll int // offset and size of a token
}

func layoutAVX2(w *Mat) (l rowLayout) {
	f := &formats[w.Type]
	if f.act == graph.F32 {
		return l
	}
	l.scales = w.K
	l.mins = l.scales + w.K/4
	l.row = l.mins
	if f.act == graph.Q8K {
		l.tokenSums = w.K / 8
	}
	l.tokenAll = l.tokenSums
	if f.min {
		l.groups = w.K / 32
		if f.act == graph.Q8K {
			l.groups = w.K / 16
		}
		l.groups = (l.groups + 15) &^ 15
		l.row += 4 * l.groups
		l.tokenAll += 4 * l.groups
	}
	return l
}

func scratchAVX2(w *Mat, T int) int {
	l := layoutAVX2(w)
	return decodedRows*l.row + T*l.tokenAll
}

// mulAVX2 is Mul for processors without AVX-512.
func mulAVX2(y []float32, ldy int, w *Mat, x []byte, ldx int, T, lo, hi int, scratch []byte) {
	f := &formats[w.Type]
	if f.act == graph.F32 {
		mulFloatAVX2(y, ldy, w, x, ldx, T, lo, hi)
		return
	}
	l := layoutAVX2(w)
	tokens := scratch[decodedRows*l.row:]
	for t := range T {
		prepareAVX2(f, l, tokens[t*l.tokenAll:], x[t*ldx:], w.K)
	}
	rb := w.rowBytes()
	a := dotArgs{ldx: ldx, lddx: ldx, ldy: 4 * ldy, blocks: w.K / 32}
	if f.act == graph.Q8K {
		a.lddx = l.tokenAll
	}
	for n := lo; n < hi; n += decodedRows {
		rows := min(decodedRows, hi-n)
		for r := range rows {
			decodeRow(w.Type, f, l, scratch[r*l.row:(r+1)*l.row], w.Data[(n+r)*rb:(n+r+1)*rb])
		}
		for t := 0; t < T; {
			size := groupOf4(T - t)
			for r := range rows {
				row := scratch[r*l.row:]
				a.q, a.scales, a.x, a.y = ptr(row, 0), ptr(row, l.scales), ptr(x, t*ldx), ptr(y, t*ldy+n+r)
				if f.act == graph.Q8K {
					a.dx = ptr(tokens, t*l.tokenAll)
				} else {
					a.dx = ptr(x, t*ldx+w.K)
				}
				dotChunk(size, &a)
				if f.min {
					addMins(l, row[l.mins:], tokens[t*l.tokenAll+l.tokenSums:], size, y[t*ldy+n+r:], ldy)
				}
			}
			t += size
		}
	}
}

// groupOf4 returns the size of the next group of at most four of n tokens;
// groups are of equal size, so that no small one is left over.
func groupOf4(n int) int {
	calls := (n + 3) / 4
	return (n + calls - 1) / calls
}

// addMins adds Σ_g m[g]·sums[t][g] for a few tokens.
func addMins(l rowLayout, mins, sums []byte, T int, y []float32, ldy int) {
	var v [4]float32
	a := dotArgs{q: ptr(mins, 0), x: ptr(sums, 0), ldx: l.tokenAll, y: ptr(v[:], 0), ldy: 4, blocks: l.groups / 16}
	floatChunk(graph.F32, T, &a)
	for t := range T {
		y[t*ldy] += v[t]
	}
}

// prepareAVX2 writes what the row kernels need beside an activation row.
func prepareAVX2(f *format, l rowLayout, dst, x []byte, k int) {
	if f.act == graph.Q8K {
		for b := range k / 32 {
			putF32(dst, 4*b, f32at(x, k+b/8*4))
		}
	}
	if !f.min {
		return
	}
	dst = dst[l.tokenSums : l.tokenSums+4*l.groups]
	clear(dst)
	if f.act == graph.Q8 {
		for b := range k / 32 {
			putF32(dst, 4*b, f32at(x, k+4*b)*float32(i32at(x, k+k/8+4*b)))
		}
		return
	}
	for g := range k / 16 {
		putF32(dst, 4*g, f32at(x, k+g/16*4)*float32(i16at(x, k+k/64+2*g)))
	}
}

// decodeRow decodes a row to int8 numbers, f32 scales per 16 elements and, for
// formats with minima, f32 minima per group (16 or 32) that are to be added.
func decodeRow(t graph.DType, f *format, l rowLayout, dst, row []byte) {
	size := t.BlockBytes()
	nb := len(row) / size
	a := rowArgs{src: ptr(row, 0), q: ptr(dst, 0), scales: ptr(dst, l.scales), blocks: nb}
	if f.min {
		clear(dst[l.mins:])
		a.mins = ptr(dst, l.mins)
	} else {
		a.mins = a.scales
	}
	switch t {
	case graph.Q8_0:
		decodeQ8_0AVX2(&a)
		return
	case graph.Q4_0:
		decodeQ4_0AVX2(&a)
		return
	case graph.Q4_1:
		decodeQ4_1AVX2(&a)
		return
	case graph.Q5_0:
		decodeQ5_0AVX2(&a)
		return
	case graph.Q5_1:
		decodeQ5_1AVX2(&a)
		return
	case graph.IQ4_NL:
		decodeIQ4_NLAVX2(&a)
		return
	case graph.MXFP4:
		decodeMXFP4AVX2(&a)
		return
	case graph.Q2_K:
		decodeQ2_KAVX2(&a)
		return
	case graph.Q3_K:
		decodeQ3_KAVX2(&a)
		return
	case graph.Q4_K:
		decodeQ4_KAVX2(&a)
		return
	case graph.Q5_K:
		decodeQ5_KAVX2(&a)
		return
	case graph.Q6_K:
		decodeQ6_KAVX2(&a)
		return
	case graph.IQ4_XS:
		decodeIQ4_XSAVX2(&a)
		return
	case graph.TQ2_0:
		decodeTQ2_0AVX2(&a)
		return
	}
	if f.act == graph.Q8 {
		var b block32
		for i := range nb {
			decode32(t, &b, row[i*size:])
			copy(dst[32*i:], unsafe.Slice((*byte)(ptr(b.q[:], 0)), 32))
			putF32(dst, l.scales+8*i, b.d)
			putF32(dst, l.scales+8*i+4, b.d)
			if f.min {
				putF32(dst, l.mins+4*i, b.m)
			}
		}
		return
	}
	var b block256
	for i := range nb {
		decode256(t, &b, row[i*size:])
		copy(dst[256*i:], unsafe.Slice((*byte)(ptr(b.q[:], 0)), 256))
		for j := range 16 {
			putF32(dst, l.scales+64*i+4*j, b.d*float32(b.sc[j]))
			if f.min {
				putF32(dst, l.mins+64*i+4*j, -b.dmin*float32(b.mn[j]))
			}
		}
	}
}

// mulFloatAVX2 multiplies plain rows, a few tokens at a time. What is left of
// a row after steps of 16 elements is added in plain code.
func mulFloatAVX2(y []float32, ldy int, w *Mat, x []byte, ldx int, T, lo, hi int) {
	rb := w.rowBytes()
	a := dotArgs{ldx: ldx, ldy: 4 * ldy, blocks: w.K / 16}
	whole := a.blocks * 16
	for n0 := lo; n0 < hi; n0 += decodedRows {
		for t := 0; t < T; {
			size := groupOf4(T - t)
			for n := n0; n < min(n0+decodedRows, hi); n++ {
				row := w.Data[n*rb : (n+1)*rb]
				if a.blocks > 0 {
					a.q, a.x, a.y = ptr(row, 0), ptr(x, t*ldx), ptr(y, t*ldy+n)
					floatChunk(w.Type, size, &a)
				}
				for i := t; whole < w.K && i < t+size; i++ {
					s := float32(0)
					for k := whole; k < w.K; k++ {
						s += elem(w.Type, row, k) * f32at(x, i*ldx+4*k)
					}
					if a.blocks > 0 {
						s += y[i*ldy+n]
					}
					y[i*ldy+n] = s
				}
			}
			t += size
		}
	}
}

// dotChunk calls the kernel for decoded rows and 1 to 4 tokens.
//
//go:noinline
func dotChunk(T int, a *dotArgs) {
	switch T {
	case 1:
		dotT1AVX2(a)
	case 2:
		dotT2AVX2(a)
	case 3:
		dotT3AVX2(a)
	case 4:
		dotT4AVX2(a)
	}
}

// floatChunk calls the kernel for a plain type and 1 to 4 tokens.
//
//go:noinline
func floatChunk(w graph.DType, T int, a *dotArgs) {
	switch int(w)<<3 | T {
	case int(graph.F32)<<3 | 1:
		floatF32T1AVX2(a)
	case int(graph.F32)<<3 | 2:
		floatF32T2AVX2(a)
	case int(graph.F32)<<3 | 3:
		floatF32T3AVX2(a)
	case int(graph.F32)<<3 | 4:
		floatF32T4AVX2(a)
	case int(graph.F16)<<3 | 1:
		floatF16T1AVX2(a)
	case int(graph.F16)<<3 | 2:
		floatF16T2AVX2(a)
	case int(graph.F16)<<3 | 3:
		floatF16T3AVX2(a)
	case int(graph.F16)<<3 | 4:
		floatF16T4AVX2(a)
	case int(graph.BF16)<<3 | 1:
		floatBF16T1AVX2(a)
	case int(graph.BF16)<<3 | 2:
		floatBF16T2AVX2(a)
	case int(graph.BF16)<<3 | 3:
		floatBF16T3AVX2(a)
	case int(graph.BF16)<<3 | 4:
		floatBF16T4AVX2(a)
	default:
		panic("kern: no row kernel")
	}
}
