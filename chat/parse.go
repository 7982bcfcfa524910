package chat

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Delta is a piece of an answer: of its content, of the reasoning before it, or
// whole tool calls.
type Delta struct {
	Content   string
	Reasoning string
	ToolCalls []ToolCall
}

// IsZero reports whether there is nothing in it.
func (d Delta) IsZero() bool { return d.Content == "" && d.Reasoning == "" && len(d.ToolCalls) == 0 }

// Parser splits the text of an answer into content, reasoning and tool calls.
// The text may come in any pieces; the deltas, joined, are the same. Markers
// never appear in them. These rules hold in all families:
//
//   - what comes after the end of the turn is left out;
//   - reasoning whose end never comes stays reasoning, and the content is empty;
//   - a tool call that never ends, or cannot be understood, becomes content as
//     the model wrote it;
//   - white space around reasoning, and before content that follows reasoning or
//     a tool call, is left out;
//   - whether an answer begins inside reasoning follows from the prompt's tail.
//
// A parser belongs to one goroutine.
type Parser struct {
	// NewID gives a new tool call its id. The default is random.
	NewID func() string

	marks *markerSet
	state state
	held  string // may be the beginning of a marker
	out   Delta
	done  bool
	space string // white space of reasoning that more may follow
	lead  bool   // white space is left out until text comes
	began bool   // content or reasoning was written since lead was set
	calls int
}

// state is what a family knows while it parses. text takes any piece of text
// between markers; mark takes a marker; end the end of the answer.
type state interface {
	text(p *Parser, s string)
	mark(p *Parser, m string)
	end(p *Parser)
}

// family is a form of answers.
type family struct {
	name  string
	marks []string // beside the control tokens of the vocabulary
	ends  []string // tokens that end an answer
	start func(p *Parser, tools bool) state
	// open finds, in the tail of a prompt, the text that belongs to the answer
	// already: what a template wrote after the turn began. -1 is nothing.
	open func(tail string) int
}

// familyOf tells the form of answers from the markers that a template writes.
func familyOf(t *Template) *family {
	switch {
	case t.prints("<|channel>") && t.prints("<|turn>"):
		return gemma4
	case t.prints("<|start_header_id|>"):
		return llama3
	case t.prints("<|channel|>") && t.prints("<|message|>"):
		return harmony
	case t.prints("think>") || t.prints("<tool_call>"):
		return thinking
	}
	return plain
}

func newParser(f *family, marks *markerSet, tail string, tools bool) *Parser {
	p := &Parser{marks: marks, NewID: NewCallID}
	p.state = f.start(p, tools)
	if f.open != nil {
		if i := f.open(tail); i >= 0 {
			p.Push(tail[i:])
			p.out, p.done = Delta{}, false
		}
	}
	return p
}

// NewCallID returns a new random id for a tool call.
func NewCallID() string {
	var b [9]byte
	rand.Read(b[:])
	return "call_" + hex.EncodeToString(b[:])
}

// Push takes the next piece of the answer and returns what is certain with it.
func (p *Parser) Push(text string) Delta {
	p.held += text
	for p.held != "" && !p.done {
		i, m, wait := p.marks.next(p.held)
		if i > 0 {
			p.state.text(p, p.held[:i])
			p.held = p.held[i:]
		}
		switch {
		case m != "" && !p.done:
			p.held = p.held[len(m):]
			p.state.mark(p, m)
		case wait:
			return p.take()
		}
	}
	if p.done {
		p.held = ""
	}
	return p.take()
}

// Flush returns what is left when the answer has ended.
func (p *Parser) Flush() Delta {
	for p.held != "" && !p.done {
		m := p.marks.longest(p.held)
		if m != "" {
			p.held = p.held[len(m):]
			p.state.mark(p, m)
			continue
		}
		// No marker begins here any more; the next may begin later.
		n := 1
		for n < len(p.held) && p.marks.longest(p.held[n:]) == "" {
			n++
		}
		p.state.text(p, p.held[:n])
		p.held = p.held[n:]
	}
	if !p.done {
		p.finish()
	}
	p.held = ""
	return p.take()
}

