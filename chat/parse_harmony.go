package chat

import (
	"encoding/json"
	"strings"
)

// harmony answers, as gpt-oss's, are several messages, each with a header:
//
//	<|channel|>analysis<|message|>text<|end|><|start|>assistant<|channel|>final<|message|>text<|return|>
//
// The channel analysis is reasoning. A message to=functions.NAME is a tool call
// whose text is the arguments. All else is content.
var harmony = &family{
	name:  "harmony",
	marks: []string{"<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|call|>", "<|return|>", "<|constrain|>"},
	ends:  []string{"<|call|>", "<|return|>"},
	start: func(*Parser, bool) state { return &harmonyState{} },
	open: func(tail string) int {
		i := strings.LastIndex(tail, "<|start|>assistant")
		if i < 0 || strings.Contains(tail[i:], "<|end|>") {
			return -1
		}
		return i
	},
}

type harmonyState struct {
	header string // since the message began
	kind   harmonyKind
	raw    string // arguments of a call
	inHead bool   // header text is being read
}

type harmonyKind uint8

const (
	harmonyContent harmonyKind = iota
	harmonyThought
	harmonyCall
)

func (h *harmonyState) text(p *Parser, s string) {
	switch {
	case h.inHead:
		h.header += s
	case h.kind == harmonyCall:
		h.raw += s
	case h.kind == harmonyThought:
		p.reasoning(s)
	default:
		p.content(s)
	}
}

func (h *harmonyState) mark(p *Parser, m string) {
	switch m {
	case "<|start|>":
		h.close(p)
		h.inHead, h.header = true, ""
	case "<|channel|>":
		if !h.inHead {
			h.close(p)
			h.header = ""
		}
		h.inHead = true
		h.header += m
	case "<|constrain|>":
		if h.inHead {
			h.header += " "
		}
	case "<|message|>":
		if h.inHead {
			h.begin(p)
		}
	case "<|end|>":
		h.close(p)
		h.inHead, h.header = false, ""
	case "<|call|>", "<|return|>":
		p.finish()
	}
}

// begin reads the header.
func (h *harmonyState) begin(p *Parser) {
	h.inHead, h.kind, h.raw = false, harmonyContent, ""
	_, channel, _ := strings.Cut(h.header, "<|channel|>")
	words := strings.Fields(channel)
	switch {
	case h.recipient() != "":
		h.kind = harmonyCall
	case len(words) > 0 && words[0] == "analysis":
		h.kind = harmonyThought
		p.beginReasoning()
	}
}

// recipient returns the tool that the message is for, "" if there is none.
func (h *harmonyState) recipient() string {
	for _, w := range strings.Fields(strings.ReplaceAll(h.header, "<|channel|>", " ")) {
		if to, ok := strings.CutPrefix(w, "to="); ok {
			return strings.TrimPrefix(to, "functions.")
		}
	}
	return ""
}

func (h *harmonyState) close(p *Parser) {
	switch h.kind {
	case harmonyThought:
		p.endPart()
	case harmonyCall:
		if args := strings.TrimSpace(h.raw); json.Valid([]byte(args)) && strings.HasPrefix(args, "{") {
			p.call(h.recipient(), args)
			p.endPart()
		} else {
			p.lead = false
			p.content(h.raw)
		}
	}
	h.kind, h.raw = harmonyContent, ""
}

func (h *harmonyState) end(p *Parser) { h.close(p) }
