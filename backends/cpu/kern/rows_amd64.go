//go:build amd64 && gc && !noasm

package kern

import (
	"unsafe"

	"graphrun/graph"
)

// The row kernels of quantized types read one weight row at a time, as it lies
// in the file, or four short ones if there is one token (fours_amd64.go; see also
// whole_amd64.go). A row is cut into groups
// of one, two or four steps of four blocks, or of four superblocks. Activations
// are arranged likewise. Where the blocks are no multiple of a group's, the first
// group of a row lacks the first blocks.
//
// For every token there are the numbers q of all steps; for superblocks, 128
// bytes of sums of groups follow every four. What multiplies whole blocks, and
// what corrects their sums for the offset of the weights, lies aside, in the
// order in which the kernels have the sums: for blocks of 32 [groups][2][4
// blocks][tokens][steps], the corrections before the scales, or four times the
// same in place of the steps for four rows; for superblocks the scales only,
// [groups][4 blocks][4 tokens].

// rowMost is the most tokens that the row kernels take at once.
const rowMost = 4

// rowsArgs is what the row kernels take. The generator knows the offsets.
type rowsArgs struct {
	w      unsafe.Pointer // first row
	stride int            // bytes from row to row
	rows   int            // at least 1
	groups int            // groups of a row
	entry  int            // twice the steps the first group lacks, plus 1 if the next one lacks blocks
	bias   int            // bytes that the first group lacks
	x      unsafe.Pointer // arranged activations of the first token
	ldx    int            // bytes from token to token
	side   unsafe.Pointer // corrections and scales
	y      unsafe.Pointer // first token's result for the first row
	ldy    int            // bytes from token to token
	mask   [4]uint64      // what exists in a step that lacks blocks
	// For four rows at a time; stride and rows count such fours then.
	apart [3]int // bytes from the first row to each of the others
	bias4 int    // bytes that the first groups of four rows lack
	store uint64 // results to write
	// Bytes ahead at which weights are asked for in the first- and second-level cache.
	near, far int
	// For whole rows: room for the scaled sums of four, [groups][4][16] f32.
	scaled unsafe.Pointer
}

// sumKind says what the sums of superblocks are for.
type sumKind int

const (
	sumsNone     sumKind = iota // blocks of 32
	sumsMins                    // int16 Σ of 32, for minima; groups of 32 come in the order 0 2 1 3
	sumsMins16                  // int16 Σ of 16, for minima: the first eight of each superblock, then the others
	sumsOffset                  // int16 −Σ of 16
	sumsHalves32                // int32 −offset·Σ of 32; the first halves of four groups come together
)

// rowFormat describes the row kernels of a weight type.
type rowFormat struct {
	halves bool // blocks of 32: the first halves of four blocks come together
	sums   sumKind
	second int // nibbles: where a step's second load starts
}

var rowFormats = [graph.Q8]rowFormat{
	graph.Q4_0:   {halves: true, second: 56},
	graph.Q4_1:   {halves: true, second: 64},
	graph.Q5_0:   {halves: true, second: 56},
	graph.Q5_1:   {halves: true, second: 64},
	graph.IQ4_NL: {halves: true, second: 56},
	graph.MXFP4:  {halves: true, second: 52},
	graph.Q4_K:   {sums: sumsMins},
	graph.Q5_K:   {sums: sumsMins},
	graph.Q2_K:   {sums: sumsMins16},
	graph.Q3_K:   {sums: sumsOffset},
	graph.Q6_K:   {sums: sumsOffset},
	graph.TQ1_0:  {sums: sumsOffset},
	graph.TQ2_0:  {sums: sumsOffset},
	graph.IQ4_XS: {sums: sumsHalves32},
}

// rowPlan is the shape of a product of up to n tokens.
type rowPlan struct {
	super        bool
	fours        bool // four rows at a time
	steps        int  // steps of a group: 4, or fewer for more tokens
	groups       int
	lacks        int // blocks that the first group lacks
	xBytes, side int // arranged bytes of a token, and of what lies aside
}

