package chat

import (
	"context"
	"encoding/json"
	"iter"
	"slices"

	"graphrun/engine"
)

// Options say how a Session works.
type Options struct {
	// Template is used instead of the model's own.
	Template *Template
	// Tools and Vars are those of every Request.
	Tools []json.RawMessage
	Vars  map[string]json.RawMessage
}

// Session is a conversation with a model. It keeps the messages and, between
// turns, what is computed: of each prompt only what differs from the text so
// far is computed again. It is for one goroutine at a time.
type Session struct {
	o        Options
	p        *Prompter
	s        *engine.Session
	messages []Message
	last     Prompt
	reason   engine.StopReason
}

// ModelPrompter returns a prompter for a model with its own template.
func ModelPrompter(m *engine.Model) (*Prompter, error) {
	t, err := ModelTemplate(m.File.Meta, m.File.Path, "")
	if err != nil {
		return nil, err
	}
	return NewPrompter(t, m.Tokenizer), nil
}

// NewSession returns a conversation without messages. It fails, with
// ErrNoTemplate wrapped, if there is no template.
func NewSession(m *engine.Model, o Options) (*Session, error) {
	c := &Session{o: o}
	if o.Template != nil {
		c.p = NewPrompter(o.Template, m.Tokenizer)
	} else {
		p, err := ModelPrompter(m)
		if err != nil {
			return nil, err
		}
		c.p = p
	}
	c.s = m.NewSession()
	return c, nil
}

// Close gives back the memory of the conversation.
func (c *Session) Close() error { return c.s.Close() }

// Messages returns the conversation so far. The slice is the session's own.
func (c *Session) Messages() []Message { return c.messages }

// SetMessages replaces the conversation.
func (c *Session) SetMessages(list []Message) { c.messages = slices.Clone(list) }

// SetVar sets a variable of the template from now on.
func (c *Session) SetVar(name string, value json.RawMessage) {
	vars := map[string]json.RawMessage{name: value}
	for k, v := range c.o.Vars {
		if k != name {
			vars[k] = v
		}
	}
	c.o.Vars = vars
}

// Prompter returns what makes the prompts.
func (c *Session) Prompter() *Prompter { return c.p }

// Engine returns the text the model has read and written.
func (c *Session) Engine() *engine.Session { return c.s }

// Stats returns the counts and times of the last turn.
func (c *Session) Stats() engine.Stats { return c.s.Stats() }

// StopReason returns why the last answer ended.
func (c *Session) StopReason() engine.StopReason { return c.reason }

// Send adds a message and generates the answer, which becomes a message too,
// however it ended: cancelled, by an error after it began, or because the
// caller left the loop. If nothing was generated, the message is taken back.
func (c *Session) Send(ctx context.Context, m Message, o engine.GenerateOptions) iter.Seq2[Delta, error] {
	return func(yield func(Delta, error) bool) {
		before := len(c.messages)
		c.messages = append(c.messages, m)
		began := false
		for d, err := range c.Answer(ctx, o) {
			began = began || err == nil
			if !yield(d, err) {
				break
			}
		}
		if !began && c.reason != engine.StopEOG && len(c.messages) == before+1 {
			c.messages = c.messages[:before]
		}
	}
}

// Answer generates an answer to the messages so far.
func (c *Session) Answer(ctx context.Context, o engine.GenerateOptions) iter.Seq2[Delta, error] {
	return func(yield func(Delta, error) bool) {
		c.reason = engine.StopError
		pr, err := c.p.Prompt(Request{Messages: c.messages, Tools: c.o.Tools, Vars: c.o.Vars})
		if err != nil {
			yield(Delta{}, err)
			return
		}
		c.last = pr
		if _, err := c.s.Prompt(ctx, pr.IDs); err != nil {
			if ctx.Err() != nil {
				c.reason = engine.StopCancelled
			}
			yield(Delta{}, err)
			return
		}
		o.Special = true
		o.EOG = append(slices.Clip(o.EOG), c.p.Ends()...)
		parser := c.p.Parser(pr)
		answer := Message{Role: "assistant"}
		text, some := "", false
		add := func(d Delta) {
			text += d.Content
			answer.Reasoning += d.Reasoning
			answer.ToolCalls = append(answer.ToolCalls, d.ToolCalls...)
			some = some || !d.IsZero()
		}
		var failed error
		left := false
		for tok, err := range c.s.Generate(ctx, o) {
			if err != nil {
				failed = err
				break
			}
			some = true
			if d := parser.Push(tok.Text); !d.IsZero() {
				add(d)
				if left = !yield(d, nil); left {
					break
				}
			}
			if parser.Done() && !o.IgnoreEOG {
				break
			}
		}
		c.reason = c.s.StopReason()
		if parser.Done() && c.reason == engine.StopNone {
			c.reason = engine.StopEOG
		}
		rest := parser.Flush()
		add(rest)
		if some || failed == nil {
			if text != "" || len(answer.ToolCalls) == 0 {
				answer.Content = Text(text)
			}
			c.messages = append(c.messages, answer)
		}
		if left {
			return
		}
		if !rest.IsZero() && !yield(rest, nil) {
			return
		}
		if failed != nil {
			yield(Delta{}, failed)
		}
	}
}

// Usage returns the tokens of the last prompt, those of them that were known
// already, and the tokens of the answer.
func (c *Session) Usage() (prompt, cached, generated int) {
	st := c.s.Stats()
	return len(c.last.IDs), st.Cached, st.Generated
}
