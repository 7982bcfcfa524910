package grammar

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of a grammar's text.
const (
	maxSource  = 1 << 20
	maxNesting = 200
	maxCount   = 1_000_000 // of a repetition
)

// GrammarError says what is wrong in the text of a grammar, and where.
type GrammarError struct {
	Line, Col int // from 1; columns count characters
	Msg       string
}

// Error prints the place and what is wrong there.
func (e *GrammarError) Error() string {
	return fmt.Sprintf("grammar: %d:%d: %s", e.Line, e.Col, e.Msg)
}

// ParseGBNF compiles a grammar in GBNF. A text matches if the rule "root" does.
//
//	# a comment
//	root  ::= item ("," " "? item){0,3}  # repetition: * + ? {m} {m,} {m,n}
//	item  ::= "yes" | "no" | [^a-z\n] | word | .
//	word  ::= [a-zA-Z_\u00e4]+
//
// A rule ends with its line, unless a parenthesis is open or | or ::= comes
// last. Literals and classes know \n \r \t \\ \" \[ \] \- \^ \xHH \uHHHH and
// \UHHHHHHHH. Code points are meant everywhere; . is any of them.
//
// Errors are *GrammarError: unknown syntax, rules that are missing, written
// twice, left-recursive or without end, counts above 1000000, nesting above
// 200, texts above 1 MiB.
func ParseGBNF(src string) (*Grammar, error) {
	p := &gbnf{src: src, line: 1, col: 1, rules: map[string]*gbnfRule{}}
	if len(src) > maxSource {
		return nil, p.errorf("the grammar has %d bytes, at most %d are read", len(src), maxSource)
	}
	if !utf8.ValidString(src) {
		return nil, p.errorf("the grammar is not valid UTF-8")
	}
	for p.space(true); p.peek() != eof; p.space(true) {
		if err := p.rule(); err != nil {
			return nil, err
		}
	}
	for _, r := range p.order {
		if r.rule.body == nil {
			return nil, &GrammarError{r.line, r.col, fmt.Sprintf("rule %q is used here and not defined", r.rule.name)}
		}
	}
	root := p.rules["root"]
	if root == nil {
		return nil, p.errorf(`there is no rule "root"; it is where a text begins`)
	}
	g, err := newGrammar(root.rule, true)
	if err != nil {
		err = p.place(err)
	}
	return g, err
}

// place makes errors that the compiler found, which begin with the place of a
// rule, a *GrammarError.
func (p *gbnf) place(err error) error {
	e := &GrammarError{1, 1, strings.TrimPrefix(err.Error(), "grammar: ")}
	where, rest, ok := strings.Cut(e.Msg, ": ")
	if line, col, two := strings.Cut(where, ":"); ok && two {
		a, errA := strconv.Atoi(line)
		b, errB := strconv.Atoi(col)
		if errA == nil && errB == nil {
			e.Line, e.Col, e.Msg = a, b, rest
		}
	}
	return e
}

type gbnf struct {
	src       string
	at        int
	line, col int
	rules     map[string]*gbnfRule
	order     []*gbnfRule
	depth     int
}

type gbnfRule struct {
	rule      *rule
	line, col int // of its first mention
}

const eof = -1

func (p *gbnf) errorf(format string, args ...any) error {
	return &GrammarError{p.line, p.col, fmt.Sprintf(format, args...)}
}

func (p *gbnf) peek() rune {
	if p.at >= len(p.src) {
		return eof
	}
	r, _ := utf8.DecodeRuneInString(p.src[p.at:])
	return r
}

func (p *gbnf) next() rune {
	r := p.peek()
	if r == eof {
		return r
	}
	p.at += utf8.RuneLen(r)
	p.col++
	if r == '\n' {
		p.line++
		p.col = 1
	}
	return r
}

// found names the next character for an error.
func (p *gbnf) found() string {
	switch r := p.peek(); r {
	case eof:
		return "the end of the grammar"
	case '\n', '\r':
		return "the end of the line"
	default:
		return strconv.QuoteRune(r)
	}
}

