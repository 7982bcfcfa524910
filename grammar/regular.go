package grammar

import (
	"encoding/binary"
	"errors"
	"slices"
	"sort"
)

// dfa is a deterministic automaton over code points. State 0 is the start; the
// code points are cut into parts that no move tells apart.
type dfa struct {
	parts  []rune    // first code point of each part, ascending from 0
	next   [][]int32 // per state and part, -1 is a dead end
	accept []bool
}

const maxDFA = 20_000 // states

var errLargeDFA = errors.New("the pattern, format and length together need more than 20000 states; use smaller counts")

// reNFA is a regular expression before it is made deterministic.
type reNFA struct {
	eps  [][]int32
	sets []runeSet // move on set to, nil if none
	to   []int32
}

func (n *reNFA) state() int32 {
	n.eps, n.sets, n.to = append(n.eps, nil), append(n.sets, nil), append(n.to, 0)
	return int32(len(n.eps) - 1)
}

func (n *reNFA) gen(e *re, from int32) (int32, error) {
	var err error
	if len(n.eps) > 20*maxDFA {
		return 0, errLargeDFA
	}
	switch e.op {
	case reSet:
		in, out := n.state(), n.state()
		n.eps[from] = append(n.eps[from], in)
		n.sets[in], n.to[in] = e.set, out
		return out, nil
	case reSeq:
		for _, s := range e.sub {
			if from, err = n.gen(s, from); err != nil {
				return 0, err
			}
		}
		return from, nil
	case reAlt:
		out := n.state()
		for _, s := range e.sub {
			end, err := n.gen(s, from)
			if err != nil {
				return 0, err
			}
			n.eps[end] = append(n.eps[end], out)
		}
		return out, nil
	case reRepeat:
		for range e.min {
			if from, err = n.gen(e.sub[0], from); err != nil {
				return 0, err
			}
		}
		out := n.state()
		if e.max < 0 {
			loop := n.state()
			n.eps[from] = append(n.eps[from], loop)
			end, err := n.gen(e.sub[0], loop)
			if err != nil {
				return 0, err
			}
			n.eps[end] = append(n.eps[end], loop)
			n.eps[loop] = append(n.eps[loop], out)
			return out, nil
		}
		for range e.max - e.min {
			n.eps[from] = append(n.eps[from], out)
			if from, err = n.gen(e.sub[0], from); err != nil {
				return 0, err
			}
		}
		n.eps[from] = append(n.eps[from], out)
		return out, nil
	}
	return 0, errAnchor
}

// newDFA makes an expression deterministic.
func newDFA(e *re) (*dfa, error) {
	n := &reNFA{}
	start := n.state()
	end, err := n.gen(e, start)
	if err != nil {
		return nil, err
	}
	cuts := []rune{0}
	for _, set := range n.sets {
		for _, r := range set {
			cuts = append(cuts, r.lo, r.hi+1)
		}
	}
	slices.Sort(cuts)
	d := &dfa{parts: slices.Compact(cuts)}
	seen, mark := make([]int, len(n.eps)), 0
	closed := func(work []int32) []int32 {
		mark++
		var all []int32
		for len(work) > 0 {
			s := work[len(work)-1]
			work = work[:len(work)-1]
			if seen[s] != mark {
				seen[s] = mark
				all = append(all, s)
				work = append(work, n.eps[s]...)
			}
		}
		slices.Sort(all)
		return all
	}
	ids := map[string]int32{}
	var sets [][]int32
	work := 0
	intern := func(states []int32) int32 {
		key := make([]byte, 0, 4*len(states))
		for _, s := range states {
			key = binary.LittleEndian.AppendUint32(key, uint32(s))
		}
		id, ok := ids[string(key)]
		if !ok {
			id = int32(len(sets))
			ids[string(key)] = id
			sets = append(sets, states)
			d.accept = append(d.accept, slices.Contains(states, end))
			d.next = append(d.next, nil)
			work += len(states)
		}
		return id
	}
	intern(closed([]int32{start}))
	to := make([][]int32, len(d.parts))
	for i := 0; i < len(sets); i++ {
		if len(sets) > maxDFA || len(sets)*len(d.parts) > 100*maxDFA || work > 100*maxDFA {
			return nil, errLargeDFA
		}
		for p := range to {
			to[p] = to[p][:0]
		}
		for _, s := range sets[i] {
			for _, r := range n.sets[s] {
				for p := d.part(r.lo); p < len(d.parts) && d.parts[p] <= r.hi; p++ {
					to[p] = append(to[p], n.to[s])
				}
			}
		}
		next := make([]int32, len(d.parts))
		for p := range to {
			next[p] = -1
			if len(to[p]) > 0 {
				next[p] = intern(closed(slices.Clone(to[p])))
			}
		}
		d.next[i] = next
	}
	return d, nil
}

