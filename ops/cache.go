package ops

import (
	"encoding/binary"
	"fmt"
	"math"

	"graphrun/graph"
)

var opKVWrite = graph.Register(&graph.Op{
	Name: "kvwrite", Doc: "the cache with k and v stored at (seq, pos) of each token",
	MinArgs: 6, MaxArgs: 6, Flags: graph.State,
	Infer: inferKVWrite, Prepare: prepareKVWrite, Units: kvwriteUnits, Kernel: kvwriteKernel, Cost: kvwriteCost,
})

// PageSize is the number of positions in a page of a cache, KeyBlock the number
// of positions whose keys lie together with positions as lanes.
const (
	PageSize = 64
	KeyBlock = 16
)

// KVWrite stores the keys and values of the step's tokens.
//
//	cache[page(t), slot(t)] = k[t], v[t];  page(t) = pages[seq[t], (pos[t]/64) mod C], slot(t) = pos[t] mod 64
//
// cache is [S,2,G,K] of f32, f16 or q8_0, k and v are f32 [T,G,K], pos and seq
// are i32 [T], pages is i32 [N,C]: for each sequence of the step the pool pages
// of its positions, a ring when the cache has a window. The result is the cache
// itself after the change. No two tokens of a step may share sequence and
// position. Numbers beyond the range of f16 are stored as its largest.
// The builder records ErrShape if an operand has another form, a q8_0 cache has
// K no multiple of 32, or K is above 512.
func KVWrite(b *graph.Builder, cache, k, v, pos, seq, pages *graph.Value) *graph.Value {
	return b.Op(opKVWrite, nil, cache, k, v, pos, seq, pages)
}

// CacheLayout says where keys and values lie in the pool of a cache [S,2,G,K]:
// S/PageSize pages, in a page one area for each kv head, in an area first the
// keys, then the values.
//
// Keys lie in PageSize/KeyBlock blocks of KeyBlock positions, in which positions
// are lanes: element [d][lane] for dimension d. For q8_0 each 32 dimensions of a
// block are 16 f16 scales, one per lane, and then int8 [32][lane]. Values lie as
// PageSize rows of K elements, for q8_0 rows of ordinary blocks.
type CacheLayout struct {
	DType graph.DType
	G, K  int
}

// LayoutOf returns the layout of a cache of the given type, which KVWrite and
// Attention have accepted.
func LayoutOf(t graph.Type) CacheLayout {
	return CacheLayout{t.DType, t.Shape[2].Size, t.Shape[3].Size}
}

// RowBytes returns the bytes of the keys, or the values, of one head at one
// position.
func (l CacheLayout) RowBytes() int { return l.DType.RowBytes(l.K) }

// AreaBytes returns the bytes of one head's keys and values in a page.
func (l CacheLayout) AreaBytes() int { return 2 * PageSize * l.RowBytes() }

// PageBytes returns the bytes of a page.
func (l CacheLayout) PageBytes() int { return l.G * l.AreaBytes() }

// Keys returns the offset in the pool of a block of KeyBlock keys.
func (l CacheLayout) Keys(page, g, block int) int {
	return page*l.PageBytes() + g*l.AreaBytes() + block*KeyBlock*l.RowBytes()
}

// Values returns the offset in the pool of the value row of a slot of a page.
func (l CacheLayout) Values(page, g, slot int) int {
	return page*l.PageBytes() + g*l.AreaBytes() + (PageSize+slot)*l.RowBytes()
}

// KeyScale returns the offset in a q8_0 key block of the f16 scale of a lane
// for the 32 dimensions from 32·j on.
func (l CacheLayout) KeyScale(j, lane int) int { return j*34*KeyBlock + 2*lane }

// KeyElem returns the offset in a key block of dimension d of a lane.
func (l CacheLayout) KeyElem(d, lane int) int {
	if l.DType == graph.Q8_0 {
		return d/32*34*KeyBlock + 2*KeyBlock + d%32*KeyBlock + lane
	}
	return (d*KeyBlock + lane) * l.DType.BlockBytes()
}

// PageOf returns the pool page that holds a position of sequence s of the step.
func PageOf(pages *graph.Tensor, s, pos int) int {
	c := pages.Dims[1]
	return int(pages.I32[s*pages.Stride+pos/PageSize%c])
}

// checkCache accepts a cache [S,2,G,K] whose heads are k wide and whose type
// kernels can store.
func checkCache(i int, t graph.Type, k int) error {
	s := t.Shape
	if len(s) != 4 || s[1] != graph.Fix(2) || !fixedTail(s) || s[3].Size != k {
		return misfit(i, "cache", t, "[S,2,G,%d]", k)
	}
	if k > MaxHeadWidth {
		return misfit(i, "cache", t, "heads of at most %d elements", MaxHeadWidth)
	}
	switch t.DType {
	case graph.F32, graph.F16:
	case graph.Q8_0:
		if k%32 != 0 {
			return fmt.Errorf("%w; f16 caches take any head width", misfit(i, "cache", t, "heads of whole blocks of 32 elements"))
		}
	default:
		return misfit(i, "cache", t, "f32, f16 or q8_0")
	}
	return nil
}