// space skips blanks and comments, and ends of lines if lines is set.
func (p *gbnf) space(lines bool) {
	for {
		switch r := p.peek(); {
		case r == ' ' || r == '\t' || lines && (r == '\n' || r == '\r'):
			p.next()
		case r == '#':
			for r := p.peek(); r != eof && r != '\n'; r = p.peek() {
				p.next()
			}
		default:
			return
		}
	}
}

func isName(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
}

// name reads the name of a rule.
func (p *gbnf) name() (*gbnfRule, error) {
	line, col, from := p.line, p.col, p.at
	for isName(p.peek()) {
		p.next()
	}
	if p.at == from {
		return nil, p.errorf("found %s, want the name of a rule (letters, digits, - and _)", p.found())
	}
	name := p.src[from:p.at]
	r := p.rules[name]
	if r == nil {
		r = &gbnfRule{rule: &rule{name: name}, line: line, col: col}
		p.rules[name] = r
		p.order = append(p.order, r)
	}
	return r, nil
}

func (p *gbnf) rule() error {
	line, col := p.line, p.col
	r, err := p.name()
	if err != nil {
		return err
	}
	if r.rule.body != nil {
		return &GrammarError{line, col, fmt.Sprintf("rule %q is defined twice, first at %s", r.rule.name, r.rule.where)}
	}
	r.rule.where = fmt.Sprintf("%d:%d", line, col)
	p.space(false)
	if !strings.HasPrefix(p.src[p.at:], "::=") {
		return p.errorf("found %s after the name of a rule, want ::=", p.found())
	}
	for range 3 {
		p.next()
	}
	p.space(true)
	body, err := p.alternates(false)
	if err != nil {
		return err
	}
	r.rule.body = body
	switch p.peek() {
	case '\n', '\r', eof:
		return nil
	}
	return p.errorf("found %s, want a literal, a class, a rule, a group, | or the end of the line", p.found())
}

func (p *gbnf) alternates(nested bool) (*expr, error) {
	if p.depth++; p.depth > maxNesting {
		return nil, p.errorf("groups are nested more than %d deep", maxNesting)
	}
	defer func() { p.depth-- }()
	var list []*expr
	for {
		e, err := p.sequence(nested)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
		if p.peek() != '|' {
			return alt(list...), nil
		}
		p.next()
		p.space(true)
	}
}

func (p *gbnf) sequence(nested bool) (*expr, error) {
	var list []*expr
	for {
		var e *expr
		var err error
		switch r := p.peek(); {
		case r == '"':
			e, err = p.literal()
		case r == '[':
			e, err = p.class()
		case r == '.':
			p.next()
			e = class(anyRune)
		case r == '(':
			p.next()
			p.space(true)
			if e, err = p.alternates(true); err == nil && p.peek() != ')' {
				err = p.errorf("found %s inside a group, want )", p.found())
			}
			if err == nil {
				p.next()
			}
		case isName(r):
			var named *gbnfRule
			if named, err = p.name(); err == nil {
				e = ref(named.rule)
			}
		case r == '*' || r == '+' || r == '?' || r == '{':
			err = p.errorf("%q repeats nothing: a literal, a class, a rule or a group must stand before it", r)
		case r == '<' || r == '!':
			err = p.errorf("tokens (%q) are not supported in grammars; write the text", r)
		default:
			return seq(list...), nil
		}
		if err != nil {
			return nil, err
		}
		p.space(nested)
		for {
			again, ok, err := p.repetition(e)
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
			e = again
			p.space(nested)
		}
		list = append(list, e)
	}
}

