//go:build amd64 && gc && !noasm

package kern

import (
	"encoding/binary"
	"unsafe"

	"graphrun/graph"
)

// The row kernels of quantized types read one weight row at a time, as it lies
// in the file. A row is cut into groups of one, two or four steps of four
// blocks, or of four superblocks. Activations are arranged likewise. Where the
// blocks are no multiple of a group's, the first group of a row lacks the
// first blocks.
//
// For every token there are the numbers q of all steps; for superblocks, 128
// bytes of sums of groups follow every four. What multiplies whole blocks, and
// what corrects their sums for the offset of the weights, lies aside, in the
// order in which the kernels have the sums of up to four tokens: for blocks of
// 32 [groups][tokens/4][2][4 blocks][tokens][steps], the corrections before
// the scales; for superblocks the scales only, [groups][tokens/4][4
// blocks][4 tokens].

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
}

// sumKind says what the sums of superblocks are for.
type sumKind int

const (
	sumsNone    sumKind = iota // blocks of 32
	sumsMins                   // int16 Σ of 32, for minima
	sumsMins16                 // int16 Σ of 16, for minima: the first eight of each superblock, then the others
	sumsOffset                 // int16 −Σ of 16
	sumsGroup32                // int32 −offset·Σ of 32
)

// rowFormat describes the row kernels of a weight type.
type rowFormat struct {
	zip    func(dst, src *byte, n int) // order of 128 activations, or nil
	sums   sumKind
	second int // nibbles: where a step's second load starts
}

var rowFormats = [graph.Q8]rowFormat{
	graph.Q4_0:   {zip: zipHalvesAVX512, second: 56},
	graph.Q4_1:   {zip: zipHalvesAVX512, second: 64},
	graph.Q5_0:   {zip: zipHalvesAVX512, second: 56},
	graph.Q5_1:   {zip: zipHalvesAVX512, second: 64},
	graph.IQ4_NL: {zip: zipHalvesAVX512, second: 56},
	graph.MXFP4:  {zip: zipHalvesAVX512, second: 52},
	graph.Q4_K:   {zip: zipPairsAVX512, sums: sumsMins},
	graph.Q5_K:   {zip: zipPairsAVX512, sums: sumsMins},
	graph.Q2_K:   {sums: sumsMins16},
	graph.Q3_K:   {sums: sumsOffset},
	graph.Q6_K:   {sums: sumsOffset},
	graph.TQ1_0:  {sums: sumsOffset},
	graph.TQ2_0:  {sums: sumsOffset},
	graph.IQ4_XS: {zip: zipHalvesAVX512, sums: sumsGroup32},
	graph.IQ3_S:  {sums: sumsGroup32},
}

// rowPlan is the shape of a product of up to n tokens.
type rowPlan struct {
	super        bool
	steps        int // steps of a group: 4, or fewer for more tokens
	trees        int // sets of up to four tokens
	groups       int
	lacks        int // blocks that the first group lacks
	xBytes, side int // arranged bytes of a token, and of what lies aside
}

func planRows(t graph.DType, k, n int) (p rowPlan) {
	p.super = formats[t].act == graph.Q8K
	p.trees = (n + 3) / 4
	nb, per := k/t.BlockElems(), 4
	p.steps = 4
	if !p.super {
		if n > 1 {
			p.steps = 1
		}
		if n == 2 {
			p.steps = 2
		}
		per = 4 * p.steps
	}
	p.groups = (nb + per - 1) / per
	p.lacks = p.groups*per - nb
	if p.super {
		p.xBytes, p.side = 1152*p.groups, 64*p.groups*p.trees
	} else {
		p.xBytes, p.side = 128*p.steps*p.groups, 128*p.groups*p.trees
	}
	// Another line keeps tokens apart in the cache.
	p.xBytes += 64
	return p
}

// rowScratch returns the scratch memory for products of T tokens.
func rowScratch(t graph.DType, k, T int) int {
	n := min(T, rowsMost(t))
	// Groups of four steps may be padded the most.
	one, all := planRows(t, k, 1), planRows(t, k, n)
	return max(one.xBytes, all.xBytes)*n + max(one.side*n, all.side)
}

