package grammar

import (
	"fmt"
	"regexp"
	"strings"
)

// goPattern compiles a pattern of ECMA-262 with package regexp. The two read
// some texts differently: {00}, [[:alpha:]], \s and the dot. What is compiled is
// therefore not src but what parsePattern understood, so that a validator and a
// grammar have one meaning of a pattern.
func goPattern(src string) (*regexp.Regexp, error) {
	e, err := parsePattern(src)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(`\A`)
	e.goSyntax(&b)
	b.WriteString(`\z`)
	return regexp.Compile(b.String())
}

// goSyntax writes e, which has no anchors, for package regexp.
func (e *re) goSyntax(b *strings.Builder) {
	b.WriteString("(?:")
	switch e.op {
	case reSet:
		e.set.goSyntax(b)
	case reSeq:
		for _, s := range e.sub {
			s.goSyntax(b)
		}
	case reAlt:
		for i, s := range e.sub {
			if i > 0 {
				b.WriteByte('|')
			}
			s.goSyntax(b)
		}
	case reRepeat:
		e.sub[0].goSyntax(b)
		switch {
		case e.max >= 0:
			fmt.Fprintf(b, "{%d,%d}", e.min, e.max)
		case e.min == 0:
			b.WriteByte('*')
		default:
			fmt.Fprintf(b, "{%d,}", e.min)
		}
	}
	b.WriteByte(')')
}

func (s runeSet) goSyntax(b *strings.Builder) {
	if len(s) == 0 {
		b.WriteString(`[^\x00-\x{10FFFF}]`)
		return
	}
	b.WriteByte('[')
	for _, r := range s {
		fmt.Fprintf(b, `\x{%X}-\x{%X}`, r.lo, r.hi)
	}
	b.WriteByte(']')
}
