//go:build amd64 && gc && !noasm

package kern

import (
	"unsafe"

	"graphrun/graph"
)

// For a few tokens (limitsOf says how many), 16 weight rows at a time are decoded in the
// first-level cache, a part of each row after the other. The lanes of a vector
// are four rows by four blocks of 32 (of a superblock: by four groups), so sums
// of blocks need no adding across lanes; four bytes of each of four blocks of a
// token are read into the lanes of all rows.
//
// Decoded rows are called quads. They are, for every four blocks of 32
//
//	q [8 steps][16 rows][4 blocks][4], d [16 rows][4 blocks] f32, m likewise if there are minima
//
// and for every superblock, with parts of four groups of 32 or 16
//
//	q [parts][steps][16 rows][4 groups][4], sc [parts][16 rows][4 groups] int32,
//	mn [groups/8][16 rows][8] int16 if there are minima, d, dmin [4][4 rows/4] f32
//
// with unsigned q; d and dmin of superblocks are in the order of rows 0 4 8 12 1 5 …
// A token has the same q as [parts][steps][4 groups][4], then
//
//	corrections int32 of blocks or groups, or sums: f32 of blocks, int16 of groups
//	scales [4 blocks] f32, or one and 12 bytes
//
// Where the number of blocks of 32 is no multiple of four, the first are empty.

// quadLayout has sizes of four blocks, or of a superblock: of 16 decoded rows, and
// what of them comes before numbers of which a row has one; of a token; and of
// the sums of a token.
type quadLayout struct{ w, single, x, total int }

// quadRows is the number of rows that are decoded at a time.
const quadRows = 16

// quadArgs is what the kernels for quads take. The generator knows the offsets.
type quadArgs struct {
	w            unsafe.Pointer // decoded rows
	x            unsafe.Pointer // arranged tokens
	ldx          int            // bytes from token to token
	blocks       int            // fours of blocks, or superblocks
	totals, sums unsafe.Pointer
	ahead        uintptr // what to prefetch meanwhile; need not be readable
	advance      int     // bytes of it for every step
}

// quadStoreArgs is what the kernels take that end a product.
type quadStoreArgs struct {
	totals, y unsafe.Pointer
	ldy       int // bytes from token to token
	tokens    int
	mask      uint64 // rows to write
}

// quadDecodeArgs is what the decoding kernels take.
type quadDecodeArgs struct {
	w       unsafe.Pointer // first row
	stride  int            // bytes from row to row
	rows    int
	dst     unsafe.Pointer
	blocks  int       // fours of blocks, or superblocks
	part    int       // bytes of the blocks that the first four lack
	mask    [4]uint64 // which exist
	ahead   uintptr   // what to prefetch meanwhile; need not be readable
	advance int       // bytes of it for every row of four blocks, or superblock
}

// quadTokenArgs is what the kernels take that arrange a token.
type quadTokenArgs struct {
	x, scales, sums, dst unsafe.Pointer
	blocks               int
	mask                 uint64 // what exists of the first four blocks: dwords, and from bit 32 on scales
	off                  uint64 // factor of the sums
	lacks                int    // blocks that the first four lack
}

// quadKind returns the number of a format's layout.
func quadKind(f *format) int {
	kind := 0
	if f.act == graph.Q8K {
		kind = 64 / f.group
	}
	if f.min {
		kind++
	}
	return kind
}

// quadPart is how much of the first-level cache a decoded part of rows may take.
const quadPart = 20 << 10

// quadPlan is the shape of a product.
type quadPlan struct {
	quadLayout
	kind   int
	groups int // fours of blocks, or superblocks, of a row
	steps  int // of a group
	per    int // groups of a part
	lacks  int // blocks that the first group lacks
}

func planQuads(w *Mat) (p quadPlan) {
	f := &formats[w.Type]
	p.kind = quadKind(f)
	p.quadLayout = quadLayouts[p.kind]
	p.groups = w.K / w.Type.BlockElems()
	p.steps = 16
	if f.act == graph.Q8 {
		p.steps = 8
		p.lacks = -p.groups & 3
		p.groups = (p.groups + 3) / 4
	}
	p.per = max(1, min(p.groups, quadPart/p.w))
	return p
}

// quadSums is the memory for the integer sums of a superblock.
const quadSums = 4 * 4 * 64

