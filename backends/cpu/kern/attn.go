package kern

import (
	"math"
	"sync/atomic"
	"unsafe"

	"graphrun/graph"
)

// Attention is one attention operation: H query heads in groups of H/G over G
// heads of keys and values, K numbers each.
//
// The cache is a pool of pages of 64 positions. A page holds for each of the G
// heads the keys, in 4 blocks [K][16] whose lanes are positions, then the 64
// value rows; for q8_0 each 32 dimensions of a key block are 16 f16 scales and
// int8 [32][16]. This is the layout of package ops.
//
// For each token and head the positions it sees are cut at multiples of 128
// into chunks: scores of a chunk, one step of the online softmax, values of the
// chunk. Chunks are cut into ranges (see rangeLen) whose results are merged in
// the order of positions. All cuts depend on the token's own position alone, and
// every sum runs in the order of positions, so a token's result has the same
// bits whatever other tokens it is computed with and however the work is
// divided. Letters: t is a token, g a head of the cache, row r a token's query
// head within a tile.
type Attention struct {
	Type           graph.DType // of the cache: F32, F16 or Q8_0
	H, G, K        int
	Window         int // positions a token sees; 0 is all
	Scale, Softcap float32
}

// AttnStep is what an attention works on in one step.
type AttnStep struct {
	T        int
	Q, Y     []float32 // row t at t·LdQ and t·LdY, heads K apart
	LdQ, LdY int
	Pool     []byte
	Pos, Seq []int32
	Pages    []int32 // pool page of position p of sequence s: Pages[s·LdPages + p/64 mod Ring]
	LdPages  int
	Ring     int
	Sinks    []float32 // by query head, nil for none
}

const (
	attnPage   = 64  // positions of a page
	attnBlock  = 16  // positions of a block of keys
	attnChunk  = 128 // positions of a step of the softmax
	attnRanges = 16  // most ranges of a token
	attnTokens = 12  // most tokens of a tile
	attnItems  = 8   // most pairs of token and head whose ranges are shared out
	scoreBytes = (attnChunk + 16) * 4
)

// AttentionSupported reports whether Attend has kernels for a cache type and a
// head width with the instruction sets in use.
func AttentionSupported(t graph.DType, k int) bool {
	if !VectorsSupported() || k <= 0 || k%16 != 0 {
		return false
	}
	switch t {
	case graph.F32, graph.F16:
		return true
	case graph.Q8_0:
		return k%32 == 0
	}
	return false
}

// tileTokens is the most tokens of a tile: about 48 rows, and a multiple of six
// rows where it can be.
func (a *Attention) tileTokens() int { return max(1, min(attnTokens, 48/(a.H/a.G))) }

func (a *Attention) rowBytes() int { return a.Type.RowBytes(a.K) }

// stateBytes is the size of the softmax of a number of rows.
func (a *Attention) stateBytes(rows int) int { return rows*(4*a.K+64) + (4*rows+63)&^63 }

// ScratchBytes returns the bytes of scratch memory Attend needs.
func (a *Attention) ScratchBytes() int {
	rows := a.tileTokens() * (a.H / a.G)
	n := rows*(4*a.K+scoreBytes) + 2*a.stateBytes(rows)
	if a.Type == graph.Q8_0 {
		n += attnPage * 4 * a.K
	}
	return n
}

// AttnShared holds partial results of the few pairs of token and head whose
// positions are divided among workers. It serves one Attend at a time.
type AttnShared struct {
	slots []byte
	done  [attnItems]struct {
		ranges atomic.Int32
		_      [60]byte
	}
}

// Grow makes room for a.
func (s *AttnShared) Grow(a *Attention) {
	if n := attnItems * attnRanges * a.stateBytes(a.H/a.G); len(s.slots) < n {
		s.slots = make([]byte, n)
	}
}

// Reset forgets an Attend that was not finished.
func (s *AttnShared) Reset() {
	for i := range s.done {
		s.done[i].ranges.Store(0)
	}
}

// span is what a token sees: positions first to last, in ranges of size
// positions, the first and last of which are lo and hi.
type span struct{ first, last, size, lo, hi int }

// spanOf cuts the positions a token at position p sees.
func (a *Attention) spanOf(p int) span {
	s := span{last: p}
	if a.Window > 0 {
		s.first = max(0, p-a.Window+1)
	}
	s.size = a.rangeLen(p - s.first + 1)
	s.lo, s.hi = s.first/s.size, p/s.size
	return s
}

