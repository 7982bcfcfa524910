package server

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"graphrun/engine"
	"graphrun/loaders"
)

// maxPrompts bounds the prompts of one request, and the texts of one request for
// embeddings.
const maxPrompts = 2048

// defaultCompletion is the API's own limit where a completion names none.
const defaultCompletion = 16

// completions answers POST /v1/completions.
func (s *Server) completions(w http.ResponseWriter, r *http.Request, who *client) error {
	m, o, err := s.open(w, r, who)
	if err != nil {
		return err
	}
	p, prompts, err := s.readCompletion(m, o)
	if err != nil {
		return err
	}
	a := &textAnswer{s: s, m: m, p: p, id: newID("cmpl-"), created: time.Now().Unix(), who: who}
	p.answers = len(prompts) * p.params.n
	for i, ids := range prompts {
		// Each prompt has a plan of its own; choices are numbered through.
		q := *p
		q.prompt = ids
		s.logPrompt(who, m.m.Tokenizer.Decode(ids, loaders.DecodeOptions{Special: true}))
		list, err := s.submit(r.Context(), m, &q, who)
		if err != nil {
			closeAll(a.list)
			return err
		}
		for _, c := range list {
			c.index = i*p.params.n + c.index
			a.list, a.prompts = append(a.list, c), append(a.prompts, ids)
		}
	}
	if p.stream {
		return a.stream(w, r)
	}
	return a.whole(w, r)
}

// readCompletion understands a request for a completion.
func (s *Server) readCompletion(m *model, o *object) (*plan, [][]int32, error) {
	p := &plan{}
	p.params = s.sampling(o, m.limits.Vocab)
	p.params.limits(o, 0, "max_tokens", "max_completion_tokens")
	if p.params.limit < 0 {
		p.params.limit = defaultCompletion
	}
	p.none = p.params.limit == 0
	streaming(o, p)
	p.echo, _ = o.boolean("echo")
	if top, ok := o.integer("logprobs", 0, maxTop); ok {
		p.logprob, p.top = true, int(top)
	}
	special := s.o.ParseSpecial
	if v, ok := o.boolean("parse_special"); ok {
		if v && !s.o.ParseSpecial {
			o.fail("parse_special", "not_allowed", "is true, and the server was not started with --parse-special: control tokens spelled in a prompt are text here")
		}
		special = v
	}
	add := true
	if v, ok := o.boolean("add_special_tokens"); ok {
		add = v
	}
	f := readFormat(o)
	prompts := m.readPrompts(o, "prompt", add, special)
	o.ignore(harmless...)
	if v, ok := o.integer("best_of", 1, maxChoices); ok && int(v) != p.params.n {
		o.fail("best_of", "unsupported_parameter", "is %d and n %d; this server returns all answers it writes", v, p.params.n)
	}
	o.refuse("this server continues texts at their end", "suffix")
	if err := o.done(); err != nil {
		return nil, nil, err
	}
	p.constraint = f.constraint(m)
	for i, ids := range prompts {
		if err := m.fits(ids); err != nil {
			e := asError(err)
			if e.Code != "context_length_exceeded" || !p.none || len(ids) > m.limits.Context {
				if len(prompts) > 1 {
					e.Param = "prompt[" + strconv.Itoa(i) + "]"
				}
				return nil, nil, e
			}
		}
	}
	return p, prompts, nil
}

// readPrompts reads what a prompt or an input may be: a string, a list of
// strings, a list of token ids, or a list of such lists.
func (m *model) readPrompts(o *object, name string, add, special bool) [][]int32 {
	raw, ok := o.raw(name)
	if !ok {
		o.fail(name, "missing_field", "is missing, want a string, a list of strings, or token ids")
		return nil
	}
	encode := func(raw []byte) []int32 {
		var text string
		json.Unmarshal(raw, &text)
		if err := m.fitsText(len(text)); err != nil {
			o.first.set(asError(err))
			return nil
		}
		return m.m.Tokenizer.Encode(text, loaders.EncodeOptions{AddSpecial: add, OneBOS: true, ParseSpecial: special})
	}
	if raw[0] == '"' {
		return [][]int32{encode(raw)}
	}
	const want = "a string, a list of strings, or token ids"
	if raw[0] != '[' {
		o.wrong(name, raw, want)
		return nil
	}
	all, ok := o.list(name, m.limits.Context+maxPrompts)
	if !ok {
		return nil
	}
	if len(all) == 0 {
		o.fail(name, "empty_prompt", "is an empty list, want %s", want)
		return nil
	}
	if c := all[0][0]; c == '-' || c >= '0' && c <= '9' {
		return [][]int32{m.readTokens(o, o.at(name), all)}
	}
	if len(all) > maxPrompts {
		o.fail(name, "too_many", "has %d elements, want at most %d", len(all), maxPrompts)
		return nil
	}
	var out [][]int32
	for i, raw := range all {
		path := o.at(name) + "[" + strconv.Itoa(i) + "]"
		switch {
		case raw[0] == '"' && all[0][0] == '"':
			out = append(out, encode(raw))
		case raw[0] == '[' && all[0][0] == '[':
			ids, e := list(path, raw, m.limits.Context)
			if e != nil {
				o.first.set(e)
				return nil
			}
			out = append(out, m.readTokens(o, path, ids))
		default:
			o.first.set(badRequest(path, "invalid_type", "%s is %s, want %s, all of one kind", path, kindOf(raw), want))
			return nil
		}
	}
	return out
}

// readTokens reads token ids.
func (m *model) readTokens(o *object, path string, list []json.RawMessage) []int32 {
	ids := make([]int32, len(list))
	for i, raw := range list {
		v, e := integer(path+"["+strconv.Itoa(i)+"]", raw, 0, int64(m.limits.Vocab-1))
		if e != nil {
			o.first.set(e)
			return nil
		}
		ids[i] = int32(v)
	}
	return ids
}

