package grammar

import (
	"encoding/binary"
	"errors"
	"slices"
)

// machine makes the automaton deterministic while it is used, for one grammar
// and one vocabulary. Everything is computed once and kept.
type machine struct {
	*nfa
	v    *Vocab
	raws map[string]*rawset
	sets map[string]*lset
	walk map[string]*wstate
	xs   map[string]*xset
	root *xset // the trie's root
	in   frames
	used int    // bytes kept, roughly
	ids  uint32 // of lsets; goes on over forget, since matchers hold old ones

	key     []byte
	next    config
	path    []*wstate
	leaves  []int32
	visited []int32 // per state: number of the last closure that met it
	closure int32
}

// rawset is a set of states of one frame before empty moves and calls.
type rawset struct {
	states []int32
	closed *closed
	tail   bool // only the end of the frame can follow
}

// closed is what a rawset stands for.
type closed struct {
	here   *lset // states of the frame itself that read a byte, nil if none
	calls  []entered
	accept bool // the frame may end
}

// entered is a called rule: the states that come back, outermost first, and the
// states that read a byte in the innermost frame.
type entered struct {
	back []*rawset
	in   *lset
}

// lset is a set of states that read a byte, in one frame.
type lset struct {
	states []int32
	id     uint32
	next   []*closed // per class of bytes
	mask   *entry    // tokens that may come, from the trie's root
}

// frame is a rule that was called: where it comes back to. The outermost frame
// of an answer, and the unknown one of a walk through the trie, is nil.
type frame struct {
	back   *rawset
	parent *frame
	id     uint32
}

type frameKey struct {
	back   *rawset
	parent *frame
}

// frames makes equal frames the same.
type frames struct {
	known map[frameKey]*frame
	n     uint32
}

func (f *frames) get(back *rawset, parent *frame) *frame {
	k := frameKey{back, parent}
	if x := f.known[k]; x != nil {
		return x
	}
	if f.known == nil {
		f.known = map[frameKey]*frame{}
	}
	f.n++
	x := &frame{back: back, parent: parent, id: f.n}
	f.known[k] = x
	return x
}

// config is where a text may be: states with their frames.
type config struct {
	groups []group
	accept bool     // the outermost frame may end here
	popped []*frame // frames that ended at this byte
}

type group struct {
	l *lset
	f *frame
}

func (c *config) reset() {
	c.groups, c.popped, c.accept = c.groups[:0], c.popped[:0], false
}

const (
	maxGroups = 512      // ways a text may be read at once
	maxCalls  = 4096     // rules that may begin at one place
	maxBytes  = 32 << 20 // kept per grammar and vocabulary before it begins anew
)

// ErrAmbiguous says that a grammar is too much to follow: a text that it allows can
// be read in too many ways. It shows only with the text that is read.
var ErrAmbiguous = errors.New("grammar: the text can be read in more than 512 ways at once, or 4096 rules may begin at one place; make the grammar less ambiguous")

func newMachine(n *nfa, v *Vocab) *machine {
	m := &machine{nfa: n, v: v, visited: make([]int32, len(n.states))}
	m.forget()
	return m
}

// forget drops all that was computed.
func (m *machine) forget() {
	m.raws, m.sets, m.walk, m.xs = map[string]*rawset{}, map[string]*lset{}, map[string]*wstate{}, map[string]*xset{}
	m.in, m.used = frames{n: m.in.n}, 0
	m.root = m.xset([]int32{0})
}

func (m *machine) keyOf(ids []int32) []byte {
	m.key = m.key[:0]
	for _, id := range ids {
		m.key = binary.LittleEndian.AppendUint32(m.key, uint32(id))
	}
	return m.key
}

// raw returns the set of the given states, which it sorts.
func (m *machine) raw(states []int32) *rawset {
	slices.Sort(states)
	states = slices.Compact(states)
	k := m.keyOf(states)
	r := m.raws[string(k)]
	if r == nil {
		r = &rawset{states: slices.Clone(states), tail: true}
		for _, s := range states {
			r.tail = r.tail && m.tail[s]
		}
		m.raws[string(k)] = r
		m.used += 100 + 8*len(states)
	}
	return r
}

func (m *machine) lset(states []int32) *lset {
	if len(states) == 0 {
		return nil
	}
	slices.Sort(states)
	k := m.keyOf(states)
	l := m.sets[string(k)]
	if l == nil {
		m.ids++
		l = &lset{states: slices.Clone(states), id: m.ids, next: make([]*closed, len(m.sample))}
		m.sets[string(k)] = l
		m.used += 100 + 8*len(states) + 8*len(m.sample)
	}
	return l
}