// rangeLen returns the positions of a range for a token that sees n: short ones
// where few heads must be divided among workers, longer ones where n would give
// more than attnRanges.
func (a *Attention) rangeLen(n int) int {
	size := attnChunk
	for g := 1; g < a.G && size < 1024; g *= 2 {
		size *= 2
	}
	for n > (attnRanges-1)*size {
		size *= 2
	}
	return size
}

// cost of a token in a span, in chunks.
func (s span) cost() int { return s.last/attnChunk - s.first/attnChunk + 1 + s.hi - s.lo + 1 }

// rangeCost is the part of range r in cost.
func (s span) rangeCost(r int) int {
	lo, hi := max(s.first, r*s.size), min(s.last, (r+1)*s.size-1)
	return hi/attnChunk - lo/attnChunk + 2
}

// tile returns the number of tokens from t on that can be done together: a run
// of positions of one sequence, cut into the same ranges.
func (a *Attention) tile(st *AttnStep, t int, s span) int {
	most := min(a.tileTokens(), st.T-t, (s.hi+1)*s.size-s.last)
	if seen := s.last - s.first + 1; a.Window == 0 || seen < a.Window {
		most = min(most, (attnRanges-1)*s.size-seen+1) // ranges grow behind that
	}
	if a.Window > 0 { // first(t+n) is below the end of the first range
		most = min(most, (s.lo+1)*s.size-(s.last-a.Window+1))
	}
	n := 1
	for n < most && st.Seq[t+n] == st.Seq[t] && st.Pos[t+n] == st.Pos[t]+int32(n) {
		n++
	}
	return n
}

// Attend does the part from lo/of to hi/of of the step's work; the parts of all
// callers together must be the whole. shared is nil or the same for all of them.
// scratch is at least ScratchBytes() of memory for this call alone that starts
// at a multiple of 64.
//
// It needs AttentionSupported. It panics when a position's page lies outside of
// the pool.
func (a *Attention) Attend(st *AttnStep, lo, hi, of int, shared *AttnShared, scratch []byte) {
	if len(scratch) < a.ScratchBytes() {
		panic("kern: scratch too short")
	}
	split := shared != nil && st.T*a.G <= attnItems && (lo > 0 || hi < of)
	// next returns what token t sees and how many tokens are done with it. The
	// whole and the parts are counted alike, by tile or by token.
	next := func(t int) (s span, n int) {
		s, n = a.spanOf(int(st.Pos[t])), 1
		if !split {
			n = a.tile(st, t, s)
		}
		return s, n
	}
	total := 0
	for t := 0; t < st.T; {
		s, n := next(t)
		total += n * s.cost()
		t += n
	}
	total *= a.G
	from, to := total*lo/of, total*hi/of
	w := attnWork{a: a, st: st, scratch: scratch, group: a.H / a.G}
	at := 0
	for t := 0; t < st.T && at < to; {
		s, n := next(t)
		// All heads of a tile before the next one: the rows of queries and
		// results lie in as many memory pages as there are tokens.
		for g := range a.G {
			if split {
				w.shareOut(shared, t, g, s, at, from, to)
			} else if at >= from && at < to {
				w.whole(t, n, g, s)
			}
			at += n * s.cost()
		}
		t += n
	}
}

// attnWork is the work of one Attend on one tile.
type attnWork struct {
	a       *Attention
	st      *AttnStep
	scratch []byte
	group   int // query heads for a head of the cache

	// The tile: tokens t to t+n-1, positions p on.
	t, n, g, p int
	s          span // of the first token
	q, scores  []byte
	page       []byte // f32 keys or values of a page of q8_0
}

// attnState is the softmax under way of some rows.
type attnState struct{ acc, sums, max []byte }

func (w *attnWork) state(mem []byte, rows int) attnState {
	k := 4 * w.a.K
	return attnState{mem[:rows*k], mem[rows*k : rows*(k+64)], mem[rows*(k+64) : rows*(k+68)]}
}

// begin takes up a tile: it copies the queries, scaled, to the scratch memory
// and returns the rest of that. The tile is a value of its own, so that nothing
// of it reaches the heap.
func (w attnWork) begin(t, n, g int, s span) (attnWork, []byte) {
	w.t, w.n, w.g, w.s, w.p = t, n, g, s, int(w.st.Pos[t])
	rows, k, mem := n*w.group, w.a.K, w.scratch
	w.q, mem = mem[:rows*4*k], mem[rows*4*k:]
	w.scores, mem = mem[:rows*scoreBytes], mem[rows*scoreBytes:]
	if w.a.Type == graph.Q8_0 {
		w.page, mem = mem[:attnPage*4*k], mem[attnPage*4*k:]
	}
	for i := range n {
		o := (t+i)*w.st.LdQ + g*w.group*k
		scaleTo(w.q[i*w.group*4*k:], w.st.Q[o:o+w.group*k], w.a.Scale)
	}
	return w, mem
}

