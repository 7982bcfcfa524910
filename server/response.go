package server

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"graphrun/engine"
)

// response writes the answer to a request of the Responses API: items of
// reasoning, text and calls, in the order they were written.
type response struct {
	s        *Server
	m        *model
	p        *plan
	who      *client
	list     []*choice // one
	id       string
	created  int64
	parallel bool
	request  map[string]json.RawMessage

	items  []*item
	ev     *events // nil when not streamed
	number int     // of the next event
}

// item is a piece of the output.
type item struct {
	ID     string `json:"id"`
	Type   string `json:"type"` // "reasoning", "message" or "function_call"
	Status string `json:"status"`

	text      string
	name      string
	arguments string
	call      string
	index     int
}

// outputText is the content of a message.
type outputText struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Annotations []any  `json:"annotations"`
	Logprobs    []any  `json:"logprobs"`
}

type reasoningText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func newOutputText(text string) outputText {
	return outputText{"output_text", text, []any{}, []any{}}
}

// MarshalJSON writes what the kind of item has.
func (it *item) MarshalJSON() ([]byte, error) {
	type head item
	switch it.Type {
	case "message":
		content := []outputText{}
		if it.Status != "in_progress" {
			content = append(content, newOutputText(it.text))
		}
		return marshal(struct {
			*head
			Role    string       `json:"role"`
			Content []outputText `json:"content"`
		}{(*head)(it), "assistant", content})
	case "reasoning":
		content := []reasoningText{}
		if it.Status != "in_progress" {
			content = append(content, reasoningText{"reasoning_text", it.text})
		}
		return marshal(struct {
			*head
			Summary []any           `json:"summary"`
			Content []reasoningText `json:"content"`
		}{(*head)(it), []any{}, content})
	}
	return marshal(struct {
		*head
		Call      string `json:"call_id"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}{(*head)(it), it.call, it.name, it.arguments})
}

// body is the response itself.
func (a *response) body(status string) map[string]any {
	out := map[string]any{
		"id": a.id, "object": "response", "created_at": a.created, "status": status, "model": a.s.o.Name,
		"output": a.items, "error": nil, "incomplete_details": nil, "usage": nil, "metadata": echoed(a.request, "metadata", "{}"),
		"instructions": echoed(a.request, "instructions", "null"), "tools": echoed(a.request, "tools", "[]"),
		"tool_choice": echoed(a.request, "tool_choice", `"auto"`), "parallel_tool_calls": a.parallel,
		"temperature": a.p.params.sample.Temperature, "top_p": topP(a.p.params.sample.TopP),
		"max_output_tokens": echoed(a.request, "max_output_tokens", "null"), "text": echoed(a.request, "text", `{"format":{"type":"text"}}`),
		"reasoning": echoed(a.request, "reasoning", `{"effort":null,"summary":null}`), "truncation": "disabled",
		"previous_response_id": nil, "store": false,
	}
	if a.items == nil {
		out["output"] = []*item{}
	}
	if status == "completed" || status == "incomplete" {
		u := usageOf(a.list, len(a.p.prompt))
		out["usage"] = map[string]any{
			"input_tokens": u.prompt, "input_tokens_details": map[string]int{"cached_tokens": u.cached},
			"output_tokens": u.output, "output_tokens_details": map[string]int{"reasoning_tokens": u.reasoning},
			"total_tokens": u.prompt + u.output,
		}
	}
	if status == "incomplete" {
		out["incomplete_details"] = map[string]string{"reason": "max_output_tokens"}
	}
	return out
}

func topP(v float64) float64 {
	if v <= 0 {
		return 1
	}
	if v < 1e-300 { // see sampling: the likeliest token alone
		return 0
	}
	return v
}

// whole answers in one piece.
func (a *response) whole(w http.ResponseWriter, r *http.Request) error {
	defer a.s.account(a.who, a.p, a.list)
	defer closeAll(a.list)
	a.created = time.Now().Unix()
	for {
		p, err := a.list[0].next(r.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = a.add(p)
		}
		if err != nil {
			return err
		}
	}
	status, err := a.end()
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, a.body(status))
	return nil
}

// stream answers by events.
func (a *response) stream(w http.ResponseWriter, r *http.Request) error {
	defer a.s.account(a.who, a.p, a.list)
	a.ev, a.created = a.s.events(w), time.Now().Unix()
	begin := func() error {
		if a.number > 0 {
			return nil
		}
		if err := a.event("response.created", map[string]any{"response": a.body("in_progress")}); err != nil {
			return err
		}
		return a.event("response.in_progress", map[string]any{"response": a.body("in_progress")})
	}
	err := merge(r.Context(), a.list, func(x part) error {
		if err := begin(); err != nil {
			return err
		}
		if errors.Is(x.err, io.EOF) {
			return nil
		}
		return a.add(x.p)
	}, a.ev.ping)
	if err != nil {
		if !a.ev.begun || asError(err).Status == statusClosed {
			return err
		}
		e := asError(err)
		out := a.body("failed")
		out["error"] = map[string]string{"code": e.Code, "message": e.Message}
		if werr := a.event("response.failed", map[string]any{"response": out}); werr != nil {
			return werr
		}
		return &sentError{err}
	}
	status, err := a.end()
	if err != nil {
		return err
	}
	return a.event("response."+status, map[string]any{"response": a.body(status)})
}

// event sends an event if the answer is streamed.
func (a *response) event(kind string, fields map[string]any) error {
	if a.ev == nil {
		return nil
	}
	fields["type"], fields["sequence_number"] = kind, a.number
	a.number++
	return a.ev.data(kind, fields)
}

// add takes a piece of the answer.
func (a *response) add(p piece) error {
	if p.delta.Reasoning != "" {
		it, err := a.open("reasoning", "rs_")
		if err != nil {
			return err
		}
		it.text += p.delta.Reasoning
		if err := a.event("response.reasoning_text.delta", it.at(map[string]any{"delta": p.delta.Reasoning, "content_index": 0})); err != nil {
			return err
		}
	}
	if p.delta.Content != "" {
		it, err := a.open("message", "msg_")
		if err != nil {
			return err
		}
		it.text += p.delta.Content
		if err := a.event("response.output_text.delta", it.at(map[string]any{"delta": p.delta.Content, "content_index": 0, "logprobs": []any{}})); err != nil {
			return err
		}
	}
	for _, call := range p.delta.ToolCalls {
		if err := a.close("completed"); err != nil {
			return err
		}
		it, err := a.open("function_call", "fc_")
		if err != nil {
			return err
		}
		it.call, it.name = call.ID, call.Function.Name
		// The item is announced with its name, so it is opened by hand.
		if err := a.event("response.output_item.added", map[string]any{"output_index": it.index, "item": it}); err != nil {
			return err
		}
		it.arguments = call.Function.Arguments
		if err := a.event("response.function_call_arguments.delta", it.at(map[string]any{"delta": it.arguments})); err != nil {
			return err
		}
		if err := a.close("completed"); err != nil {
			return err
		}
	}
	return nil
}

// at adds where an item is to the fields of an event.
func (it *item) at(fields map[string]any) map[string]any {
	fields["item_id"], fields["output_index"] = it.ID, it.index
	return fields
}

// open returns the item that is being written, if it is of that kind, or begins
// one.
func (a *response) open(kind, prefix string) (*item, error) {
	if n := len(a.items); n > 0 && a.items[n-1].Status == "in_progress" {
		if a.items[n-1].Type == kind {
			return a.items[n-1], nil
		}
		if err := a.close("completed"); err != nil {
			return nil, err
		}
	}
	it := &item{ID: newID(prefix), Type: kind, Status: "in_progress", index: len(a.items)}
	a.items = append(a.items, it)
	if kind == "function_call" {
		return it, nil
	}
	if err := a.event("response.output_item.added", map[string]any{"output_index": it.index, "item": it}); err != nil {
		return nil, err
	}
	if kind != "message" {
		return it, nil
	}
	return it, a.event("response.content_part.added", it.at(map[string]any{"content_index": 0, "part": newOutputText("")}))
}

// close ends the item that is being written.
func (a *response) close(status string) error {
	n := len(a.items)
	if n == 0 || a.items[n-1].Status != "in_progress" {
		return nil
	}
	it := a.items[n-1]
	it.Status = status
	var err error
	switch it.Type {
	case "message":
		err = errors.Join(
			a.event("response.output_text.done", it.at(map[string]any{"content_index": 0, "text": it.text, "logprobs": []any{}})),
			a.event("response.content_part.done", it.at(map[string]any{"content_index": 0, "part": newOutputText(it.text)})))
	case "reasoning":
		err = a.event("response.reasoning_text.done", it.at(map[string]any{"content_index": 0, "text": it.text}))
	case "function_call":
		err = a.event("response.function_call_arguments.done", it.at(map[string]any{"arguments": it.arguments, "name": it.name}))
	}
	if err != nil {
		return err
	}
	return a.event("response.output_item.done", map[string]any{"output_index": it.index, "item": it})
}

// end closes the output and returns how the response ended.
func (a *response) end() (string, error) {
	status := "completed"
	if a.list[0].reason == engine.StopLength {
		status = "incomplete"
	}
	if len(a.items) == 0 { // an answer without a word is a message still
		if _, err := a.open("message", "msg_"); err != nil {
			return "", err
		}
	}
	return status, a.close(status)
}
