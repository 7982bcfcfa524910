package chat

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ardanlabs/jinja"
)

// gemma4 answers think in a channel and call tools in a notation of their own:
//
//	<|channel>thought
//	text<channel|>content<|tool_call>call:name{key:<|"|>text<|"|>,n:1}<tool_call|>
//
// A channel of another name is content. A closing marker without an opening one
// leaves no trace.
var gemma4 = &family{
	name:  "gemma4",
	marks: []string{gemmaChannel, gemmaChannelEnd, gemmaCall, gemmaCallEnd, gemmaQuote, "<turn|>", "<|turn>", "<|tool_response>", "<tool_response|>"},
	ends:  []string{"<turn|>", "<|tool_response>"},
	start: func(*Parser, bool) state { return &gemmaState{} },
	open:  func(tail string) int { return opened(tail, gemmaChannel, gemmaChannelEnd) },
}

const (
	gemmaChannel    = "<|channel>"
	gemmaChannelEnd = "<channel|>"
	gemmaCall       = "<|tool_call>"
	gemmaCallEnd    = "<tool_call|>"
	gemmaQuote      = `<|"|>`
)

// opened returns the place of the last opener in tail that no closer follows,
// -1 if there is none.
func opened(tail, opener, closer string) int {
	i := strings.LastIndex(tail, opener)
	if i < 0 || strings.Contains(tail[i:], closer) {
		return -1
	}
	return i
}

type gemmaPart uint8

const (
	gemmaContent gemmaPart = iota
	gemmaHeader            // name of a channel
	gemmaThought
	gemmaInCall
)

type gemmaState struct {
	part gemmaPart
	raw  string // of the header or the call
}

func (g *gemmaState) text(p *Parser, s string) {
	switch g.part {
	case gemmaContent:
		p.content(s)
	case gemmaThought:
		p.reasoning(s)
	case gemmaInCall:
		g.raw += s
	case gemmaHeader:
		name, rest, ok := strings.Cut(g.raw+s, "\n")
		if !ok {
			g.raw = name
			return
		}
		g.header(p, name)
		if rest != "" {
			g.text(p, rest)
		}
	}
}

// header opens the channel of the given name.
func (g *gemmaState) header(p *Parser, name string) {
	g.part, g.raw = gemmaContent, ""
	if strings.TrimSpace(name) == "thought" {
		g.part = gemmaThought
		p.beginReasoning()
	}
}

func (g *gemmaState) mark(p *Parser, m string) {
	switch {
	case slices.Contains(gemma4.ends, m) || m == "<|turn>" || m == "<eos>":
		p.finish()
	case g.part == gemmaInCall && m != gemmaCallEnd:
		g.raw += m
	case m == gemmaChannel:
		g.leave(p)
		g.part, g.raw = gemmaHeader, ""
	case m == gemmaCall:
		g.leave(p)
		g.part, g.raw = gemmaInCall, ""
	case m == gemmaChannelEnd || m == gemmaCallEnd:
		g.leave(p)
	case m == gemmaQuote && g.part == gemmaContent:
		p.content(`"`)
	}
}

// leave ends what is open.
func (g *gemmaState) leave(p *Parser) {
	switch g.part {
	case gemmaHeader:
		if strings.TrimSpace(g.raw) != "thought" { // a thought without a name
			p.beginReasoning()
			p.reasoning(g.raw)
		}
		p.endPart()
	case gemmaThought:
		p.endPart()
	case gemmaInCall:
		if name, args, err := parseGemmaCall(g.raw); err == nil {
			p.call(name, args)
			p.endPart()
		} else {
			p.lead = false
			p.content(gemmaCall + g.raw)
		}
	}
	g.part, g.raw = gemmaContent, ""
}

func (g *gemmaState) end(p *Parser) { g.leave(p) }

