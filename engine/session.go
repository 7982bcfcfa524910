package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrEmpty says that there is nothing to continue: the session has no token.
var ErrEmpty = errors.New("engine: the session is empty: append at least one token first")

// Session is one text with its KV cache: what was read and written so far, and
// the logits after it. It is for one goroutine at a time; sessions of one model
// may run side by side, their steps take turns.
type Session struct {
	m   *Model
	seq *Sequence
	// tokens are the whole text. The first seq.Len() of them are computed, the
	// rest is pending: the last token of an answer is computed only when
	// something follows it.
	tokens []int32
	logits []float32
	at     int // length of text the logits belong to, 0 = none
	item   [1]Item
	one    [1]Token

	stats    Stats
	reason   StopReason
	answered bool // the next prompt begins new stats
}

// NewSession returns an empty session. Close gives its pages back.
func (m *Model) NewSession() *Session {
	return &Session{m: m, seq: m.cache.NewSequence(), logits: make([]float32, m.limits.Vocab)}
}

// Close gives back the pages. The session must not be used afterwards.
func (s *Session) Close() error {
	s.seq.Drop()
	s.tokens, s.at = nil, 0
	return nil
}

// Model returns the model the session belongs to.
func (s *Session) Model() *Model { return s.m }

// Len returns the number of tokens of the text.
func (s *Session) Len() int { return len(s.tokens) }

// Tokens returns the text. The slice is the session's own: do not change it.
func (s *Session) Tokens() []int32 { return s.tokens }

// Computed returns how many tokens of the text are in the KV cache.
func (s *Session) Computed() int { return s.seq.Len() }

// Logits returns the logits after the last token, nil when they are not
// computed. They are the session's own and valid until it computes more.
func (s *Session) Logits() []float32 {
	if s.at == 0 || s.at != len(s.tokens) {
		return nil
	}
	return s.logits
}

// Append adds tokens to the text and computes them, and what was pending, in
// chunks. A text that does not fit is refused with a *ContextError before
// anything is computed. When ctx ends, or a step fails, the chunks that were
// finished stay and the rest of tokens is forgotten: see Len.
func (s *Session) Append(ctx context.Context, tokens ...int32) error {
	if want := len(s.tokens) + len(tokens); want > s.m.limits.Context {
		return &ContextError{Have: s.m.limits.Context, Want: want}
	}
	if s.answered {
		s.stats, s.answered = Stats{}, false
	}
	start, before := time.Now(), len(s.tokens)
	s.tokens = append(s.tokens, tokens...)
	err := s.compute(ctx)
	if err != nil {
		s.tokens = s.tokens[:max(before, s.seq.Len())]
	}
	s.stats.Prompt += len(s.tokens) - before
	s.stats.PromptTime += time.Since(start)
	return err
}

// compute runs the pending tokens through the model and keeps the last logits.
func (s *Session) compute(ctx context.Context) error {
	if s.m.headless() {
		return ErrNoHead
	}
	for s.seq.Len() < len(s.tokens) {
		chunk := s.tokens[s.seq.Len():]
		rows := RowsLast
		if n := s.m.limits.Step; len(chunk) > n {
			chunk, rows = chunk[:n], RowsNone
		}
		b, err := s.m.Acquire(ctx)
		if err != nil {
			return err
		}
		s.item[0] = Item{Seq: s.seq, Tokens: chunk, Rows: rows}
		if err = b.Step(ctx, s.item[:]); err == nil && rows == RowsLast {
			copy(s.logits, b.Logits(&s.item[0], 0))
			s.at = s.seq.Len()
		}
		b.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// Prompt makes tokens the text of the session and computes what is new: the
// longest common beginning of the old text and the new stays in the KV cache.
// It returns the number of tokens that were taken from there.
//
// The last token is always computed, so that logits are there even when the
// whole prompt was known. Where a windowed layer has already written over what
// the common beginning needs (see Sequence.Lowest) everything is computed
// again and 0 is returned. Errors are those of Append.
func (s *Session) Prompt(ctx context.Context, tokens []int32) (cached int, err error) {
	if len(tokens) == 0 {
		return 0, ErrEmpty
	}
	if len(tokens) > s.m.limits.Context {
		return 0, &ContextError{Have: s.m.limits.Context, Want: len(tokens)}
	}
	n := min(commonPrefix(s.tokens[:s.seq.Len()], tokens), len(tokens)-1)
	if err := s.Rewind(n); err != nil {
		var lost *RewindError
		if !errors.As(err, &lost) {
			return 0, err
		}
		s.Reset()
		n = 0
	}
	s.stats, s.answered = Stats{Prompt: n, Cached: n}, false
	return n, s.Append(ctx, tokens[n:]...)
}

func commonPrefix(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// Rewind cuts the text to its first n tokens. Where a windowed layer no longer
// holds enough for that it changes nothing and returns a *RewindError.
func (s *Session) Rewind(n int) error {
	if n < 0 || n > len(s.tokens) {
		return fmt.Errorf("engine: rewind to %d: the session has %d tokens", n, len(s.tokens))
	}
	if n < s.seq.Len() {
		if err := s.seq.Rewind(n); err != nil {
			return err
		}
		s.at = 0
	}
	s.tokens = s.tokens[:n]
	return nil
}

// Reset empties the session.
func (s *Session) Reset() {
	s.seq.Drop()
	s.tokens, s.at = s.tokens[:0], 0
}

// Fork returns a session with the first n tokens of the text, which shares
// their pages. n may be at most Computed; a *RewindError says that a windowed
// layer no longer holds enough.
func (s *Session) Fork(n int) (*Session, error) {
	seq, err := s.seq.Fork(n)
	if err != nil {
		return nil, err
	}
	f := &Session{m: s.m, seq: seq, tokens: slices.Clone(s.tokens[:n]), logits: make([]float32, len(s.logits))}
	if s.at == n {
		copy(f.logits, s.logits)
		f.at = n
	}
	return f, nil
}
