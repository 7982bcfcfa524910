//go:build amd64 && gc && !noasm

package kern

import (
	"unsafe"

	"graphrun/graph"
)

// gemmArgs is what the panel kernels take. The generator knows the offsets.
type gemmArgs struct {
	panel  unsafe.Pointer
	x      unsafe.Pointer // first token of the tile
	ldx    int            // bytes from token to token
	scales unsafe.Pointer // its scales, also ldx apart
	side   unsafe.Pointer // its side numbers
	ldside int
	sums   unsafe.Pointer // its sums of groups, for formats with minima
	ldsums int
	y      unsafe.Pointer
	ldy    int    // bytes from token to token
	blocks int    // blocks, superblocks or, for plain types, elements
	mask   uint64 // rows to write
	totals unsafe.Pointer
	init   uint64 // plain types: rows that add to y instead of starting at 0
}

// unpackArgs is what the unpack kernels take.
type unpackArgs struct {
	w      unsafe.Pointer // first of 16 rows
	stride int
	panel  unsafe.Pointer // half panel
	blocks int            // blocks, or 16-byte pieces of plain types
	ahead  uintptr        // what to prefetch meanwhile; need not be readable
	part   int            // blocks of 32: bytes of a part of the panel
	first  int            // blocks of 32: blocks until the last part is reached
}

// totalsBytes is the memory for the f32 sums of one tile.
const totalsBytes = 6 * panelVec

// floatBlock is the number of elements of a plain type that a panel holds, so
// that it stays in the second-level cache.
func floatBlock(t graph.DType) int {
	if t == graph.F32 {
		return 2048
	}
	return 4096
}

func panelBytes(w *Mat) int {
	f := &formats[w.Type]
	if f.act == graph.F32 {
		return (min(w.K, floatBlock(w.Type)) + 1) * f.panelBlock(w.Type)
	}
	nb := w.K / w.Type.BlockElems()
	if f.act == graph.Q8 {
		nb = (nb + 3) &^ 3
	}
	return nb * f.panelBlock(w.Type)
}

// panelBudget is the second-level cache that panels may fill together. All
// panels in it are multiplied with a tile of tokens before the next tile, so
// the activations, which come from the third level, are read that many times
// less often.
const panelBudget = 512 << 10

// panelCount returns how many panels are held at a time.
func panelCount(w *Mat, T int) int {
	if T < 24 {
		return 1 // unpacking dominates: one panel that stays close
	}
	return max(1, min(panelBudget/panelBytes(w), (w.N+panelRows-1)/panelRows))
}

func panelScratch(w *Mat, T int) int {
	return totalsBytes + T*formats[w.Type].sideBytes(w.K) + panelCount(w, T)*panelBytes(w)
}

// sideArgs is what the kernels for side numbers take.
type sideArgs struct {
	sums, dst  unsafe.Pointer
	n          int    // numbers to write
	off        uint64 // factor of the sums, twice as int16 where sums are int16 pairs
	tokens     int
	ldx, lddst int
}

// makeSides is format.makeSide for T tokens.
//
//go:noinline
func makeSides(f *format, dst []byte, lddst int, x []byte, ldx, T, k int) {
	a := sideArgs{dst: ptr(dst, 0), n: k / 32, off: uint64(uint32(-f.off)), tokens: T, ldx: ldx, lddst: lddst}
	if f.act == graph.Q8 {
		a.sums = ptr(x, k+k/8)
	} else {
		a.sums = ptr(x, k+k/64)
	}
	pair := uint64(uint16(-f.off)) * 0x10001
	switch f.side() {
	case sideMin:
		sideMinAVX512(&a)
	case sidePairs:
		a.off = 0x10001
		sidePairsAVX512(&a)
	case side16:
		a.n = k / 16
		sideK16AVX512(&a)
	case side32:
		if f.act == graph.Q8 {
			side32AVX512(&a)
		} else {
			a.off = pair
			sideK32AVX512(&a)
		}
	}
}

// mulPanels is Mul for many tokens: each 32 rows are unpacked once and
// multiplied with tiles of tokens.
func mulPanels(y []float32, ldy int, w *Mat, x []byte, ldx int, T, lo, hi int, scratch []byte) {
	f := &formats[w.Type]
	if f.act == graph.F32 {
		mulFloatPanels(y, ldy, w, x, ldx, T, lo, hi, scratch)
		return
	}
	ldside := f.sideBytes(w.K)
	side := scratch[totalsBytes:]
	panel := side[T*ldside:]
	for t := 0; t < T && ldside > 0; t += 512 {
		makeSides(f, side[t*ldside:], ldside, x[t*ldx:], ldx, min(512, T-t), w.K)
	}
	nb := w.K / w.Type.BlockElems()
	a := gemmArgs{ldx: ldx, ldside: ldside, ldy: 4 * ldy, blocks: nb, totals: ptr(scratch, 0)}
	var u unpackArgs
	count, size := panelCount(w, T), panelBytes(w)
	for n0 := lo; n0 < hi; n0 += count * panelRows {
		end := min(n0+count*panelRows, hi)
		for n := n0; n < end; n += panelRows {
			rows := min(panelRows, end-n)
			touch(w.Data[n*w.rowBytes() : (n+rows)*w.rowBytes()])
			unpackPanel(w, panel[(n-n0)/panelRows*size:], n, rows, 0, w.K, &u)
		}
		for t, left := 0, T; left > 0; {
			// Tiles of equal size, so that no small one is left over.
			tiles := (left + 5) / 6
			tile := (left + tiles - 1) / tiles
			a.x, a.scales = ptr(x, t*ldx), ptr(x, t*ldx+w.K)
			a.side = unsafe.Pointer(unsafe.SliceData(side[t*ldside:]))
			a.sums, a.ldsums = a.side, ldside
			if ldside == 0 {
				a.sums, a.ldsums = ptr(x, t*ldx+w.K+4*nb), ldx
			}
			for n := n0; n < end; n += panelRows {
				a.mask = lowBits(min(panelRows, end-n))
				a.panel, a.y = ptr(panel, (n-n0)/panelRows*size), ptr(y, t*ldy+n)
				gemmTile(w.Type, f, tile, &a)
			}
			t += tile
			left -= tile
		}
	}
}

