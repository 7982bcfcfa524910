package chat

import (
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ardanlabs/jinja"

	"graphrun/loaders"
)

// A user's text must never become a control token, and the template decides
// where it goes: trimmed, joined to other texts, inside JSON. So every place
// in a user's string where a control token could begin, end or pass through is
// marked before rendering: one character there is replaced by a private-use
// character that occurs nowhere else. The template cannot tell the difference,
// because it compares texts only with its own. After rendering the characters
// are put back, and the tokenizer is told that no token may cover these bytes.
//
// Places to mark are found for the string as it is, without white space around
// it, and between all texts the template could cut it at; letters count as
// equal in upper and lower case.

// spellings are the tokens to look for.
type spellings struct {
	forward  []string // sorted, lower case
	backward []string // the same reversed, sorted
	inside   string   // all, each between zero bytes
	longest  int
}

func newSpellings(texts []string) *spellings {
	s := &spellings{}
	var inside strings.Builder
	for _, t := range texts {
		t = lowerASCII(t)
		if strings.TrimSpace(t) == "" {
			continue
		}
		s.forward = append(s.forward, t)
		s.backward = append(s.backward, reverse(t))
		s.longest = max(s.longest, len(t))
		inside.WriteString(t + "\x00")
	}
	slices.Sort(s.forward)
	slices.Sort(s.backward)
	s.forward, s.backward = slices.Compact(s.forward), slices.Compact(s.backward)
	s.inside = inside.String()
	return s
}

// begins reports whether s has a token at its start, or is itself the start of
// one.
func begins(sorted []string, s string) (whole, partial bool) {
	// sorted[lo:hi] are the texts that agree with s in its first n bytes.
	lo, hi := 0, len(sorted)
	for n := range len(s) {
		if lo < hi && len(sorted[lo]) == n {
			whole = true
			lo++ // texts are unique: the others are longer
		}
		c := s[n]
		lo += sort.Search(hi-lo, func(k int) bool { return sorted[lo+k][n] >= c })
		hi = lo + sort.Search(hi-lo, func(k int) bool { return sorted[lo+k][n] > c })
		if lo == hi {
			return whole, false
		}
	}
	return whole || len(sorted[lo]) == len(s), true
}

// places calls mark with the bytes of s that must be marked. In names, such as
// keys and types, parts of tokens that are only letters and digits are no
// danger worth a name that the template does not know any more.
func (p *spellings) places(s string, name bool, cuts []string, mark func(i int)) {
	if len(p.forward) == 0 || s == "" {
		return
	}
	low := lowerASCII(s)
	var first [256]bool
	for _, t := range p.forward {
		first[t[0]] = true
	}
	for i := range len(low) {
		if first[low[i]] {
			if whole, _ := begins(p.forward, low[i:min(len(low), i+p.longest)]); whole {
				mark(skipSpace(low, i))
			}
		}
	}
	// The string can be cut at these places.
	bounds := []int{0, len(low)}
	for _, c := range cuts {
		for at := 0; ; {
			i := strings.Index(low[at:], c)
			if i < 0 {
				break
			}
			bounds = append(bounds, at+i, at+i+len(c))
			at += i + len(c)
		}
	}
	slices.Sort(bounds)
	bounds = slices.Compact(bounds)
	seen := map[string]bool{} // whether a part is inside a token
	for k := range len(bounds) - 1 {
		p.edges(low, bounds[k], bounds[k+1], name, seen, mark)
	}
}

// edges looks for parts of tokens at both ends of low[from:to].
func (p *spellings) edges(low string, from, to int, name bool, seen map[string]bool, mark func(i int)) {
	part := low[from:to]
	trimmed := strings.TrimFunc(part, isSpace)
	if trimmed == "" {
		return
	}
	left := from + strings.Index(part, trimmed)
	right := left + len(trimmed)
	for _, end := range []int{to, right} {
		for i := max(from, end-p.longest); i < end; i++ {
			if name && alphanumeric(low[i:end]) {
				break
			}
			if _, partial := begins(p.forward, low[i:end]); partial {
				mark(skipSpace(low, i))
			}
		}
	}
	for _, start := range []int{from, left} {
		for i := start + 1; i <= min(to, start+p.longest); i++ {
			if name && alphanumeric(low[start:i]) {
				continue
			}
			if _, partial := begins(p.backward, reverse(low[start:i])); partial {
				mark(lastChar(low, start, i))
			}
		}
	}
	if !name && len(trimmed) < p.longest {
		in, known := seen[trimmed]
		if !known {
			in = strings.Contains(p.inside, trimmed)
			seen[trimmed] = in
		}
		if in {
			mark(left)
		}
	}
}

