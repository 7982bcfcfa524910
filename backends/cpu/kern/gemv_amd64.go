//go:build amd64 && gc && !noasm

package kern

import (
	"unsafe"

	"graphrun/graph"
)

// gemvArgs is what the row kernels take. The generator knows the offsets.
type gemvArgs struct {
	w      unsafe.Pointer // first row
	stride int            // bytes from row to row
	rows   int            // at least 1
	steps  int            // whole steps of a row
	x      unsafe.Pointer // prepared activations of the first token
	ldx    int            // bytes from token to token
	y      unsafe.Pointer // first token's result for the first row
	ldy    int            // bytes from token to token
	mask   [3]uint64      // bytes of 64 (plain types: elements) of the last step that exist
	tail   int            // blocks beyond the whole steps
}

// prepArgs is what the kernels take that arrange one token's activations.
type prepArgs struct {
	x, scales, sums, dst unsafe.Pointer
	steps                int       // steps to write, the last one possibly partial
	off                  uint64    // weight offset in each of four bytes
	maskX                [2]uint64 // bytes of x in the last step, 64 per word
	maskD                uint64    // scales in the last step
}

// prepKind is an arrangement of activations for row kernels.
type prepKind int

const (
	prepNone prepKind = iota
	prepQuads
	prepQuadsMin
	prepSuper
	prepGroups
	prepGroups32
	prepHalves
	prepAsIs // activations are used as they are
)

// gemvFormat describes the row kernels of a weight type.
type gemvFormat struct {
	prep   prepKind
	blocks int // blocks of the format per step
	xBytes int // prepared bytes per token and step
}

var gemvs = [graph.Q8]gemvFormat{
	graph.Q8_0:   {prepQuads, 4, 256},
	graph.Q4_0:   {prepQuads, 8, 512},
	graph.Q4_1:   {prepQuadsMin, 8, 512},
	graph.Q5_0:   {prepQuads, 8, 512},
	graph.Q5_1:   {prepQuadsMin, 8, 512},
	graph.IQ4_NL: {prepQuads, 8, 512},
	graph.MXFP4:  {prepQuads, 8, 512},
	graph.Q4_K:   {prepSuper, 4, 1152},
	graph.Q5_K:   {prepSuper, 4, 1152},
	graph.Q6_K:   {prepGroups, 1, 320},
	graph.Q2_K:   {prepGroups, 1, 320},
	graph.Q3_K:   {prepGroups, 1, 320},
	graph.TQ1_0:  {prepGroups, 1, 320},
	graph.TQ2_0:  {prepGroups, 1, 320},
	graph.IQ4_XS: {prepHalves, 1, 320},
	graph.IQ3_S:  {prepGroups32, 1, 320},
	graph.F32:    {prepAsIs, 64, 256},
	graph.F16:    {prepAsIs, 64, 256},
	graph.BF16:   {prepAsIs, 64, 256},
}

// rowsPerCall returns how many rows of k elements are multiplied with T tokens
// in one call, so that the time inside assembly, where nothing can interrupt a
// goroutine, stays near 100 µs.
func rowsPerCall(k, T int) int { return max(1, min(64, 2<<20/(k*T))) }

// superTail is the size of a single superblock in the arrangement prepSuper.
const superTail = 384

func (g *gemvFormat) preparedBytes(w graph.DType, k int) int {
	nb := k / w.BlockElems()
	switch g.prep {
	case prepAsIs:
		return 0
	case prepSuper:
		return nb/g.blocks*g.xBytes + nb%g.blocks*superTail
	}
	return (nb + g.blocks - 1) / g.blocks * g.xBytes
}

// mulRows is Mul with the row kernels. The activations are arranged once, in
// scratch; then each chunk of rows is multiplied with all tokens.
func mulRows(g *gemvFormat, y []float32, ldy int, w *Mat, x []byte, ldx int, T, lo, hi int, scratch []byte) {
	if g.prep != prepAsIs {
		size := g.preparedBytes(w.Type, w.K) + rowPad
		for t := range T {
			g.prepare(w, x[t*ldx:], scratch[t*size:])
		}
		x, ldx = scratch, size
	}
	bs, rb, most := w.Type.BlockBytes(), w.rowBytes(), gemvMost(w.Type)
	nb := w.K / w.Type.BlockElems()
	a := gemvArgs{stride: rb, steps: nb / g.blocks, ldx: ldx, ldy: 4 * ldy, tail: nb % g.blocks}
	for i := range a.mask {
		a.mask[i] = lowBits(a.tail*bs - 64*i)
	}
	if g.prep == prepAsIs {
		a.mask[0] = lowBits(a.tail)
	}
	chunk := rowsPerCall(w.K, min(T, most))
	for n := lo; n < hi; n += chunk {
		a.rows = min(chunk, hi-n)
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

func (g *gemvFormat) prepare(w *Mat, x, dst []byte) {
	nb := w.K / w.Type.BlockElems()
	a := prepArgs{x: ptr(x, 0), scales: ptr(x, w.K), sums: ptr(x, w.K+4*nb), dst: ptr(dst, 0)}
	a.steps = (nb + g.blocks - 1) / g.blocks
	a.off = uint64(formats[w.Type].off) * 0x01010101
	last := nb - (a.steps-1)*g.blocks // blocks in the last step
	a.maskX = [2]uint64{lowBits(32 * last), lowBits(32*last - 64)}
	a.maskD = lowBits(last)
	switch g.prep {
	case prepQuads, prepQuadsMin:
		// Blocks are arranged by four and taken by four or eight.
		a.steps = (nb + 3) / 4
		if g.blocks == 8 && a.steps%2 != 0 {
			clear(dst[a.steps*256 : (a.steps+1)*256])
		}
		last = nb - (a.steps-1)*4
		a.maskX = [2]uint64{lowBits(32 * last), lowBits(32*last - 64)}
		a.maskD = lowBits(last)
		if g.prep == prepQuads {
			prepQuadsAVX512(&a)
			break
		}
		a.off = 0x01010101
		prepQuadsMinAVX512(&a)
	case prepSuper:
		whole := nb / 4
		if whole > 0 {
			a.steps = whole
			prepSuper4AVX512(&a)
		}
		if nb%4 > 0 {
			a.steps = nb % 4
			a.x, a.scales, a.sums = ptr(x, 1024*whole), ptr(x, w.K+16*whole), ptr(x, w.K+4*nb+128*whole)
			a.dst = ptr(dst, whole*g.xBytes)
			prepSuper1AVX512(&a)
		}
	case prepGroups:
		prepGroupsAVX512(&a)
	case prepGroups32:
		a.off = uint64(uint16(-formats[w.Type].off)) * 0x10001
		prepGroups32AVX512(&a)
	case prepHalves:
		a.off = uint64(uint16(-formats[w.Type].off)) * 0x10001
		prepHalvesAVX512(&a)
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
