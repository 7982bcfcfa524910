package chat

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// llama3 answers call tools by bare JSON at the start of the answer, one object
// or several with ; between, if tools were offered:
//
//	{"name": "f", "parameters": {"x": 1}}
//
// or after <|python_tag|>, which leads the same, the call of a built-in tool
// such as brave_search.call(query="x"), or else Python source, taken as a call
// of code_interpreter with the argument code.
var llama3 = &family{
	name:  "llama3",
	marks: []string{llamaPython, "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>"},
	ends:  []string{"<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"},
	start: func(_ *Parser, tools bool) state {
		if tools {
			return &llamaState{part: llamaStart}
		}
		return &llamaState{part: llamaContent}
	},
}

const llamaPython = "<|python_tag|>"

type llamaPart uint8

const (
	llamaContent llamaPart = iota
	llamaStart             // JSON may follow
	llamaJSON
	llamaTag // after <|python_tag|>
)

type llamaState struct {
	part llamaPart
	raw  string // white space, JSON or what follows the tag
	json jsonScanner
}

func (l *llamaState) text(p *Parser, s string) {
	switch l.part {
	case llamaContent:
		p.content(s)
	case llamaTag:
		l.raw += s
	case llamaStart:
		l.raw += s
		rest := strings.TrimLeft(l.raw, " \t\r\n;")
		if rest == "" {
			return
		}
		if rest[0] != '{' {
			l.give(p)
			return
		}
		if p.calls > 0 {
			l.raw = "" // what stood between calls
		} else {
			l.raw = l.raw[:len(l.raw)-len(rest)]
		}
		l.part, l.json = llamaJSON, jsonScanner{}
		l.text(p, rest)
	case llamaJSON:
		for i := range len(s) {
			if !l.json.push(s[i]) {
				continue
			}
			l.raw += s[:i+1]
			name, args, ok := jsonCall(l.raw)
			if !ok {
				l.raw += s[i+1:]
				l.give(p)
				return
			}
			p.call(name, args)
			p.endPart()
			l.part, l.raw = llamaStart, ""
			if i+1 < len(s) {
				l.text(p, s[i+1:])
			}
			return
		}
		l.raw += s
	}
}

// give makes content of what was held.
func (l *llamaState) give(p *Parser) {
	raw := l.raw
	l.part, l.raw = llamaContent, ""
	p.content(raw)
}

func (l *llamaState) mark(p *Parser, m string) {
	switch {
	case slices.Contains(llama3.ends, m) || m == "<|start_header_id|>":
		p.finish()
	case m == llamaPython && l.part != llamaTag:
		if strings.TrimLeft(l.raw, " \t\r\n;") != "" {
			l.give(p)
		}
		l.part, l.raw = llamaTag, ""
	}
}

func (l *llamaState) end(p *Parser) {
	switch {
	case l.part == llamaTag:
		l.tag(p)
	case l.part == llamaStart && p.calls > 0:
		// White space after calls.
	case l.raw != "":
		l.give(p)
	}
	l.raw = ""
}

var builtinCall = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)\.call\((.*)\)$`)
})

// tag makes calls of what followed <|python_tag|>.
func (l *llamaState) tag(p *Parser) {
	s := strings.TrimSpace(l.raw)
	if s == "" {
		return
	}
	if calls, ok := jsonCalls(s); ok {
		for _, c := range calls {
			p.call(c[0], c[1])
		}
		return
	}
	if m := builtinCall().FindStringSubmatch(s); m != nil {
		if args, ok := keywordArguments(m[2]); ok {
			p.call(m[1], args)
			return
		}
	}
	code, _ := marshal(struct {
		Code string `json:"code"`
	}{s})
	p.call("code_interpreter", string(code))
}

// jsonCalls reads calls with ; or white space between.
func jsonCalls(s string) (calls [][2]string, ok bool) {
	for s != "" {
		var scan jsonScanner
		n := 0
		for n < len(s) && !scan.push(s[n]) {
			n++
		}
		if n == len(s) {
			return nil, false
		}
		name, args, ok := jsonCall(s[:n+1])
		if !ok {
			return nil, false
		}
		calls = append(calls, [2]string{name, args})
		s = strings.TrimLeft(s[n+1:], " \t\r\n;,")
	}
	return calls, len(calls) > 0
}

// jsonCall reads {"name": ..., "parameters": {...}}; "arguments" will do.
func jsonCall(s string) (name, args string, ok bool) {
	var c struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
		Arguments  json.RawMessage `json:"arguments"`
	}
	if json.Unmarshal([]byte(s), &c) != nil || c.Name == "" {
		return "", "", false
	}
	raw := c.Parameters
	if raw == nil {
		raw = c.Arguments
	}
	switch {
	case raw == nil || string(raw) == "null":
		return "", "", false
	case raw[0] == '{':
		return c.Name, string(raw), true
	case raw[0] == '"':
		var text string
		if json.Unmarshal(raw, &text) == nil && json.Valid([]byte(text)) && strings.HasPrefix(strings.TrimSpace(text), "{") {
			return c.Name, text, true
		}
	}
	return "", "", false
}

// keywordArguments turns key="text", n=1 into a JSON object.
func keywordArguments(s string) (string, bool) {
	out := []byte{'{'}
	for s = strings.TrimSpace(s); s != ""; {
		key, rest, ok := strings.Cut(s, "=")
		key = strings.TrimSpace(key)
		if !ok || key == "" || strings.ContainsAny(key, `"',() `) {
			return "", false
		}
		rest = strings.TrimLeft(rest, " ")
		n := 0
		var value []byte
		if rest != "" && (rest[0] == '"' || rest[0] == '\'') {
			text, size, err := unquoteJinja(rest)
			if err != nil {
				return "", false
			}
			value, _ = marshal(text)
			n = size
		} else {
			if n = strings.IndexByte(rest, ','); n < 0 {
				n = len(rest)
			}
			value = []byte(strings.TrimSpace(rest[:n]))
			if !json.Valid(value) {
				return "", false
			}
		}
		if len(out) > 1 {
			out = append(out, ", "...)
		}
		k, _ := marshal(key)
		out = append(append(append(out, k...), ": "...), value...)
		s = strings.TrimLeft(rest[n:], " ")
		if s != "" {
			if s[0] != ',' {
				return "", false
			}
			s = strings.TrimLeft(s[1:], " ")
		}
	}
	return string(append(out, '}')), true
}

// jsonScanner finds the end of a JSON object.
type jsonScanner struct {
	depth  int
	quoted bool
	escape bool
}

// push takes a byte and reports whether the object ends with it.
func (j *jsonScanner) push(c byte) bool {
	switch {
	case j.escape:
		j.escape = false
	case j.quoted:
		j.escape = c == '\\'
		j.quoted = c != '"'
	case c == '"':
		j.quoted = true
	case c == '{' || c == '[':
		j.depth++
	case c == '}' || c == ']':
		j.depth--
		return j.depth <= 0
	}
	return false
}
