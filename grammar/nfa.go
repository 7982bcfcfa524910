package grammar

import (
	"fmt"
	"slices"
	"strings"
)

// nfa holds the automata of all rules of a grammar; states are numbered
// through. A rule is left through its accepting state only.
type nfa struct {
	states  []state
	rules   []*rule
	start   []int32 // of each rule
	accept  []bool  // the state ends its rule
	tail    []bool  // nothing but the end of its rule can follow the state
	nullary []bool  // the rule may match nothing
	class   [256]uint8
	sample  []byte // a byte of each class; bytes of a class are alike everywhere
}

type state struct {
	edges []edge
	eps   []int32
	calls []call
}

type edge struct {
	lo, hi byte
	to     int32
}

type call struct{ rule, to int32 }

const (
	// maxStates bounds the size of a grammar.
	maxStates = 400_000
	// blockSize is the longest run of copies a repetition is written out to. A
	// longer one is made of blocks that are rules, and blocks of blocks, so
	// that positions within a block are the same states whatever the count.
	blockSize = 16
)

// builder makes the automata.
type builder struct {
	*nfa
	ids    map[*rule]int32
	blocks map[*expr]*expr
	where  string // of the rule at hand
	large  bool   // maxStates was reached
}

// compile makes the automata of root and of all rules it needs. A rule that
// can never end is an error where strict is set; otherwise what depends on it
// is left out.
func compile(root *rule, strict bool) (*nfa, error) {
	b := &builder{nfa: &nfa{}, ids: map[*rule]int32{}, blocks: map[*expr]*expr{}}
	b.id(root)
	for i := 0; i < len(b.rules) && !b.large; i++ { // rules are added on the way
		s := b.state()
		b.start = append(b.start, s)
		b.where = b.rules[i].where
		end := b.gen(b.rules[i].body, s)
		b.accept = append(b.accept, make([]bool, len(b.states)-len(b.accept))...)
		b.accept[end] = true
	}
	if b.large {
		return nil, fmt.Errorf("grammar: more than %d states are needed; use smaller repetition counts or fewer rules", maxStates)
	}
	if err := b.prune(strict); err != nil {
		return nil, err
	}
	null := b.reachEnd(false)
	b.nullary = make([]bool, len(b.rules))
	for r, s := range b.start {
		b.nullary[r] = null[s]
	}
	if err := b.leftRecursion(); err != nil {
		return nil, err
	}
	b.findTails(null)
	b.findClasses()
	return b.nfa, nil
}

func (b *builder) id(r *rule) int32 {
	id, ok := b.ids[r]
	if !ok {
		id = int32(len(b.rules))
		b.ids[r] = id
		b.rules = append(b.rules, r)
	}
	return id
}

func (b *builder) state() int32 {
	if len(b.states) >= maxStates {
		b.large = true
		return 0
	}
	b.states = append(b.states, state{})
	return int32(len(b.states) - 1)
}

func (b *builder) byteEdge(from int32, lo, hi byte, to int32) {
	s := &b.states[from]
	s.edges = append(s.edges, edge{lo, hi, to})
}

func (b *builder) epsilon(from, to int32) {
	s := &b.states[from]
	s.eps = append(s.eps, to)
}

// gen adds the states of e after from and returns the state behind it.
func (b *builder) gen(e *expr, from int32) int32 {
	if b.large {
		return from
	}
	switch e.op {
	case opLit:
		for i := range len(e.lit) {
			to := b.state()
			b.byteEdge(from, e.lit[i], e.lit[i], to)
			from = to
		}
	case opClass:
		to := b.state()
		b.runes(e.set, from, to)
		return to
	case opSeq:
		for _, s := range e.sub {
			from = b.gen(s, from)
		}
	case opAlt:
		exit := b.state()
		for _, s := range e.sub {
			in := b.state()
			b.epsilon(from, in)
			b.epsilon(b.gen(s, in), exit)
		}
		return exit
	case opRepeat:
		sub := e.sub[0]
		from = b.copies(sub, e.min, from)
		if e.max >= 0 {
			return b.optional(sub, e.max-e.min, from)
		}
		loop, exit := b.state(), b.state()
		b.epsilon(from, loop)
		b.epsilon(b.gen(sub, loop), loop)
		b.epsilon(loop, exit)
		return exit
	case opRef:
		if e.rule.where == "" {
			e.rule.where = b.where
		}
		to := b.state()
		s := &b.states[from]
		s.calls = append(s.calls, call{b.id(e.rule), to})
		return to
	case opGraph:
		return e.build(b, from)
	case opNone:
		return b.state() // nothing leads there
	}
	return from
}