// close follows empty moves and calls. It ends because no rule is
// left-recursive.
func (m *machine) close(r *rawset) *closed {
	if r.closed != nil {
		return r.closed
	}
	m.closure++
	mark := m.closure
	c := &closed{}
	work := slices.Clone(r.states)
	var here []int32
	var calls []call
	for len(work) > 0 {
		s := work[len(work)-1]
		work = work[:len(work)-1]
		if m.visited[s] == mark {
			continue
		}
		m.visited[s] = mark
		st := &m.states[s]
		c.accept = c.accept || m.accept[s]
		if len(st.edges) > 0 {
			here = append(here, s)
		}
		work = append(work, st.eps...)
		for _, k := range st.calls {
			calls = append(calls, k)
			if m.nullary[k.rule] {
				work = append(work, k.to)
			}
		}
	}
	c.here = m.lset(here)
	// Calls of one rule come back together, and rules that come back to the same
	// states share a frame.
	slices.SortFunc(calls, func(a, b call) int { return int(a.rule - b.rule) })
	byBack := map[*rawset][]int32{}
	var order []*rawset
	for i := 0; i < len(calls); {
		j := i
		var to []int32
		for ; j < len(calls) && calls[j].rule == calls[i].rule; j++ {
			to = append(to, calls[j].to)
		}
		back := m.raw(to)
		if byBack[back] == nil {
			order = append(order, back)
		}
		byBack[back] = append(byBack[back], m.start[calls[i].rule])
		i = j
	}
	for _, back := range order {
		sub := m.close(m.raw(byBack[back]))
		chain := []*rawset{back}
		if back.tail {
			chain = nil // nothing to come back for
		}
		if sub.here != nil {
			c.calls = append(c.calls, entered{chain, sub.here})
		}
		for _, e := range sub.calls {
			c.calls = append(c.calls, entered{append(slices.Clip(chain), e.back...), e.in})
		}
		if len(c.calls) > maxCalls {
			panic(limit{ErrAmbiguous})
		}
	}
	m.used += 64 + 80*len(c.calls)
	r.closed = c
	return c
}

// limit is the panic that ends a computation which has become too large.
type limit struct{ error }

// after returns where the states of l are after a byte of class c.
func (m *machine) after(l *lset, c uint8) *closed {
	if n := l.next[c]; n != nil {
		return n
	}
	var to []int32
	x := m.sample[c]
	for _, s := range l.states {
		for _, e := range m.states[s].edges {
			if e.lo <= x && x <= e.hi {
				to = append(to, e.to)
			}
		}
	}
	n := m.close(m.raw(to))
	l.next[c] = n
	return n
}

// add puts c, in frame f, into a config.
func (m *machine) add(cfg *config, in *frames, c *closed, f *frame) {
	for {
		if c.here != nil {
			cfg.group(c.here, f)
		}
		for i := range c.calls {
			g := f
			for _, back := range c.calls[i].back {
				g = in.get(back, g)
			}
			cfg.group(c.calls[i].in, g)
		}
		if !c.accept {
			return
		}
		if f == nil {
			cfg.accept = true
			return
		}
		if slices.Contains(cfg.popped, f) {
			return
		}
		cfg.popped = append(cfg.popped, f)
		if len(cfg.popped) > maxCalls {
			panic(limit{ErrAmbiguous})
		}
		c, f = m.close(f.back), f.parent
	}
}

func (c *config) group(l *lset, f *frame) {
	g := group{l, f}
	if slices.Contains(c.groups, g) {
		return
	}
	if len(c.groups) >= maxGroups {
		panic(limit{ErrAmbiguous})
	}
	c.groups = append(c.groups, g)
}

// step moves from one config to another by a byte.
func (m *machine) step(to, from *config, in *frames, b byte) {
	to.reset()
	c := m.class[b]
	for _, g := range from.groups {
		m.add(to, in, m.after(g.l, c), g.f)
	}
}

// wstate is a config on a walk through the trie: its outermost frame is
// whichever one the walk began in.
type wstate struct {
	groups []group
	accept bool
	next   []*wstate
}

var dead = &wstate{}

func (m *machine) wstate(c *config) *wstate {
	if len(c.groups) == 0 && !c.accept {
		return dead
	}
	slices.SortFunc(c.groups, func(a, b group) int {
		if a.l != b.l {
			return int(int64(a.l.id) - int64(b.l.id))
		}
		return int(int64(a.f.number()) - int64(b.f.number()))
	})
	m.key = m.key[:0]
	for _, g := range c.groups {
		m.key = binary.LittleEndian.AppendUint32(m.key, g.l.id)
		m.key = binary.LittleEndian.AppendUint32(m.key, g.f.number())
	}
	if c.accept {
		m.key = append(m.key, 1)
	}
	w := m.walk[string(m.key)]
	if w == nil {
		w = &wstate{groups: slices.Clone(c.groups), accept: c.accept, next: make([]*wstate, len(m.sample))}
		m.walk[string(m.key)] = w
		m.used += 150 + 24*len(c.groups) + 8*len(m.sample)
	}
	return w
}

