package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"

	"graphrun/loaders"
)

// Request is what a prompt is made of.
type Request struct {
	Messages []Message
	// Tools are the tools the model may call, each a JSON object in OpenAI's
	// form, the order of its keys kept.
	Tools []json.RawMessage
	// Vars are further variables of the template, as JSON: enable_thinking,
	// date_string and the like.
	Vars map[string]json.RawMessage
	// Closed leaves out the beginning of an answer.
	Closed bool
	// Now is the time for templates that ask; zero is the present.
	Now time.Time
}

// Prompt is a conversation as the model reads it.
type Prompt struct {
	IDs  []int32
	Text string
	tail string // Text with what users wrote made harmless
	// tools says that tools were offered.
	tools bool
	at    []int  // bytes of Text that users wrote
	begun string // of the answer, see Begin
}

// Prompter makes prompts for one model. It may be used by any number of
// goroutines.
type Prompter struct {
	t      *Template
	tok    *loaders.Tokenizer
	guard  *guard
	family *family
	marks  *markerSet // of answers
	ends   []int32
}

// NewPrompter returns a prompter for a template and a vocabulary.
func NewPrompter(t *Template, tok *loaders.Tokenizer) *Prompter {
	p := &Prompter{t: t, tok: tok, guard: newGuard(t, tok), family: familyOf(t)}
	texts := append([]string(nil), p.family.marks...)
	for i := range tok.Size() {
		id := int32(i)
		if tok.IsControl(id) {
			texts = append(texts, tok.TokenText(id))
		}
	}
	p.marks = newMarkerSet(texts)
	for _, end := range p.family.ends {
		if id := tok.TokenID(end); id >= 0 && (tok.IsControl(id) || tok.Type(id) == loaders.TokenUserDefined) {
			p.ends = append(p.ends, id)
		}
	}
	return p
}

// Template returns the template.
func (p *Prompter) Template() *Template { return p.t }

// Family returns the name of the form that answers are parsed by: "gemma4",
// "llama3", "harmony", "think" or "plain".
func (p *Prompter) Family() string { return p.family.name }

// Ends returns tokens that end an answer beside those of the vocabulary.
func (p *Prompter) Ends() []int32 { return p.ends }

// Prompt renders and encodes a request. Control tokens come from the template
// only: what users wrote is text even where it spells them, alone or together
// with what the template puts beside it. The prompt has one BOS if the
// vocabulary adds one or the template writes it.
func (p *Prompter) Prompt(r Request) (Prompt, error) {
	if err := checkMessages(r.Messages); err != nil {
		return Prompt{}, err
	}
	list := make([]jinja.Value, len(r.Messages))
	m := newMarks()
	m.avoid(p.t.source)
	for i := range r.Messages {
		list[i] = r.Messages[i].value(p.t)
		m.avoidAll(list[i])
	}
	var tools []jinja.Value
	for i, raw := range r.Tools {
		v, err := decodeJSON(raw)
		if err != nil {
			return Prompt{}, fmt.Errorf("chat: tool %d: %w", i, err)
		}
		if !v.IsDict() {
			return Prompt{}, fmt.Errorf("chat: tool %d: found %s, want a JSON object", i, shorten(string(raw)))
		}
		m.avoidAll(v)
		tools = append(tools, v)
	}
	vars := map[string]jinja.Value{}
	for k, raw := range r.Vars {
		v, err := decodeJSON(raw)
		if err != nil {
			return Prompt{}, fmt.Errorf("chat: template variable %s: %w", k, err)
		}
		switch k {
		case "messages", "tools", "add_generation_prompt", "bos_token", "eos_token":
			return Prompt{}, fmt.Errorf("chat: the template variable %s cannot be set", k)
		}
		if strings.HasPrefix(k, filterName) {
			return Prompt{}, fmt.Errorf("chat: the template variable %s cannot be set", k)
		}
		m.avoidAll(v)
		vars[k] = v
	}
	for k, v := range vars {
		vars[k] = p.guard.value(v, m, p.guard.all, true)
	}
	for i, v := range list {
		list[i] = p.guard.message(v, m)
	}
	for i, v := range tools {
		tools[i] = p.guard.value(v, m, p.guard.all, false)
	}
	vars["messages"] = jinja.NewList(list)
	vars["add_generation_prompt"] = jinja.NewBool(!r.Closed)
	vars["bos_token"] = jinja.NewString(p.tok.TokenText(p.tok.BOS()))
	vars["eos_token"] = jinja.NewString(p.tok.TokenText(p.tok.EOS()))
	if len(tools) > 0 {
		vars["tools"] = jinja.NewList(tools)
	}
	out, err := p.t.render(vars, renderer{now: r.Now, plain: m.plain, keep: func(c rune) bool { _, ok := m.back[c]; return ok }})
	if err != nil {
		return Prompt{}, err
	}
	text, at := m.restore(out)
	ids := p.encode(text, at)
	if len(ids) == 0 {
		return Prompt{}, errors.New("chat: the template renders nothing")
	}
	tail := []byte(text)
	for _, i := range at {
		tail[i] = 0
	}
	return Prompt{IDs: ids, Text: text, tail: string(tail), tools: len(tools) > 0, at: at}, nil
}

// encode returns the tokens of a prompt; at lists the bytes that users wrote.
func (p *Prompter) encode(text string, at []int) []int32 {
	ids := p.tok.Encode(text, loaders.EncodeOptions{ParseSpecial: true, Literal: at})
	bos := p.tok.BOS()
	switch {
	case bos < 0:
	case len(ids) > 1 && ids[0] == bos && ids[1] == bos:
		ids = ids[1:]
	case p.tok.Vocab().AddBOS && (len(ids) == 0 || ids[0] != bos):
		ids = append([]int32{bos}, ids...)
	}
	return ids
}

// Parser returns a parser for the answer to a prompt. The answer's text must
// have control tokens spelled out: engine.GenerateOptions.Special.
func (p *Prompter) Parser(pr Prompt) *Parser {
	x := newParser(p.family, p.marks, pr.tail, pr.tools)
	if pr.begun != "" {
		x.Push(pr.begun)
		x.out, x.done, x.calls = Delta{}, false, 0
	}
	return x
}
