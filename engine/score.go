package engine

import (
	"context"
	"math"
)

// Score is how likely the model found a token of a given text.
type Score struct {
	ID int32
	// Known is false for the first token of an empty session: nothing comes
	// before it, so it has no probability.
	Known   bool
	Logprob float64   // natural logarithm of its probability
	Rank    int       // tokens that were more likely
	Top     []Logprob // the most likely tokens at its place, as many as asked
}

// Score appends tokens to the text and returns for each how likely it was after
// those before it, with the top most likely ones beside it. It computes in
// chunks of as many tokens as rows of logits fit a step, so its memory does not
// grow with the text. Errors are those of Append; the tokens scored until then
// stay in the session and their scores are returned.
func (s *Session) Score(ctx context.Context, tokens []int32, top int) ([]Score, error) {
	if want := len(s.tokens) + len(tokens); want > s.m.limits.Context {
		return nil, &ContextError{Have: s.m.limits.Context, Want: want}
	}
	scores := make([]Score, 0, len(tokens))
	if len(tokens) == 0 {
		return scores, nil
	}
	first := Score{ID: tokens[0]}
	if len(s.tokens) > 0 {
		if err := s.ready(ctx); err != nil {
			return nil, err
		}
		first = score(s.logits, tokens[0], top)
	}
	scores = append(scores, first)
	err := s.each(ctx, tokens, func(i int, logits []float32) error {
		if i+1 < len(tokens) {
			scores = append(scores, score(logits, tokens[i+1], top))
		}
		return nil
	})
	return scores, err
}

// each appends tokens and calls f with the logits after each of them, which are
// valid during the call. An error of f ends it.
func (s *Session) each(ctx context.Context, tokens []int32, f func(i int, logits []float32) error) error {
	if s.m.headless() {
		return ErrNoHead
	}
	for done := 0; done < len(tokens); {
		b, err := s.m.Acquire(ctx)
		if err != nil {
			return err
		}
		n := min(len(tokens)-done, s.m.limits.Rows, s.m.limits.Step)
		s.item[0] = Item{Seq: s.seq, Tokens: tokens[done : done+n], Rows: RowsAll}
		if err = b.Step(ctx, s.item[:]); err == nil {
			s.tokens = append(s.tokens, tokens[done:done+n]...)
			copy(s.logits, b.Logits(&s.item[0], n-1))
			s.at = len(s.tokens)
			for k := 0; k < n && err == nil; k++ {
				err = f(done+k, b.Logits(&s.item[0], k))
			}
		}
		b.Release()
		if err != nil {
			return err
		}
		done += n
	}
	return nil
}

// ScoreToken returns how likely token id is under the logits before it, with the
// top most likely tokens beside it.
func ScoreToken(logits []float32, id int32, top int) Score { return score(logits, id, top) }

func score(logits []float32, id int32, top int) Score {
	sc := Score{ID: id, Known: true}
	sc.Logprob, sc.Top = logprobs(logits, id, top)
	for i, x := range logits {
		if x > logits[id] || x == logits[id] && int32(i) < id {
			sc.Rank++
		}
	}
	return sc
}

// logprobs returns the log-probability of id and of the top most likely tokens.
func logprobs(logits []float32, id int32, top int) (float64, []Logprob) {
	z := logSumExp(logits)
	var list []Logprob
	if top = min(top, len(logits)); top > 0 {
		list = topN(logits, make([]Logprob, 0, top), top)
		for i := range list {
			list[i].Logprob -= z
		}
	}
	return float64(logits[id]) - z, list
}

// logSumExp returns the logarithm of the sum of the exponentials of x.
func logSumExp(x []float32) float64 {
	top := math.Inf(-1)
	for _, v := range x {
		top = max(top, float64(v))
	}
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	return top + math.Log(sum)
}
