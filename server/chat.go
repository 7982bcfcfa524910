package server

import (
	"encoding/json"
	"net/http"
	"strconv"

	"graphrun/chat"
)

// maxMessages bounds the messages of a request; each costs at least one token.
const maxMessages = 100_000

// chatCompletions answers POST /v1/chat/completions.
func (s *Server) chatCompletions(w http.ResponseWriter, r *http.Request, who *client) error {
	m, o, err := s.open(w, r, who)
	if err != nil {
		return err
	}
	p, err := s.readChat(m, o, who)
	if err != nil {
		return err
	}
	list, err := s.submit(r.Context(), m, p, who)
	if err != nil {
		return err
	}
	a := &chatAnswer{s: s, m: m, p: p, list: list, id: newID("chatcmpl-"), who: who}
	if p.stream {
		return a.stream(w, r)
	}
	return a.whole(w, r)
}

// readChat understands a request for a chat completion.
func (s *Server) readChat(m *model, o *object, who *client) (*plan, error) {
	if m.prompter == nil {
		return nil, badRequest("model", "no_chat_template", "%v; use /v1/completions, or start the server with --template", m.noChat)
	}
	p := &plan{special: true, ends: m.prompter.Ends()}
	p.params = s.sampling(o, m.limits.Vocab)
	p.params.limits(o, 1, "max_completion_tokens", "max_tokens")
	streaming(o, p)
	p.logprob, _ = o.boolean("logprobs")
	if top, ok := o.integer("top_logprobs", 0, maxTop); ok {
		p.top = int(top)
		if !p.logprob && top > 0 {
			o.fail("top_logprobs", "conflict", "is %d, and logprobs is not true", top)
		}
	}
	req := chat.Request{Messages: readMessages(o, m), Vars: s.templateVars(o)}
	tools := readTools(o, false)
	choice := readToolChoice(o, tools)
	if parallel, ok := o.boolean("parallel_tool_calls"); ok {
		p.oneCall = !parallel
	}
	f := readFormat(o)
	readChatRest(o)
	if err := o.done(); err != nil {
		return nil, err
	}
	return p, m.chatPlan(p, req, tools, choice, f, s, who)
}

// chatPlan makes the prompt of a chat and what holds the answer to its form.
func (m *model) chatPlan(p *plan, req chat.Request, tools []tool, choice toolChoice, f *format, s *Server, who *client) error {
	if choice.mode == "none" {
		tools = nil
	}
	if len(tools) > 0 && !m.prompter.Template().HasTools() {
		return badRequest("tools", "no_tools", "the chat template of this model shows it no tools")
	}
	for _, t := range tools {
		req.Tools = append(req.Tools, t.raw)
		if t.strict != "" && choice.mode != "required" {
			return badRequest(t.strict, "unsupported_parameter", "%s: arguments can be held to their schema only where tool_choice asks for a call; leave strict out, or use required or a name", t.strict)
		}
	}
	pr, err := m.render(req)
	if err != nil {
		return err
	}
	must := choice.must(tools)
	switch {
	case must != nil && f != nil:
		return badRequest("response_format", "conflict", "response_format and a tool_choice that asks for a call exclude each other")
	case f != nil && len(tools) > 0:
		return badRequest("response_format", "conflict", "an answer held to response_format cannot call tools; send tools with tool_choice none, or no response_format")
	case must != nil:
		if pr, f, err = force(m.prompter, pr, must); err != nil {
			return err
		}
	case f != nil:
		pr = m.prompter.Begin(pr, m.prompter.ContentStart(pr))
	}
	p.prompt = pr.IDs
	p.constraint = f.constraint(m)
	p.parser = func() *chat.Parser { return m.prompter.Parser(pr) }
	s.logPrompt(who, pr.Text)
	return m.fits(p.prompt)
}

// render makes the prompt of a chat.
func (m *model) render(req chat.Request) (chat.Prompt, error) {
	bytes := 0
	for i := range req.Messages {
		bytes += len(req.Messages[i].Content.String()) + len(req.Messages[i].Reasoning)
	}
	for _, t := range req.Tools {
		bytes += len(t)
	}
	if err := m.fitsText(bytes); err != nil {
		return chat.Prompt{}, err
	}
	pr, err := m.prompter.Prompt(req)
	if err != nil {
		return pr, promptError(err)
	}
	return pr, nil
}

