//go:build arm64 && gc && !noasm

package kern

import (
	"unsafe"

	"graphrun/graph"
)

// For many tokens, eight decoded rows are joined to a panel of two halves of
// four rows, whose words of four elements (with SMMLA: eights, by pairs of
// rows) lie in turn, and likewise their scales; a kernel multiplies a panel
// with four tokens. A half has
//
//	q [K/4][4 rows][4], then for blocks of 32: d [blocks][4] f32, m [blocks][4] f32
//	for superblocks: sc [K/16][4] int16, mn [K/16][4] int16, then d and dmin of each, [4] f32
//
// Formats without minima have no m and mn.

// tileRows is the number of rows of a panel, tileTokens that of tokens.
const tileRows, tileTokens = 8, 4

// interArgs is what the kernels take that join four rows.
type interArgs struct {
	src    unsafe.Pointer
	stride int
	dst    unsafe.Pointer
	n      int // steps of 16 bytes
}

func (a *interArgs) set(src, dst []byte, bytes int) {
	a.src, a.dst, a.n = ptr(src, 0), ptr(dst, 0), bytes/16
}

// tileArgs is what the kernels for panels take. The generator knows the
// offsets.
type tileArgs struct {
	q, scales, mins, d unsafe.Pointer // of the first half
	half               int            // bytes from half to half
	x                  unsafe.Pointer // first token; with SMMLA all four, joined
	ldx                int
	side               unsafe.Pointer
	y                  unsafe.Pointer
	ldy                int // bytes from token to token
	blocks             int
}

// panelLayout says where the parts of half a panel lie.
type panelLayout struct {
	layout
	pScales, pMins, pD, half int
	xBytes, sideSet          int // of a set of four tokens
}

func panelLayoutOf(w *Mat) (p panelLayout) {
	p.layout = layoutOf(w)
	p.sideSet = p.sideBytes(tileTokens)
	if p.f.act == graph.Q8 {
		// Numbers of blocks are multiples of four here.
		p.pScales = 512 * p.groups
		p.pMins = p.pScales + 64*p.groups
		p.half = p.pMins
		if p.f.min {
			p.half += 64 * p.groups
		}
		p.xBytes = 512 * p.groups
		return p
	}
	p.pScales = 4 * w.K
	p.pMins = p.pScales + w.K/2
	p.pD = p.pMins
	if p.f.min {
		p.pD += w.K / 2
	}
	p.half = p.pD + 32*p.blocks
	p.xBytes = 4 * w.K
	return p
}

// sets is the number of fours of tokens, the last filled up.
func sets(T int) int { return (T + tileTokens - 1) / tileTokens }

// panelsAtOnce is the number of panels that are multiplied with a set of tokens
// before the next set; together they should stay in the second-level cache.
func panelsAtOnce(p *panelLayout) int { return max(1, min(8, 192<<10/(2*p.half))) }

func scratchTiles(w *Mat, T int) int {
	p := panelLayoutOf(w)
	n := panelsAtOnce(&p)*2*p.half + tileRows*p.row + sets(T)*(p.sideSet+p.xBytes) + p.xBytes
	return n + tileRows*tileTokens*4
}

// mulTiles is Mul for many tokens.
func mulTiles(y []float32, ldy int, w *Mat, x []byte, ldx int, T, lo, hi int, scratch []byte) {
	p := panelLayoutOf(w)
	most := panelsAtOnce(&p)
	panels, rows := cut(&scratch, most*2*p.half), cut(&scratch, tileRows*p.row)
	sides, xs := cut(&scratch, sets(T)*p.sideSet), cut(&scratch, sets(T)*p.xBytes)
	edge := (*[tileTokens * tileRows]float32)(ptr(scratch[:tileRows*tileTokens*4], 0))
	tmp := cut(&scratch, p.xBytes)
	p.arrangeTiles(sides, xs, tmp, x, ldx, T, w.K)
	for r := range tileRows {
		p.clearEmpty(rows[r*p.row:])
	}
	a := tileArgs{half: p.half, blocks: p.groups, ldx: p.xBytes / tileTokens}
	for n0 := lo; n0 < hi; n0 += most * tileRows {
		end := min(hi, n0+most*tileRows)
		for n := n0; n < end; n += tileRows {
			p.makePanel(w, panels[(n-n0)/tileRows*2*p.half:], rows, n, min(tileRows, end-n))
		}
		for t := 0; t < T; t += tileTokens {
			s := t / tileTokens
			a.x, a.side = ptr(xs, s*p.xBytes), ptr(sides, s*p.sideSet)
			for n := n0; n < end; n += tileRows {
				panel := panels[(n-n0)/tileRows*2*p.half:]
				a.q, a.scales, a.d = ptr(panel, 0), ptr(panel, p.pScales), ptr(panel, p.pD)
				if a.mins = a.scales; p.f.min {
					a.mins = ptr(panel, p.pMins)
				}
				nRows, nTokens := min(tileRows, end-n), min(tileTokens, T-t)
				if nRows == tileRows && nTokens == tileTokens {
					a.y, a.ldy = ptr(y, t*ldy+n), 4*ldy
					tileChunk(p.f, &a)
					continue
				}
				a.y, a.ldy = ptr(edge[:], 0), 4*tileRows
				tileChunk(p.f, &a)
				for i := range nTokens {
					copy(y[(t+i)*ldy+n:(t+i)*ldy+n+nRows], edge[i*tileRows:])
				}
			}
		}
	}
}