// block returns a call of blockSize times e.
func (b *builder) block(e *expr) *expr {
	if b.blocks[e] == nil {
		b.blocks[e] = ref(&rule{name: "repeated part", body: &expr{op: opRepeat, sub: []*expr{e}, min: blockSize, max: blockSize}})
	}
	return b.blocks[e]
}

// copies adds e n times.
func (b *builder) copies(e *expr, n int, from int32) int32 {
	if n > blockSize {
		from = b.copies(b.block(e), n/blockSize, from)
		n %= blockSize
	}
	for range n {
		from = b.gen(e, from)
	}
	return from
}

// optional adds e 0 to n times.
func (b *builder) optional(e *expr, n int, from int32) int32 {
	exit := b.state()
	if n > blockSize {
		blocks := n / blockSize
		short := b.optional(b.block(e), blocks-1, from)
		b.epsilon(b.optional(e, blockSize-1, short), exit)
		full := b.copies(b.block(e), blocks, from)
		b.epsilon(b.optional(e, n%blockSize, full), exit)
		return exit
	}
	for range n {
		b.epsilon(from, exit)
		from = b.gen(e, from)
	}
	b.epsilon(from, exit)
	return exit
}

// runes adds the UTF-8 of the code points of a set between two states.
func (b *builder) runes(set runeSet, from, to int32) {
	for _, r := range set {
		splitUTF8(r.lo, r.hi, func(ranges [][2]byte) {
			at := from
			for i, x := range ranges {
				next := to
				if i < len(ranges)-1 {
					next = b.state()
				}
				b.byteEdge(at, x[0], x[1], next)
				at = next
			}
		})
	}
}

// splitUTF8 yields sequences of byte ranges that together are the UTF-8 of lo
// to hi, which must not include surrogates.
func splitUTF8(lo, hi rune, yield func([][2]byte)) {
	for _, top := range []rune{0x7F, 0x7FF, 0xFFFF} { // by length
		if lo <= top && top < hi {
			splitUTF8(lo, top, yield)
			splitUTF8(top+1, hi, yield)
			return
		}
	}
	a, z := []byte(string(lo)), []byte(string(hi))
	// Below the first byte that differs, all later bytes must run over the
	// whole of 80 to BF; otherwise the range is cut where they do.
	for i := len(a) - 1; i > 0; i-- {
		m := rune(1)<<(6*i) - 1
		if lo&^m != hi&^m {
			if lo&m != 0 {
				splitUTF8(lo, lo|m, yield)
				splitUTF8((lo|m)+1, hi, yield)
				return
			}
			if hi&m != m {
				splitUTF8(lo, hi&^m-1, yield)
				splitUTF8(hi&^m, hi, yield)
				return
			}
		}
	}
	ranges := make([][2]byte, len(a))
	for i := range a {
		ranges[i] = [2]byte{a[i], z[i]}
	}
	yield(ranges)
}

// reachEnd returns the states from which their rule's end can be reached: with
// bytes, or without by empty moves alone.
func (b *builder) reachEnd(bytes bool) []bool {
	type back struct{ from, rule int32 } // rule -1: no call
	in := make([][]back, len(b.states))
	for s := range b.states {
		st := &b.states[s]
		for _, to := range st.eps {
			in[to] = append(in[to], back{int32(s), -1})
		}
		for _, c := range st.calls {
			in[c.to] = append(in[c.to], back{int32(s), c.rule})
		}
		for i := 0; bytes && i < len(st.edges); i++ {
			in[st.edges[i].to] = append(in[st.edges[i].to], back{int32(s), -1})
		}
	}
	startOf := map[int32]int32{}
	for r, s := range b.start {
		startOf[s] = int32(r)
	}
	good := make([]bool, len(b.states))
	waiting := make([][]int32, len(b.rules)) // states behind a call that ends
	var work []int32
	mark := func(s int32) {
		if !good[s] {
			good[s] = true
			work = append(work, s)
		}
	}
	for s, ok := range b.accept {
		if ok {
			mark(int32(s))
		}
	}
	for len(work) > 0 {
		s := work[len(work)-1]
		work = work[:len(work)-1]
		for _, p := range in[s] {
			if p.rule >= 0 && !good[b.start[p.rule]] {
				waiting[p.rule] = append(waiting[p.rule], p.from)
				continue
			}
			mark(p.from)
		}
		if r, ok := startOf[s]; ok {
			for _, from := range waiting[r] {
				mark(from)
			}
		}
	}
	return good
}

