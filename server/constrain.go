package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"graphrun/chat"
	"graphrun/engine"
	"graphrun/grammar"
)

// maxGrammar bounds the bytes of a schema or grammar.
const maxGrammar = 256 << 10

// grammars keeps what requests ask for again and again.
var grammars = grammar.NewCache(8)

// format is what an answer has to be: nil is any text.
type format struct {
	g *grammar.Grammar
}

// schemaGrammar compiles a JSON Schema. Errors carry the path of the request and,
// behind it, that in the schema.
func schemaGrammar(path string, raw []byte) (*grammar.Grammar, *Error) {
	if len(raw) > maxGrammar {
		return nil, badRequest(path, "schema_too_large", "%s has %d bytes, want at most %d", path, len(raw), maxGrammar)
	}
	g, err := grammars.Schema(raw)
	if err == nil {
		return g, nil
	}
	var e *grammar.SchemaError
	if errors.As(err, &e) {
		return nil, badRequest(path+e.Path, "unsupported_schema", "%s%s: %s", path, e.Path, e.Msg)
	}
	return nil, badRequest(path, "unsupported_schema", "%s: %v", path, err)
}

// format reads response_format and grammar.
func readFormat(o *object) *format {
	var f *format
	if r, ok := o.object("response_format"); ok {
		f = readResponseFormat(r, r)
	}
	if src, ok := o.text("grammar"); ok && src != "" {
		switch {
		case f != nil:
			o.fail("grammar", "conflict", "and response_format are both given; want one of them")
		case len(src) > maxGrammar:
			o.fail("grammar", "grammar_too_large", "has %d bytes, want at most %d", len(src), maxGrammar)
		default:
			g, err := grammars.GBNF(src)
			if err != nil {
				o.fail("grammar", "invalid_grammar", "cannot be used: %v", err)
				return nil
			}
			f = &format{g: g}
		}
	}
	return f
}

// readResponseFormat reads {"type": ..., "json_schema": {...}}. The Responses API
// has the fields of json_schema beside the type.
func readResponseFormat(r *object, holder *object) *format {
	kind, ok := r.choice("type", "text", "json_object", "json_schema")
	if !ok {
		if _, there := r.value["type"]; !there {
			r.fail("type", "missing_field", "is missing; known: text, json_object, json_schema")
		}
		return nil
	}
	var f *format
	switch kind {
	case "json_object":
		f = &format{g: grammars.JSONObject()}
		// vLLM and others put a schema here.
		if raw, ok := r.raw("schema"); ok {
			f.g = compileSchema(r, "schema", raw)
		}
	case "json_schema":
		js := r
		if holder == r && r.has("json_schema") {
			if js, ok = r.object("json_schema"); !ok {
				return nil
			}
		}
		js.text("name")
		js.text("description")
		js.boolean("strict") // every schema is enforced
		raw, ok := js.raw("schema")
		if !ok {
			js.fail("schema", "missing_field", "is missing")
			return nil
		}
		f = &format{g: compileSchema(js, "schema", raw)}
		if js != r {
			js.rest()
		}
	}
	r.rest()
	return f
}

func compileSchema(o *object, name string, raw []byte) *grammar.Grammar {
	g, e := schemaGrammar(o.at(name), raw)
	if e != nil {
		o.first.set(e)
	}
	return g
}

// tool is a function that a request offers.
type tool struct {
	name       string
	parameters json.RawMessage
	path       string // of the parameters
	raw        json.RawMessage
	strict     string // path of "strict": true, else ""
}

// maxTools is the most functions of a request.
const maxTools = 128

// isToolName reports whether s may name a function.
func isToolName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '.', c == '-':
		default:
			return false
		}
	}
	return s != "" && len(s) <= 128
}

// readTools reads the tools of a request. flat is the form of the Responses API,
// which has the fields of "function" beside the type.
func readTools(o *object, flat bool) []tool {
	list, ok := o.list("tools", maxTools)
	if !ok {
		return nil
	}
	var out []tool
	for i, raw := range list {
		path := o.at("tools") + "[" + strconv.Itoa(i) + "]"
		t, ok := o.sub(path, raw)
		if !ok {
			return nil
		}
		kind, ok := t.text("type")
		if !ok || kind != "function" {
			t.fail("type", "unsupported_tool", "is %q; this server offers tools of type function only", quote(kind))
			return nil
		}
		fn := t
		if !flat {
			if fn, ok = t.object("function"); !ok {
				t.fail("function", "missing_field", "is missing")
				return nil
			}
		}
		x := tool{path: fn.at("parameters"), raw: raw}
		x.name, _ = fn.text("name")
		if !isToolName(x.name) {
			fn.fail("name", "invalid_value", "is %q, want 1 to 128 letters, digits, _, . and -", quote(x.name))
			return nil
		}
		for _, other := range out {
			if other.name == x.name {
				fn.fail("name", "duplicate_tool", "is %q, as that of another tool", x.name)
				return nil
			}
		}
		fn.text("description")
		if strict, _ := fn.boolean("strict"); strict {
			x.strict = fn.at("strict")
		}
		if _, ok := fn.object("parameters"); ok {
			x.parameters = fn.value["parameters"]
		}
		if flat {
			fn.ignore("type")
			x.raw = nested(x, fn)
		}
		fn.rest()
		t.rest()
		out = append(out, x)
	}
	return out
}

