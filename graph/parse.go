package graph

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrFormat is the class of errors about text that is not a graph.
var ErrFormat = errors.New("not the text form of a graph")

// SyntaxError says where a text stopped being a graph. Columns count bytes.
type SyntaxError struct {
	Line, Column    int
	Found, Expected string
}

// Error prints one line: place, what is there and what should be.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("graph: line %d, column %d: found %s, expected %s", e.Line, e.Column, e.Found, e.Expected)
}

// Unwrap returns ErrFormat, for errors.Is.
func (e *SyntaxError) Unwrap() error { return ErrFormat }

// maxParsedID bounds the ids of a text: passes keep tables indexed by id, so
// one line must not be able to ask for gigabytes.
const maxParsedID = 1<<20 - 1

// Parse reads the text form that Graph.String prints. Operations must be
// registered; attributes may be left out where they have a default, and the
// type of a value that is not a leaf may be left out since it follows from the
// arguments. Blank lines and comments from # to the end of a line are skipped.
// The error is a *SyntaxError.
func Parse(text string) (*Graph, error) {
	p := &parser{text: text, g: New(""), values: map[int]*Value{}, lines: map[int]int{}}
	if err := p.graph(); err != nil {
		return nil, err
	}
	return p.g, nil
}

// parser reads one line at a time; s is the line and pos the place in it.
type parser struct {
	text string // what follows the current line
	line int
	s    string
	pos  int

	g      *Graph
	next   int // declared in the header
	values map[int]*Value
	lines  map[int]int // line that defines an id
}

// fail reports what is found at the byte at of the line.
func (p *parser) fail(at int, found, expected string) error {
	return &SyntaxError{Line: max(1, p.line), Column: at + 1, Found: found, Expected: expected}
}

// failHere reports the next token.
func (p *parser) failHere(expected string) error {
	p.skip()
	if p.pos >= len(p.s) {
		return p.fail(p.pos, "end of line", expected)
	}
	at := p.pos
	return p.fail(at, strconv.Quote(p.word()), expected)
}

// nextLine goes to the next line that holds more than a comment.
func (p *parser) nextLine() bool {
	for p.text != "" {
		p.s, p.text, _ = strings.Cut(p.text, "\n")
		p.s = strings.TrimSuffix(p.s, "\r")
		p.line++
		p.pos = 0
		if !p.atEnd() {
			return true
		}
	}
	p.s, p.pos = "", 0
	p.line++
	return false
}

// skip passes blanks and a comment.
func (p *parser) skip() {
	for p.pos < len(p.s) && (p.s[p.pos] == ' ' || p.s[p.pos] == '\t') {
		p.pos++
	}
	if p.pos < len(p.s) && p.s[p.pos] == '#' {
		p.pos = len(p.s)
	}
}

func (p *parser) atEnd() bool {
	p.skip()
	return p.pos >= len(p.s)
}

// word returns the text up to the next blank, at least one byte of it.
func (p *parser) word() string {
	p.skip()
	i := strings.IndexAny(p.s[p.pos:], " \t")
	if i < 0 {
		i = len(p.s) - p.pos
	}
	w := p.s[p.pos : p.pos+i]
	p.pos += i
	return w
}

// take passes the given text if it comes next.
func (p *parser) take(text string) bool {
	p.skip()
	if !strings.HasPrefix(p.s[p.pos:], text) {
		return false
	}
	p.pos += len(text)
	return true
}

// peek returns the next byte, 0 at the end.
func (p *parser) peek() byte {
	if p.atEnd() {
		return 0
	}
	return p.s[p.pos]
}

func (p *parser) quoted(what string) (string, error) {
	if p.peek() != '"' {
		return "", p.failHere(what + " in quotes")
	}
	q, err := strconv.QuotedPrefix(p.s[p.pos:])
	if err != nil {
		return "", p.failHere(what + " in closed quotes")
	}
	p.pos += len(q)
	s, err := strconv.Unquote(q)
	if err != nil {
		return "", p.fail(p.pos-len(q), q, what+" in quotes")
	}
	return s, nil
}