// touch brings weights into the cache in the order of the memory, which takes
// half the time it takes to unpack 16 rows at once from memory.
func touch(p []byte) {
	if n := len(p) / 512; n > 0 {
		readAVX512(&p[0], n)
	}
}

// mulFloatPanels is mulPanels for plain types, a block of k at a time.
func mulFloatPanels(y []float32, ldy int, w *Mat, x []byte, ldx int, T, lo, hi int, scratch []byte) {
	panel := scratch[totalsBytes:]
	a := gemmArgs{ldx: ldx, ldy: 4 * ldy}
	var u unpackArgs
	count, size := panelCount(w, T), panelBytes(w)
	for n0 := lo; n0 < hi; n0 += count * panelRows {
		end := min(n0+count*panelRows, hi)
		for k := 0; k < w.K; k += floatBlock(w.Type) {
			a.blocks = min(floatBlock(w.Type), w.K-k)
			for n := n0; n < end; n += panelRows {
				rows := min(panelRows, end-n)
				if w.K <= floatBlock(w.Type) {
					touch(w.Data[n*w.rowBytes() : (n+rows)*w.rowBytes()])
				}
				unpackPanel(w, panel[(n-n0)/panelRows*size:], n, rows, k, a.blocks, &u)
			}
			for t := 0; t < T; {
				tile := floatTile(T - t)
				a.x = ptr(x, t*ldx+4*k)
				for n := n0; n < end; n += panelRows {
					a.mask, a.init = lowBits(min(panelRows, end-n)), 0
					if k > 0 {
						a.init = a.mask
					}
					a.panel, a.y = ptr(panel, (n-n0)/panelRows*size), ptr(y, t*ldy+n)
					gemmFloatTile(w.Type, tile, &a)
				}
				t += tile
			}
		}
	}
}

// floatTile returns the size of the next tile of plain types for n tokens.
func floatTile(n int) int {
	for _, size := range [...]int{12, 8, 6, 4, 3, 2} {
		if n >= size {
			return size
		}
	}
	return 1
}

// unpackPanel fills a panel with elements [k0,k0+k) of rows [n,n+rows).
// Missing rows keep what the panel held; their results are not stored.
func unpackPanel(w *Mat, panel []byte, n, rows, k0, k int, u *unpackArgs) {
	f := &formats[w.Type]
	rb := w.rowBytes()
	half := 64
	if w.Type == graph.F16 {
		half = 32
	}
	done := 0
	for ; done+16 <= rows; done += 16 {
		u.w, u.stride, u.panel = ptr(w.Data, (n+done)*rb+w.Type.RowBytes(k0)), rb, ptr(panel, done/16*half)
		u.ahead = uintptr(u.w) + uintptr(16*rb)
		whole := k // elements the kernel does
		if f.act == graph.F32 {
			per := 16 / w.Type.BlockBytes()
			u.blocks = k / per
			whole = k / per * per
		} else {
			u.blocks = k / w.Type.BlockElems()
		}
		if f.act == graph.Q8 {
			u.part = (u.blocks + 3) / 4 * f.panelBlock(w.Type)
			lacks := -u.blocks & 3
			u.panel = unsafe.Add(u.panel, lacks*u.part)
			u.first = 4 - lacks
		}
		if !unpackHalf(w.Type, u) {
			break
		}
		for r := done; whole < k && r < done+16; r++ {
			unpackRow(w.Type, panel[whole*f.panelBlock(w.Type):], w.Data[(n+r)*rb:], k0+whole, k-whole, r)
		}
	}
	for r := done; r < rows; r++ {
		unpackRow(w.Type, panel, w.Data[(n+r)*rb:], k0, k, r)
	}
}

// unpackHalf unpacks 16 rows and reports whether there is a kernel for it.
func unpackHalf(t graph.DType, u *unpackArgs) bool {
	if u.blocks == 0 {
		return true
	}
	switch t {
	case graph.F32:
		unpackF32AVX512(u)
	case graph.F16:
		unpackF16AVX512(u)
	case graph.BF16:
		unpackBF16AVX512(u)
	case graph.Q8_0:
		unpackQ8_0AVX512(u)
	case graph.Q4_0:
		unpackQ4_0AVX512(u)
	case graph.Q4_1:
		unpackQ4_1AVX512(u)
	case graph.Q5_0:
		unpackQ5_0AVX512(u)
	case graph.Q5_1:
		unpackQ5_1AVX512(u)
	case graph.IQ4_NL:
		unpackIQ4_NLAVX512(u)
	case graph.MXFP4:
		unpackMXFP4AVX512(u)
	case graph.Q2_K:
		unpackQ2_KAVX512(u)
	case graph.Q3_K:
		unpackQ3_KAVX512(u)
	case graph.Q4_K:
		unpackQ4_KAVX512(u)
	case graph.Q5_K:
		unpackQ5_KAVX512(u)
	case graph.Q6_K:
		unpackQ6_KAVX512(u)
	case graph.IQ4_XS:
		unpackIQ4_XSAVX512(u)
	case graph.IQ3_S:
		unpackIQ3_SAVX512(u)
	case graph.TQ1_0:
		unpackTQ1_0AVX512(u)
	case graph.TQ2_0:
		unpackTQ2_0AVX512(u)
	default:
		return false
	}
	return true
}
