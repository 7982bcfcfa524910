package grammar

import (
	"errors"
	"fmt"
	"sync"
)

// Grammar is a compiled grammar or schema. It does not change and may be used
// by any number of goroutines.
type Grammar struct {
	nfa *nfa
	mu  sync.Mutex
	// What was computed, for each vocabulary.
	machines map[*Vocab]*shared
}

// shared is a machine that matchers take turns with.
type shared struct {
	mu sync.Mutex
	m  *machine
}

func newGrammar(root *rule, strict bool) (*Grammar, error) {
	n, err := compile(root, strict)
	if err != nil {
		return nil, err
	}
	g := &Grammar{nfa: n, machines: map[*Vocab]*shared{}}
	// Finds now what would be too ambiguous at the very first token.
	_, err = newMachine(n, noTokens).begin()
	return g, err
}

// begin returns the config before any text.
func (m *machine) begin() (c config, err error) {
	defer caught(&err)
	m.add(&c, &m.in, m.close(m.raw([]int32{m.start[0]})), nil)
	return c, nil
}

func caught(err *error) {
	switch x := recover().(type) {
	case nil:
	case limit:
		*err = x.error
	default:
		panic(x)
	}
}

// Matcher follows one text through a grammar. It is an engine.Constraint, and
// is for one goroutine at a time; several of one grammar share what they
// compute.
type Matcher struct {
	g      *Grammar
	v      *Vocab
	s      *shared
	in     frames
	at, to config
	swap   config
	trim   bool // a space at the start is left out of the text
	ended  bool
	err    error
}

// Matcher returns a matcher before the first token.
func (g *Grammar) Matcher(v *Vocab) *Matcher {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.machines[v]
	if s == nil {
		s = &shared{m: newMachine(g.nfa, v)}
		g.machines[v] = s
	}
	m := &Matcher{g: g, v: v, s: s}
	m.Reset()
	return m
}

// Reset goes back to the beginning.
func (m *Matcher) Reset() {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	m.ended, m.trim, m.err = false, false, nil
	m.at.reset()
	m.err = m.begin()
}

func (m *Matcher) begin() (err error) {
	defer caught(&err)
	k := m.s.m
	k.add(&m.at, &m.in, k.close(k.raw([]int32{k.start[0]})), nil)
	return nil
}

// TrimSpace says that the text begins with the first token, and that the
// vocabulary's own space before a text is left out of it (see
// loaders.DecodeOptions.KeepPrefix). It is for before the first token.
func (m *Matcher) TrimSpace() { m.trim = m.v.space }

// Err returns why the grammar could not be followed, nil if it could.
func (m *Matcher) Err() error { return m.err }

// Done reports that nothing more can follow.
func (m *Matcher) Done() bool {
	return m.err == nil && (m.ended || m.at.accept && len(m.at.groups) == 0)
}

// CanEnd reports that the text may end here.
func (m *Matcher) CanEnd() bool { return m.ended || m.at.accept }

// Mask clears the bits of the tokens that may not come next. Where a grammar
// turns out to be too ambiguous to be followed it clears all of them; see Err.
func (m *Matcher) Mask(mask []uint64) {
	clear(mask)
	if m.ended || m.err != nil {
		return
	}
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	if err := m.fill(mask); err != nil {
		clear(mask)
		m.err = err
		return
	}
	if m.at.accept {
		for _, id := range m.v.eog {
			mask[id/64] |= 1 << (id % 64)
		}
	}
}

func (m *Matcher) fill(mask []uint64) (err error) {
	defer caught(&err)
	k := m.s.m
	k.mask(mask, &m.at)
	if !m.trim {
		return nil
	}
	// Tokens that begin with a space stand for what is behind it. The space alone
	// stands for nothing: it costs a token, and spaces may follow it.
	n := m.v.child(0, ' ')
	if n < 0 {
		return nil
	}
	for _, id := range m.v.tokens[m.v.first[n]:m.v.first[m.v.end[n]]] {
		mask[id/64] &^= 1 << (id % 64)
	}
	k.goOn(k.xset([]int32{n}), k.raw([]int32{k.start[0]})).or(mask)
	for _, id := range m.v.tokens[m.v.first[n]:m.v.first[n+1]] {
		mask[id/64] |= 1 << (id % 64)
	}
	return nil
}

var errTooLong = errors.New("grammar: the answer has ended")

// Accept moves past a token. A token that Mask does not allow is an error, and
// the matcher stays where it is.
func (m *Matcher) Accept(id int32) error {
	switch {
	case m.err != nil:
		return m.err
	case m.ended:
		return errTooLong
	case id < 0 || int(id) >= m.v.size:
		return fmt.Errorf("grammar: token id %d, the vocabulary has %d", id, m.v.size)
	}
	text := m.v.text[id]
	if text == nil {
		for _, e := range m.v.eog {
			if e == id && m.at.accept {
				m.ended = true
				return nil
			}
			if e == id {
				return fmt.Errorf("grammar: token %d ends the generation, the text is not complete", id)
			}
		}
		return fmt.Errorf("grammar: token %d is not text", id)
	}
	if m.trim && text[0] == ' ' {
		text = text[1:]
		if len(text) == 0 {
			m.trim = false
			return nil
		}
	}
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	ok, err := m.read(text)
	if err != nil {
		m.err = err
		return err
	}
	if !ok {
		return fmt.Errorf("grammar: token %d (%q) is not allowed here", id, m.v.text[id])
	}
	m.trim = false
	if m.s.m.used > maxBytes {
		m.s.m.forget()
	}
	return nil
}

// read moves past bytes, or stays and returns false.
func (m *Matcher) read(text []byte) (ok bool, err error) {
	defer caught(&err)
	from := &m.at
	bufs := [2]*config{&m.to, &m.swap}
	for i := range text {
		to := bufs[i%2]
		m.s.m.step(to, from, &m.in, text[i])
		if len(to.groups) == 0 && !to.accept {
			return false, nil
		}
		from = to
	}
	if from == &m.to {
		m.at, m.to = m.to, m.at
	} else {
		m.at, m.swap = m.swap, m.at
	}
	return true, nil
}

// Match reports whether a whole text matches. It is false too where the grammar
// is too ambiguous to tell; see Matcher.Err.
func (g *Grammar) Match(text string) bool {
	m := g.Matcher(noTokens)
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	ok, err := m.read([]byte(text))
	return ok && err == nil && m.CanEnd()
}

// noTokens is a vocabulary without tokens.
var noTokens = func() *Vocab {
	v := &Vocab{}
	v.build()
	return v
}()
