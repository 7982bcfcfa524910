package engine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Drafter proposes how a text goes on, so that Session.Generate can have several
// tokens computed in one step and keep those that the model itself would have
// chosen. NewLookup and NewDraft return the two kinds. One belongs to one
// session at a time.
type Drafter interface {
	// begin is called before each answer.
	begin(o GenerateOptions) error
	// draft returns at most n proposals for the tokens after text, which are
	// valid until the next call.
	draft(ctx context.Context, text []int32, n int) ([]proposal, error)
}

// proposal is a token that may come next.
type proposal struct {
	id int32
	// probs are the probabilities the token was drawn with; nil says that it
	// was chosen without a draw.
	probs []candidate
}

// DefaultDraftTokens is the number of tokens proposed for a step at most.
const DefaultDraftTokens = 8

// plainEvery is the number of steps after which one is done without proposals,
// to know what such a step takes; the second is one too.
const plainEvery = 64

// speculation is what one answer with a drafter keeps.
type speculation struct {
	drafter Drafter
	n, most int // proposals of the next step, and at most
	steps   int
	tokens  []int32 // of the step
	ready   []Token // chosen and not yet given out
	plain   time.Duration
	plains  int
}

func newSpeculation(o GenerateOptions) (*speculation, error) {
	if o.DraftTokens < 0 {
		return nil, fmt.Errorf("engine: %d tokens are to be proposed for a step, want 1 or more, 0 is %d", o.DraftTokens, DefaultDraftTokens)
	}
	p := &speculation{drafter: o.Drafter, most: o.DraftTokens}
	if p.most == 0 {
		p.most = DefaultDraftTokens
	}
	p.n = (p.most + 1) / 2
	return p, o.Drafter.begin(o)
}

// speculate computes the pending token together with proposals for those after
// it, chooses from each row of logits as long as the choice is the proposal, and
// returns the tokens chosen, one at least. What was computed for proposals that
// were not chosen is cut off again.
//
// With temperature 0, or where a proposal was made without a draw, every token
// is chosen exactly as it would have been alone: same logits, same draw. Drafts
// that were drawn are accepted with the probability that leaves the model's
// distribution as it is (see Sampler.verify).
func (s *Session) speculate(ctx context.Context, a *Answer, p *speculation) ([]Token, error) {
	n := min(p.n, s.m.limits.Step-1, s.m.limits.Rows-1, s.m.limits.Context-len(s.tokens)-1)
	if a.o.MaxTokens > 0 {
		n = min(n, a.o.MaxTokens-a.n-1)
	}
	p.steps++
	plain := p.steps == 2 || p.steps%plainEvery == 0
	var props []proposal
	if n > 0 && !plain {
		began := time.Now()
		var err error
		if props, err = p.drafter.draft(ctx, s.tokens, n); err != nil {
			return nil, err
		}
		s.stats.DraftTime += time.Since(began)
	}
	began := time.Now()
	base := len(s.tokens)
	p.tokens = append(p.tokens[:0], s.tokens[base-1])
	for _, x := range props {
		p.tokens = append(p.tokens, x.id)
	}
	b, err := s.m.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer b.Release()
	s.item[0] = Item{Seq: s.seq, Tokens: p.tokens, Rows: RowsAll}
	err = b.Step(ctx, s.item[:])
	if err != nil && len(props) > 0 && ctx.Err() == nil {
		// The proposals may be to blame: no pages for them, or what is not
		// finite after them.
		props = nil
		s.item[0].Tokens = p.tokens[:1]
		err = b.Step(ctx, s.item[:])
	}
	if err != nil {
		return nil, err
	}
	s.at = 0
	s.stats.Steps++
	s.stats.Drafted += len(props)
	p.ready = p.ready[:0]
	text := s.tokens
	for k := 0; ; k++ {
		var prop *proposal
		if k < len(props) {
			prop = &props[k]
		}
		tok, err := a.next(b.Logits(&s.item[0], k), text, prop)
		if err != nil && k > 0 {
			break // it comes again when this token is the first
		}
		if err != nil {
			return nil, errors.Join(err, s.seq.Rewind(base))
		}
		p.ready = append(p.ready, tok)
		if prop != nil && tok.ID == prop.id {
			s.stats.Accepted++
		}
		if tok.ID != NoToken {
			text = append(text, tok.ID)
		}
		if a.Done() || prop == nil || tok.ID != prop.id {
			break
		}
	}
	s.tokens = text[:base] // Generate appends them as it gives them out
	if len(props) > 0 {
		s.adapt(p, len(p.ready)-1, len(props))
	} else if plain {
		p.plain += time.Since(began)
		p.plains++
		s.stats.PlainStep = p.plain / time.Duration(p.plains)
	}
	// The last token chosen is computed with the next step, as always.
	return p.ready, s.seq.Rewind(min(s.seq.Len(), base+len(p.ready)-1))
}

// adapt proposes more after all were right, and fewer after few were.
func (s *Session) adapt(p *speculation, right, of int) {
	switch {
	case right >= of && of >= p.n:
		p.n = min(p.n+2, p.most)
	case right < of:
		p.n = max(p.n-1, right, 1)
	}
}

// settle makes the session one text again when the caller left the loop before
// all chosen tokens were given out.
func (s *Session) settle() error {
	if s.seq.Len() <= len(s.tokens) {
		return nil
	}
	s.at = 0
	return s.seq.Rewind(len(s.tokens))
}

// Lookup proposes what followed the last time the text had the same end. It
// costs nothing, and helps where an answer repeats parts of its prompt: code,
// summaries, corrections.
type Lookup struct {
	least, most int
	props       []proposal
}

// NewLookup returns a drafter that looks for the longest of the last most
// tokens down to least tokens. 0 and 0 are 2 and 4.
func NewLookup(least, most int) (*Lookup, error) {
	if least == 0 && most == 0 {
		least, most = 2, 4
	}
	if least < 1 || most < least || most > 64 {
		return nil, fmt.Errorf("engine: a lookup of %d to %d tokens, want 1 to 64", least, most)
	}
	return &Lookup{least: least, most: most}, nil
}

func (l *Lookup) begin(GenerateOptions) error { return nil }

func (l *Lookup) draft(_ context.Context, text []int32, n int) ([]proposal, error) {
	l.props = l.props[:0]
	at, best := -1, l.least-1 // the end of the match, its length
	last := len(text) - 1
	for i := last - 1; i >= 0 && best < l.most; i-- {
		k := 0
		for k < l.most && k <= i && text[i-k] == text[last-k] {
			k++
		}
		if k > best {
			at, best = i, k
		}
	}
	if at >= 0 {
		for _, id := range text[at+1 : min(at+1+n, len(text))] {
			l.props = append(l.props, proposal{id: id})
		}
	}
	return l.props, nil
}
