package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"graphrun/chat"
	"graphrun/engine"
	"graphrun/loaders"
	"graphrun/server/sched"
)

// plan is a request that has been understood: what to submit, and how to read
// what comes back.
type plan struct {
	prompt  []int32
	params  params
	logprob bool
	top     int
	echo    bool // completions: the prompt is part of the answer
	none    bool // the prompt only, no answer
	answers int  // completions: of all prompts of the request
	special bool // control tokens are part of the text
	ends    []int32
	// constraint makes the constraint of one choice; nil is none.
	constraint func() engine.Constraint
	// parser makes the parser of one choice; nil passes the text through.
	parser  func() *chat.Parser
	oneCall bool // at most one tool call
	stream  bool
	usage   bool // a last chunk with usage
}

// choice is one answer of a request.
type choice struct {
	index  int
	st     Stream
	parser *chat.Parser
	lp     *aligner
	one    bool

	reason    engine.StopReason
	called    int
	tokens    int
	reasoning int
	ended     bool
	text      string // completions, not streamed
	delta     chat.Delta
	logprobs  []logprob
}

// piece is a part of a choice that has become certain.
type piece struct {
	text     string // without a parser
	delta    chat.Delta
	logprobs []logprob
}

func (p piece) isZero() bool { return p.text == "" && p.delta.IsZero() && len(p.logprobs) == 0 }

// submit hands all choices of a plan to the scheduler, or none.
func (s *Server) submit(ctx context.Context, m *model, p *plan, who *client) ([]*choice, error) {
	var list []*choice
	for i := range p.params.n {
		o := p.params.options(i, s.o.MaxTokens)
		o.Special, o.EOG = p.special, p.ends
		o.Logprobs, o.Top = p.logprob, p.top
		if p.constraint != nil {
			o.Constraint = p.constraint()
		}
		st, err := m.sched.Submit(ctx, sched.Request{
			Prompt: p.prompt, Options: o, Partition: who.partition, ID: who.id,
			PromptLogprobs: p.echo && p.logprob, PromptTop: p.top, NoAnswer: p.none,
		})
		if err != nil {
			closeAll(list)
			return nil, tooManyAnswers(err, max(p.answers, p.params.n))
		}
		c := &choice{index: i, st: st, one: p.oneCall}
		if p.parser != nil {
			c.parser = p.parser()
		}
		if p.logprob {
			c.lp = newAligner(m.m.Tokenizer, p)
		}
		list = append(list, c)
	}
	return list, nil
}

// submitError is an error of Submit. What has no kind of its own is an option
// that the engine refuses.
func submitError(err error) error {
	var broken *sched.PanicError
	if e := asError(err); e.Status != http.StatusInternalServerError || errors.As(err, &broken) {
		return e
	}
	return badRequest("", "invalid_option", "%v", err)
}

// tooManyAnswers is submitError for a request that asks for n answers. If the queue
// is full and could never hold as many, asking again is of no use.
func tooManyAnswers(err error, n int) error {
	var full *sched.QueueFullError
	if errors.As(err, &full) && n > full.Max {
		return badRequest("", "too_many", "the request asks for %d answers, and %d may wait here (--queue): ask for fewer prompts, or a smaller n, at a time", n, full.Max)
	}
	return submitError(err)
}

// next returns the next piece that has something in it, and io.EOF after the
// last.
func (c *choice) next(ctx context.Context) (piece, error) {
	for !c.ended {
		tok, err := c.st.Next(ctx)
		if err != nil && !errors.Is(err, io.EOF) {
			return piece{}, err
		}
		var p piece
		if err != nil {
			c.ended = true
			if c.reason == engine.StopNone {
				c.reason = c.st.Result().Reason
			}
			if c.parser != nil {
				p.delta = c.parser.Flush()
			}
			if c.lp != nil {
				p.logprobs = c.lp.end(c.reason != engine.StopString)
			}
		} else {
			p = c.push(tok)
		}
		c.limit(&p.delta)
		if !p.isZero() {
			return p, nil
		}
	}
	return piece{}, io.EOF
}