func planRows(t graph.DType, k, n int) (p rowPlan) {
	p.super = formats[t].act == graph.Q8K
	nb, per := k/t.BlockElems(), 4
	switch {
	case p.super:
		p.steps = 4
	case n == 1:
		p.steps, per = 4, 16
	case n == 2:
		p.steps, per = 2, 8
	default:
		p.steps = 1
	}
	p.set(nb, per)
	return p
}

// set plans rows of nb blocks, per of them in a group.
func (p *rowPlan) set(nb, per int) {
	p.groups = (nb + per - 1) / per
	p.lacks = p.groups*per - nb
	if p.super {
		p.xBytes, p.side = 1152*p.groups, 64*p.groups
	} else {
		p.xBytes, p.side = 128*p.steps*p.groups, 128*p.groups
	}
	// Another line keeps tokens apart in the cache.
	p.xBytes += 64
}

// rowScratch returns the scratch memory for products of T tokens.
func rowScratch(t graph.DType, k, T int) int {
	need := 0
	for n := 1; n <= min(T, rowMost); n++ {
		p := planRows(t, k, n)
		need = max(need, p.xBytes*n+p.side)
	}
	return need
}

// mulQuantRows is Mul with the row kernels of quantized types.
func mulQuantRows(y []float32, ldy int, w *Mat, x []byte, ldx int, T, lo, hi int, scratch []byte) {
	rb := w.rowBytes()
	for t := 0; t < T; {
		// Equal parts, so that no small one is left over.
		n := groupOf4(T - t)
		p := planRows(w.Type, w.K, n)
		side := scratch[n*p.xBytes:]
		p.arrange(w, x[t*ldx:], ldx, n, scratch, side)
		a := rowsArgs{ldy: 4 * ldy}
		p.fill(&a, w, scratch, side)
		chunk := rowsPerCall(w.K, n)
		for r := lo; r < hi; r += chunk {
			a.rows = min(chunk, hi-r)
			a.w, a.y = ptr(w.Data, r*rb), ptr(y, t*ldy+r)
			rowChunk(w.Type, n, &a)
		}
		t += n
	}
}

// fill sets what is the same for all rows of w, the activations being in x and
// side.
func (p *rowPlan) fill(a *rowsArgs, w *Mat, x, side []byte) {
	a.near, a.far = p.ahead(w)
	a.stride, a.groups, a.bias = w.rowBytes(), p.groups, p.lacks*w.Type.BlockBytes()
	a.x, a.ldx, a.side = ptr(x, 0), p.xBytes, ptr(side, 0)
	if p.super {
		a.entry = 2 * p.lacks
		return
	}
	a.entry = 2 * (p.lacks / 4)
	if part := p.lacks % 4; part > 0 {
		a.entry++
		a.mask = partMasks(w.Type, part)
	}
}

// ahead returns how many bytes ahead weights are asked for: late in the
// first-level cache, where there is room for little beside the activations, and
// early in the second. A token with short rows of Q8_0 leaves enough room, and
// is multiplied fast enough to do without the second level.
func (p *rowPlan) ahead(w *Mat) (near, far int) {
	switch {
	case p.fours:
		return 2048, 8192
	case w.Type == graph.Q8_0 && p.steps == 4 && w.K <= 4096:
		return 4096, 0
	}
	return 2048, 12288
}

// partMasks tells what a step of four blocks reads if it lacks the first ones.
func partMasks(t graph.DType, lacks int) (m [4]uint64) {
	if t != graph.Q8_0 {
		n := lacks * t.BlockBytes()
		return [4]uint64{^lowBits(n), ^lowBits(n - rowFormats[t].second)}
	}
	// Numbers and scales of blocks 1 and 2.
	if lacks < 2 {
		m[0], m[2] = lowBits(32), 1<<1
	}
	if lacks < 3 {
		m[1], m[3] = lowBits(32), 1<<2
	}
	return m
}

// spreadArgs is what the kernels take that put one token's scales and
// corrections aside. The generator knows the offsets.
type spreadArgs struct {
	scales, sums, dst unsafe.Pointer // the first block's
	groups            int
	in, out           int // bytes from group to group
	index             *[16]uint32
	first, load       uint64 // numbers that exist in the first and in all other groups
	store             uint64 // places to write
	off               uint64 // factor of the sums
	bias              int    // bytes that the first group lacks
}

