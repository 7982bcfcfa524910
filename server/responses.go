package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"graphrun/chat"
)

// responses answers POST /v1/responses: text in, text and calls of functions out.
// Nothing is stored.
func (s *Server) responses(w http.ResponseWriter, r *http.Request, who *client) error {
	m, o, err := s.open(w, r, who)
	if err != nil {
		return err
	}
	p, a, err := s.readResponse(m, o, who)
	if err != nil {
		return err
	}
	if a.list, err = s.submit(r.Context(), m, p, who); err != nil {
		return err
	}
	if p.stream {
		return a.stream(w, r)
	}
	return a.whole(w, r)
}

// readResponse understands a request.
func (s *Server) readResponse(m *model, o *object, who *client) (*plan, *response, error) {
	if m.prompter == nil {
		return nil, nil, badRequest("model", "no_chat_template", "%v; use /v1/completions, or start the server with --template", m.noChat)
	}
	p := &plan{special: true, ends: m.prompter.Ends()}
	if o.has("n") {
		o.fail("n", "unsupported_parameter", "is not a field of this endpoint")
	}
	p.params = s.sampling(o, m.limits.Vocab)
	p.params.limits(o, 1, "max_output_tokens")
	streaming(o, p)
	vars := s.templateVars(o)
	if rs, ok := o.object("reasoning"); ok {
		if effort, ok := rs.choice("effort", "none", "minimal", "low", "medium", "high", "xhigh"); ok {
			vars["reasoning_effort"] = rs.value["effort"]
			if _, set := vars["enable_thinking"]; effort == "none" && !set {
				vars["enable_thinking"] = json.RawMessage("false")
			}
		}
		rs.refuse("reasoning is returned as it is", "generate_summary")
		rs.ignore("summary") // the reasoning itself is returned
		rs.rest()
	}
	req := chat.Request{Messages: readInput(o, m), Vars: vars}
	if text, ok := o.text("instructions"); ok && text != "" {
		req.Messages = append([]chat.Message{{Role: "system", Content: chat.Text(text)}}, req.Messages...)
	}
	tools := readTools(o, true)
	choice := readToolChoice(o, tools)
	parallel := true
	if v, ok := o.boolean("parallel_tool_calls"); ok {
		parallel, p.oneCall = v, !v
	}
	var f *format
	if t, ok := o.object("text"); ok {
		if fo, ok := t.object("format"); ok {
			f = readResponseFormat(fo, nil)
		}
		if v, ok := t.text("verbosity"); ok && v != "medium" {
			t.fail("verbosity", "unsupported_parameter", "is not supported; say it in the instructions")
		}
		t.rest()
	}
	o.ignore(harmless...)
	if v, ok := o.choice("truncation", "auto", "disabled"); ok && v == "auto" {
		o.fail("truncation", "unsupported_parameter", "is auto; this server cuts no conversation, an input that does not fit is refused")
	}
	o.refuse("this server stores no responses; send the whole conversation as input", "previous_response_id", "conversation", "background", "prompt")
	o.refuse("log-probabilities are offered by /v1/chat/completions", "top_logprobs")
	if list, ok := o.list("include", 16); ok {
		for _, raw := range list {
			if string(raw) != `"reasoning.encrypted_content"` {
				o.fail("include", "unsupported_parameter", "has %s, which this server does not have", quote(string(raw)))
			}
		}
	}
	o.ignore("max_tool_calls") // of built-in tools
	if err := o.done(); err != nil {
		return nil, nil, err
	}
	a := &response{s: s, m: m, p: p, who: who, id: newID("resp_"), parallel: parallel, request: o.value}
	return p, a, m.chatPlan(p, req, tools, choice, f, s, who)
}