func alphanumeric(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// skipSpace returns the place of the first character of s[i:] that trimming
// leaves.
func skipSpace(s string, i int) int {
	n := len(s) - len(strings.TrimLeftFunc(s[i:], isSpace))
	if n == len(s) {
		return i
	}
	return n
}

// lastChar returns the place of the last character of s[from:to] that trimming
// leaves.
func lastChar(s string, from, to int) int {
	t := strings.TrimRightFunc(s[from:to], isSpace)
	if t == "" {
		return from
	}
	_, n := utf8.DecodeLastRuneInString(t)
	return from + len(t) - n
}

func lowerASCII(s string) string {
	for i := range len(s) {
		if s[i] >= 'A' && s[i] <= 'Z' {
			b := []byte(s)
			for ; i < len(b); i++ {
				if b[i] >= 'A' && b[i] <= 'Z' {
					b[i] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}

func reverse(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// Private-use characters stand for marked ones.
const (
	privateFirst = 0xF0000
	privateLast  = 0x10FFFD
)

// marks holds the private-use characters of one rendering.
type marks struct {
	taken map[rune]bool // private-use characters of the input
	twin  map[rune]rune
	back  map[rune]rune
	next  rune
}

func newMarks() *marks {
	return &marks{taken: map[rune]bool{}, twin: map[rune]rune{}, back: map[rune]rune{}, next: privateFirst}
}

// avoid notes the private-use characters of s, which cannot be marks.
func (m *marks) avoid(s string) {
	for i := range len(s) {
		if s[i] >= 0xF3 { // first byte of planes 12 and up
			r, _ := utf8.DecodeRuneInString(s[i:])
			m.taken[r] = r >= privateFirst
		}
	}
}

func (m *marks) of(r rune) rune {
	if t, ok := m.twin[r]; ok {
		return t
	}
	for m.taken[m.next] || m.next&0xFFFE == 0xFFFE {
		m.next++
	}
	m.twin[r], m.back[m.next] = m.next, r
	m.next++
	return m.next - 1
}

// mark returns s with the characters at the given bytes replaced.
func (m *marks) mark(s string, at []int) string {
	if len(at) == 0 {
		return s
	}
	slices.Sort(at)
	var b strings.Builder
	from := 0
	for _, i := range slices.Compact(at) {
		if i < from || i >= len(s) {
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n <= 1 {
			continue // no character: no token begins or ends with it
		}
		b.WriteString(s[from:i])
		b.WriteRune(m.of(r))
		from = i + n
	}
	b.WriteString(s[from:])
	return b.String()
}

// restore puts the characters back and returns the bytes where they are.
func (m *marks) restore(s string) (text string, at []int) {
	if len(m.back) == 0 {
		return s, nil
	}
	var b strings.Builder
	from := 0
	for i, r := range s {
		if orig, ok := m.back[r]; ok {
			b.WriteString(s[from:i])
			at = append(at, b.Len())
			b.WriteRune(orig)
			from = i + utf8.RuneLen(r)
		}
	}
	b.WriteString(s[from:])
	return b.String(), at
}

func (m *marks) plain(s string) string {
	text, _ := m.restore(s)
	return text
}

// guard marks values for a template and a vocabulary.
type guard struct {
	control *spellings // control and unknown tokens
	all     *spellings // and tokens of other types that the template writes
	cuts    []string   // texts of the template, lower case
}

// newGuard finds what must not be forged. Tokens that are not of control type,
// as files say of <think> or <tool_call>, count where the template writes them.
func newGuard(t *Template, tok *loaders.Tokenizer) *guard {
	var control, all []string
	for i := range tok.Size() {
		id := int32(i)
		text := tok.TokenText(id)
		if tok.IsControl(id) {
			control = append(control, text)
		} else if typ := tok.Type(id); typ == loaders.TokenUserDefined && len(text) >= 3 && !alphanumeric(text) && strings.TrimSpace(text) != "" && t.prints(text) {
			all = append(all, text)
		}
	}
	g := &guard{control: newSpellings(control)}
	g.all = newSpellings(append(all, control...))
	for _, l := range t.literals {
		if l = lowerASCII(l); len(l) >= 2 && !alphanumeric(l) && strings.TrimSpace(l) != "" && !strings.ContainsAny(l, "\n") {
			g.cuts = append(g.cuts, l)
		}
	}
	slices.Sort(g.cuts)
	g.cuts = slices.Compact(g.cuts)
	return g
}

// value returns a copy of v with its strings marked. name says that strings are
// names rather than text; they are looked at for tokens of the given set.
func (g *guard) value(v jinja.Value, m *marks, set *spellings, name bool) jinja.Value {
	switch {
	case v.IsString():
		return jinja.NewString(g.text(v.AsString(), m, set, name))
	case v.IsList():
		items := make([]jinja.Value, v.AsList().Len())
		for i, x := range v.AsList().Items {
			items[i] = g.value(x, m, set, name)
		}
		return jinja.NewList(items)
	case v.IsDict():
		out := jinja.NewDict()
		for _, k := range v.AsDict().Keys {
			out.AsDict().Set(g.text(k, m, set, true), g.value(v.AsDict().Data[k], m, set, name || k == "type"))
		}
		return out
	}
	return v
}

func (g *guard) text(s string, m *marks, set *spellings, name bool) string {
	var at []int
	set.places(s, name, g.cuts, func(i int) { at = append(at, i) })
	return m.mark(s, at)
}

// message marks a message. Its role is one of a few words and stays. What the
// assistant wrote may have markers that are not control tokens, such as
// <think>: templates take them out.
func (g *guard) message(v jinja.Value, m *marks) jinja.Value {
	out := jinja.NewDict()
	d := v.AsDict()
	set := g.all
	if role, ok := d.Get("role"); ok && role.IsString() && role.AsString() == "assistant" {
		set = g.control
	}
	for _, k := range d.Keys {
		x := d.Data[k]
		if k != "role" {
			x = g.value(x, m, set, false)
		}
		out.AsDict().Set(k, x)
	}
	return out
}

// avoidAll notes the private-use characters of all strings of v.
func (m *marks) avoidAll(v jinja.Value) {
	switch {
	case v.IsString():
		m.avoid(v.AsString())
	case v.IsList():
		for _, x := range v.AsList().Items {
			m.avoidAll(x)
		}
	case v.IsDict():
		for _, k := range v.AsDict().Keys {
			m.avoid(k)
			m.avoidAll(v.AsDict().Data[k])
		}
	}
}