// part returns the part that r lies in.
func (d *dfa) part(r rune) int {
	return sort.Search(len(d.parts), func(i int) bool { return d.parts[i] > r }) - 1
}

func (d *dfa) match(s string) bool {
	at := int32(0)
	for _, r := range s {
		if at = d.next[at][d.part(r)]; at < 0 {
			return false
		}
	}
	return d.accept[at]
}

// not matches what d does not.
func (d *dfa) not() *dfa {
	n := &dfa{parts: d.parts}
	sink := int32(len(d.next))
	for s := range d.next {
		next := slices.Clone(d.next[s])
		for p := range next {
			if next[p] < 0 {
				next[p] = sink
			}
		}
		n.next, n.accept = append(n.next, next), append(n.accept, !d.accept[s])
	}
	n.next, n.accept = append(n.next, slices.Repeat([]int32{sink}, len(d.parts))), append(n.accept, true)
	return n
}

// and matches what both match.
func (d *dfa) and(o *dfa) (*dfa, error) {
	out := &dfa{parts: append(slices.Clone(d.parts), o.parts...)}
	slices.Sort(out.parts)
	out.parts = slices.Compact(out.parts)
	pd, po := make([]int, len(out.parts)), make([]int, len(out.parts))
	for i, r := range out.parts {
		pd[i], po[i] = d.part(r), o.part(r)
	}
	ids := map[[2]int32]int32{}
	var pairs [][2]int32
	intern := func(a, b int32) int32 {
		if a < 0 || b < 0 {
			return -1
		}
		id, ok := ids[[2]int32{a, b}]
		if !ok {
			id = int32(len(pairs))
			ids[[2]int32{a, b}] = id
			pairs = append(pairs, [2]int32{a, b})
			out.accept = append(out.accept, d.accept[a] && o.accept[b])
		}
		return id
	}
	intern(0, 0)
	for i := 0; i < len(pairs); i++ {
		if len(pairs) > maxDFA || len(pairs)*len(out.parts) > 100*maxDFA {
			return nil, errLargeDFA
		}
		next := make([]int32, len(out.parts))
		for p := range next {
			next[p] = intern(d.next[pairs[i][0]][pd[p]], o.next[pairs[i][1]][po[p]])
		}
		out.next = append(out.next, next)
	}
	return out, nil
}

// lengthDFA matches least to most code points; most -1 is without limit.
func lengthDFA(least, most int) (*dfa, error) {
	n := max(least, most)
	if n > maxDFA {
		return nil, errLargeDFA
	}
	d := &dfa{parts: []rune{0}}
	for i := range n + 1 {
		next := int32(i + 1)
		if i == n {
			if next = -1; most < 0 {
				next = int32(i)
			}
		}
		d.next, d.accept = append(d.next, []int32{next}), append(d.accept, i >= least)
	}
	return d, nil
}

