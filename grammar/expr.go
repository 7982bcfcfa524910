package grammar

import (
	"slices"
	"unicode/utf8"
)

// expr is a piece of a rule before it becomes an automaton.
type expr struct {
	op       exprOp
	lit      string  // opLit: bytes
	set      runeSet // opClass
	sub      []*expr // opSeq, opAlt; one for opRepeat
	min, max int     // opRepeat; max -1 is without limit
	rule     *rule   // opRef
	build    func(b *builder, from int32) int32
	size     int // states, roughly
}

type exprOp uint8

const (
	opNone   exprOp = iota // matches nothing at all
	opLit                  // bytes
	opClass                // one code point of a set
	opSeq                  // one after the other
	opAlt                  // one of several
	opRepeat               // min to max times
	opRef                  // what the rule matches
	opGraph                // build adds states of its own
)

// rule is a named automaton that others may call.
type rule struct {
	name  string
	where string // where it is written, for errors
	body  *expr
}

var (
	none  = &expr{op: opNone}
	empty = &expr{op: opSeq}
)

func lit(s string) *expr { return &expr{op: opLit, lit: s, size: len(s)} }

func class(set runeSet) *expr {
	if len(set) == 0 {
		return none
	}
	return &expr{op: opClass, set: set, size: 4 * len(set)}
}

// chars is a class from pairs of first and last code point.
func chars(pairs ...rune) *expr { return class(newRuneSet(pairs...)) }

func ref(r *rule) *expr { return &expr{op: opRef, rule: r, size: 1} }

func seq(sub ...*expr) *expr { return join(opSeq, sub) }

func alt(sub ...*expr) *expr {
	sub = slices.DeleteFunc(slices.Clone(sub), func(e *expr) bool { return e.op == opNone })
	if len(sub) == 0 {
		return none
	}
	return join(opAlt, sub)
}

func join(op exprOp, sub []*expr) *expr {
	if len(sub) == 1 {
		return sub[0]
	}
	e := &expr{op: op, sub: sub, size: 1}
	for _, s := range sub {
		if op == opSeq && s.op == opNone {
			return none
		}
		e.size += s.size
	}
	return e
}

func opt(e *expr) *expr { return repeat(e, 0, 1) }

// largeBody is the size from which a repeated body becomes a rule of its own,
// so that nested repetitions do not multiply.
const largeBody = 48

func repeat(e *expr, least, most int) *expr {
	if e.op == opNone {
		if least == 0 {
			return empty
		}
		return none
	}
	if most == 0 {
		return empty
	}
	if most == 1 && least == 1 {
		return e
	}
	if e.size > largeBody && most != 1 && (most > 1 || least > 1) {
		e = ref(&rule{name: "repeated part", body: e})
	}
	n := max(least, most, 1)
	return &expr{op: opRepeat, sub: []*expr{e}, min: least, max: most, size: e.size*min(n, blockSize) + 2}
}

// runeSet is a set of code points: sorted ranges that do not touch.
type runeSet []runeRange

type runeRange struct{ lo, hi rune }

// anyRune are all code points that UTF-8 can write.
var anyRune = runeSet{{0, 0xD7FF}, {0xE000, utf8.MaxRune}}

func newRuneSet(pairs ...rune) runeSet {
	var s runeSet
	for i := 0; i < len(pairs); i += 2 {
		s = append(s, runeRange{pairs[i], pairs[i+1]})
	}
	return s.tidy()
}

// tidy sorts and joins ranges, and leaves out what UTF-8 cannot write.
func (s runeSet) tidy() runeSet {
	slices.SortFunc(s, func(a, b runeRange) int { return int(a.lo - b.lo) })
	var out runeSet
	for _, r := range s {
		if n := len(out); n > 0 && r.lo <= out[n-1].hi+1 {
			out[n-1].hi = max(out[n-1].hi, r.hi)
		} else {
			out = append(out, r)
		}
	}
	return out.and(anyRune)
}

func (s runeSet) and(o runeSet) runeSet {
	var out runeSet
	for i, j := 0, 0; i < len(s) && j < len(o); {
		lo, hi := max(s[i].lo, o[j].lo), min(s[i].hi, o[j].hi)
		if lo <= hi {
			out = append(out, runeRange{lo, hi})
		}
		if s[i].hi < o[j].hi {
			i++
		} else {
			j++
		}
	}
	return out
}

func (s runeSet) not() runeSet {
	var out runeSet
	from := rune(0)
	for _, r := range s {
		if r.lo > from {
			out = append(out, runeRange{from, r.lo - 1})
		}
		from = r.hi + 1
	}
	if from <= utf8.MaxRune {
		out = append(out, runeRange{from, utf8.MaxRune})
	}
	return out.and(anyRune)
}

func (s runeSet) has(r rune) bool {
	for _, x := range s {
		if x.lo <= r && r <= x.hi {
			return true
		}
	}
	return false
}