// readInput reads input: a string, or a list of messages, calls and results.
func readInput(o *object, m *model) []chat.Message {
	raw, ok := o.raw("input")
	if !ok {
		o.fail("input", "missing_field", "is missing, want a string or a list of items")
		return nil
	}
	if raw[0] == '"' {
		text, _ := o.text("input")
		return []chat.Message{chat.UserMessage(text)}
	}
	list, ok := o.list("input", maxMessages)
	if !ok {
		return nil
	}
	if len(list) > m.limits.Context {
		o.fail("input", "context_length_exceeded", "has %d items, which do not fit a context of %d tokens", len(list), m.limits.Context)
		return nil
	}
	var out []chat.Message
	for i, raw := range list {
		it, ok := o.sub("input["+strconv.Itoa(i)+"]", raw)
		if !ok {
			return nil
		}
		out = appendItem(out, it)
	}
	return out
}

// appendItem appends an item as a message, or to the message it belongs to.
func appendItem(out []chat.Message, it *object) []chat.Message {
	kind := "message"
	if it.has("type") {
		kind, _ = it.text("type")
	}
	switch kind {
	case "message":
		role, _ := it.text("role")
		return append(out, chat.Message{Role: role, Content: itemContent(it)})
	case "function_call":
		call := chat.ToolCall{Type: "function"}
		call.ID, _ = it.text("call_id")
		call.Function.Name, _ = it.text("name")
		call.Function.Arguments, _ = it.text("arguments")
		if n := len(out); n > 0 && out[n-1].Role == "assistant" {
			out[n-1].ToolCalls = append(out[n-1].ToolCalls, call)
			return out
		}
		return append(out, chat.Message{Role: "assistant", ToolCalls: []chat.ToolCall{call}})
	case "function_call_output":
		id, _ := it.text("call_id")
		msg := chat.Message{Role: "tool", ToolCallID: id}
		if raw, ok := it.raw("output"); ok && raw[0] == '"' {
			text, _ := it.text("output")
			msg.Content = chat.Text(text)
		} else if ok {
			msg.Content = partsContent(it, "output")
		}
		for _, m := range out {
			for _, c := range m.ToolCalls {
				if c.ID == id {
					msg.Name = c.Function.Name
				}
			}
		}
		return append(out, msg)
	case "reasoning":
		var b strings.Builder
		for _, field := range []string{"content", "summary"} {
			if list, ok := it.list(field, maxMessages); ok && b.Len() == 0 {
				for i, raw := range list {
					if part, ok := it.sub(it.at(field)+"["+strconv.Itoa(i)+"]", raw); ok {
						text, _ := part.text("text")
						b.WriteString(text)
					}
				}
			}
		}
		return append(out, chat.Message{Role: "assistant", Reasoning: b.String()})
	}
	it.fail("type", "unsupported_content", "is %q; known: message, function_call, function_call_output, reasoning", quote(kind))
	return out
}

// itemContent reads the content of a message.
func itemContent(it *object) chat.Content {
	raw, ok := it.raw("content")
	if !ok {
		it.fail("content", "missing_field", "is missing")
		return chat.Content{}
	}
	if raw[0] == '"' {
		text, _ := it.text("content")
		return chat.Text(text)
	}
	return partsContent(it, "content")
}

func partsContent(it *object, name string) chat.Content {
	list, ok := it.list(name, maxMessages)
	if !ok {
		return chat.Content{}
	}
	parts := []string{}
	for i, raw := range list {
		part, ok := it.sub(it.at(name)+"["+strconv.Itoa(i)+"]", raw)
		if !ok {
			return chat.Content{}
		}
		switch kind, _ := part.text("type"); kind {
		case "input_text", "output_text", "text", "summary_text", "reasoning_text":
			text, ok := part.text("text")
			if !ok {
				part.fail("text", "missing_field", "is missing")
			}
			parts = append(parts, text)
		case "refusal":
			text, _ := part.text("refusal")
			parts = append(parts, text)
		default:
			part.fail("type", "unsupported_content", "is %q: this server reads text only", quote(kind))
			return chat.Content{}
		}
	}
	return chat.Texts(parts...)
}

// echoed returns a field of the request as the answer repeats it.
func echoed(request map[string]json.RawMessage, name, otherwise string) json.RawMessage {
	if raw, ok := request[name]; ok && len(bytes.TrimSpace(raw)) > 0 {
		return raw
	}
	return json.RawMessage(otherwise)
}