// repetition reads what may stand behind e.
func (p *gbnf) repetition(e *expr) (*expr, bool, error) {
	line, col := p.line, p.col
	least, most := 0, -1
	switch p.peek() {
	case '*':
	case '+':
		least = 1
	case '?':
		most = 1
	case '{':
		p.next()
		p.space(false)
		var err error
		if least, err = p.count(); err != nil {
			return nil, false, err
		}
		most = least
		p.space(false)
		if p.peek() == ',' {
			p.next()
			p.space(false)
			most = -1
			if p.peek() != '}' {
				if most, err = p.count(); err != nil {
					return nil, false, err
				}
			}
			p.space(false)
		}
		if p.peek() != '}' {
			return nil, false, p.errorf("found %s in a repetition, want }", p.found())
		}
		if most >= 0 && most < least {
			return nil, false, &GrammarError{line, col, fmt.Sprintf("a repetition of {%d,%d}: the second count is below the first", least, most)}
		}
	default:
		return nil, false, nil
	}
	p.next()
	return repeat(e, least, most), true, nil
}

func (p *gbnf) count() (int, error) {
	line, col, from := p.line, p.col, p.at
	for r := p.peek(); r >= '0' && r <= '9'; r = p.peek() {
		p.next()
	}
	if p.at == from {
		return 0, p.errorf("found %s in a repetition, want a count: {m}, {m,} or {m,n}", p.found())
	}
	n, err := strconv.Atoi(p.src[from:p.at])
	if err != nil || n > maxCount {
		return 0, &GrammarError{line, col, fmt.Sprintf("a repetition of %s, at most %d is possible", p.src[from:p.at], maxCount)}
	}
	return n, nil
}

func (p *gbnf) literal() (*expr, error) {
	line, col := p.line, p.col
	p.next()
	var b strings.Builder
	for {
		switch p.peek() {
		case eof, '\n':
			return nil, &GrammarError{line, col, `a literal has no closing "`}
		case '"':
			p.next()
			if b.Len() == 0 {
				return empty, nil
			}
			return lit(b.String()), nil
		}
		r, err := p.char()
		if err != nil {
			return nil, err
		}
		b.WriteRune(r)
	}
}

func (p *gbnf) class() (*expr, error) {
	line, col := p.line, p.col
	p.next()
	negated := p.peek() == '^'
	if negated {
		p.next()
	}
	var pairs []rune
	for p.peek() != ']' {
		if r := p.peek(); r == eof || r == '\n' {
			return nil, &GrammarError{line, col, "a class has no closing ]"}
		}
		lo, err := p.char()
		if err != nil {
			return nil, err
		}
		hi := lo
		if p.peek() == '-' && !strings.HasPrefix(p.src[p.at:], "-]") {
			p.next()
			if r := p.peek(); r == eof || r == '\n' {
				return nil, &GrammarError{line, col, "a class has no closing ]"}
			}
			l, c := p.line, p.col
			if hi, err = p.char(); err != nil {
				return nil, err
			}
			if hi < lo {
				return nil, &GrammarError{l, c, fmt.Sprintf("a range from %q to %q is empty", lo, hi)}
			}
		}
		pairs = append(pairs, lo, hi)
	}
	p.next()
	set := newRuneSet(pairs...)
	if negated {
		set = set.not()
	}
	if len(set) == 0 {
		return nil, &GrammarError{line, col, "a class that no character is in"}
	}
	return class(set), nil
}

// char reads one character of a literal or class.
func (p *gbnf) char() (rune, error) {
	line, col := p.line, p.col
	r := p.next()
	if r != '\\' {
		return r, nil
	}
	digits := 0
	switch r = p.next(); r {
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case '\\', '"', '[', ']', '-', '^':
		return r, nil
	case 'x':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	default:
		return 0, &GrammarError{line, col, `an unknown escape; known: \n \r \t \\ \" \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH`}
	}
	from := p.at
	for range digits {
		if c := p.peek(); c == eof || !strings.ContainsRune("0123456789abcdefABCDEF", c) {
			return 0, &GrammarError{line, col, fmt.Sprintf("\\%c needs %d hexadecimal digits", r, digits)}
		}
		p.next()
	}
	n, err := strconv.ParseUint(p.src[from:p.at], 16, 32)
	if err != nil || n > utf8.MaxRune || !utf8.ValidRune(rune(n)) {
		return 0, &GrammarError{line, col, fmt.Sprintf("U+%s is not a character", strings.ToUpper(p.src[from:p.at]))}
	}
	return rune(n), nil
}