// cut takes n bytes off the front.
func cut(mem *[]byte, n int) []byte {
	p := (*mem)[:n:n]
	*mem = (*mem)[n:]
	return p
}

// arrangeTiles prepares sets of four tokens. The last set repeats its tokens
// where some are missing. tmp has room for a set.
func (p *panelLayout) arrangeTiles(sides, xs, tmp, x []byte, ldx, T, k int) {
	row := p.xBytes / tileTokens
	for s := range sets(T) {
		t, n := s*tileTokens, min(tileTokens, T-s*tileTokens)
		side, to := sides[s*p.sideSet:], xs[s*p.xBytes:]
		p.putAsideTiles(side, x[t*ldx:], ldx, n, k)
		if features.i8mm && p.lacks == 0 && n == tileTokens {
			interleavePairsNEON(&interArgs{src: ptr(x, t*ldx), stride: ldx, dst: ptr(to, 0), n: k / 16})
			continue
		}
		into := to
		if features.i8mm {
			into = tmp
		}
		for i := range tileTokens {
			c := into[i*row : (i+1)*row]
			clear(c[:32*p.lacks])
			copy(c[32*p.lacks:], x[(t+i%n)*ldx:(t+i%n)*ldx+k])
		}
		if features.i8mm {
			interleavePairsNEON(&interArgs{src: ptr(tmp, 0), stride: row, dst: ptr(to, 0), n: row / 16})
		}
	}
}

// putAsideTiles is putAside for a set that counts as four tokens; missing ones
// get zeros.
func (p *panelLayout) putAsideTiles(dst, x []byte, ldx, n, k int) {
	if n == tileTokens {
		p.putAside(dst, x, ldx, n, k)
		return
	}
	clear(dst[:p.sideSet])
	size := p.sideSet / max(p.groups, 1)
	for t := range n {
		xt := x[t*ldx+k:]
		for b := range p.blocks {
			switch {
			case p.f.act == graph.Q8:
				i := b + p.lacks
				q := dst[i/4*size+16*t+i%4*4:]
				copy(q[:4], xt[4*b:4*b+4])
				if p.f.min {
					putF32(q, 16*tileTokens, float32(i32at(xt, 4*(p.blocks+b))))
				}
			default:
				q := dst[b*size : (b+1)*size]
				copy(q[4*t:4*t+4], xt[4*b:4*b+4])
				if p.f.min {
					copy(q[16+32*t:48+32*t], xt[4*p.blocks+32*b:])
				}
			}
		}
	}
}

// makePanel decodes up to eight rows and joins them. Missing rows keep what the
// memory held; their results are not stored.
func (p *panelLayout) makePanel(w *Mat, panel, rows []byte, n, count int) {
	rb := w.rowBytes()
	for r := range count {
		p.decodeRow(w.Type, rows[r*p.row:(r+1)*p.row], w.Data[(n+r)*rb:(n+r+1)*rb])
	}
	for h := 0; h < 2; h++ {
		src, dst := rows[4*h*p.row:], panel[h*p.half:(h+1)*p.half]
		a := interArgs{stride: p.row}
		if a.set(src, dst, p.scales); features.i8mm {
			interleavePairsNEON(&a)
		} else {
			interleaveWordsNEON(&a)
		}
		if p.f.act == graph.Q8 {
			a.set(src[p.scales:], dst[p.pScales:], 16*p.groups)
			interleaveWordsNEON(&a)
			if p.f.min {
				a.set(src[p.mins:], dst[p.pMins:], 16*p.groups)
				interleaveWordsNEON(&a)
			}
			continue
		}
		a.set(src[p.scales:], dst[p.pScales:], w.K/8)
		interleaveHalvesNEON(&a)
		if p.f.min {
			a.set(src[p.mins:], dst[p.pMins:], w.K/8)
			interleaveHalvesNEON(&a)
		}
		// d and dmin of an odd number of superblocks end within 16 bytes.
		if a.set(src[p.d:], dst[p.pD:], 8*p.blocks&^15); a.n > 0 {
			interleaveWordsNEON(&a)
		}
		if p.blocks%2 == 1 {
			b := p.blocks - 1
			for r := range 4 {
				for i := range 2 {
					copy(dst[p.pD+32*b+16*i+4*r:], src[r*p.row+p.d+8*b+4*i:][:4])
				}
			}
		}
	}
}