// number reads digits of a number from 0 to limit.
func (p *parser) number(what string, limit int) (int, error) {
	p.skip()
	at, end := p.pos, p.pos
	for end < len(p.s) && isDigit(p.s[end]) {
		end++
	}
	n, err := strconv.Atoi(p.s[at:end])
	if err != nil || n > limit {
		return 0, p.failHere(fmt.Sprintf("%s from 0 to %d", what, limit))
	}
	p.pos = end
	return n, nil
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// graph reads the whole text.
func (p *parser) graph() error {
	if !p.nextLine() {
		return p.fail(0, "end of text", `graph "name" {`)
	}
	if err := p.header(); err != nil {
		return err
	}
	for {
		if !p.nextLine() {
			return p.fail(0, "end of text", "a value, an output or }")
		}
		var err error
		switch {
		case p.peek() == '}':
			return p.end()
		case p.peek() == 'v':
			err = p.value()
		case p.take("output"):
			err = p.output()
		default:
			err = p.failHere("a value, an output or }")
		}
		if err == nil && !p.atEnd() {
			err = p.failHere("end of line")
		}
		if err != nil {
			return err
		}
	}
}

// header reads graph "name" next=N arena=N bound={..} {.
func (p *parser) header() (err error) {
	if !p.take("graph ") {
		return p.failHere(`graph "name" {`)
	}
	if p.g.Name, err = p.quoted("the graph's name"); err != nil {
		return err
	}
	if p.take("next=") {
		if p.next, err = p.number("an id", maxParsedID+1); err != nil {
			return err
		}
	}
	if p.take("arena=") {
		if p.g.Arena, err = p.number("bytes", maxSize); err != nil {
			return err
		}
	}
	if p.take("bound={") {
		if p.g.Bound, err = p.bound(); err != nil {
			return err
		}
	}
	if !p.take("{") {
		return p.failHere("{")
	}
	if !p.atEnd() {
		return p.failHere("end of line")
	}
	return nil
}

// maxSize bounds sizes in bytes and dimensions, so that sums stay in range.
const maxSize = 1 << 50

func (p *parser) bound() (Dims, error) {
	b := Dims{}
	for !p.take("}") {
		if len(b) > 0 && !p.take(",") {
			return nil, p.failHere(", or }")
		}
		p.skip()
		at := p.pos
		key := p.key()
		if d, err := parseDim(key); err != nil || d.Name == "" {
			p.pos = at
			return nil, p.failHere("the name of a dimension")
		}
		if _, dup := b[key]; dup {
			return nil, p.fail(at, "a second "+key, "each dimension once")
		}
		if !p.take("=") {
			return nil, p.failHere("=")
		}
		n, err := p.number("a size", 1<<40)
		if err != nil {
			return nil, err
		}
		b[key] = n
	}
	return b, nil
}

// key reads the name before an equals sign.
func (p *parser) key() string {
	p.skip()
	end := p.pos
	for end < len(p.s) && (isDigit(p.s[end]) || p.s[end] == '_' || p.s[end] == '.' || p.s[end] == '-' || p.s[end]|0x20 >= 'a' && p.s[end]|0x20 <= 'z') {
		end++
	}
	k := p.s[p.pos:end]
	p.pos = end
	return k
}

// id reads v and a number.
func (p *parser) id() (int, error) {
	p.skip()
	at := p.pos
	if p.peek() == 'v' {
		p.pos++
		if p.pos < len(p.s) && isDigit(p.s[p.pos]) {
			return p.number("an id", maxParsedID)
		}
	}
	p.pos = at
	return 0, p.failHere("a value such as v12")
}

// known reads the id of a value defined above.
func (p *parser) known() (*Value, error) {
	p.skip()
	at := p.pos
	id, err := p.id()
	if err != nil {
		return nil, err
	}
	if v := p.values[id]; v != nil {
		return v, nil
	}
	line := p.line
	for text := range strings.SplitSeq(p.text, "\n") {
		line++
		if f := strings.Fields(text); len(f) > 1 && f[1] == "=" && f[0] == "v"+strconv.Itoa(id) {
			return nil, p.fail(at, fmt.Sprintf("v%d, defined later on line %d", id, line), "a value defined above: the order is wrong or there is a cycle")
		}
	}
	return nil, p.fail(at, fmt.Sprintf("v%d, which no line defines", id), "a value defined above")
}

func (p *parser) output() error {
	p.skip()
	at := p.pos
	name, err := p.quoted("the output's name")
	if err != nil {
		return err
	}
	if p.g.Output(name) != nil {
		return p.fail(at, "a second output "+strconv.Quote(name), "each name once")
	}
	if !p.take("=") {
		return p.failHere("=")
	}
	v, err := p.known()
	if err != nil {
		return err
	}
	p.g.Outputs = append(p.g.Outputs, Output{name, v})
	return nil
}

// end reads the closing brace and makes sure that nothing follows.
func (p *parser) end() error {
	at := p.pos
	p.take("}")
	if len(p.g.Outputs) == 0 {
		return p.fail(at, "}", "an output: a graph has at least one")
	}
	if !p.atEnd() || p.nextLine() {
		return p.failHere("end of text")
	}
	if p.g.nextID = p.g.idsInUse(); p.next > p.g.nextID {
		p.g.nextID = p.next
	}
	return nil
}
