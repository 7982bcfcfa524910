package grammar

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// re is a regular expression over code points.
type re struct {
	op       reOp
	set      runeSet
	sub      []*re
	min, max int // max -1: no limit
}

type reOp uint8

const (
	reSet reOp = iota
	reSeq
	reAlt
	reRepeat
	reBegin // ^
	reEnd   // $
)

var reAny = &re{op: reRepeat, max: -1, sub: []*re{{set: anyRune}}}

// parsePattern reads a regular expression of ECMA-262 as JSON Schema uses it,
// with the flag u: it looks for a match anywhere in the text. What goes beyond
// regular languages, look-around, word boundaries and references back, is an
// error, and so are anchors that are neither first nor last.
func parsePattern(src string) (*re, error) {
	if len(src) > maxPattern {
		return nil, fmt.Errorf("the pattern has %d bytes, at most %d are read", len(src), maxPattern)
	}
	if !utf8.ValidString(src) {
		return nil, fmt.Errorf("the pattern is not valid UTF-8")
	}
	p := &ecma{src: []rune(src)}
	e, err := p.alternatives()
	if err == nil && p.at < len(p.src) {
		err = p.errorf("a ) without (")
	}
	if err == nil {
		e, err = anchor(e, reBegin)
	}
	if err == nil {
		e, err = anchor(e, reEnd)
	}
	return e, err
}

const (
	maxPattern      = 4096
	maxPatternCount = 100_000
)

// anchor replaces anchors of one kind at the edge of e, and puts any text where
// there is none.
func anchor(e *re, kind reOp) (*re, error) {
	switch {
	case e.op == kind:
		return &re{op: reSeq}, nil
	case !e.has(kind):
		if kind == reBegin {
			return &re{op: reSeq, sub: []*re{reAny, e}}, nil
		}
		return &re{op: reSeq, sub: []*re{e, reAny}}, nil
	case e.op == reAlt:
		out := &re{op: reAlt}
		for _, s := range e.sub {
			s, err := anchor(s, kind)
			if err != nil {
				return nil, err
			}
			out.sub = append(out.sub, s)
		}
		return out, nil
	case e.op == reSeq:
		sub := slices.Clone(e.sub)
		edge := 0
		if kind == reEnd {
			edge = len(sub) - 1
		}
		first, err := anchor(sub[edge], kind)
		if err != nil {
			return nil, err
		}
		sub[edge] = first
		out := &re{op: reSeq, sub: sub}
		if out.has(kind) {
			return nil, errAnchor
		}
		return out, nil
	}
	return nil, errAnchor
}

var errAnchor = fmt.Errorf("the anchors ^ and $ are supported at the beginning and the end only")

func (e *re) has(kind reOp) bool {
	return e.op == kind || slices.ContainsFunc(e.sub, func(s *re) bool { return s.has(kind) })
}

type ecma struct {
	src   []rune
	at    int
	depth int
}

func (p *ecma) errorf(format string, args ...any) error {
	return fmt.Errorf("at character %d: %s", p.at+1, fmt.Sprintf(format, args...))
}

func (p *ecma) peek() rune {
	if p.at < len(p.src) {
		return p.src[p.at]
	}
	return eof
}

func (p *ecma) take(s string) bool {
	r := []rune(s)
	if len(p.src)-p.at >= len(r) && slices.Equal(p.src[p.at:p.at+len(r)], r) {
		p.at += len(r)
		return true
	}
	return false
}

func (p *ecma) alternatives() (*re, error) {
	if p.depth++; p.depth > maxNesting {
		return nil, p.errorf("groups are nested more than %d deep", maxNesting)
	}
	defer func() { p.depth-- }()
	out := &re{op: reAlt}
	for {
		s := &re{op: reSeq}
		for {
			e, err := p.term()
			if err != nil {
				return nil, err
			}
			if e == nil {
				break
			}
			s.sub = append(s.sub, e)
		}
		if len(s.sub) == 1 {
			s = s.sub[0]
		}
		out.sub = append(out.sub, s)
		if !p.take("|") {
			break
		}
	}
	if len(out.sub) == 1 {
		return out.sub[0], nil
	}
	return out, nil
}

