package engine

import (
	"fmt"
	"sync"

	"graphrun/ops"
)

// PageSize is the number of positions in a page of the KV cache.
const PageSize = ops.PageSize

// noPage marks an entry of a page table that no position uses yet. Kernels
// never read such an entry.
const noPage = -1

// pages returns the number of pages that hold n positions.
func pages(n int) int { return (n + PageSize - 1) / PageSize }

// CacheSize fixes the storage of keys and values of a model.
type CacheSize struct {
	Context int // longest sequence in positions
	Window  int // widest sliding window, 0 when no layer has one
	Step    int // most tokens a sequence adds in one step
	Full    int // pages of each layer that keeps every position, 0 when none does
	Ring    int // pages of each windowed layer, 0 when none is
}

// C returns the pages a sequence takes at most in a full layer: dimension C.
func (z CacheSize) C() int { return max(1, pages(z.Context)) }

// CW returns the pages of a sequence's ring in a windowed layer: dimension CW.
// While a step writes Step positions, the first of them still looks back over
// the window, and neither end need lie on a page boundary: hence the page more.
// A ring is never longer than the context.
func (z CacheSize) CW() int {
	if z.Window == 0 {
		return 0
	}
	return min(pages(z.Window+z.Step)+1, z.C())
}

// pool counts the references to each page of one kind of layer. Layers of a
// kind use the same page numbers, each in its own storage.
type pool struct {
	kind string
	free []int32 // stack of pages nobody uses
	refs []int32
}

func newPool(kind string, n int) pool {
	p := pool{kind: kind, free: make([]int32, n), refs: make([]int32, n)}
	for i := range p.free {
		p.free[i] = int32(n - 1 - i) // page 0 is handed out first
	}
	return p
}

func (p *pool) exists() bool { return len(p.refs) > 0 }

func (p *pool) take() int32 {
	i := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.refs[i] = 1
	return i
}

func (p *pool) share(i int32) int32 {
	p.refs[i]++
	return i
}

func (p *pool) drop(i int32) {
	p.refs[i]--
	if p.refs[i] == 0 {
		p.free = append(p.free, i)
	}
}

func (p *pool) check(need int) error {
	if need > len(p.free) {
		return &PagesError{Kind: p.kind, Need: need, Free: len(p.free), Total: len(p.refs)}
	}
	return nil
}

// Cache hands out the pages of a model's KV storage to sequences. Its methods
// and those of its sequences may be called from several goroutines; one
// sequence belongs to one goroutine at a time.
type Cache struct {
	size       CacheSize
	mu         sync.Mutex
	full, ring pool
}

// NewCache returns a cache of which every page is free.
func NewCache(z CacheSize) *Cache {
	return &Cache{size: z, full: newPool("full", z.Full), ring: newPool("window", z.Ring)}
}

// Size returns the sizes the cache was made with.
func (c *Cache) Size() CacheSize { return c.size }

// PoolUse counts the pages of one kind of layer.
type PoolUse struct{ Used, Shared, Total int }

// Use returns the pages in use in full and in windowed layers.
func (c *Cache) Use() (full, window PoolUse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.full.use(), c.ring.use()
}

func (p *pool) use() PoolUse {
	u := PoolUse{Used: len(p.refs) - len(p.free), Total: len(p.refs)}
	for _, n := range p.refs {
		if n > 1 {
			u.Shared++
		}
	}
	return u
}

// Sequence is one text in the cache: its length and the pages it lies in.
type Sequence struct {
	cache *Cache
	n     int     // positions computed
	full  []int32 // page of position p at p/PageSize
	ring  []int32 // page of position p at p/PageSize modulo CW
	// The ring holds the page indices low to high-1 whole: those at and above
	// high were never written, those below low were written over.
	low, high int

	step uint64 // the last step that used the sequence
	row  int    // its row in the page tables of that step
}

// NewSequence returns an empty sequence. It takes pages as it grows.
func (c *Cache) NewSequence() *Sequence {
	s := &Sequence{cache: c, full: make([]int32, c.size.C()), ring: make([]int32, c.size.CW())}
	fill(s.full)
	fill(s.ring)
	return s
}

func fill(table []int32) {
	for i := range table {
		table[i] = noPage
	}
}

// Len returns the number of positions computed.
func (s *Sequence) Len() int { return s.n }

// copier copies a page of every cache of one kind: a backends.Program.
type copier interface {
	CopyPage(windowed bool, dst, src int)
}