// errNothing says that no text matches.
var errNothing = fmt.Errorf("grammar: nothing matches")

// prune removes moves from which no end can be reached, so that every text that
// is allowed so far can be finished.
func (b *builder) prune(strict bool) error {
	good := b.reachEnd(true)
	for r, s := range b.start {
		if !good[s] && strict {
			return fmt.Errorf("grammar: %s: rule %q has no end: each of its alternatives needs a rule that needs it again", b.rules[r].where, b.rules[r].name)
		}
	}
	if !good[b.start[0]] {
		return errNothing
	}
	for s := range b.states {
		st := &b.states[s]
		st.eps = slices.DeleteFunc(st.eps, func(to int32) bool { return !good[to] })
		st.edges = slices.DeleteFunc(st.edges, func(e edge) bool { return !good[e.to] })
		st.calls = slices.DeleteFunc(st.calls, func(c call) bool { return !good[c.to] || !good[b.start[c.rule]] })
	}
	return nil
}

// leftRecursion refuses rules that call themselves before any byte.
func (b *builder) leftRecursion() error {
	const fresh, open, closed = 0, 1, 2
	mark := make([]uint8, len(b.rules))
	seen := make([]int32, len(b.states)) // by rule number + 1
	var path []int32
	var visit func(r int32) error
	visit = func(r int32) error {
		mark[r] = open
		path = append(path, r)
		work := []int32{b.start[r]}
		var first []int32
		for len(work) > 0 {
			s := work[len(work)-1]
			work = work[:len(work)-1]
			if seen[s] == r+1 {
				continue
			}
			seen[s] = r + 1
			work = append(work, b.states[s].eps...)
			for _, c := range b.states[s].calls {
				first = append(first, c.rule)
				if b.nullary[c.rule] {
					work = append(work, c.to)
				}
			}
		}
		for _, c := range first {
			switch mark[c] {
			case open:
				var names []string
				for _, p := range append(path[slices.Index(path, c):], c) {
					names = append(names, b.rules[p].name)
				}
				return fmt.Errorf("grammar: %s: rule %q is left-recursive (%s): it would call itself without reading anything; put a terminal first, or use * or +",
					b.rules[c].where, b.rules[c].name, strings.Join(names, " -> "))
			case fresh:
				if err := visit(c); err != nil {
					return err
				}
			}
		}
		mark[r] = closed
		path = path[:len(path)-1]
		return nil
	}
	for r := range b.rules {
		if mark[r] == fresh {
			if err := visit(int32(r)); err != nil {
				return err
			}
		}
	}
	return nil
}

// findTails marks the states after which a call need not come back.
func (b *builder) findTails(null []bool) {
	b.tail = make([]bool, len(b.states))
	in := make([][]int32, len(b.states))
	more := make([]bool, len(b.states)) // something but the end can follow
	var work []int32
	for s := range b.states {
		for _, to := range b.states[s].eps {
			in[to] = append(in[to], int32(s))
		}
		if len(b.states[s].edges)+len(b.states[s].calls) > 0 {
			more[s] = true
			work = append(work, int32(s))
		}
	}
	for len(work) > 0 {
		s := work[len(work)-1]
		work = work[:len(work)-1]
		for _, p := range in[s] {
			if !more[p] {
				more[p] = true
				work = append(work, p)
			}
		}
	}
	for s := range b.tail {
		b.tail[s] = null[s] && !more[s]
	}
}

// findClasses sorts bytes into classes that no edge tells apart.
func (b *builder) findClasses() {
	var cut [257]bool
	for s := range b.states {
		for _, e := range b.states[s].edges {
			cut[e.lo], cut[int(e.hi)+1] = true, true
		}
	}
	for c := range 256 {
		if c == 0 || cut[c] {
			b.sample = append(b.sample, byte(c))
		}
		b.class[c] = uint8(len(b.sample) - 1)
	}
}