// term reads an atom with its repetition; nil is the end of a sequence.
func (p *ecma) term() (*re, error) {
	var e *re
	switch r := p.peek(); r {
	case eof, '|', ')':
		return nil, nil
	case '^':
		p.at++
		return &re{op: reBegin}, nil
	case '$':
		p.at++
		return &re{op: reEnd}, nil
	case '(':
		p.at++
		switch {
		case p.take("?:"):
		case p.take("?=") || p.take("?!") || p.take("?<=") || p.take("?<!"):
			return nil, p.errorf("look-ahead and look-behind are not supported")
		case p.take("?<"):
			for p.peek() != '>' {
				if p.peek() == eof {
					return nil, p.errorf("the name of a group has no >")
				}
				p.at++
			}
			p.at++
		case p.peek() == '?':
			return nil, p.errorf("groups that begin with (? are not supported but for (?: and (?<name>")
		}
		var err error
		if e, err = p.alternatives(); err != nil {
			return nil, err
		}
		if !p.take(")") {
			return nil, p.errorf("a ( without )")
		}
	case '[':
		p.at++
		set, err := p.class()
		if err != nil {
			return nil, err
		}
		e = &re{set: set}
	case '.':
		p.at++
		e = &re{set: newRuneSet('\n', '\n', '\r', '\r', 0x2028, 0x2029).not()}
	case '*', '+', '?', '{', '}', ']':
		return nil, p.errorf("%q stands for itself only behind a backslash", r)
	case '\\':
		p.at++
		set, err := p.escape(false)
		if err != nil {
			return nil, err
		}
		e = &re{set: set}
	default:
		p.at++
		e = &re{set: newRuneSet(r, r)}
	}
	return p.repetition(e)
}

func (p *ecma) repetition(e *re) (*re, error) {
	least, most := 0, -1
	switch {
	case p.take("*"):
	case p.take("+"):
		least = 1
	case p.take("?"):
		most = 1
	case p.take("{"):
		n, err := p.count()
		if err != nil {
			return nil, err
		}
		least, most = n, n
		if p.take(",") {
			most = -1
			if p.peek() != '}' {
				if most, err = p.count(); err != nil {
					return nil, err
				}
			}
		}
		if !p.take("}") {
			return nil, p.errorf("a { without }")
		}
		if most >= 0 && most < least {
			return nil, p.errorf("a repetition of {%d,%d}", least, most)
		}
	default:
		return e, nil
	}
	p.take("?") // lazy: the same language
	switch p.peek() {
	case '*', '+', '?', '{':
		return nil, p.errorf("a repetition of a repetition")
	}
	return &re{op: reRepeat, min: least, max: most, sub: []*re{e}}, nil
}

func (p *ecma) count() (int, error) {
	from := p.at
	for r := p.peek(); r >= '0' && r <= '9'; r = p.peek() {
		p.at++
	}
	n, err := strconv.Atoi(string(p.src[from:p.at]))
	if err != nil || n > maxPatternCount {
		return 0, p.errorf("the count of a repetition is %q, want a number up to %d", string(p.src[from:p.at]), maxPatternCount)
	}
	return n, nil
}

var (
	digitSet = newRuneSet('0', '9')
	wordSet  = newRuneSet('0', '9', 'A', 'Z', '_', '_', 'a', 'z')
	spaceSet = newRuneSet('\t', '\r', ' ', ' ', 0xA0, 0xA0, 0x1680, 0x1680, 0x2000, 0x200A, 0x2028, 0x2029, 0x202F, 0x202F, 0x205F, 0x205F, 0x3000, 0x3000, 0xFEFF, 0xFEFF)
)