// parseGemmaCall reads call:name{...} and returns the arguments as JSON.
func parseGemmaCall(s string) (name, args string, err error) {
	s = strings.TrimSpace(s)
	s = strings.TrimPrefix(s, "call:")
	i := strings.IndexByte(s, '{')
	if i < 0 {
		return "", "", errors.New("no arguments")
	}
	name = strings.TrimSpace(s[:i])
	if name == "" || strings.ContainsAny(name, " \n\"<>{}") {
		return "", "", fmt.Errorf("%q is no name", name)
	}
	r := gemmaReader{s: s[i:]}
	v, err := r.value(0)
	if err != nil {
		return "", "", err
	}
	r.space()
	if r.s != "" {
		return "", "", fmt.Errorf("found %q after the arguments", shorten(r.s))
	}
	style := pythonJSON()
	style.item, style.key = ",", ":"
	b, err := appendJSON(nil, v, &style, 0)
	return name, string(b), err
}

// gemmaReader reads the notation of arguments: like JSON, but keys are bare and
// strings stand between <|"|>. Quoted keys and JSON strings are read as well.
type gemmaReader struct{ s string }

func (r *gemmaReader) space() { r.s = strings.TrimLeft(r.s, " \t\r\n") }

func (r *gemmaReader) take(prefix string) bool {
	r.space()
	rest, ok := strings.CutPrefix(r.s, prefix)
	r.s = rest
	return ok
}

// quoted reads a string in either kind of quotes.
func (r *gemmaReader) quoted() (text string, ok bool, err error) {
	r.space()
	if rest, ok := strings.CutPrefix(r.s, gemmaQuote); ok {
		text, rest, ok := strings.Cut(rest, gemmaQuote)
		if !ok {
			return "", true, errors.New("a string has no end")
		}
		r.s = rest
		return text, true, nil
	}
	if !strings.HasPrefix(r.s, `"`) {
		return "", false, nil
	}
	for i := 1; i < len(r.s); i++ {
		switch r.s[i] {
		case '\\':
			i++
		case '"':
			v, err := decodeJSON([]byte(r.s[:i+1]))
			if err != nil {
				return "", true, err
			}
			r.s = r.s[i+1:]
			return v.AsString(), true, nil
		}
	}
	return "", true, errors.New("a string has no end")
}

func (r *gemmaReader) value(depth int) (jinja.Value, error) {
	none := jinja.None()
	if depth > maxDepth {
		return none, errDepth
	}
	switch {
	case r.take("{"):
		obj := jinja.NewDict()
		for first := true; !r.take("}"); first = false {
			if !first && !r.take(",") {
				return none, fmt.Errorf("found %q, want , or }", shorten(r.s))
			}
			key, ok, err := r.quoted()
			if err != nil {
				return none, err
			}
			if !ok {
				i := strings.IndexAny(r.s, ":{}[],")
				if i < 0 || r.s[i] != ':' {
					return none, fmt.Errorf("found %q, want a key", shorten(r.s))
				}
				key, r.s = strings.TrimSpace(r.s[:i]), r.s[i:]
			}
			if !r.take(":") {
				return none, fmt.Errorf("found %q, want a colon", shorten(r.s))
			}
			v, err := r.value(depth + 1)
			if err != nil {
				return none, err
			}
			obj.AsDict().Set(key, v)
		}
		return obj, nil
	case r.take("["):
		items := []jinja.Value{}
		for first := true; !r.take("]"); first = false {
			if !first && !r.take(",") {
				return none, fmt.Errorf("found %q, want , or ]", shorten(r.s))
			}
			v, err := r.value(depth + 1)
			if err != nil {
				return none, err
			}
			items = append(items, v)
		}
		return jinja.NewList(items), nil
	}
	if text, ok, err := r.quoted(); ok || err != nil {
		return jinja.NewString(text), err
	}
	i := strings.IndexAny(r.s, ",}]")
	if i < 0 {
		return none, errors.New("a value has no end")
	}
	word := strings.TrimSpace(r.s[:i])
	r.s = r.s[i:]
	switch word {
	case "":
		return none, errors.New("a value is missing")
	case "True", "False", "None":
		word = map[string]string{"True": "true", "False": "false", "None": "null"}[word]
	}
	if v, err := decodeJSON([]byte(word)); err == nil {
		return v, nil
	}
	return jinja.NewString(word), nil // a bare word
}
