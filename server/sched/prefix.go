package sched

import (
	"container/list"
	"slices"

	"graphrun/engine"
)

// prefixCache is a tree of the texts whose keys and values are in memory: a node
// is a page of tokens and holds the page in which they lie. Each partition has a
// tree of its own. See the package documentation for what is kept.
type prefixCache struct {
	cache *engine.Cache
	max   int // nodes at most; below 0 as many as there are pages
	roots map[string]*node
	n     int // nodes
	// pages has all nodes, the least recently used last; a parent is always more
	// recent than its children, so the last one is a leaf. windows and cold have
	// those that hold a page of windowed layers: cold ones go first.
	pages, windows, cold list.List

	evicted uint64 // nodes that had to go
}

// node is a page of a text that follows its parent's.
type node struct {
	parent   *node
	part     string  // of a root
	tokens   []int32 // PageSize of them; fewer in a leaf where a text ended
	page     engine.Page
	children []*node // in the order of their tokens

	used   *list.Element // in pages
	window *list.Element // in windows or cold
	cold   bool          // which of the two
	keep   bool          // texts end or part here: its window is worth more
}

// newPrefixCache returns an empty cache, nil when max is 0.
func newPrefixCache(c *engine.Cache, max int) *prefixCache {
	if max == 0 {
		return nil
	}
	if z := c.Size(); z.Full == 0 && max < 0 {
		max = bareNodes * z.Ring // nodes outlive their windows there
	}
	return &prefixCache{cache: c, max: max, roots: make(map[string]*node)}
}

// bareNodes bounds the nodes of models that have windowed layers alone: so many
// for each page there is.
const bareNodes = 16

// find returns where tokens would stand among the children, and the child that
// begins most like them with the number of tokens that are the same.
func (n *node) find(tokens []int32) (at int, best *node, same int) {
	at, _ = slices.BinarySearchFunc(n.children, tokens, func(c *node, t []int32) int { return slices.Compare(c.tokens, t) })
	for _, i := range []int{at, at - 1} {
		if i < 0 || i >= len(n.children) {
			continue
		}
		if k := common(n.children[i].tokens, tokens); k > same {
			best, same = n.children[i], k
		}
	}
	return at, best, same
}

