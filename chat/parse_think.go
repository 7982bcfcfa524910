package chat

import (
	"slices"
	"strings"
)

// thinking answers, as Qwen's, may begin with <think>text</think> and call tools
// by <tool_call>{"name": "f", "arguments": {}}</tool_call>. <think> counts only
// where nothing but white space is before it, </think> only where reasoning is
// open, so that an answer may write about them.
var thinking = &family{
	name:  "think",
	marks: []string{thinkOpen, thinkClose, callOpen, callClose, "<|im_end|>", "<|im_start|>", "<|endoftext|>"},
	ends:  []string{"<|im_end|>", "<|endoftext|>"},
	start: func(*Parser, bool) state { return &thinkState{part: thinkStart} },
	open:  func(tail string) int { return opened(tail, thinkOpen, thinkClose) },
}

const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
	callOpen   = "<tool_call>"
	callClose  = "</tool_call>"
)

type thinkPart uint8

const (
	thinkStart thinkPart = iota // nothing but white space
	thinkContent
	thinkThought
	thinkCall
)

type thinkState struct {
	part thinkPart
	raw  string // white space or the call
}

func (t *thinkState) text(p *Parser, s string) {
	switch t.part {
	case thinkStart:
		t.raw += s
		if strings.TrimSpace(t.raw) != "" {
			t.give(p)
		}
	case thinkContent:
		p.content(s)
	case thinkThought:
		p.reasoning(s)
	case thinkCall:
		t.raw += s
	}
}

func (t *thinkState) give(p *Parser) {
	raw := t.raw
	t.part, t.raw = thinkContent, ""
	p.content(raw)
}

func (t *thinkState) mark(p *Parser, m string) {
	switch {
	case slices.Contains(thinking.ends, m) || m == "<|im_start|>":
		p.finish()
	case t.part == thinkCall && m == callClose:
		t.close(p)
	case t.part == thinkCall:
		t.raw += m
	case m == thinkOpen && t.part == thinkStart:
		t.part, t.raw = thinkThought, ""
		p.beginReasoning()
	case m == thinkClose && t.part == thinkThought:
		p.endPart()
		t.part = thinkContent
	case m == callOpen && t.part != thinkThought:
		if t.part == thinkStart {
			t.give(p)
		}
		t.part, t.raw = thinkCall, ""
	case slices.Contains(thinking.marks, m):
		t.text(p, m)
	}
}

// close ends a tool call.
func (t *thinkState) close(p *Parser) {
	raw := t.raw
	t.part, t.raw = thinkContent, ""
	if calls, ok := jsonCalls(strings.TrimSpace(raw)); ok {
		for _, c := range calls {
			p.call(c[0], c[1])
		}
		p.endPart()
		return
	}
	p.lead = false
	p.content(callOpen + raw)
}

func (t *thinkState) end(p *Parser) {
	switch {
	case t.part == thinkCall:
		t.close(p)
	case t.raw != "":
		t.give(p)
	}
}