// mulQuantRows is Mul with the row kernels of quantized types.
func mulQuantRows(y []float32, ldy int, w *Mat, x []byte, ldx int, T, lo, hi int, scratch []byte) {
	rb, bs, most := w.rowBytes(), w.Type.BlockBytes(), rowsMost(w.Type)
	for t := 0; t < T; {
		// Equal parts, so that no small one is left over.
		calls := (T - t + most - 1) / most
		n := (T - t + calls - 1) / calls
		p := planRows(w.Type, w.K, n)
		side := scratch[n*p.xBytes:]
		p.arrange(w, x[t*ldx:], ldx, n, scratch, side)
		a := rowsArgs{stride: rb, groups: p.groups, bias: p.lacks * bs, x: ptr(scratch, 0), ldx: p.xBytes, side: ptr(side, 0), ldy: 4 * ldy}
		if p.super {
			a.entry = 2 * p.lacks
		} else {
			a.entry = 2 * (p.lacks / 4)
			if part := p.lacks % 4; part > 0 {
				a.entry++
				a.mask = partMasks(w.Type, part)
			}
		}
		chunk := rowsPerCall(w.K, n)
		for r := lo; r < hi; r += chunk {
			a.rows = min(chunk, hi-r)
			a.w, a.y = ptr(w.Data, r*rb), ptr(y, t*ldy+r)
			rowChunk(w.Type, n, &a)
		}
		t += n
	}
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

// arrange puts n tokens into the order of the row kernels.
func (p *rowPlan) arrange(w *Mat, x []byte, ldx, n int, dst, side []byte) {
	r := &rowFormats[w.Type]
	clear(side[:p.side/p.groups]) // the first group
	for t := range n {
		out := dst[t*p.xBytes:]
		if p.super {
			p.arrangeSuper(w, r, x[t*ldx:], out)
			p.sideSuper(side, x[t*ldx+w.K:], w.K/256, t, n)
		} else {
			r.copy(out[p.lacks/4*128:], p.lacks%4*32, x[t*ldx:][:w.K])
			p.side32(side, w, x[t*ldx:], t, n)
		}
	}
}

// copy copies activations, the first of which has place into in a piece of 128;
// dst starts with the piece.
func (r *rowFormat) copy(dst []byte, into int, src []byte) {
	if r.zip == nil {
		copy(dst[into:], src)
		return
	}
	if into > 0 {
		var first [128]byte
		n := copy(first[into:], src)
		r.zip(&dst[0], &first[0], 1)
		dst, src = dst[128:], src[n:]
	}
	if n := len(src) / 128; n > 0 {
		r.zip(&dst[0], &src[0], n)
	}
}

// side32 writes token t's corrections and scales of blocks of 32.
func (p *rowPlan) side32(side []byte, w *Mat, x []byte, t, n int) {
	nb, f := w.K/32, &formats[w.Type]
	scales, sums := x[w.K:][:4*nb], x[w.K+4*nb:][:4*nb]
	per, off := 4*p.steps, int32(-f.off)
	tree := side[128*(t/4):]
	width := 16 / per // tokens of a tree
	for b := range nb {
		at := b + p.lacks
		group, step, block := at/per, at%per/4, at%4
		to := tree[group*128*p.trees+4*(block*4+t%width*p.steps+step):]
		s := i32at(sums, 4*b)
		if f.min {
			putF32(to, 0, float32(s))
		} else {
			binary.LittleEndian.PutUint32(to, uint32(s*off))
		}
		copy(to[64:68], scales[4*b:])
	}
}

// sideSuper writes token t's scales of nb superblocks.
func (p *rowPlan) sideSuper(side, scales []byte, nb, t, n int) {
	tree := side[64*(t/4):]
	for b := range nb {
		at := b + p.lacks
		to := 4 * (at % 4)
		if n > 1 {
			to = 4 * (at%4*4 + t%4)
		}
		copy(tree[at/4*64*p.trees+to:][:4], scales[4*b:])
	}
}

// arrangeSuper writes one token's numbers and sums of superblocks.
func (p *rowPlan) arrangeSuper(w *Mat, r *rowFormat, x, dst []byte) {
	nb := w.K / 256
	sums := x[w.K+4*nb:][:32*nb]
	off := int32(-formats[w.Type].off)
	clear(dst[1024:1152])
	for b, at := 0, p.lacks; b < nb; {
		// The superblocks of a group lie together.
		i := at % 4
		n := min(4-i, nb-b)
		quad := dst[at/4*1152:][:1152]
		r.copy(quad[256*i:], 0, x[256*b:256*(b+n)])
		for ; n > 0; n, b, at, i = n-1, b+1, at+1, i+1 {
			from := sums[32*b:][:32]
			switch to := quad[1024:]; r.sums {
			case sumsMins:
				for g := range 8 {
					binary.LittleEndian.PutUint16(to[16*i+2*g:], uint16(i16at(from, 4*g)+i16at(from, 4*g+2)))
				}
			case sumsMins16:
				copy(to[16*i:], from[:16])
				copy(to[64+16*i:], from[16:])
			case sumsOffset:
				for g := range 16 {
					binary.LittleEndian.PutUint16(to[32*i+2*g:], uint16(-i16at(from, 2*g)))
				}
			case sumsGroup32:
				for g := range 8 {
					s := int32(i16at(from, 4*g)) + int32(i16at(from, 4*g+2))
					binary.LittleEndian.PutUint32(to[32*i+4*g:], uint32(s*off))
				}
			}
		}
	}
}
