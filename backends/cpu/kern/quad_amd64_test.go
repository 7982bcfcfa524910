//go:build amd64 && gc && !noasm

package kern

import (
	"bytes"
	"encoding/binary"
	"testing"

	"graphrun/graph"
)

func TestMulQuads(t *testing.T) {
	forced = wayQuads
	defer func() { forced = wayBest }()
	testMul(t)
}

// TestSameBitsQuads uses quads for any number of tokens.
func TestSameBitsQuads(t *testing.T) {
	forced = wayQuads
	defer func() { forced = wayBest }()
	testSameBits(t)
}

// quadsGeneric decodes 16 rows to quads; rows beyond the last are like it.
func quadsGeneric(w *Mat, p *quadPlan) []byte {
	f, size := &formats[w.Type], w.Type.BlockBytes()
	dst := make([]byte, p.groups*p.w)
	for r := range quadRows {
		row := w.Data[min(r, w.N-1)*w.rowBytes():]
		vec, lane := r/4, r%4
		q := func(g, step, j, i int) *byte { return &dst[g*p.w+256*step+64*vec+16*lane+4*j+i] }
		if f.act == graph.Q8 {
			for b := range 4 * p.groups {
				g, j := b/4, b%4
				var blk block32
				if b >= p.lacks {
					decode32(w.Type, &blk, row[(b-p.lacks)*size:])
				}
				for k, v := range blk.q {
					*q(g, k/4, j, k%4) = byte(int(v) + f.off)
				}
				at := dst[g*p.w+2048+64*vec+16*lane+4*j:]
				putF32(at, 0, normal(blk.d))
				if f.min {
					putF32(at, 256, blk.m)
				}
			}
			continue
		}
		for b := range p.groups {
			var blk block256
			decode256(w.Type, &blk, row[b*size:])
			steps := f.group / 4
			for k, v := range blk.q {
				j := k / f.group
				*q(b, j/4*steps+k%f.group/4, j%4, k%4) = byte(int(v) + f.off)
			}
			at := dst[b*p.w+4096:]
			groups := 256 / f.group
			for j := range groups {
				sc := uint32(int32(blk.sc[j*f.group/16]))
				binary.LittleEndian.PutUint32(at[256*(j/4)+64*vec+16*lane+4*(j%4):], sc)
			}
			at = at[64*groups:]
			if f.min {
				for j := range groups {
					putI16(at, 256*(j/8)+64*vec+16*lane+2*(j%8), int16(blk.mn[j*f.group/16]))
				}
				at = at[32*groups:]
			}
			putF32(at, 16*lane+4*vec, blk.d)
			putF32(at, 64+16*lane+4*vec, blk.dmin)
		}
	}
	return dst
}

// TestQuadDecode compares decoded rows with the plain loop. What lacks has
// scales of zero; its numbers do not matter.
func TestQuadDecode(t *testing.T) {
	if !features.avx512 {
		t.Skip("no AVX-512")
	}
	tried := 0
	for _, typ := range quantTypes() {
		if limitsOf[typ].quads == 0 {
			continue
		}
		tried++
		for _, rows := range []int{1, 4, 7, 16} {
			for blocks := 1; blocks <= 9; blocks++ {
				w := randomMat(t, typ, rows, blocks*typ.BlockElems(), uint64(10*rows+blocks))
				p := planQuads(w)
				want := quadsGeneric(w, &p)
				got := make([]byte, len(want))
				d := quadDecodeArgs{w: ptr(w.Data, 0), stride: w.rowBytes(), rows: rows, dst: ptr(got, 0), blocks: p.groups, part: p.lacks * typ.BlockBytes()}
				d.mask = quadMasks(typ, p.lacks)
				quadDecode(typ, &d)
				for i := 0; p.lacks > 0 && i < 2048; i += 4 {
					if i/4%4 < p.lacks {
						copy(got[i:i+4], want[i:i+4])
					}
				}
				// Rows of fours that do not exist at all are not decoded.
				for i := range got {
					four := i % p.w % 256 / 64
					if i%p.w >= p.single {
						four = i % p.w % 16 / 4
					}
					if four >= (rows+3)/4 {
						got[i], want[i] = 0, 0
					}
				}
				if i := firstDifference(got, want); i >= 0 {
					t.Fatalf("%v rows=%d blocks=%d: byte %d of group %d is %d, the plain loop has %d", typ, rows, blocks, i%p.w, i/p.w, got[i], want[i])
				}
			}
		}
	}
	if tried < 12 {
		t.Errorf("only %d formats have quads", tried)
	}
}

func firstDifference(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}