// Calls returns how many tool calls there were.
func (p *Parser) Calls() int { return p.calls }

// Done reports whether the turn has ended: what follows is left out.
func (p *Parser) Done() bool { return p.done }

func (p *Parser) take() Delta {
	d := p.out
	p.out = Delta{}
	return d
}

// finish ends the turn.
func (p *Parser) finish() {
	p.state.end(p)
	p.done = true
}

// content appends to the content.
func (p *Parser) content(s string) {
	if p.lead {
		if s = strings.TrimLeftFunc(s, unicode.IsSpace); s == "" {
			return
		}
		p.lead = false
	}
	p.out.Content += s
}

// endPart says that reasoning or a tool call has ended: content follows.
func (p *Parser) endPart() { p.space, p.lead, p.began = "", true, false }

// beginReasoning says that reasoning follows.
func (p *Parser) beginReasoning() { p.space, p.began = "", false }

// reasoning appends to the reasoning; white space waits until more comes.
func (p *Parser) reasoning(s string) {
	s = p.space + s
	if !p.began {
		if s = strings.TrimLeftFunc(s, unicode.IsSpace); s == "" {
			p.space = ""
			return
		}
		p.began = true
	}
	text := strings.TrimRightFunc(s, unicode.IsSpace)
	p.out.Reasoning += text
	p.space = s[len(text):]
}

// call appends a tool call.
func (p *Parser) call(name, arguments string) {
	p.calls++
	p.out.ToolCalls = append(p.out.ToolCalls, ToolCall{ID: p.NewID(), Type: "function", Function: Function{Name: name, Arguments: arguments}})
}

// markerSet finds markers in text.
type markerSet struct {
	first [256][]string // by first byte, longest first
}

func newMarkerSet(texts []string) *markerSet {
	m := &markerSet{}
	texts = slices.Clone(texts)
	slices.Sort(texts)
	for _, t := range slices.Compact(texts) {
		if t != "" {
			m.first[t[0]] = append(m.first[t[0]], t)
		}
	}
	for i := range m.first {
		slices.SortStableFunc(m.first[i], func(a, b string) int { return len(b) - len(a) })
	}
	return m
}

// longest returns the longest marker that s begins with, "" if there is none.
func (m *markerSet) longest(s string) string {
	for _, t := range m.first[s[0]] {
		if strings.HasPrefix(s, t) {
			return t
		}
	}
	return ""
}

// next returns the place of the first marker in s, and the marker. Where s ends
// before it is decided what begins there, or before a character is whole, wait
// is set and marker is "".
func (m *markerSet) next(s string) (at int, marker string, wait bool) {
	for i := range len(s) {
		list := m.first[s[i]]
		if list == nil {
			continue
		}
		rest := s[i:]
		for _, t := range list {
			if strings.HasPrefix(rest, t) {
				return i, t, false
			}
			if strings.HasPrefix(t, rest) {
				return i, "", true
			}
		}
	}
	// A cut character waits for its other bytes.
	for n := 1; n < utf8.UTFMax && n <= len(s); n++ {
		if c := s[len(s)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRuneInString(s[len(s)-n:]) {
				return len(s) - n, "", true
			}
			break
		}
	}
	return len(s), "", false
}

// plain is the family of templates without reasoning and tool calls: all is
// content.
var plain = &family{
	name:  "plain",
	marks: []string{"<end_of_turn>", "<|im_end|>", "<|eot_id|>", "<|end|>", "<|endoftext|>"},
	ends:  []string{"<end_of_turn>", "<|im_end|>", "<|eot_id|>", "<|end|>", "<|endoftext|>"},
	start: func(*Parser, bool) state { return plainState{} },
}

type plainState struct{}

func (plainState) text(p *Parser, s string) { p.content(s) }

func (plainState) mark(p *Parser, m string) {
	if slices.Contains(plain.ends, m) {
		p.finish()
	}
}

func (plainState) end(*Parser) {}
