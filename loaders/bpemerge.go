package loaders

import "slices"

// joiner is the rule of a vocabulary for joining two neighbours. The order of
// a join says when it happens: lowest first, then leftmost.
type joiner interface {
	// join returns the order of joining the symbols at l and r = m.next[l] of
	// m, and the symbol they become; ok is false if they do not join.
	join(m *merger, l, r int32) (order uint32, id int32, ok bool)
}

// merger joins the symbols of one piece of text until no neighbours join any
// more. Symbols are numbered by their place at the start; a joined symbol keeps
// the number of its left part. A merger is reused from piece to piece.
//
// Up to scanLimit symbols the best join is found by looking at all; longer
// pieces keep the joins in a heap, so that n symbols take O(n log n) steps
// whatever the text is. Nothing recurses.
type merger struct {
	text  string
	start []int32  // first byte in text; start[n] is its length
	id    []int32  // token, or symbol without token; noSymbol if unknown
	prev  []int32  // left neighbour, -1 at the start
	next  []int32  // right neighbour, -1 at the end, gone if joined to the left
	order []uint32 // order of joining with next, noJoin if it does not join
	to    []int32  // what joining with next gives
	first []uint64 // order<<32 | symbol of the joins at the start, sorted
	heap  []uint64 // the same of those that came up since, smallest first
	steps int      // joins looked up, for tests of the cost
}

const (
	noSymbol  = -1
	gone      = -2
	noJoin    = ^uint32(0)
	scanLimit = 24
	// keepLimit is the most symbols a merger may have room for when it goes
	// back to the pool; 64 Ki take 2 MB.
	keepLimit = 1 << 16
)

// reset starts a new piece.
func (m *merger) reset(text string) {
	m.text = text
	m.start = slices.Grow(m.start[:0], len(text))
	m.id = slices.Grow(m.id[:0], len(text))
}

// add appends a symbol that starts at byte start of the piece.
func (m *merger) add(start int, id int32) {
	m.start = append(m.start, int32(start))
	m.id = append(m.id, id)
}

// end returns the byte after symbol i.
func (m *merger) end(i int32) int32 {
	if n := m.next[i]; n >= 0 {
		return m.start[n]
	}
	return int32(len(m.text))
}

// span returns the text of symbol i.
func (m *merger) span(i int32) string { return m.text[m.start[i]:m.end(i)] }

// run joins all that joins. Symbols left over are found from 0 along next.
func (m *merger) run(j joiner) {
	n := len(m.id)
	m.prev, m.next = resize(m.prev, n), resize(m.next, n)
	m.order, m.to = resize(m.order, n), resize(m.to, n)
	for i := range n {
		m.prev[i], m.next[i] = int32(i-1), int32(i+1)
	}
	if n > 0 {
		m.next[n-1] = -1
	}
	for i := range n {
		m.update(j, int32(i))
	}
	if n <= scanLimit {
		m.runScan(j)
		return
	}
	m.runHeap(j)
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, max(n, 2*cap(s)))
	}
	return s[:n]
}

// update looks up the join of symbol i with its right neighbour.
func (m *merger) update(j joiner, i int32) {
	m.order[i] = noJoin
	r := m.next[i]
	if r < 0 {
		return
	}
	m.steps++
	if order, id, ok := j.join(m, i, r); ok {
		m.order[i], m.to[i] = order, id
	}
}

// merge joins symbol i with its right neighbour and looks up the joins that
// this changes: with both new neighbours.
func (m *merger) merge(j joiner, i int32) {
	r := m.next[i]
	m.id[i] = m.to[i]
	m.next[i] = m.next[r]
	m.next[r], m.order[r] = gone, noJoin
	if n := m.next[i]; n >= 0 {
		m.prev[n] = i
	}
	m.update(j, i)
	if p := m.prev[i]; p >= 0 {
		m.update(j, p)
	}
}

func (m *merger) runScan(j joiner) {
	if len(m.id) == 0 {
		return
	}
	for {
		best, at := noJoin, int32(-1)
		for i := int32(0); i >= 0; i = m.next[i] {
			if m.order[i] < best {
				best, at = m.order[i], i
			}
		}
		if at < 0 {
			return
		}
		m.merge(j, at)
	}
}

func (m *merger) runHeap(j joiner) {
	first := m.first[:0]
	for i, order := range m.order {
		if order != noJoin {
			first = append(first, uint64(order)<<32|uint64(i))
		}
	}
	// Sorting what is there at the start once is cheaper than a heap of it, most
	// of all where one character repeats and it is sorted already.
	slices.Sort(first)
	m.first = first
	h := m.heap[:0]
	for len(first) > 0 || len(h) > 0 {
		var least uint64
		if len(h) == 0 || len(first) > 0 && first[0] < h[0] {
			least, first = first[0], first[1:]
		} else {
			least = h[0]
			h[0] = h[len(h)-1]
			h = h[:len(h)-1]
			siftDown(h, 0)
		}
		order, i := uint32(least>>32), int32(uint32(least))
		if m.order[i] != order {
			continue // joined, or got another neighbour, since it was put in
		}
		m.merge(j, i)
		if m.order[i] != noJoin {
			h = push(h, uint64(m.order[i])<<32|uint64(i))
		}
		if p := m.prev[i]; p >= 0 && m.order[p] != noJoin {
			h = push(h, uint64(m.order[p])<<32|uint64(p))
		}
	}
	m.heap = h
}

// siftDown moves h[i] down a heap in which each element has four children.
func siftDown(h []uint64, i int) {
	if i >= len(h) {
		return
	}
	x := h[i]
	for {
		first := 4*i + 1
		if first >= len(h) {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, len(h)); c++ {
			if h[c] < h[least] {
				least = c
			}
		}
		if h[least] >= x {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = x
}

// push adds x to the heap.
func push(h []uint64, x uint64) []uint64 {
	h = append(h, x)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 4
		if h[up] <= x {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = x
	return h
}