// common returns the length of the common beginning.
func common(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// match returns how many tokens at the beginning of text, at most limit, are
// known, and the pages they lie in. The caller adopts them before anything else
// happens to the cache.
func (p *prefixCache) match(part string, text []int32, limit int) ([]engine.Page, int) {
	if p == nil || p.roots[part] == nil {
		return nil, 0
	}
	limit = min(limit, len(text))
	var path []*node
	n := 0
	for at := p.roots[part]; n < limit; {
		_, best, same := at.find(text[n:min(n+engine.PageSize, limit)])
		if best == nil {
			break
		}
		path, n = append(path, best), n+same
		if same < engine.PageSize {
			break
		}
		at = best
	}
	n = p.reach(path, n)
	path = path[:pages(n)]
	if n == 0 {
		return nil, 0
	}
	p.touch(path[len(path)-1])
	held := make([]engine.Page, len(path))
	for i, x := range path {
		held[i] = x.page
		if i >= p.cache.WindowFrom(n) {
			x.keep = true
			p.warm(x)
		}
	}
	return held, n
}

// reach returns the longest length, up to n, at which the path has every page
// that windowed layers look back on.
func (p *prefixCache) reach(path []*node, n int) int {
	if !p.windowed() {
		return n
	}
	for i := pages(n) - 1; n > 0 && i >= p.cache.WindowFrom(n); i-- {
		if !path[i].page.Windowed() {
			n = i * engine.PageSize
		}
	}
	return n
}

func (p *prefixCache) windowed() bool { return p.cache.Size().Ring > 0 }

func pages(n int) int { return (n + engine.PageSize - 1) / engine.PageSize }

// insert puts the first n tokens of text, which seq has computed, into the tree:
// whole pages, and what is left over when tail is set.
func (p *prefixCache) insert(part string, text []int32, seq *engine.Sequence, n int, tail bool) {
	if p == nil {
		return
	}
	if !tail {
		n -= n % engine.PageSize
	}
	root := p.roots[part]
	if root == nil {
		root = &node{part: part}
		p.roots[part] = root
	}
	at := root
	for i := range pages(n) {
		end := min((i+1)*engine.PageSize, n)
		next := p.child(at, text[i*engine.PageSize:end], seq, i)
		if next == nil {
			break
		}
		at = next
	}
	if at != root {
		p.touch(at)
		p.cool(at, pages(n))
	}
	p.trim()
	p.prune(root)
}

// child returns the child of at with the given tokens, which lie in page i of
// seq; it makes one if there is none, nil if that fails.
func (p *prefixCache) child(at *node, tokens []int32, seq *engine.Sequence, i int) *node {
	place, c, same := at.find(tokens)
	if c == nil || same < min(len(c.tokens), len(tokens)) {
		page, err := seq.Hold(i)
		if err != nil {
			return nil
		}
		if len(at.children) > 0 {
			p.fork(at, i)
		}
		c = &node{parent: at, tokens: slices.Clone(tokens), page: page}
		at.children = slices.Insert(at.children, place, c)
		c.used = p.pages.PushFront(c)
		p.n++
		p.warm(c)
		return c
	}
	if len(c.tokens) >= len(tokens) && (c.page.Windowed() || !p.windowed()) {
		return c // it has all of it
	}
	page, err := seq.Hold(i)
	if err != nil {
		return nil
	}
	if len(c.tokens) < len(tokens) {
		// An end that has grown: it changes its place among the children.
		k := slices.Index(at.children, c)
		at.children = slices.Delete(at.children, k, k+1)
		p.cache.Release(c.page)
		p.unwindow(c)
		c.tokens, c.page = slices.Clone(tokens), page
		place, _, _ = at.find(c.tokens)
		at.children = slices.Insert(at.children, place, c)
	} else {
		c.page = p.cache.TakeWindow(c.page, page)
	}
	p.warm(c)
	return c
}

// fork marks the windows before page i: texts part there, so others may come.
func (p *prefixCache) fork(at *node, i int) {
	for k := i - 1; at.parent != nil && k >= p.cache.WindowFrom(i*engine.PageSize); k-- {
		at.keep = true
		p.warm(at)
		at = at.parent
	}
}

// ends marks the windows at the end of a text of n tokens as worth keeping.
func (p *prefixCache) ends(part string, text []int32, n int) {
	if p == nil || !p.windowed() || p.roots[part] == nil {
		return
	}
	at := p.roots[part]
	for i := range pages(n) {
		_, c, same := at.find(text[i*engine.PageSize : min((i+1)*engine.PageSize, n)])
		if c == nil || same < min(engine.PageSize, n-i*engine.PageSize) {
			return
		}
		if i >= p.cache.WindowFrom(n) {
			c.keep = true
			p.warm(c)
		}
		at = c
	}
}

// touch makes the path to a node the most recently used.
func (p *prefixCache) touch(n *node) {
	for ; n.parent != nil; n = n.parent {
		p.pages.MoveToFront(n.used)
	}
}

// warm makes a node's window the most recently used.
func (p *prefixCache) warm(n *node) {
	if !n.page.Windowed() {
		return
	}
	p.unwindow(n)
	n.window, n.cold = p.windows.PushFront(n), false
}

// cool makes the windows that a text of some pages has left behind, where no
// other text ends or parts, the first to go.
func (p *prefixCache) cool(n *node, count int) {
	if !p.windowed() {
		return
	}
	from := p.cache.WindowFrom(count * engine.PageSize)
	for i := count - 1; n.parent != nil; n, i = n.parent, i-1 {
		if i >= from || n.window == nil || n.keep {
			continue
		}
		if n.cold {
			return // and so are those before it
		}
		p.unwindow(n)
		n.window, n.cold = p.cold.PushFront(n), true
	}
}

// unwindow takes a node off the list of windows it is on.
func (p *prefixCache) unwindow(n *node) {
	switch {
	case n.window == nil:
	case n.cold:
		p.cold.Remove(n.window)
	default:
		p.windows.Remove(n.window)
	}
	n.window = nil
}

// remove takes a node and all below it out of the tree.
func (p *prefixCache) remove(n *node) {
	for len(n.children) > 0 {
		p.remove(n.children[len(n.children)-1])
	}
	k := slices.Index(n.parent.children, n)
	n.parent.children = slices.Delete(n.parent.children, k, k+1)
	p.pages.Remove(n.used)
	p.unwindow(n)
	p.cache.Release(n.page)
	p.n--
}

// prune forgets a partition without pages.
func (p *prefixCache) prune(root *node) {
	if len(root.children) == 0 {
		delete(p.roots, root.part)
	}
}

// evict removes a node that had to make room.
func (p *prefixCache) evict(n *node) {
	root := n
	for root.parent != nil {
		root = root.parent
	}
	before := p.n
	p.remove(n)
	p.evicted += uint64(before - p.n)
	p.prune(root)
}

// trim brings the cache below its ceiling.
func (p *prefixCache) trim() {
	for p.max >= 0 && p.n > p.max {
		p.evict(p.pages.Back().Value.(*node))
	}
}

// room evicts what nobody else uses until so many pages of each kind are free.
// It reports whether they are.
func (p *prefixCache) room(full, window int) bool {
	c := p.cache
	haveFull, haveWindow := c.Free()
	for _, l := range []*list.List{&p.cold, &p.windows} {
		for e := l.Back(); e != nil && haveWindow < window; {
			n := e.Value.(*node)
			e = e.Prev()
			if _, sole := c.Sole(n.page); sole {
				p.unwindow(n)
				n.page, n.keep = c.ReleaseWindow(n.page), false
				haveWindow++
			}
		}
	}
	for e := p.pages.Back(); e != nil && haveFull < full; {
		n := e.Value.(*node)
		e = e.Prev() // what is below n is further back
		if sole, _ := c.Sole(n.page); sole {
			p.evict(n)
			haveFull, _ = c.Free()
		}
	}
	haveFull, haveWindow = c.Free()
	return haveFull >= full && haveWindow >= window
}

// yield gives up what stops seq, which holds the beginning of text and is about
// to grow by n tokens, from writing into pages of its own: the end it goes on
// with, and the windows its ring comes round to.
func (p *prefixCache) yield(part string, text []int32, seq *engine.Sequence, n int) {
	if p == nil || p.roots[part] == nil {
		return
	}
	known := seq.Len()
	from, to, ring := known/engine.PageSize, pages(known+n), p.cache.Size().CW()
	at := p.roots[part]
	for i := range pages(known) {
		tokens := text[i*engine.PageSize : min((i+1)*engine.PageSize, known)]
		_, c, same := at.find(tokens)
		if c == nil || same < len(tokens) {
			return
		}
		full, window := seq.Lies(i, c.page)
		switch {
		case i >= from && (full || window):
			p.evict(c)
			return
		case window && i >= from-ring && i < to-ring:
			p.unwindow(c)
			c.page, c.keep = p.cache.ReleaseWindow(c.page), false
		}
		at = c
	}
}

// spare counts the pages that room could free.
func (p *prefixCache) spare() (full, window int) {
	if p == nil {
		return 0, 0
	}
	for e := p.pages.Front(); e != nil; e = e.Next() {
		f, w := p.cache.Sole(e.Value.(*node).page)
		if f {
			full++
		}
		if w {
			window++
		}
	}
	return full, window
}

// clear forgets everything.
func (p *prefixCache) clear() {
	if p == nil {
		return
	}
	for p.pages.Len() > 0 {
		p.evict(p.pages.Back().Value.(*node))
	}
}

// len returns the number of pages of tokens.
func (p *prefixCache) len() int {
	if p == nil {
		return 0
	}
	return p.n
}