// nested returns a tool of the Responses API in the form of chat completions.
func nested(x tool, fn *object) json.RawMessage {
	var b bytes.Buffer
	b.WriteString(`{"type":"function","function":{`)
	for i, k := range []string{"name", "description", "parameters"} {
		raw, ok := fn.value[k]
		if !ok {
			continue
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", k, raw)
	}
	b.WriteString("}}")
	return b.Bytes()
}

// toolChoice says which tools a request wants to be called.
type toolChoice struct {
	mode string // "auto", "none" or "required"
	name string // of the one that must be called
}

func readToolChoice(o *object, tools []tool) toolChoice {
	c := toolChoice{mode: "auto"}
	raw, ok := o.raw("tool_choice")
	if !ok {
		return c
	}
	if raw[0] == '"' {
		if v, ok := o.choice("tool_choice", "auto", "none", "required"); ok {
			c.mode = v
		}
	} else if t, ok := o.object("tool_choice"); ok {
		t.choice("type", "function")
		fn := t
		if t.has("function") {
			if fn, ok = t.object("function"); !ok {
				return c
			}
		}
		c.mode = "required"
		if c.name, ok = fn.text("name"); !ok {
			fn.fail("name", "missing_field", "is missing")
		}
		if fn != t {
			fn.rest()
		}
		t.rest()
	}
	switch {
	case c.mode == "required" && len(tools) == 0:
		o.fail("tool_choice", "no_tools", "asks for a call, and there are no tools")
	case c.name != "" && !hasTool(tools, c.name):
		o.fail("tool_choice", "unknown_tool", "names %q, which is none of the tools", quote(c.name))
	}
	return c
}

func hasTool(tools []tool, name string) bool {
	for _, t := range tools {
		if t.name == name {
			return true
		}
	}
	return false
}

// must returns the tools of which one has to be called, nil where none has.
func (c toolChoice) must(tools []tool) []tool {
	if c.mode != "required" {
		return nil
	}
	if c.name == "" {
		return tools
	}
	for _, t := range tools {
		if t.name == c.name {
			return []tool{t}
		}
	}
	return nil
}

// force makes the prompt and the grammar of an answer that must be a call of one
// of the tools.
func force(p *chat.Prompter, pr chat.Prompt, tools []tool) (chat.Prompt, *format, error) {
	var names []string
	for _, t := range tools {
		names = append(names, t.name)
	}
	call, err := p.CallStart(pr, names)
	if err != nil {
		return pr, nil, badRequest("tool_choice", "unsupported_tool_choice", "tool_choice: %v; use auto or none", err)
	}
	for _, t := range tools {
		if _, e := schemaGrammar(t.path, callArguments(t, "")); e != nil {
			return pr, nil, e
		}
	}
	g, e := schemaGrammar("tools", callSchema(tools, call.Arguments))
	if e != nil {
		return pr, nil, e
	}
	return p.Begin(pr, call.Begin), &format{g: g}, nil
}

// callSchema is the schema of a call of one of the tools.
func callSchema(tools []tool, key string) []byte {
	if key == "" {
		return callArguments(tools[0], "")
	}
	var b bytes.Buffer
	if len(tools) > 1 {
		b.WriteString(`{"anyOf":[`)
	}
	for i, t := range tools {
		at := "/properties/" + key
		if i > 0 {
			b.WriteByte(',')
		}
		if len(tools) > 1 {
			at = fmt.Sprintf("/anyOf/%d%s", i, at)
		}
		fmt.Fprintf(&b, `{"type":"object","properties":{"name":{"const":%q},%q:%s},"required":["name",%q],"additionalProperties":false}`,
			t.name, key, callArguments(t, at), key)
	}
	if len(tools) > 1 {
		b.WriteString("]}")
	}
	return b.Bytes()
}

var schemaRef = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`("\$ref"\s*:\s*"#)`) })

// callArguments returns the schema of a tool's arguments, an object, as it is at
// a place in a larger schema.
func callArguments(t tool, at string) []byte {
	raw := bytes.TrimSpace(t.parameters)
	if len(raw) == 0 {
		return []byte(`{"type":"object"}`)
	}
	raw = schemaRef().ReplaceAll(raw, []byte("${1}"+strings.ReplaceAll(at, "$", "$$")))
	var top map[string]json.RawMessage
	if json.Unmarshal(raw, &top) == nil && top["type"] == nil {
		rest := bytes.TrimSpace(raw[1:])
		sep := ","
		if rest[0] == '}' {
			sep = ""
		}
		raw = append([]byte(`{"type":"object"`+sep), rest...)
	}
	return raw
}

// constraint returns what makes the constraint of each choice, nil where the
// answer is free.
func (f *format) constraint(m *model) func() engine.Constraint {
	if f == nil {
		return nil
	}
	return func() engine.Constraint { return f.g.Matcher(m.vocab()) }
}