// whole computes all ranges of a tile.
func (w *attnWork) whole(t, n, g int, s span) {
	tile, mem := w.begin(t, n, g, s)
	w = &tile
	rows := n * w.group
	total, part := w.state(mem, rows), w.state(mem[w.a.stateBytes(rows):], rows)
	w.positions(s.lo, total)
	for r := s.lo + 1; r <= s.hi; r++ {
		w.positions(r, part)
		w.merge(total, part, rows)
	}
	w.finish(total)
}

// shareOut computes those ranges of a token that begin between from and to on
// the scale of cost, on which the token begins at at. Whoever finishes the last
// range merges all, in order.
func (w *attnWork) shareOut(shared *AttnShared, t, g int, s span, at, from, to int) {
	lo, hi := -1, -1
	for r := s.lo; r <= s.hi; r++ {
		if at >= from && at < to {
			if lo < 0 {
				lo = r
			}
			hi = r
		}
		at += s.rangeCost(r)
	}
	switch {
	case lo < 0:
		return
	case lo == s.lo && hi == s.hi:
		w.whole(t, 1, g, s)
		return
	}
	tile, _ := w.begin(t, 1, g, s)
	w = &tile
	size, item := w.a.stateBytes(w.group), g*w.st.T+t
	slot := func(r int) attnState { return w.state(shared.slots[(item*attnRanges+r-s.lo)*size:], w.group) }
	for r := lo; r <= hi; r++ {
		w.positions(r, slot(r))
	}
	all := int32(s.hi - s.lo + 1)
	if shared.done[item].ranges.Add(int32(hi-lo+1)) < all {
		return
	}
	shared.done[item].ranges.Store(0)
	total := slot(s.lo)
	for r := s.lo + 1; r <= s.hi; r++ {
		w.merge(total, slot(r), w.group)
	}
	w.finish(total)
}

// positions computes the softmax of the positions of range r.
func (w *attnWork) positions(r int, st attnState) {
	a, rows := w.a, w.n*w.group
	clear(st.acc)
	clear(st.sums)
	for i := range rows {
		m := float32(math.Inf(-1))
		if w.st.Sinks != nil && r == w.s.lo {
			// The sink is a score without a value.
			m = w.st.Sinks[w.g*w.group+i%w.group]
			putF32(st.sums, 64*i, 1)
		}
		putF32(st.max, 4*i, m)
	}
	last := min(w.p+w.n-1, (r+1)*w.s.size-1)
	w.askKeys(max(r*w.s.size, w.s.first), last)
	for c := max(r*w.s.size, w.s.first/attnChunk*attnChunk); c <= last; c += attnChunk {
		// Tokens i with first(i) < c+128 and last(i) ≥ c.
		lo, hi := max(0, c-w.p), w.n
		if a.Window > 0 {
			hi = min(hi, c+attnChunk-1+a.Window-w.p)
		}
		if lo < hi {
			w.chunk(c, lo, hi, st)
		}
	}
}

// askKeys asks for the keys of the first chunk of positions from to last, which
// nothing did so far, or for a part of them only.
func (w *attnWork) askKeys(from, last int) {
	last = min(last, from/attnChunk*attnChunk+attnChunk-1)
	for p := from / attnPage * attnPage; p <= last; p += attnPage {
		area, n := w.area(max(p, from), w.g), min(last-p+1, attnPage)
		Prefetch(w.st.Pool[area : area+n*w.a.rowBytes()])
	}
}

// sees returns the first and last position of the chunk at c that token i sees.
func (w *attnWork) sees(c, i int) (lo, hi int) {
	p := w.p + i
	if w.a.Window > 0 {
		lo = max(0, p-w.a.Window+1-c)
	}
	return lo, min(p-c, attnChunk-1)
}