func (f *frame) number() uint32 {
	if f == nil {
		return 0
	}
	return f.id
}

func (m *machine) wstep(w *wstate, c uint8) *wstate {
	from := config{groups: w.groups}
	m.step(&m.next, &from, &m.in, m.sample[c])
	n := m.wstate(&m.next)
	w.next[c] = n
	return n
}

// xset is a set of nodes of the trie at which a frame may end.
type xset struct {
	nodes []int32
	next  map[*rawset]*entry // what may follow, by where the frame comes back to
}

func (m *machine) xset(nodes []int32) *xset {
	k := m.keyOf(nodes)
	x := m.xs[string(k)]
	if x == nil {
		x = &xset{nodes: slices.Clone(nodes), next: map[*rawset]*entry{}}
		m.xs[string(k)] = x
		m.used += 100 + 8*len(nodes)
	}
	return x
}

// entry is the result of a walk: the tokens that can be read, and where the
// frame ended before a token's end.
type entry struct {
	bits []uint64 // or list, whichever is smaller
	list []int32
	x    *xset // nil if there are none
}

func (e *entry) or(mask []uint64) {
	for i, w := range e.bits {
		mask[i] |= w
	}
	for _, id := range e.list {
		mask[id/64] |= 1 << (id % 64)
	}
}

// maskOf returns what can be read in a frame by states l, from the trie's root.
func (m *machine) maskOf(l *lset) *entry {
	if l.mask == nil {
		m.next.reset()
		m.next.group(l, nil)
		l.mask = m.read(m.root, m.wstate(&m.next))
	}
	return l.mask
}

// goOn returns what can be read from nodes x on, after a frame has ended that
// comes back to r.
func (m *machine) goOn(x *xset, r *rawset) *entry {
	e := x.next[r]
	if e == nil {
		m.next.reset()
		m.add(&m.next, &m.in, m.close(r), nil)
		e = m.read(x, m.wstate(&m.next))
		x.next[r] = e
	}
	return e
}

// read walks the trie below the nodes of x.
func (m *machine) read(x *xset, w *wstate) *entry {
	v := m.v
	e := &entry{}
	m.leaves = m.leaves[:0]
	var list []int32
	bits := []uint64(nil)
	some := func(from, to int32) {
		if bits == nil && len(list)+int(to-from) > v.size/64 {
			bits = make([]uint64, (v.size+63)/64)
			for _, id := range list {
				bits[id/64] |= 1 << (id % 64)
			}
		}
		for _, id := range v.tokens[from:to] {
			if bits != nil {
				bits[id/64] |= 1 << (id % 64)
			} else {
				list = append(list, id)
			}
		}
	}
	for _, n := range x.nodes {
		if w.accept { // the frame outside ends as well, at the same place
			m.leaves = append(m.leaves, n)
		}
		if len(w.groups) == 0 {
			continue
		}
		base := v.depth[n]
		m.path = append(m.path[:0], w)
		for i := n + 1; i < v.end[n]; {
			d := int(v.depth[i] - base)
			at := m.path[d-1]
			c := m.class[v.byte[i]]
			to := at.next[c]
			if to == nil {
				to = m.wstep(at, c)
			}
			if to == dead {
				i = v.end[i]
				continue
			}
			if from, end := v.first[i], v.first[i+1]; from < end {
				some(from, end)
			}
			if to.accept && v.end[i] > i+1 {
				m.leaves = append(m.leaves, i)
			}
			if len(to.groups) == 0 {
				i = v.end[i]
				continue
			}
			m.path = append(m.path[:d], to)
			i++
		}
	}
	if bits != nil {
		e.bits = bits
	} else {
		e.list = slices.Clone(list)
	}
	if len(m.leaves) > 0 {
		slices.Sort(m.leaves)
		e.x = m.xset(slices.Compact(m.leaves))
	}
	m.used += 64 + 8*len(e.bits) + 4*len(e.list)
	return e
}

// mask sets the bits of the tokens that can follow in a config.
func (m *machine) mask(mask []uint64, c *config) {
	for _, g := range c.groups {
		e := m.maskOf(g.l)
		e.or(mask)
		for f := g.f; f != nil && e.x != nil; f = f.parent {
			e = m.goOn(e.x, f.back)
			e.or(mask)
		}
	}
}