// escape reads what is behind a backslash.
func (p *ecma) escape(inClass bool) (runeSet, error) {
	r := p.peek()
	if r == eof {
		return nil, p.errorf("a backslash at the end")
	}
	p.at++
	one := func(r rune) (runeSet, error) { return newRuneSet(r, r), nil }
	switch r {
	case 'd':
		return digitSet, nil
	case 'D':
		return digitSet.not(), nil
	case 'w':
		return wordSet, nil
	case 'W':
		return wordSet.not(), nil
	case 's':
		return spaceSet, nil
	case 'S':
		return spaceSet.not(), nil
	case 'n':
		return one('\n')
	case 'r':
		return one('\r')
	case 't':
		return one('\t')
	case 'v':
		return one('\v')
	case 'f':
		return one('\f')
	case '0':
		if n := p.peek(); n < '0' || n > '9' {
			return one(0)
		}
	case 'b':
		if inClass {
			return one('\b')
		}
		return nil, p.errorf(`the word boundary \b is not supported`)
	case 'B':
		return nil, p.errorf(`\B is not supported`)
	case 'x':
		return p.hex(2)
	case 'u':
		if p.take("{") {
			end := slices.Index(p.src[p.at:], '}')
			if end < 1 || end > 6 {
				return nil, p.errorf(`\u{ needs one to six hexadecimal digits and }`)
			}
			set, err := p.hex(end)
			p.at++
			return set, err
		}
		return p.hex(4)
	case 'p', 'P':
		return p.property(r == 'P')
	}
	if r < 128 && !wordSet.has(r) {
		return one(r)
	}
	return nil, p.errorf(`the escape \%c is not supported`, r)
}

func (p *ecma) hex(n int) (runeSet, error) {
	if len(p.src)-p.at >= n {
		x, err := strconv.ParseUint(string(p.src[p.at:p.at+n]), 16, 32)
		if err == nil && utf8.ValidRune(rune(x)) {
			p.at += n
			return newRuneSet(rune(x), rune(x)), nil
		}
	}
	return nil, p.errorf("want %d hexadecimal digits of a character", n)
}

// property reads {Name} after \p: a general category or a script.
func (p *ecma) property(negated bool) (runeSet, error) {
	end := -1
	if p.take("{") {
		end = slices.Index(p.src[p.at:], '}')
	}
	if end < 0 {
		return nil, p.errorf(`\p needs {Name}`)
	}
	name := string(p.src[p.at : p.at+end])
	p.at += end + 1
	table := unicode.Categories[name]
	if table == nil {
		table = unicode.Scripts[strings.TrimPrefix(name, "Script=")]
	}
	if table == nil {
		return nil, p.errorf(`\p{%s} is not known; want a general category such as L or Lu, or a script such as Greek`, name)
	}
	var set runeSet
	add := func(lo, hi, stride rune) {
		if stride == 1 {
			set = append(set, runeRange{lo, hi})
			return
		}
		for r := lo; r <= hi; r += stride {
			set = append(set, runeRange{r, r})
		}
	}
	for _, r := range table.R16 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	for _, r := range table.R32 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	set = set.tidy()
	if negated {
		set = set.not()
	}
	return set, nil
}

func (p *ecma) class() (runeSet, error) {
	negated := p.take("^")
	var set runeSet
	item := func() (runeSet, error) {
		switch r := p.peek(); r {
		case eof:
			return nil, p.errorf("a [ without ]")
		case '\\':
			p.at++
			return p.escape(true)
		default:
			p.at++
			return runeSet{{r, r}}, nil
		}
	}
	for !p.take("]") {
		lo, err := item()
		if err != nil {
			return nil, err
		}
		if p.peek() == '-' && p.at+1 < len(p.src) && p.src[p.at+1] != ']' {
			p.at++
			hi, err := item()
			if err != nil {
				return nil, err
			}
			if len(lo) != 1 || lo[0].lo != lo[0].hi || len(hi) != 1 || hi[0].lo != hi[0].hi || hi[0].lo < lo[0].lo {
				return nil, p.errorf("a range in a class must run from one character up to another")
			}
			lo = runeSet{{lo[0].lo, hi[0].lo}}
		}
		set = append(set, lo...)
	}
	set = set.tidy()
	if negated {
		set = set.not()
	}
	return set, nil
}
