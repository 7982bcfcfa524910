package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ardanlabs/jinja"
)

// Message is one message of a conversation, in the JSON form of OpenAI's chat
// completions. Fields it does not have are ignored when it is read.
type Message struct {
	Role    string  `json:"role"`
	Content Content `json:"content"`
	// Reasoning is what the model thought before it answered.
	Reasoning string     `json:"reasoning_content,omitempty"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
	// ToolCallID says which call a message of role "tool" is the result of.
	ToolCallID string `json:"tool_call_id,omitempty"`
	Name       string `json:"name,omitempty"`
}

// ToolCall is a call of a tool that the model asks for.
type ToolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"` // "function"
	Function Function `json:"function"`
}

// Function names a tool and gives its arguments, a JSON object as text.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// UnmarshalJSON reads arguments as a string or as an object.
func (f *Function) UnmarshalJSON(data []byte) error {
	var in struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	f.Name, f.Arguments = in.Name, ""
	raw := bytes.TrimSpace(in.Arguments)
	switch {
	case len(raw) == 0 || string(raw) == "null":
	case raw[0] == '"':
		return json.Unmarshal(raw, &f.Arguments)
	case raw[0] == '{':
		f.Arguments = string(raw)
	default:
		return fmt.Errorf("chat: arguments of tool call %q: found %s, want a JSON object or one as a string", f.Name, shorten(string(raw)))
	}
	return nil
}

// Content is the text of a message: a string, a list of text parts, or null.
// The zero value is null.
type Content struct {
	parts []string
	list  bool // given as a list
}

// ErrImage says that a message has a part that is no text.
var ErrImage = errors.New("no image input: this program reads text only")

// Text returns the content that is the string s.
func Text(s string) Content { return Content{parts: []string{s}} }

// Texts returns the content that is a list of text parts.
func Texts(parts ...string) Content { return Content{parts: parts, list: true} }

// UserMessage returns a message of role "user".
func UserMessage(text string) Message { return Message{Role: "user", Content: Text(text)} }

// IsNull reports whether there is no content, which is not the same as an empty
// one.
func (c Content) IsNull() bool { return !c.list && len(c.parts) == 0 }

// String returns the text, parts joined by newlines.
func (c Content) String() string { return strings.Join(c.parts, "\n") }

// MarshalJSON writes the form that was read.
func (c Content) MarshalJSON() ([]byte, error) {
	switch {
	case c.IsNull():
		return []byte("null"), nil
	case !c.list:
		return marshal(c.parts[0])
	}
	parts := make([]contentPart, len(c.parts))
	for i, s := range c.parts {
		parts[i] = contentPart{Type: "text", Text: &s}
	}
	return marshal(parts)
}

// marshal is json.Marshal without escaping for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

type contentPart struct {
	Type string  `json:"type"`
	Text *string `json:"text,omitempty"`
}

// UnmarshalJSON reads any of the three forms. A part that is no text is
// ErrImage, wrapped.
func (c *Content) UnmarshalJSON(data []byte) error {
	*c = Content{}
	data = bytes.TrimSpace(data)
	switch {
	case string(data) == "null":
		return nil
	case len(data) > 0 && data[0] == '"':
		c.parts = []string{""}
		return json.Unmarshal(data, &c.parts[0])
	case len(data) > 0 && data[0] == '[':
		var parts []contentPart
		if err := json.Unmarshal(data, &parts); err != nil {
			return fmt.Errorf("chat: message content: %w", err)
		}
		c.list, c.parts = true, []string{}
		for i, p := range parts {
			switch {
			case p.Type == "text" && p.Text != nil:
				c.parts = append(c.parts, *p.Text)
			case p.Type == "text":
				return fmt.Errorf("chat: message content: part %d has type \"text\" and no text", i)
			default:
				return fmt.Errorf("chat: message content: part %d has type %q: %w", i, shorten(p.Type), ErrImage)
			}
		}
		return nil
	}
	return fmt.Errorf("chat: message content: found %s, want a string, a list of parts or null", shorten(string(data)))
}

// roles are the roles a message may have. Templates put the word between
// control tokens, so it is no user's text.
var roles = []string{"system", "developer", "user", "assistant", "tool", "function", "ipython"}

func checkMessages(list []Message) error {
	if len(list) == 0 {
		return errors.New("chat: there are no messages")
	}
	for i, m := range list {
		if !slices.Contains(roles, m.Role) {
			return fmt.Errorf("chat: message %d has the role %q; known: %s", i, shorten(m.Role), strings.Join(roles, ", "))
		}
		for _, c := range m.ToolCalls {
			if c.Function.Name == "" {
				return fmt.Errorf("chat: message %d calls a tool without a name", i)
			}
		}
	}
	return nil
}

// value returns the message as a template reads it.
func (m *Message) value(t *Template) jinja.Value {
	v := jinja.NewDict()
	d := v.AsDict()
	role := m.Role
	if role == "developer" && !t.prints("developer") {
		role = "system"
	}
	d.Set("role", jinja.NewString(role))
	if m.Content.list && t.traits.parts {
		items := make([]jinja.Value, len(m.Content.parts))
		for i, s := range m.Content.parts {
			part := jinja.NewDict()
			part.AsDict().Set("type", jinja.NewString("text"))
			part.AsDict().Set("text", jinja.NewString(s))
			items[i] = part
		}
		d.Set("content", jinja.NewList(items))
	} else {
		d.Set("content", jinja.NewString(m.Content.String()))
	}
	if m.Reasoning != "" {
		d.Set("reasoning_content", jinja.NewString(m.Reasoning))
	}
	if len(m.ToolCalls) > 0 {
		calls := make([]jinja.Value, len(m.ToolCalls))
		for i, c := range m.ToolCalls {
			fn := jinja.NewDict()
			fn.AsDict().Set("name", jinja.NewString(c.Function.Name))
			fn.AsDict().Set("arguments", arguments(c.Function.Arguments, t.traits.textArguments))
			call := jinja.NewDict()
			call.AsDict().Set("id", jinja.NewString(c.ID))
			call.AsDict().Set("type", jinja.NewString("function"))
			call.AsDict().Set("function", fn)
			calls[i] = call
		}
		d.Set("tool_calls", jinja.NewList(calls))
	}
	if m.ToolCallID != "" {
		d.Set("tool_call_id", jinja.NewString(m.ToolCallID))
	}
	if m.Name != "" {
		d.Set("name", jinja.NewString(m.Name))
	}
	return v
}

// arguments returns the arguments of a call as the template wants them: a
// mapping where they are one.
func arguments(text string, asText bool) jinja.Value {
	if strings.TrimSpace(text) == "" {
		text = "{}"
	}
	if !asText {
		if v, err := decodeJSON([]byte(text)); err == nil && v.IsDict() {
			return v
		}
	}
	return jinja.NewString(text)
}

func shorten(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