// lengths returns the fewest and the most code points that d matches; most is -1
// without limit, least is -1 where nothing matches.
func (d *dfa) lengths() (least, most int) {
	// Only states from which the end can be reached count.
	in := make([][]int32, len(d.next))
	for s, next := range d.next {
		for _, to := range next {
			if to >= 0 {
				in[to] = append(in[to], int32(s))
			}
		}
	}
	near := make([]int, len(d.next)) // moves to the nearest end, -1: there is none
	var work []int32
	for s := range near {
		near[s] = -1
		if d.accept[s] {
			near[s] = 0
			work = append(work, int32(s))
		}
	}
	for i := 0; i < len(work); i++ {
		for _, p := range in[work[i]] {
			if near[p] < 0 {
				near[p] = near[work[i]] + 1
				work = append(work, p)
			}
		}
	}
	far := make([]int, len(d.next))
	state := make([]uint8, len(d.next)) // 1 on the path, 2 done
	cyclic := false
	var visit func(s int32)
	visit = func(s int32) {
		state[s] = 1
		for _, to := range d.next[s] {
			if to < 0 || near[to] < 0 {
				continue
			}
			switch state[to] {
			case 0:
				visit(to)
			case 1:
				cyclic = true
			}
			far[s] = max(far[s], far[to]+1)
		}
		state[s] = 2
	}
	if near[0] >= 0 {
		visit(0)
	}
	if cyclic {
		return near[0], -1
	}
	return near[0], far[0]
}

// wordsDFA matches exactly the given texts.
func wordsDFA(words []string) (*dfa, error) {
	e := &re{op: reAlt}
	for _, w := range words {
		s := &re{op: reSeq}
		for _, r := range w {
			s.sub = append(s.sub, &re{set: newRuneSet(r, r)})
		}
		e.sub = append(e.sub, s)
	}
	return newDFA(e)
}

// body is the text of d as it stands between the quotes of a JSON string, each
// character in one way only.
func (d *dfa) body() *expr {
	moves := 0
	type move struct {
		set runeSet
		to  int32
	}
	all := make([][]move, len(d.next))
	for s, next := range d.next {
		at := map[int32]int{}
		for p, to := range next {
			if to < 0 {
				continue
			}
			hi := rune(0x10FFFF)
			if p+1 < len(d.parts) {
				hi = d.parts[p+1] - 1
			}
			i, ok := at[to]
			if !ok {
				i = len(all[s])
				at[to] = i
				all[s] = append(all[s], move{to: to})
			}
			all[s][i].set = append(all[s][i].set, runeRange{d.parts[p], hi})
		}
		moves += len(all[s])
	}
	return &expr{op: opGraph, size: 8*moves + 1, build: func(b *builder, from int32) int32 {
		states := make([]int32, len(d.next))
		for s := range states {
			states[s] = b.state()
		}
		end := b.state()
		b.epsilon(from, states[0])
		for s := range all {
			if d.accept[s] {
				b.epsilon(states[s], end)
			}
			for _, m := range all[s] {
				if b.large {
					return end
				}
				b.jsonRunes(m.set.tidy(), states[s], states[m.to])
			}
		}
		return end
	}}
}

// plainSet are the characters that need no escape in a JSON string.
var plainSet = newRuneSet(' ', '!', '#', '[', ']', 0x10FFFF)

// shortEscapes are the escapes of two characters; \/ is left out.
var shortEscapes = map[rune]byte{'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}

// jsonRunes adds the characters of a set as JSON writes them.
func (b *builder) jsonRunes(set runeSet, from, to int32) {
	b.runes(set.and(plainSet), from, to)
	slash := int32(-1)
	zero := int32(-1) // behind \u00
	for _, r := range set.and(newRuneSet(0, 31, '"', '"', '\\', '\\')) {
		for c := r.lo; c <= r.hi; c++ {
			if slash < 0 {
				slash = b.state()
				b.byteEdge(from, '\\', '\\', slash)
			}
			if e, ok := shortEscapes[c]; ok {
				b.byteEdge(slash, e, e, to)
				continue
			}
			if zero < 0 {
				zero = b.gen(lit("u00"), slash)
			}
			at := b.state()
			b.byteEdge(zero, "0123456789abcdef"[c>>4], "0123456789abcdef"[c>>4], at)
			b.byteEdge(at, "0123456789abcdef"[c&15], "0123456789abcdef"[c&15], to)
		}
	}
}