// reserve makes sure that the next n positions lie in pages that belong to the
// sequence alone: it takes pages, and copies a shared one that is about to be
// written from its middle. It takes all pages it needs or none.
func (s *Sequence) reserve(n int, cp copier) error {
	c := s.cache
	if s.n+n > c.size.Context {
		return &ContextError{Have: c.size.Context, Want: s.n + n}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	from, to := s.n/PageSize, pages(s.n+n)
	kinds := [2]struct {
		pool  *pool
		table []int32
	}{{&c.full, s.full}, {&c.ring, s.ring}}
	for _, k := range kinds {
		if err := k.pool.check(k.pool.need(k.table, from, to)); err != nil {
			return err
		}
	}
	for kind, k := range kinds {
		for i := from; i < to && k.pool.exists(); i++ {
			slot := &k.table[i%len(k.table)]
			old := *slot
			if old != noPage && k.pool.refs[old] == 1 {
				continue
			}
			*slot = k.pool.take()
			if old == noPage {
				continue
			}
			if i*PageSize < s.n {
				cp.CopyPage(kind == 1, int(*slot), int(old))
			}
			k.pool.drop(old)
		}
	}
	if c.ring.exists() {
		s.high = max(s.high, to)
		s.low = max(s.low, s.high-len(s.ring))
	}
	return nil
}

// release gives back the pages above the length, after a failed step. A ring
// keeps its pages: it is about to need them.
func (s *Sequence) release() {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	s.dropFull(pages(s.n))
}

func (s *Sequence) dropFull(from int) {
	for i := from; i < len(s.full) && s.full[i] != noPage; i++ {
		s.cache.full.drop(s.full[i])
		s.full[i] = noPage
	}
}

// Lowest returns the smallest length above 0 that Rewind can reach.
//
// Layers that keep every position can be cut anywhere. The ring of a windowed
// layer holds the last CW pages that were ever written, that is the window and
// at least one step more: it can be cut to a length m at which position m would
// still see its whole window, and to 0.
func (s *Sequence) Lowest() int {
	if s.low == 0 {
		return min(1, s.n)
	}
	return s.low*PageSize + s.cache.size.Window - 1
}

// Rewind cuts the sequence to n positions. When a windowed layer no longer
// holds what the position n would look at (see Lowest) it changes nothing and
// returns a *RewindError.
func (s *Sequence) Rewind(n int) error {
	if n < 0 || n > s.n {
		return fmt.Errorf("engine: rewind to %d: the sequence has %d positions", n, s.n)
	}
	if n == s.n {
		return nil
	}
	if n == 0 {
		s.Drop()
		return nil
	}
	if n < s.Lowest() {
		return &RewindError{To: n, Lowest: s.Lowest(), Len: s.n}
	}
	s.n = n
	s.release()
	return nil
}

// Drop empties the sequence and gives back all its pages. The sequence can be
// used again.
func (s *Sequence) Drop() {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	s.clear()
}

func (s *Sequence) clear() {
	s.dropFull(0)
	for i, p := range s.ring {
		if p != noPage {
			s.cache.ring.drop(p)
			s.ring[i] = noPage
		}
	}
	s.n, s.low, s.high = 0, 0, 0
}

// Fork returns a sequence that begins with the first n positions of s and
// shares their pages: who writes into a shared page first copies it. It fails
// with a *RewindError where s could not be rewound to that length.
func (s *Sequence) Fork(n int) (*Sequence, error) {
	if n < 0 || n > s.n {
		return nil, fmt.Errorf("engine: fork at %d: the sequence has %d positions", n, s.n)
	}
	if n > 0 && n < s.Lowest() {
		return nil, &RewindError{To: n, Lowest: s.Lowest(), Len: s.n}
	}
	c := s.cache
	f := c.NewSequence()
	c.mu.Lock()
	defer c.mu.Unlock()
	f.n = n
	for i := 0; i < pages(n) && c.full.exists(); i++ {
		f.full[i] = c.full.share(s.full[i])
	}
	if c.ring.exists() && n > 0 {
		f.high = pages(n)
		f.low = max(0, n-c.size.Window+1) / PageSize
		for i := f.low; i < f.high; i++ {
			f.ring[i%len(f.ring)] = c.ring.share(s.ring[i%len(s.ring)])
		}
	}
	return f, nil
}

// tables copies the page tables into the rows of a step's feeds.
func (s *Sequence) tables(full, ring []int32) {
	copy(full, s.full)
	copy(ring, s.ring)
}