// chunk adds the positions from c on for tokens from to to-1 of the tile.
func (w *attnWork) chunk(c, from, to int, st attnState) {
	a := w.a
	row, rows := from*w.group, (to-from)*w.group
	lo, allHi := w.sees(c, from)
	allLo, hi := w.sees(c, to-1)
	var page [attnChunk / attnPage]int
	for i := range page {
		if p := i * attnPage; p <= hi && p+attnPage > lo {
			page[i] = w.area(c+p, w.g)
			w.score(page[i], p, max(lo, p), min(hi, p+attnPage-1), row, rows)
		}
	}
	if a.Softcap > 0 {
		for r := row; r < row+rows; r++ {
			softcapBytes(w.scores[r*scoreBytes+lo/attnBlock*64:r*scoreBytes+(hi/attnBlock+1)*64], a.Softcap)
		}
	}
	if allLo == 0 && allHi == attnChunk-1 {
		w.weigh(row, rows, 0, attnChunk-1, st)
	} else {
		for i := from; i < to; i++ {
			lo, hi := w.sees(c, i)
			w.weigh(i*w.group, w.group, lo, hi, st)
		}
	}
	for i, area := range page {
		p := i * attnPage
		if p > hi || p+attnPage <= lo {
			continue
		}
		m := w.values(area, max(lo, p)-p, min(hi, p+attnPage-1)-p, w.after(c, p))
		if allLo > allHi {
			for i := from; i < to; i++ {
				lo, hi := w.sees(c, i)
				w.mix(m, p, lo, hi, i*w.group, w.group, st)
			}
			continue
		}
		// The positions all tokens see are done for all of them; before and
		// after come those that only some see.
		for i := from; i < to && lo < allLo; i++ {
			lo, _ := w.sees(c, i)
			w.mix(m, p, lo, allLo-1, i*w.group, w.group, st)
		}
		w.mix(m, p, allLo, allHi, row, rows, st)
		for i := from; i < to && hi > allHi; i++ {
			_, hi := w.sees(c, i)
			w.mix(m, p, allHi+1, hi, i*w.group, w.group, st)
		}
	}
}

// area returns the offset in the pool of the keys of head g in the page with
// position p; the values follow them.
func (w *attnWork) area(p, g int) int {
	n := int(w.st.Pages[int(w.st.Seq[w.t])*w.st.LdPages+p/attnPage%w.st.Ring])
	return (n*w.a.G + g) * 2 * attnPage * w.a.rowBytes()
}

// after returns the offset in the pool of the keys that are read when the chunk
// at c is done, those in place of its page at p: of the next chunk, or of the
// next head.
func (w *attnWork) after(c, p int) int {
	end := w.p + w.n - 1
	if next := c + attnChunk + p; next <= end {
		return w.area(next, w.g)
	}
	if next := w.s.first/attnChunk*attnChunk + p; w.g+1 < w.a.G && next <= end {
		return w.area(max(next, w.s.first), w.g+1)
	}
	return w.area(c+p, w.g)
}

// score computes the scores of positions lo to hi of a chunk, which lie in the
// page that begins at p. area is the offset of the head's keys in the pool. The
// values, which follow there, are asked for: a processor does not look ahead
// beyond 4 KiB by itself.
func (w *attnWork) score(area, p, lo, hi, row, rows int) {
	a := w.a
	b, n := (lo-p)/attnBlock, (hi-p)/attnBlock-(lo-p)/attnBlock+1
	step, ahead := attnBlock*a.rowBytes(), attnPage*a.rowBytes()
	keys := w.st.Pool[area+b*step : area+(b+n)*step]
	s := scoreArgs{
		q: addrOf(w.q, row*4*a.K), ldq: 4 * a.K, rows: rows, rowStep: rowStep(rows), k: addrOf(keys, 0), kstep: step,
		blocks: n, dims: a.K, s: addrOf(w.scores, row*scoreBytes+(p/attnBlock+b)*64), ahead: ahead,
	}
	if a.Type == graph.Q8_0 {
		unpackKeys(w.page, keys, ahead)
		s.k, s.kstep, s.ahead = addrOf(w.page, 0), attnBlock*4*a.K, 0
	}
	attnScores(a.Type, &s)
}

// weigh turns the scores of positions lo to hi of a chunk into weights.
func (w *attnWork) weigh(row, rows, lo, hi int, st attnState) {
	k := 4 * w.a.K
	attnWeigh(&weighArgs{
		s: addrOf(w.scores, row*scoreBytes+lo/attnBlock*64), rows: rows, max: addrOf(st.max, 4*row), sums: addrOf(st.sums, 64*row),
		acc: addrOf(st.acc, row*k), ldacc: k, cols: w.a.K / 16, first: int32(lo % attnBlock), count: int32(hi - lo + 1),
		vecs: hi/attnBlock - lo/attnBlock + 1,
	})
}

