package kern

import (
	"encoding/binary"

	"graphrun/graph"
)

// A panel is 32 weight rows unpacked so that vectors run along the rows. For
// quantized types it consists of
//
//	quants  [8 steps][2][16 rows][4 bytes], unsigned: 32 elements of 32 rows
//	scales  [2][16 rows] f32, or int32 for groups within superblocks
//
// For blocks of 32 each block is quants, scales and, for formats with minima,
// the minima as f32. The blocks of each of the four partial sums lie together;
// where the number of blocks is no multiple of four, a part may lack its first.
// A superblock of 256 is eight times quants and scales (two
// scales if groups have 16 elements); then d as f32; for formats with minima
// then come the minima as pairs of int16, [groups/2][2][16 rows][2], and dmin
// as f32. For plain types a panel is [k][32 rows], for BF16 [k/2][32 rows][2].
const (
	panelRows   = 32
	panelQuants = 1024
	panelVec    = 128 // one f32 for every row
)

// panelBlock returns the bytes of a block, superblock or element in a panel.
func (f *format) panelBlock(t graph.DType) int {
	switch f.act {
	case graph.Q8:
		if f.min {
			return panelQuants + 2*panelVec
		}
		return panelQuants + panelVec
	case graph.Q8K:
		groups := 256 / f.group
		size := 8*panelQuants + groups*panelVec + panelVec
		if f.min {
			size += groups/2*panelVec + panelVec
		}
		return size
	}
	return panelRows * t.BlockBytes()
}

// unpackRow writes elements [k0,k0+n) of a row to lane r of a panel. It is the
// specification of the unpack kernels, and does rows that fill no half panel.
func unpackRow(t graph.DType, panel, row []byte, k0, n, r int) {
	f := &formats[t]
	size, out := t.BlockBytes(), f.panelBlock(t)
	switch f.act {
	case graph.Q8:
		var b block32
		nb := n / 32
		for i := range nb {
			decode32(t, &b, row[(k0/32+i)*size:])
			p := panel[panelPlace(i, nb)*out:]
			unpackQuants(p, &b.q, f.off, r)
			putF32(p, panelQuants+4*r, normal(b.d))
			if f.min {
				putF32(p, panelQuants+panelVec+4*r, b.m)
			}
		}
	case graph.Q8K:
		var b block256
		per := f.group / 16
		for i := range n / 256 {
			decode256(t, &b, row[(k0/256+i)*size:])
			p := panel[i*out:]
			for g := range 8 {
				unpackQuants(p, (*[32]int8)(b.q[32*g:]), f.off, r)
				p = p[panelQuants:]
				for j := 0; j < 2; j += per {
					binary.LittleEndian.PutUint32(p[4*r:], uint32(int32(b.sc[2*g+j])))
					p = p[panelVec:]
				}
			}
			putF32(p, 4*r, b.d)
			if f.min {
				p = p[panelVec:]
				for j := 0; j < 16; j += per {
					binary.LittleEndian.PutUint16(p[j/per/2*panelVec+4*r+j/per%2*2:], uint16(b.mn[j]))
				}
				putF32(p, 8/per*panelVec+4*r, b.dmin)
			}
		}
	default:
		for i := range n {
			k := k0 + i
			switch t {
			case graph.BF16:
				copy(panel[i/2*128+4*r+i%2*2:], row[2*k:2*k+2])
			case graph.F16:
				copy(panel[i*64+2*r:], row[2*k:2*k+2])
			default:
				copy(panel[i*128+4*r:], row[4*k:4*k+4])
			}
		}
	}
}

// panelPlace returns the place of block b of nb blocks of 32 in a panel of four
// parts.
func panelPlace(b, nb int) int {
	size := (nb + 3) / 4
	b += 4*size - nb
	return b%4*size + b/4
}

func unpackQuants(p []byte, q *[32]int8, off, r int) {
	for i, v := range q {
		p[i/4*panelVec+4*r+i%4] = byte(int(v) + off)
	}
}

// A way is an algorithm of products.
type way int

const (
	wayBest   way = iota
	wayRows       // one row after the other
	wayFours      // four short rows together, one token: AVX-512 only
	wayWhole      // rows of whole steps, one token: AVX-512 only
	wayQuads      // 16 decoded rows: AVX-512 only
	wayPanels     // 32 unpacked rows
)

// forced, if not wayBest, is the way that is taken for any number of tokens,
// where it exists. Tests set it.
var forced way

// sideKind is what the panel kernels need beside the activation rows.
type sideKind int

const (
	sideNone  sideKind = iota
	side32             // int32 per 32 elements: −off·Σ
	side16             // int32 per 16 elements: −off·Σ
	sideMin            // f32 per 32 elements: Σ
	sidePairs          // int16 per 32 elements: Σ
)

func (f *format) side() sideKind {
	switch {
	case f.act == graph.Q8 && f.min:
		return sideMin
	case f.act == graph.Q8 || f.act == graph.Q8K && f.group == 32 && !f.min:
		return side32
	case f.act == graph.Q8K && f.group == 32:
		return sidePairs
	case f.act == graph.Q8K && !f.min:
		return side16
	}
	return sideNone
}

// sideBytes returns the bytes of side numbers per token, in whole cache lines.
func (f *format) sideBytes(k int) int {
	n := 0
	switch f.side() {
	case side32, sideMin:
		n = k / 32 * 4
	case side16:
		n = k / 16 * 4
	case sidePairs:
		n = k / 32 * 2
	}
	return (n + 63) &^ 63
}

// makeSide computes the side numbers of one activation row of k elements.
func (f *format) makeSide(dst, x []byte, k int) {
	kind := f.side()
	if f.act == graph.Q8 {
		sums := x[k+k/8:]
		for b := range k / 32 {
			s := i32at(sums, 4*b)
			if kind == sideMin {
				putF32(dst, 4*b, float32(s))
			} else {
				binary.LittleEndian.PutUint32(dst[4*b:], uint32(-s*int32(f.off)))
			}
		}
		return
	}
	sums := x[k+k/64:]
	for g := range k / 16 {
		s := int32(i16at(sums, 2*g))
		switch kind {
		case side16:
			binary.LittleEndian.PutUint32(dst[4*g:], uint32(-s*int32(f.off)))
		case side32:
			if g%2 == 0 {
				s += int32(i16at(sums, 2*g+2))
				binary.LittleEndian.PutUint32(dst[2*g:], uint32(-s*int32(f.off)))
			}
		case sidePairs:
			if g%2 == 0 {
				s += int32(i16at(sums, 2*g+2))
				binary.LittleEndian.PutUint16(dst[g:], uint16(s))
			}
		}
	}
}