// checkPlaces accepts the operands pos, seq and pages that say where the tokens
// of x lie, from operand i on.
func checkPlaces(i int, pos, seq, pages graph.Type, x graph.Shape) error {
	if !isIndex(pos, x) {
		return misfit(i, "pos", pos, "i32[%s]", x[0])
	}
	if !isIndex(seq, x) {
		return misfit(i+1, "seq", seq, "i32[%s]", x[0])
	}
	if pages.DType != graph.I32 || len(pages.Shape) != 2 {
		return misfit(i+2, "pages", pages, "i32[N,C]")
	}
	return nil
}

func inferKVWrite(a []graph.Type, _ graph.Attrs) (graph.Type, error) {
	cache, k, v := a[0], a[1], a[2]
	if !isF32(k, 3) || !fixedTail(k.Shape) {
		return graph.Type{}, misfit(1, "k", k, "f32[T,G,K]")
	}
	if err := checkCache(0, cache, k.Shape.Last()); err != nil {
		return graph.Type{}, err
	}
	if g := cache.Shape[2]; k.Shape[1] != g {
		return graph.Type{}, misfit(1, "k", k, "%s heads, as operand 0 (cache)", g)
	}
	if !v.Equal(k) {
		return graph.Type{}, misfit(2, "v", v, "%s, the type of operand 1 (k)", k)
	}
	return cache, checkPlaces(3, a[3], a[4], a[5], k.Shape)
}

func prepareKVWrite(v *graph.Value) (any, error) {
	l := LayoutOf(v.Type)
	return &l, nil
}

// kvwriteUnits counts tokens: the result is the whole cache, its rows are not
// the work.
func kvwriteUnits(c *graph.Call) int { return c.In[1].Rows() }

// kvwriteCost counts the rows written, not the whole cache.
func kvwriteCost(v *graph.Value, b graph.Dims) graph.Cost {
	l := LayoutOf(v.Type)
	k := v.Args[1].Type
	return graph.Cost{Bytes: 2*k.Bytes(b) + 2*b.Of(k.Shape[0])*l.G*l.RowBytes()}
}

func kvwriteKernel(c *graph.Call, lo, hi int) {
	l := c.Param.(*CacheLayout)
	for t := lo; t < hi; t++ {
		l.Store(c, t, c.In[1].Row(t))
	}
}

// Store writes the keys k and the values of token t, operand 2 of a write whose
// operands 3 to 5 are pos, seq and pages, to the result.
func (l *CacheLayout) Store(c *graph.Call, t int, k []float32) {
	p := int(c.In[3].I32[t])
	page, slot := PageOf(c.In[5], int(c.In[4].I32[t]), p), p%PageSize
	v := c.In[2].Row(t)
	for g := range l.G {
		l.storeKey(c.Out.Raw[l.Keys(page, g, slot/KeyBlock):], slot%KeyBlock, k[g*l.K:(g+1)*l.K])
		l.storeValue(c.Out.Raw[l.Values(page, g, slot):], v[g*l.K:(g+1)*l.K])
	}
}

// storeKey writes a key as one lane of a block of keys.
func (l *CacheLayout) storeKey(block []byte, lane int, k []float32) {
	switch l.DType {
	case graph.F32:
		for d, x := range k {
			binary.LittleEndian.PutUint32(block[l.KeyElem(d, lane):], math.Float32bits(x))
		}
	case graph.F16:
		for d, x := range k {
			binary.LittleEndian.PutUint16(block[l.KeyElem(d, lane):], toF16(x))
		}
	case graph.Q8_0:
		var q [32]byte
		for j := range l.K / 32 {
			d := quantizeQ8_0(q[:], k[32*j:32*j+32])
			binary.LittleEndian.PutUint16(block[l.KeyScale(j, lane):], d)
			for i, b := range q {
				block[l.KeyElem(32*j+i, lane)] = b
			}
		}
	}
}

// storeValue writes a value row.
func (l *CacheLayout) storeValue(row []byte, v []float32) {
	switch l.DType {
	case graph.F32:
		for d, x := range v {
			binary.LittleEndian.PutUint32(row[4*d:], math.Float32bits(x))
		}
	case graph.F16:
		for d, x := range v {
			binary.LittleEndian.PutUint16(row[2*d:], toF16(x))
		}
	case graph.Q8_0:
		for j := range l.K / 32 {
			d := quantizeQ8_0(row[34*j+2:34*j+34], v[32*j:32*j+32])
			binary.LittleEndian.PutUint16(row[34*j:], d)
		}
	}
}

// quantizeQ8_0 writes the numbers of a q8_0 block to q and returns its f16
// scale: the block of Quantize with the scale rounded to f16 afterwards.
func quantizeQ8_0(q []byte, x []float32) uint16 {
	return toF16(quantizeBlock(q, x))
}
