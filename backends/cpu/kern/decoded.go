//go:build (amd64 || arm64) && gc && !noasm

package kern

import (
	"unsafe"

	"graphrun/graph"
)

// Where weights are not multiplied as they lie in the file, a few rows are
// first decoded in the first-level cache. A decoded row of blocks of 32 has
//
//	q [K] int8, d [blocks] f32, m [blocks] f32 (formats with minima)
//
// and empty blocks before the first where their number is no multiple of four.
// A decoded row of superblocks has
//
//	q [K] int8, sc [K/16] int16, mn [K/16] int16 (with minima), then d and dmin of each superblock, f32
//
// Activations stay as they are, except that tokens get the same empty blocks.
// What multiplies whole blocks lies aside, for a set of up to four tokens
// together: for each four blocks of 32 their scales by token, then for formats
// with minima their sums of x, as f32; for superblocks the scales of four tokens, for formats with minima the 16 sums of
// each of the tokens behind them, int16.

// decodedRows is the number of rows that are decoded before they are
// multiplied with all tokens, so that tokens stay in the first-level cache
// meanwhile.
const decodedRows = 16

// rowArgs is what the decoding kernels take. The generators know the offsets.
type rowArgs struct {
	src, q, scales, mins, d unsafe.Pointer
	blocks                  int
	//lint:ignore U1000 only arm64 decodes to f32 this way
	exact int // not 0: subnormal scales stay
}

// dotArgs is what the kernels for decoded rows take. The generators know the
// offsets.
type dotArgs struct {
	q      unsafe.Pointer // first row
	scales unsafe.Pointer // d or sc
	mins   unsafe.Pointer // m or mn
	d      unsafe.Pointer // of superblocks
	x      unsafe.Pointer // first token
	ldx    int            // bytes from token to token
	side   unsafe.Pointer
	y      unsafe.Pointer
	ldy    int // bytes from token to token
	blocks int // fours of blocks, or superblocks
	rows   int
	ldrow  int // bytes from row to row
}

// layout says where the parts of decoded rows and tokens lie.
type layout struct {
	f            *format
	blocks       int // without empty ones
	lacks        int // empty blocks of 32
	groups       int // fours of blocks, or superblocks
	scales, mins int
	d, row       int
	token        int // bytes of a token's copy; 0 if it stays in place
}

func layoutOf(w *Mat) (l layout) {
	l.f = &formats[w.Type]
	l.blocks = w.K / w.Type.BlockElems()
	if l.f.act == graph.Q8 {
		l.groups = (l.blocks + 3) / 4
		l.lacks = 4*l.groups - l.blocks
		l.scales = 128 * l.groups
		l.mins = l.scales + 16*l.groups
		l.row = l.mins
		if l.f.min {
			l.row += 16 * l.groups
		}
		if l.lacks > 0 {
			l.token = 128 * l.groups
		}
	} else {
		l.groups = l.blocks
		l.scales = w.K
		l.mins = l.scales + w.K/8
		l.d = l.mins
		if l.f.min {
			l.d += w.K / 8
		}
		l.row = l.d + 8*l.blocks
	}
	l.row = (l.row + 63) &^ 63
	return l
}

// sideBytes is the size of what lies aside for a set of n tokens.
func (l *layout) sideBytes(n int) int {
	switch {
	case l.f.act == graph.Q8 && l.f.min:
		return 32 * l.groups * n
	case l.f.act == graph.Q8:
		return 16 * l.groups * n
	case l.f.min:
		return (16 + 32*n) * l.groups
	}
	return 16 * l.groups
}

// tokensBytes is the size of the copies of T tokens and of what lies aside for
// them, in sets of up to four.
func (l *layout) tokensBytes(T int) int {
	return T*l.token + T/4*l.sideBytes(4) + l.sideBytes(T%4) + l.sideBytes(3)
}

// arrange copies T tokens where they need empty blocks, and puts aside what
// sets of up to four need. It returns the tokens with their distance and the
// first set.
func (l *layout) arrange(mem, x []byte, ldx, T, k int) (tokens []byte, ld int, side []byte) {
	side = mem[T*l.token:]
	at := side
	for t := 0; t < T; {
		n := groupOf4(T - t)
		l.putAside(at, x[t*ldx:], ldx, n, k)
		at = at[l.sideBytes(n):]
		t += n
	}
	if l.token == 0 {
		return x, ldx, side
	}
	for t := range T {
		c := mem[t*l.token : (t+1)*l.token]
		clear(c[:32*l.lacks])
		copy(c[32*l.lacks:], x[t*ldx:t*ldx+k])
	}
	return mem, l.token, side
}