// superArgs is what the kernels take that arrange superblocks.
type superArgs struct {
	x, sums, dst unsafe.Pointer
	blocks       int
	first        int    // blocks of the first four that exist
	off          uint64 // factor of the sums, as two int16
}

// spreadOrders says which block of a group a place aside has, for groups of 4,
// 2 and 1 steps.
var spreadOrders = func() (o [5][16]uint32) {
	for i := range uint32(16) {
		o[4][i], o[2][i], o[1][i] = i%4*4+i/4, i%2*4+i/4, i/4
	}
	return o
}()

// alone is the order of the scales of superblocks of one token.
var alone = [16]uint32{0, 1, 2, 3}

// arrange puts n tokens into the order of the row kernels.
func (p *rowPlan) arrange(w *Mat, x []byte, ldx, n int, dst, side []byte) {
	nb := w.K / w.Type.BlockElems()
	a := spreadArgs{groups: p.groups, index: &spreadOrders[1], off: uint64(uint32(-formats[w.Type].off))}
	per, width, size := 4, 4, 64 // blocks of a group; tokens and bytes of what lies aside for it
	switch {
	case p.super && n == 1:
		a.index = &alone
		a.store = 15
	case !p.super:
		a.index = &spreadOrders[p.steps]
		per, width, size = 4*p.steps, 4/p.steps, 128
	}
	a.in, a.out = 4*per, size
	a.load = lowBits(per)
	a.first, a.bias = a.load&^lowBits(p.lacks), 4*p.lacks
	if n%width > 0 && n > 1 {
		clear(side[:p.side]) // the places of tokens that do not exist
	}
	for t := range n {
		xt := x[t*ldx:]
		a.scales, a.sums, a.dst = ptr(xt, w.K), ptr(xt, w.K+4*nb), ptr(side, 0)
		switch {
		case p.fours:
			a.store = lowBits(16) // all rows have the same
		case !p.super || n > 1:
			// The lanes of this token: steps numbers in every four.
			a.store = lowBits(4/width) << (t * (4 / width)) * 0x1111
		}
		if p.super {
			spreadAVX512(&a)
			p.arrangeSuper(w, xt, dst[t*p.xBytes:])
			continue
		}
		if formats[w.Type].min {
			spreadMinAVX512(&a)
		} else {
			spreadOffsetAVX512(&a)
		}
		p.copy(w.Type, dst[t*p.xBytes+p.lacks/4*128:], xt[:w.K])
	}
}

// copy copies the numbers of blocks of 32.
func (p *rowPlan) copy(t graph.DType, dst, src []byte) {
	into := p.lacks % 4 * 32 // of the first 128 bytes
	if !rowFormats[t].halves {
		copy(dst[into:], src)
		return
	}
	if into > 0 {
		var first [128]byte
		n := copy(first[into:], src)
		zipHalvesAVX512(&dst[0], &first[0], 1)
		dst, src = dst[128:], src[n:]
	}
	if n := len(src) / 128; n > 0 {
		zipHalvesAVX512(&dst[0], &src[0], n)
	}
}

// arrangeSuper writes one token's numbers and sums of superblocks.
func (p *rowPlan) arrangeSuper(w *Mat, x, dst []byte) {
	nb := w.K / 256
	clear(dst[1024:1152])
	a := superArgs{x: ptr(x, 0), sums: ptr(x, w.K+4*nb), dst: ptr(dst, 0), blocks: nb, first: 4 - p.lacks}
	a.off = 0x10001
	switch rowFormats[w.Type].sums {
	case sumsMins:
		arrangeMinsAVX512(&a)
	case sumsMins16:
		arrangeMins16AVX512(&a)
	case sumsOffset:
		arrangeOffsetAVX512(&a)
	case sumsHalves32:
		a.off *= uint64(uint16(-formats[w.Type].off))
		arrangeHalves32AVX512(&a)
	}
}
