package engine

import "fmt"

// Page holds references to the pages in which PageSize positions of a text lie:
// one page number for the layers that keep every position and one for the
// windowed layers. A page somebody holds is never written again: a sequence
// that is about to write into one copies it first. So pages can outlive the
// sequence that computed them, and begin others: see Sequence.Hold, Cache.Adopt
// and Cache.Release.
type Page struct{ full, ring int32 }

// NoPage holds nothing.
var NoPage = Page{noPage, noPage}

// Windowed reports whether the page holds the positions in windowed layers.
func (p Page) Windowed() bool { return p.ring != noPage }

// Hold takes references to the page that has the positions i·PageSize up of s.
// It is an error if s has no such position. In windowed layers the page may be
// written over already; then Windowed is false.
func (s *Sequence) Hold(i int) (Page, error) {
	if i < 0 || i >= pages(s.n) {
		return NoPage, fmt.Errorf("engine: page %d of a sequence of %d positions", i, s.n)
	}
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	p := NoPage
	if c.full.exists() {
		p.full = c.full.share(s.full[i])
	}
	if c.ring.exists() && i >= s.low && i < s.high {
		p.ring = c.ring.share(s.ring[i%len(s.ring)])
	}
	return p, nil
}

// Release gives back what p holds.
func (c *Cache) Release(p Page) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.full != noPage {
		c.full.drop(p.full)
	}
	if p.ring != noPage {
		c.ring.drop(p.ring)
	}
}

// ReleaseWindow gives back what p holds in windowed layers and returns the rest.
func (c *Cache) ReleaseWindow(p Page) Page {
	c.Release(Page{noPage, p.ring})
	p.ring = noPage
	return p
}

// TakeWindow moves what from holds in windowed layers to p, which must hold
// nothing there, and gives back the rest of from.
func (c *Cache) TakeWindow(p, from Page) Page {
	p.ring = from.ring
	c.Release(Page{from.full, noPage})
	return p
}

// Sole reports of which kinds p holds the only reference: releasing it makes
// pages of those kinds free.
func (c *Cache) Sole(p Page) (full, window bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return p.full != noPage && c.full.refs[p.full] == 1, p.ring != noPage && c.ring.refs[p.ring] == 1
}

// Lies reports in which kinds of layers page i of s is the one p holds.
func (s *Sequence) Lies(i int, p Page) (full, window bool) {
	if i < 0 || i >= pages(s.n) {
		return false, false
	}
	c := s.cache
	full = c.full.exists() && p.full != noPage && s.full[i] == p.full
	window = c.ring.exists() && p.ring != noPage && i >= s.low && i < s.high && s.ring[i%len(s.ring)] == p.ring
	return full, window
}

// Adopt returns a sequence of n positions that lies in the pages held, which it
// shares. In windowed layers it needs those that a token at position n looks
// back on: WindowFrom(n) up.
func (c *Cache) Adopt(held []Page, n int) (*Sequence, error) {
	if n < 0 || n > c.size.Context || len(held) < pages(n) {
		return nil, fmt.Errorf("engine: %d pages are to begin a sequence of %d positions; the context is %d", len(held), n, c.size.Context)
	}
	for i := range pages(n) {
		switch {
		case c.full.exists() && held[i].full == noPage:
			return nil, fmt.Errorf("engine: page %d is missing to begin a sequence of %d positions", i, n)
		case c.ring.exists() && i >= c.WindowFrom(n) && held[i].ring == noPage:
			return nil, fmt.Errorf("engine: page %d of windowed layers is missing to begin a sequence of %d positions", i, n)
		}
	}
	s := c.NewSequence()
	c.mu.Lock()
	defer c.mu.Unlock()
	s.n = n
	for i := 0; i < pages(n) && c.full.exists(); i++ {
		s.full[i] = c.full.share(held[i].full)
	}
	if c.ring.exists() && n > 0 {
		s.low, s.high = c.WindowFrom(n), pages(n)
		for i := s.low; i < s.high; i++ {
			s.ring[i%len(s.ring)] = c.ring.share(held[i].ring)
		}
	}
	return s, nil
}

// WindowFrom returns the first page that a token at position n still looks at
// in windowed layers. Without such layers it is the page of n.
func (c *Cache) WindowFrom(n int) int {
	if c.size.Window == 0 {
		return pages(n)
	}
	return max(0, n-c.size.Window+1) / PageSize
}

// Free returns the free pages of full and of windowed layers.
func (c *Cache) Free() (full, window int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.full.free), len(c.ring.free)
}

// Need returns the pages that a step which adds n tokens to s would take, at
// most: pages that others hold too are copied before they are written.
func (s *Sequence) Need(n int) (full, window int) {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.full.need(s.full, s.n/PageSize, pages(s.n+n)), c.ring.need(s.ring, s.n/PageSize, pages(s.n+n))
}

// need counts the entries from to to-1 of a table that have no page of their own.
func (p *pool) need(table []int32, from, to int) int {
	n := 0
	for i := from; i < min(to, from+len(table)) && p.exists(); i++ {
		if k := table[i%len(table)]; k == noPage || p.refs[k] > 1 {
			n++
		}
	}
	return n
}
