package server

import (
	"errors"
	"io"
	"net/http"
	"time"

	"graphrun/chat"
)

// chatAnswer writes the answer to a chat completion.
type chatAnswer struct {
	s       *Server
	m       *model
	p       *plan
	list    []*choice
	id      string
	created int64
	who     *client
}

// chatChunk is a chat completion, whole or a piece of it.
type chatChunk struct {
	ID          string        `json:"id"`
	Object      string        `json:"object"`
	Created     int64         `json:"created"`
	Model       string        `json:"model"`
	Fingerprint string        `json:"system_fingerprint"`
	Choices     []*chatChoice `json:"choices"`
	Usage       any           `json:"usage,omitempty"`
}

type chatChoice struct {
	Index    int          `json:"index"`
	Message  *chatMessage `json:"message,omitempty"`
	Delta    *chatDelta   `json:"delta,omitempty"`
	Logprobs *chatContent `json:"logprobs"`
	Finish   *string      `json:"finish_reason"`
}

// chatMessage is the message of a whole answer.
type chatMessage struct {
	Role      string          `json:"role"`
	Content   *string         `json:"content"`
	Refusal   *string         `json:"refusal"`
	Reasoning string          `json:"reasoning_content,omitempty"`
	ToolCalls []chat.ToolCall `json:"tool_calls,omitempty"`
}

// chatDelta is what a chunk of a stream adds.
type chatDelta struct {
	Role      string        `json:"role,omitempty"`
	Content   *string       `json:"content,omitempty"`
	Reasoning string        `json:"reasoning_content,omitempty"`
	ToolCalls []indexedCall `json:"tool_calls,omitempty"`
	Refusal   *string       `json:"refusal,omitempty"`
}

type indexedCall struct {
	Index int `json:"index"`
	chat.ToolCall
}

// tokenUsage is the field usage of chat and completions.
type tokenUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	PromptIs   struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionIs struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func newTokenUsage(u usage) *tokenUsage {
	t := &tokenUsage{Prompt: u.prompt, Completion: u.output, Total: u.prompt + u.output}
	t.PromptIs.Cached, t.CompletionIs.Reasoning = u.cached, u.reasoning
	return t
}

func (a *chatAnswer) chunk(object string) *chatChunk {
	if a.created == 0 {
		a.created = time.Now().Unix()
	}
	return &chatChunk{ID: a.id, Object: object, Created: a.created, Model: a.s.o.Name, Fingerprint: a.m.fingerprint, Choices: []*chatChoice{}}
}

// whole answers in one piece.
func (a *chatAnswer) whole(w http.ResponseWriter, r *http.Request) error {
	defer a.s.account(a.who, a.p, a.list)
	if err := collectAll(r.Context(), a.list); err != nil {
		return err
	}
	out := a.chunk("chat.completion")
	for _, c := range a.list {
		msg := &chatMessage{Role: "assistant", Reasoning: c.delta.Reasoning, ToolCalls: c.delta.ToolCalls}
		if c.delta.Content != "" || c.called == 0 {
			msg.Content = &c.delta.Content
		}
		finish := c.finishReason()
		x := &chatChoice{Index: c.index, Message: msg, Finish: &finish}
		if a.p.logprob {
			x.Logprobs = chatLogprobsOf(a.m.m.Tokenizer, c.logprobs)
		}
		out.Choices = append(out.Choices, x)
	}
	out.Usage = newTokenUsage(usageOf(a.list, len(a.p.prompt)))
	writeJSON(w, http.StatusOK, out)
	return nil
}

// nullUsage is the usage of all chunks but the last, where usage is asked for.
type nullUsage struct{}

// MarshalJSON writes null.
func (nullUsage) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// stream answers piece by piece.
func (a *chatAnswer) stream(w http.ResponseWriter, r *http.Request) error {
	defer a.s.account(a.who, a.p, a.list)
	ev := a.s.events(w)
	roles := make([]bool, len(a.list))
	called := make([]int, len(a.list))
	send := func(x *chatChoice) error {
		out := a.chunk("chat.completion.chunk")
		out.Choices = append(out.Choices, x)
		if a.p.usage {
			out.Usage = nullUsage{}
		}
		return ev.data("", out)
	}
	err := merge(r.Context(), a.list, func(x part) error {
		i := x.c.index
		if !roles[i] {
			roles[i] = true
			empty := ""
			if err := send(&chatChoice{Index: i, Delta: &chatDelta{Role: "assistant", Content: &empty}}); err != nil {
				return err
			}
		}
		if errors.Is(x.err, io.EOF) {
			finish := x.c.finishReason()
			return send(&chatChoice{Index: i, Delta: &chatDelta{}, Finish: &finish})
		}
		d := &chatDelta{Reasoning: x.p.delta.Reasoning}
		if x.p.delta.Content != "" {
			d.Content = &x.p.delta.Content
		}
		for _, call := range x.p.delta.ToolCalls {
			d.ToolCalls = append(d.ToolCalls, indexedCall{called[i], call})
			called[i]++
		}
		out := &chatChoice{Index: i, Delta: d}
		if a.p.logprob {
			out.Logprobs = chatLogprobsOf(a.m.m.Tokenizer, x.p.logprobs)
		}
		return send(out)
	}, ev.ping)
	if err != nil {
		return ev.fail(err)
	}
	if a.p.usage {
		out := a.chunk("chat.completion.chunk")
		out.Usage = newTokenUsage(usageOf(a.list, len(a.p.prompt)))
		if err := ev.data("", out); err != nil {
			return err
		}
	}
	return ev.done()
}

// fail ends a stream by an error: as an answer where nothing was sent yet, else
// as an event.
func (e *events) fail(err error) error {
	if !e.begun {
		return err
	}
	x := asError(err)
	if x.Status == statusClosed {
		return err
	}
	if werr := e.data("", x); werr != nil {
		return werr
	}
	return &sentError{err}
}

// sentError is an error that the client knows of.
type sentError struct{ error }

func (e *sentError) Unwrap() error { return e.error }