// fitsText refuses a text that is too long whatever its tokens are, before time is
// spent on finding out which.
func (m *model) fitsText(bytes int) error {
	if least := bytes / m.longest; least > m.limits.Context {
		return badRequest("", "context_length_exceeded", "a text of %d bytes has at least %d tokens, the context of this server %d; shorten it or start the server with a larger --ctx", bytes, least, m.limits.Context)
	}
	return nil
}

// fits refuses a prompt that leaves no room for an answer, or has nothing to
// continue.
func (m *model) fits(ids []int32) error {
	switch {
	case len(ids) == 0:
		return badRequest("prompt", "empty_prompt", "the prompt has no tokens, and none that begins a text is put before it; give at least one token")
	case len(ids) >= m.limits.Context:
		return &engine.ContextError{Have: m.limits.Context, Want: len(ids)}
	}
	return nil
}

// textAnswer writes the answer to a completion.
type textAnswer struct {
	s       *Server
	m       *model
	p       *plan
	list    []*choice
	prompts [][]int32 // of each choice
	id      string
	created int64
	who     *client
}

type textChunk struct {
	ID          string        `json:"id"`
	Object      string        `json:"object"`
	Created     int64         `json:"created"`
	Model       string        `json:"model"`
	Fingerprint string        `json:"system_fingerprint"`
	Choices     []*textChoice `json:"choices"`
	Usage       any           `json:"usage,omitempty"`
}

type textChoice struct {
	Index    int           `json:"index"`
	Text     string        `json:"text"`
	Logprobs *textLogprobs `json:"logprobs"`
	Finish   *string       `json:"finish_reason"`
}

func (a *textAnswer) chunk() *textChunk {
	return &textChunk{ID: a.id, Object: "text_completion", Created: a.created, Model: a.s.o.Name, Fingerprint: a.m.fingerprint, Choices: []*textChoice{}}
}

// echo begins a choice: the prompt's text and its log-probabilities, if they are
// asked for.
func (a *textAnswer) echo(c *choice, w *textWriter) *textChoice {
	x := &textChoice{Index: c.index}
	if a.p.logprob {
		x.Logprobs = newTextLogprobs()
	}
	if !a.p.echo {
		return x
	}
	x.Text = a.m.m.Tokenizer.Decode(a.prompts[c.index], loaders.DecodeOptions{})
	if a.p.logprob {
		for _, sc := range c.st.Result().PromptLogprobs {
			w.add(x.Logprobs, sc)
		}
	}
	return x
}

func (a *textAnswer) add(x *textChoice, w *textWriter, list []logprob) {
	for _, l := range list {
		w.add(x.Logprobs, engine.Score{ID: l.ID, Known: true, Logprob: l.Logprob, Top: l.Top})
	}
}

func (a *textAnswer) usage() *tokenUsage {
	var u usage
	for i := 0; i < len(a.list); i += a.p.params.n {
		x := usageOf(a.list[i:i+a.p.params.n], len(a.prompts[i]))
		u.prompt += x.prompt
		u.cached += x.cached
		u.output += x.output
	}
	return newTokenUsage(u)
}

// finish is the reason a completion ended; one that was not begun has reached
// its limit.
func (a *textAnswer) finish(c *choice) *string {
	f := c.finishReason()
	if a.p.none {
		f = "length"
	}
	return &f
}

// whole answers in one piece.
func (a *textAnswer) whole(w http.ResponseWriter, r *http.Request) error {
	defer a.s.account(a.who, a.p, a.list)
	if err := collectAll(r.Context(), a.list); err != nil {
		return err
	}
	out := a.chunk()
	for _, c := range a.list {
		tw := a.m.textWriter(a.prompts[c.index], a.p.echo)
		x := a.echo(c, tw)
		x.Text += c.text
		if a.p.logprob {
			a.add(x, tw, c.logprobs)
		}
		x.Finish = a.finish(c)
		out.Choices = append(out.Choices, x)
	}
	out.Usage = a.usage()
	writeJSON(w, http.StatusOK, out)
	return nil
}

// stream answers piece by piece.
func (a *textAnswer) stream(w http.ResponseWriter, r *http.Request) error {
	defer a.s.account(a.who, a.p, a.list)
	ev := a.s.events(w)
	writers := make([]*textWriter, len(a.list))
	send := func(x *textChoice) error {
		out := a.chunk()
		out.Choices = append(out.Choices, x)
		if a.p.usage {
			out.Usage = nullUsage{}
		}
		return ev.data("", out)
	}
	err := merge(r.Context(), a.list, func(x part) error {
		i := x.c.index
		if writers[i] == nil {
			// The prompt's log-probabilities are there when the first token is.
			writers[i] = a.m.textWriter(a.prompts[i], a.p.echo)
			if e := a.echo(x.c, writers[i]); e.Text != "" || a.p.echo {
				if err := send(e); err != nil {
					return err
				}
			}
		}
		out := &textChoice{Index: i}
		if errors.Is(x.err, io.EOF) {
			out.Finish = a.finish(x.c)
			return send(out)
		}
		out.Text = x.p.text
		if a.p.logprob {
			out.Logprobs = newTextLogprobs()
			a.add(out, writers[i], x.p.logprobs)
		}
		return send(out)
	}, ev.ping)
	if err != nil {
		return ev.fail(err)
	}
	if a.p.usage {
		out := a.chunk()
		out.Usage = a.usage()
		if err := ev.data("", out); err != nil {
			return err
		}
	}
	return ev.done()
}