// values returns the values of slots lo to hi of a page, as if slot 0 were the
// first of them. next is the offset in the pool of what is read after them.
func (w *attnWork) values(area, lo, hi, next int) pageValues {
	n := w.a.rowBytes()
	ahead := next - area - attnPage*n
	rows := w.st.Pool[area+(attnPage+lo)*n : area+(attnPage+hi+1)*n]
	if w.a.Type == graph.Q8_0 {
		unpackValues(w.page, rows, ahead)
		return pageValues{w.page, 4 * w.a.K, lo, 0}
	}
	return pageValues{rows, n, lo, ahead}
}

// pageValues are value rows of a page from slot first on. What lies ahead bytes
// behind them is read next.
type pageValues struct {
	rows               []byte
	step, first, ahead int
}

// mix adds the values of positions lo to hi of a chunk, as far as they lie in
// the page that begins at p.
func (w *attnWork) mix(m pageValues, p, lo, hi, row, rows int, st attnState) {
	lo, hi = max(lo, p), min(hi, p+attnPage-1)
	if lo > hi {
		return
	}
	k := 4 * w.a.K
	attnMix(w.a.Type, &mixArgs{
		p: addrOf(w.scores, row*scoreBytes+4*lo), rows: rows, rowStep: rowStep(rows), v: addrOf(m.rows, (lo-p-m.first)*m.step), vstep: m.step,
		pos: hi - lo + 1, cols: w.a.K / 16, acc: addrOf(st.acc, row*k), ldacc: k, ahead: m.ahead,
	})
}

func (w *attnWork) merge(total, part attnState, rows int) {
	k := 4 * w.a.K
	attnMerge(&mergeArgs{
		max: addrOf(total.max, 0), sums: addrOf(total.sums, 0), acc: addrOf(total.acc, 0), max2: addrOf(part.max, 0), sums2: addrOf(part.sums, 0),
		acc2: addrOf(part.acc, 0), rows: rows, ldacc: k, cols: w.a.K / 16, ldacc2: k,
	})
}

// finish writes the results of the tile.
func (w *attnWork) finish(st attnState) {
	k := w.a.K
	for i := range w.n {
		o := (w.t+i)*w.st.LdY + w.g*w.group*k
		y := w.st.Y[o : o+w.group*k]
		attnFinish(&mergeArgs{
			sums: addrOf(st.sums, i*w.group*64), acc: addrOf(st.acc, i*w.group*4*k), acc2: unsafe.Pointer(&y[0]), rows: w.group, ldacc: 4 * k,
			cols: k / 16, ldacc2: 4 * k,
		})
	}
}

// rowStep divides rows into equal groups of at most six.
func rowStep(rows int) int {
	n := (rows + 5) / 6
	return (rows + n - 1) / n
}

// The arguments of the kernels; the generator knows the offsets.
type (
	scoreArgs struct {
		q                   unsafe.Pointer
		ldq, rows, rowStep  int
		k                   unsafe.Pointer
		kstep, blocks, dims int
		s                   unsafe.Pointer
		ahead               int // bytes from the keys to what is asked for meanwhile
	}
	mixArgs struct {
		p                unsafe.Pointer
		rows, rowStep    int
		v                unsafe.Pointer
		vstep, pos, cols int
		acc              unsafe.Pointer
		ldacc            int
		ahead            int // bytes from the values to what is asked for meanwhile
	}
	weighArgs struct {
		s            unsafe.Pointer
		rows         int
		max, sums    unsafe.Pointer
		acc          unsafe.Pointer
		ldacc, cols  int
		first, count int32
		vecs         int
	}
	mergeArgs struct {
		max, sums, acc, max2, sums2, acc2 unsafe.Pointer
		rows, ldacc, cols, ldacc2         int
	}
	cacheArgs struct {
		src, dst unsafe.Pointer
		n        int
		ahead    int // bytes from src to what is asked for meanwhile
	}
)

// hideRest makes the scores of the vectors around the range −Inf, for kernels
// without masks.
//
//lint:ignore U1000 builds without assembly do not need it
func (a *weighArgs) hideRest() {
	n := a.vecs * attnBlock
	if int(a.count) >= n {
		return
	}
	for r := range a.rows {
		s := unsafe.Slice((*float32)(unsafe.Add(a.s, r*scoreBytes)), n)
		for i := range int(a.first) {
			s[i] = float32(math.Inf(-1))
		}
		for i := int(a.first + a.count); i < n; i++ {
			s[i] = float32(math.Inf(-1))
		}
	}
}

func addrOf(b []byte, i int) unsafe.Pointer { return unsafe.Pointer(&b[i]) }