// push takes a token.
func (c *choice) push(tok engine.Token) (p piece) {
	if tok.ID != engine.NoToken {
		c.tokens++
	}
	if c.lp != nil {
		p.logprobs = c.lp.push(tok)
	}
	if c.parser == nil {
		p.text = tok.Text
		return p
	}
	p.delta = c.parser.Push(tok.Text)
	if p.delta.Reasoning != "" {
		c.reasoning++
	}
	if c.parser.Done() {
		// The turn has ended by a marker that is no token of its own.
		c.finish(engine.StopEOG, &p)
	}
	return p
}

// finish ends the choice before the scheduler does.
func (c *choice) finish(reason engine.StopReason, p *piece) {
	c.ended, c.reason = true, reason
	c.st.Close()
	if c.lp != nil {
		p.logprobs = append(p.logprobs, c.lp.end(true)...)
	}
}

// limit counts tool calls, and ends a choice after the first where only one is
// wanted.
func (c *choice) limit(d *chat.Delta) {
	if c.one && c.called+len(d.ToolCalls) >= 1 {
		d.ToolCalls = d.ToolCalls[:min(len(d.ToolCalls), 1-c.called)]
		if !c.ended {
			c.ended, c.reason = true, engine.StopEOG
			c.st.Close()
		}
	}
	c.called += len(d.ToolCalls)
}

// finishReason is the word of the API for why the choice ended.
func (c *choice) finishReason() string {
	switch {
	case c.reason == engine.StopLength:
		return "length"
	case c.called > 0:
		return "tool_calls"
	}
	return "stop"
}

// collect reads a choice to its end.
func (c *choice) collect(ctx context.Context) error {
	for {
		p, err := c.next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		c.text += p.text
		c.delta.Content += p.delta.Content
		c.delta.Reasoning += p.delta.Reasoning
		c.delta.ToolCalls = append(c.delta.ToolCalls, p.delta.ToolCalls...)
		c.logprobs = append(c.logprobs, p.logprobs...)
	}
}

// usage is what a request has cost.
type usage struct {
	prompt, cached, output, reasoning int
}

func usageOf(list []*choice, prompt int) usage {
	u := usage{prompt: prompt}
	for i, c := range list {
		if i == 0 { // the others share the prompt
			u.cached = c.st.Result().CachedTokens
		}
		u.output += c.tokens
		u.reasoning += c.reasoning
	}
	return u
}

// times returns when the first token of any choice was there, and how long the
// tokens after the first took on average; zero where there are none.
func times(list []*choice) (first time.Time, each time.Duration) {
	n, sum := 0, time.Duration(0)
	for _, c := range list {
		r := c.st.Result()
		if !r.First.IsZero() && (first.IsZero() || r.First.Before(first)) {
			first = r.First
		}
		if c.tokens > 1 && r.Last.After(r.First) {
			sum += r.Last.Sub(r.First)
			n += c.tokens - 1
		}
	}
	if n > 0 {
		each = sum / time.Duration(n)
	}
	return first, each
}

// aligner holds back the log-probabilities of tokens until their text is certain,
// so that the tokens of a stop string do not show where its text does not.
type aligner struct {
	stream *loaders.Stream
	held   []logprob
	length int // of the text of all tokens so far
	sent   int // of the text that is certain
}

// logprob is a token of an answer with its place in the text.
type logprob struct {
	engine.Token
	start int // bytes before it
}

func newAligner(tok *loaders.Tokenizer, p *plan) *aligner {
	text := slices.ContainsFunc(p.prompt, func(id int32) bool { return !tok.IsControl(id) })
	return &aligner{stream: tok.Stream(loaders.DecodeOptions{Special: p.special, KeepPrefix: text})}
}

func (a *aligner) push(tok engine.Token) []logprob {
	a.sent += len(tok.Text)
	if tok.ID != engine.NoToken {
		a.held = append(a.held, logprob{tok, a.length})
		a.length += len(a.stream.Push(tok.ID))
	}
	n := 0
	for n < len(a.held) && (a.held[n].start < a.sent || a.length == a.sent) {
		n++
	}
	out := slices.Clone(a.held[:n])
	a.held = a.held[n:]
	return out
}

// end returns what is left; all of it unless a stop string cut the text.
func (a *aligner) end(all bool) []logprob {
	out := a.held
	a.held = nil
	if !all {
		out = slices.DeleteFunc(out, func(l logprob) bool { return l.start >= a.sent })
	}
	return out
}