func quadScratch(w *Mat, T int) int {
	p := planQuads(w)
	return quadSums + T*p.total + p.per*p.w + T*p.groups*p.x
}

// mulQuads is Mul with quads. Scratch memory has integer sums, the totals of all
// tokens, decoded rows, then arranged tokens.
func mulQuads(y []float32, ldy int, w *Mat, x []byte, ldx int, T, lo, hi int, scratch []byte) {
	p := planQuads(w)
	totals := scratch[quadSums:][:T*p.total]
	decoded := scratch[quadSums+T*p.total:]
	tokens := decoded[p.per*p.w:]
	p.arrange(tokens, w, x, ldx, T)
	rb, bs := w.rowBytes(), w.Type.BlockBytes()
	step := bs // bytes of a group
	d := quadDecodeArgs{stride: rb, dst: ptr(decoded, 0)}
	if formats[w.Type].act == graph.Q8 {
		step *= 4
		if p.lacks > 0 {
			d.mask = quadMasks(w.Type, p.lacks)
		}
	}
	a := quadArgs{w: d.dst, ldx: p.groups * p.x, sums: ptr(scratch, 0)}
	s := quadStoreArgs{totals: ptr(totals, 0), ldy: 4 * ldy, tokens: T}
	// Weights of the next rows are asked for at an even pace: what decoding takes
	// of the time of a group is about 5 of 5+1.5·T.
	d.advance = (step*100/(100+28*T) + 7) &^ 7
	a.advance = (quadRows*(step-d.advance)/(p.steps*((T+3)/4)) + 7) &^ 7
	for n := lo; n < hi; n += quadRows {
		clear(totals)
		rows := min(quadRows, hi-n)
		ahead := uintptr(ptr(w.Data, n*rb)) + uintptr(quadRows*rb)
		for g := 0; g < p.groups; g += p.per {
			d.w, d.part = ptr(w.Data, n*rb), p.lacks*bs
			if g > 0 {
				d.w, d.part = ptr(w.Data, n*rb+g*step-d.part), 0
			}
			d.rows, d.blocks, d.ahead = rows, min(p.per, p.groups-g), ahead
			quadDecode(w.Type, &d)
			ahead += uintptr(d.blocks * d.advance * ((rows + 3) &^ 3))
			a.blocks = d.blocks
			for t, left := 0, T; left > 0; {
				n := groupOf4(left)
				a.x, a.totals = ptr(tokens, t*a.ldx+g*p.x), ptr(totals, t*p.total)
				a.ahead = ahead
				quadMul(p.kind, n, &a)
				ahead += uintptr(d.blocks * a.advance * p.steps)
				t += n
				left -= n
			}
		}
		s.y, s.mask = ptr(y, n), lowBits(rows)
		if p.total == 64 {
			quadStore256AVX512(&s)
		} else {
			quadStore32AVX512(&s)
		}
	}
}

// quadMasks tells what a step of four blocks reads if it lacks the first ones.
func quadMasks(t graph.DType, lacks int) (m [4]uint64) {
	if t != graph.Q8_0 {
		return partMasks(t, lacks)
	}
	for i, from := range [...]int{0, 64, 8, 72} {
		m[i] = ^lowBits(34*lacks - from)
	}
	return m
}

// arrange puts tokens into the order of quads.
func (p *quadPlan) arrange(dst []byte, w *Mat, x []byte, ldx, T int) {
	f := &formats[w.Type]
	nb := w.K / w.Type.BlockElems()
	a := quadTokenArgs{blocks: p.groups, off: uint64(uint32(-f.off)), lacks: p.lacks}
	if f.act == graph.Q8 {
		a.mask = lowBits(32)&^lowBits(8*p.lacks) | lowBits(4)&^lowBits(p.lacks)<<32
	} else if f.group == 32 {
		a.off = uint64(uint16(-f.off)) * 0x10001
		if f.min {
			a.off = 0x10001
		}
	}
	for t := range T {
		xt := x[t*ldx:]
		a.x, a.scales, a.sums = ptr(xt, 0), ptr(xt, w.K), ptr(xt, w.K+4*nb)
		a.dst = ptr(dst, t*p.groups*p.x)
		quadToken(p.kind, &a)
	}
}