// putAside writes what lies aside for a set of n tokens.
func (l *layout) putAside(dst, x []byte, ldx, n, k int) {
	if l.f.act == graph.Q8 {
		size := 16
		if l.f.min {
			size = 32
		}
		for t := range n {
			xt := x[t*ldx+k:][:8*l.blocks]
			if l.lacks > 0 {
				clear(dst[16*t : 16*t+16])
				if l.f.min {
					clear(dst[16*(n+t) : 16*(n+t)+16])
				}
			}
			for b := range l.blocks {
				i := b + l.lacks
				p := dst[i/4*n*size+16*t+i%4*4:]
				copy(p[:4], xt[4*b:4*b+4])
				if l.f.min {
					putF32(p, 16*n, float32(i32at(xt, 4*(l.blocks+b))))
				}
			}
		}
		return
	}
	size := l.sideBytes(n) / max(l.groups, 1)
	for b := range l.blocks {
		p := dst[b*size : (b+1)*size]
		clear(p[:16])
		for t := range n {
			xt := x[t*ldx+k:]
			copy(p[4*t:4*t+4], xt[4*b:4*b+4])
			if l.f.min {
				copy(p[16+32*t:48+32*t], xt[4*l.blocks+32*b:])
			}
		}
	}
}

// groupOf4 returns the size of the next set of at most four of n tokens; sets
// are of equal size, so that no small one is left over.
func groupOf4(n int) int {
	sets := (n + 3) / 4
	return (n + sets - 1) / sets
}

func scratchDecoded(w *Mat, T int) int {
	l := layoutOf(w)
	return decodedRows*l.row + l.tokensBytes(T)
}

// mulDecoded is Mul for quantized types by decoded rows.
func mulDecoded(y []float32, ldy int, w *Mat, x []byte, ldx int, T, lo, hi int, scratch []byte) {
	l := layoutOf(w)
	x, ldx, side := l.arrange(scratch[decodedRows*l.row:], x, ldx, T, w.K)
	for r := range min(decodedRows, hi-lo) {
		l.clearEmpty(scratch[r*l.row:])
	}
	rb := w.rowBytes()
	a := dotArgs{
		q: ptr(scratch, 0), scales: ptr(scratch, l.scales), d: ptr(scratch, l.d), ldx: ldx, ldy: 4 * ldy, blocks: l.groups, ldrow: l.row,
	}
	if l.f.min {
		a.mins = ptr(scratch, l.mins)
	}
	for n := lo; n < hi; n += decodedRows {
		a.rows = min(decodedRows, hi-n)
		for r := range a.rows {
			l.decodeRow(w.Type, scratch[r*l.row:], w.Data[(n+r)*rb:(n+r+1)*rb])
		}
		at := side
		for t := 0; t < T; {
			size := groupOf4(T - t)
			a.x, a.side, a.y = ptr(x, t*ldx), ptr(at, 0), ptr(y, t*ldy+n)
			dotChunk(l.f, size, &a)
			at = at[l.sideBytes(size):]
			t += size
		}
	}
}

// clearEmpty clears the empty blocks of a decoded row.
func (l *layout) clearEmpty(row []byte) {
	clear(row[:32*l.lacks])
	clear(row[l.scales : l.scales+4*l.lacks])
	if l.f.min && l.lacks > 0 {
		clear(row[l.mins : l.mins+4*l.lacks])
	}
}

// decodeRow decodes a row behind its empty blocks.
func (l *layout) decodeRow(t graph.DType, dst, row []byte) {
	a := rowArgs{src: ptr(row, 0), q: ptr(dst, 32*l.lacks), scales: ptr(dst, l.scales+4*l.lacks), blocks: l.blocks}
	a.mins = a.scales // not used without minima
	if l.f.min {
		a.mins = ptr(dst, l.mins+4*l.lacks)
	}
	if l.f.act == graph.Q8K {
		a.d = ptr(dst, l.d)
	}
	if !decodeBlocks(t, &a) {
		l.decodeRowGeneric(t, dst, row)
	}
}

// decodeRowGeneric is the specification of the decoding kernels.
func (l *layout) decodeRowGeneric(t graph.DType, dst, row []byte) {
	size := t.BlockBytes()
	if l.f.act == graph.Q8 {
		var b block32
		for i := range l.blocks {
			decode32(t, &b, row[i*size:])
			i += l.lacks
			for j, q := range b.q {
				dst[32*i+j] = byte(q)
			}
			putF32(dst, l.scales+4*i, normal(b.d))
			if l.f.min {
				putF32(dst, l.mins+4*i, b.m)
			}
		}
		return
	}
	var b block256
	for i := range l.blocks {
		decode256(t, &b, row[i*size:])
		for j, q := range b.q {
			dst[256*i+j] = byte(q)
		}
		for j := range 16 {
			putI16(dst, l.scales+32*i+2*j, int16(b.sc[j]))
			if l.f.min {
				putI16(dst, l.mins+32*i+2*j, int16(b.mn[j]))
			}
		}
		putF32(dst, l.d+8*i, b.d)
		putF32(dst, l.d+8*i+4, b.dmin)
	}
}

func putI16(p []byte, i int, v int16) { p[i], p[i+1] = byte(v), byte(v>>8) }

func ptr[T any](s []T, i int) unsafe.Pointer { return unsafe.Pointer(&s[i]) }
