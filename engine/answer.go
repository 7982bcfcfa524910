package engine

import (
	"errors"
	"fmt"
	"slices"

	"graphrun/loaders"
)

// GenerateOptions say how an answer is generated and when it ends.
type GenerateOptions struct {
	SampleOptions
	// MaxTokens ends the answer after that many tokens. 0 sets no limit but the
	// context; a negative number is refused.
	MaxTokens int
	// Stop lists strings that end the answer. They are found across tokens and
	// are not part of the text. An empty string, or one that is not UTF-8, is
	// refused.
	Stop []string
	// EOG lists tokens that end the answer beside those of the vocabulary.
	EOG []int32
	// IgnoreEOG makes all tokens that end a generation ordinary ones.
	IgnoreEOG bool
	// Special writes control tokens into the text as they are spelled.
	Special bool
	// Logprobs asks for the log-probability of each token, and Top for the most
	// likely ones beside it; Top above 0 implies Logprobs.
	Logprobs bool
	Top      int
	// Drafter proposes tokens that Session.Generate then computes together: the
	// same answer in fewer steps. An Answer by itself does not look at it.
	// DraftTokens is how many it proposes for a step at most, 0 is
	// DefaultDraftTokens.
	Drafter     Drafter
	DraftTokens int
}

// NoToken is the ID of a Token that only carries text.
const NoToken int32 = -1

// Token is a step of an answer.
type Token struct {
	// ID is the token, or NoToken for text that was held back and that the end
	// of the answer made certain.
	ID int32
	// Text is the text that has become certain with the token: whole
	// characters, and nothing that may turn out to begin a stop string. It may
	// be empty, and may hold text of earlier tokens. Bytes that never become a
	// character are U+FFFD. Joined, the texts are the answer.
	Text string
	// Logprob is the natural logarithm of the token's probability under the
	// model's logits, before any sampling option. It is set on request only,
	// as is Top, most likely first, of equals the lower id.
	Logprob float64
	Top     []Logprob
}

// Logprob is a token with the logarithm of its probability.
type Logprob struct {
	ID      int32
	Logprob float64
}

// StopReason says why an answer ended.
type StopReason string

// The reasons.
const (
	StopNone      StopReason = ""          // it has not ended
	StopEOG       StopReason = "eog"       // a token that ends a generation
	StopString    StopReason = "stop"      // a stop string, or a constraint is Done
	StopLength    StopReason = "length"    // MaxTokens, or the context is full
	StopCancelled StopReason = "cancelled" // the context.Context ended
	StopError     StopReason = "error"
)

// Answer turns logits into the tokens and the text of one answer. It knows
// nothing of sessions and steps, so that a scheduler can drive many at once:
// compute the logits after the text, call Next, append the token, repeat.
type Answer struct {
	o       GenerateOptions
	tok     *loaders.Tokenizer
	context int
	sampler *Sampler
	stream  *loaders.Stream
	stop    *stopper
	n       int
	reason  StopReason
}

// NewAnswer returns an answer that continues history.
func (m *Model) NewAnswer(history []int32, o GenerateOptions) (*Answer, error) {
	if o.MaxTokens < 0 || o.Top < 0 {
		return nil, fmt.Errorf("engine: at most %d tokens and %d top log-probabilities are asked for; want 0 or more", o.MaxTokens, o.Top)
	}
	stop, err := newStopper(o.Stop)
	if err != nil {
		return nil, err
	}
	if o.Constraint != nil && o.IgnoreEOG {
		return nil, errors.New("engine: a constrained answer ends where its constraint lets it: IgnoreEOG cannot be combined with a Constraint")
	}
	so := o.SampleOptions
	if so.Constraint != nil {
		so.Constraint = newEndings(so.Constraint, m.Tokenizer, o.EOG)
	}
	for _, id := range m.Tokenizer.Vocab().Suppress {
		if int(id) < m.limits.Vocab {
			so.Suppress = append(slices.Clip(so.Suppress), id)
		}
	}
	sampler, err := NewSampler(m.limits.Vocab, so)
	if err != nil {
		return nil, err
	}
	sampler.pool = &m.scratch
	// The space that a vocabulary puts before a text is the answer's own when
	// there is text before it.
	text := slices.ContainsFunc(history, func(id int32) bool { return !m.Tokenizer.IsControl(id) })
	if t, ok := o.Constraint.(interface{ TrimSpace() }); ok && !text {
		t.TrimSpace()
	}
	a := &Answer{o: o, tok: m.Tokenizer, context: m.limits.Context, sampler: sampler, stop: stop,
		stream: m.Tokenizer.Stream(loaders.DecodeOptions{Special: o.Special, KeepPrefix: text})}
	a.full(len(history))
	if o.Constraint != nil && o.Constraint.Done() {
		a.reason = StopString
	}
	return a, nil
}

// full ends the answer when a text of n tokens leaves no room for one more.
// Prompt and answer together never exceed the context.
func (a *Answer) full(n int) {
	if n >= a.context {
		a.reason = StopLength
	}
}

// Done reports whether the answer has ended.
func (a *Answer) Done() bool { return a.reason != StopNone }

// Reason returns why it ended.
func (a *Answer) Reason() StopReason { return a.reason }

// Next chooses the token after history from the logits after it. The caller
// appends the token to its text, unless it is NoToken. After Next has made the
// answer Done, or has failed, it must not be called again.
func (a *Answer) Next(logits []float32, history []int32) (Token, error) {
	return a.next(logits, history, nil)
}

// next is Next where prop, unless it is nil, was proposed.
func (a *Answer) next(logits []float32, history []int32, prop *proposal) (Token, error) {
	id, err := a.sampler.verify(logits, history, prop)
	if err != nil {
		return Token{ID: NoToken}, err
	}
	if !a.o.IgnoreEOG && (a.tok.IsEOG(id) || slices.Contains(a.o.EOG, id)) {
		a.reason = StopEOG
		return Token{ID: NoToken, Text: a.flush()}, nil
	}
	tok := Token{ID: id}
	if a.o.Logprobs || a.o.Top > 0 {
		tok.Logprob, tok.Top = logprobs(logits, id, a.o.Top)
	}
	text, stopped := a.stop.push(a.stream.Push(id))
	tok.Text = text
	a.n++
	switch {
	case stopped:
		a.reason = StopString
	case a.o.Constraint != nil && a.o.Constraint.Done():
		a.reason = StopString
		tok.Text += a.flush()
	case a.n == a.o.MaxTokens:
		a.reason = StopLength
	default:
		a.full(len(history) + 1)
	}
	if a.reason == StopLength {
		tok.Text += a.flush()
	}
	return tok, nil
}

// flush returns what is left of the text at the end. What was held back is
// text after all, unless the bytes of a cut character complete a stop string.
func (a *Answer) flush() string {
	text, stopped := a.stop.push(a.stream.Flush())
	if stopped {
		return text
	}
	return text + a.stop.flush()
}
