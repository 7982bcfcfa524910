package engine

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Generate continues the text token by token: it computes what is pending,
// chooses the next token, yields it, and so on until the answer ends (see
// StopReason) or ctx does, whose error is the last thing yielded. It is an
// error if the session is empty.
//
//	for tok, err := range s.Generate(ctx, engine.GenerateOptions{MaxTokens: 100}) {
//		if err != nil {
//			return err
//		}
//		fmt.Print(tok.Text)
//	}
//
// Tokens yielded are part of the session's text, the tokens of a stop string
// included; a token that ended the answer by being an end of generation is not.
// Leaving the loop early keeps all tokens yielded so far.
func (s *Session) Generate(ctx context.Context, o GenerateOptions) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		s.stats = Stats{Prompt: s.stats.Prompt, Cached: s.stats.Cached, PromptTime: s.stats.PromptTime}
		s.reason, s.answered = StopNone, true
		start := time.Now() // moved on by the time the caller takes
		fail := func(err error) {
			s.reason = StopError
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				s.reason = StopCancelled
			}
			yield(Token{ID: NoToken}, err)
		}
		if len(s.tokens) == 0 {
			fail(ErrEmpty)
			return
		}
		a, err := s.m.NewAnswer(s.tokens, o)
		if err != nil {
			fail(err)
			return
		}
		var p *speculation
		if o.Drafter != nil {
			if p, err = newSpeculation(o); err != nil {
				fail(err)
				return
			}
		}
		for !a.Done() {
			toks, err := s.choose(ctx, a, p)
			if err != nil {
				fail(err)
				return
			}
			for i, tok := range toks {
				if i == len(toks)-1 {
					s.reason = a.Reason()
				}
				if tok.ID != NoToken {
					s.tokens = append(s.tokens, tok.ID)
					s.stats.Generated++
				}
				s.stats.GenerateTime = time.Since(start)
				if s.stats.FirstToken == 0 {
					s.stats.FirstToken = s.stats.GenerateTime
				}
				if (tok.ID != NoToken || tok.Text != "") && !yield(tok, nil) {
					s.settle()
					return
				}
				start = start.Add(time.Since(start) - s.stats.GenerateTime)
			}
		}
		s.reason = a.Reason()
	}
}

// choose returns the next token, or several where they were proposed.
func (s *Session) choose(ctx context.Context, a *Answer, p *speculation) ([]Token, error) {
	if p != nil && s.Logits() == nil && s.seq.Len() == len(s.tokens)-1 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return s.speculate(ctx, a, p)
	}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	tok, err := a.Next(s.logits, s.tokens)
	s.one[0] = tok
	return s.one[:], err
}

// ready computes what is needed for the logits after the last token.
func (s *Session) ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.Logits() != nil {
		return nil
	}
	if s.seq.Len() == len(s.tokens) {
		// The text was cut here: its last token is computed again.
		var lost *RewindError
		if err := s.seq.Rewind(len(s.tokens) - 1); errors.As(err, &lost) {
			s.seq.Drop()
		} else if err != nil {
			return err
		}
	}
	return s.compute(ctx)
}

// StopReason returns why the last answer ended: StopNone while it goes on, or
// when the caller left the loop.
func (s *Session) StopReason() StopReason { return s.reason }

// Stats returns the counts and times of the last prompt and answer.
func (s *Session) Stats() Stats { return s.stats }

// Stats counts the work of one prompt and its answer.
type Stats struct {
	Prompt       int           // tokens of the prompt
	Cached       int           // of these, taken from the KV cache
	Generated    int           // tokens of the answer
	PromptTime   time.Duration // computing the prompt
	FirstToken   time.Duration // from the start of Generate to its first token
	GenerateTime time.Duration // all of Generate but the caller's own time

	// With a Drafter:
	Steps     int           // of the model after the first token
	Drafted   int           // tokens proposed
	Accepted  int           // of these, the ones that were right
	DraftTime time.Duration // spent on proposing
	PlainStep time.Duration // a step without proposals, measured now and then
}

// Gain returns how many times as long the answer would have taken without a
// Drafter, by the time of the steps without proposals; 0 when it is not known.
func (s Stats) Gain() float64 {
	if s.PlainStep == 0 || s.GenerateTime <= s.FirstToken || s.Generated < 2 {
		return 0
	}
	return float64(s.PlainStep) * float64(s.Generated-1) / float64(s.GenerateTime-s.FirstToken)
}

// PromptRate returns the prompt tokens computed per second, 0 when none were.
func (s Stats) PromptRate() float64 { return rate(s.Prompt-s.Cached, s.PromptTime) }

// GenerateRate returns the tokens generated per second, 0 when none were.
func (s Stats) GenerateRate() float64 { return rate(s.Generated, s.GenerateTime) }

func rate(n int, d time.Duration) float64 {
	if n <= 0 || d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}