// promptError is an error in the messages, unless it has a kind of its own.
func promptError(err error) error {
	if e := asError(err); e.Status != http.StatusInternalServerError {
		return e
	}
	return badRequest("messages", "invalid_messages", "%v", err)
}

// readMessages reads the conversation.
func readMessages(o *object, m *model) []chat.Message {
	list, ok := o.list("messages", maxMessages)
	if !ok {
		if !o.has("messages") {
			o.fail("messages", "missing_field", "is missing, want a list of messages")
		}
		return nil
	}
	if len(list) > m.limits.Context {
		o.fail("messages", "context_length_exceeded", "has %d messages, which do not fit a context of %d tokens", len(list), m.limits.Context)
		return nil
	}
	out := make([]chat.Message, len(list))
	for i, raw := range list {
		path := "messages[" + strconv.Itoa(i) + "]"
		if raw[0] != '{' {
			o.first.set(badRequest(path, "invalid_type", "%s is %s, want an object", path, kindOf(raw)))
			return nil
		}
		if err := json.Unmarshal(raw, &out[i]); err != nil {
			e := promptError(err)
			if x := asError(e); x.Code == "invalid_messages" {
				e = badRequest(path, "invalid_message", "%s: %s", path, quoteError(err))
			}
			o.first.set(asError(e))
			return nil
		}
	}
	return out
}

// quoteError prints an error of reading a message, which may quote what was sent.
func quoteError(err error) string {
	const most = 300
	s := err.Error()
	if len(s) > most {
		s = s[:most] + "…"
	}
	return s
}

// templateVars reads the variables of the template: those of the server, then
// chat_template_kwargs, then what has a field of its own.
func (s *Server) templateVars(o *object) map[string]json.RawMessage {
	vars := map[string]json.RawMessage{}
	for k, v := range s.o.TemplateVars {
		vars[k] = v
	}
	if kw, ok := o.object("chat_template_kwargs"); ok {
		for _, k := range kw.keys {
			vars[k] = kw.value[k]
		}
	}
	if raw, ok := o.raw("reasoning_effort"); ok {
		if v, ok := o.choice("reasoning_effort", "none", "minimal", "low", "medium", "high", "xhigh"); ok {
			vars["reasoning_effort"] = raw
			if _, set := vars["enable_thinking"]; v == "none" && !set {
				vars["enable_thinking"] = json.RawMessage("false")
			}
		}
	}
	return vars
}

// streaming reads stream and stream_options.
func streaming(o *object, p *plan) {
	p.stream, _ = o.boolean("stream")
	if so, ok := o.object("stream_options"); ok {
		p.usage, _ = so.boolean("include_usage")
		so.ignore("include_obfuscation")
		so.rest()
		if !p.stream {
			o.fail("stream_options", "conflict", "is given, and stream is not true")
		}
	}
}

// readChatRest names the fields that are known and those that are refused.
func readChatRest(o *object) {
	o.ignore(harmless...)
	o.ignore("prediction") // a hint about speed
	if list, ok := o.list("modalities", 8); ok {
		for _, raw := range list {
			if string(raw) != `"text"` {
				o.fail("modalities", "unsupported_parameter", "has %s; this server writes text only", quote(string(raw)))
			}
		}
	}
	if v, ok := o.text("verbosity"); ok && v != "medium" {
		o.fail("verbosity", "unsupported_parameter", "is not supported; say it in a message")
	}
	o.refuse("this server writes text only", "audio")
	o.refuse("this server has no access to the web", "web_search_options")
	o.refuse("use tools and tool_choice", "functions", "function_call")
	if v, ok := o.boolean("add_generation_prompt"); ok && !v {
		o.fail("add_generation_prompt", "unsupported_parameter", "cannot be false: the answer is a message of its own")
	}
	o.refuse("the answer is a message of its own", "continue_final_message")
	o.refuse("start the server with --template", "chat_template")
}
