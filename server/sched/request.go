package sched

import (
	"context"
	"io"
	"sync"
	"time"

	"graphrun/engine"
)

// Request asks for an answer to a prompt.
type Request struct {
	Prompt  []int32
	Options engine.GenerateOptions
	// Partition is whose request it is. The prefix cache shares nothing between
	// partitions, and the queue gives each its turn.
	Partition string
	// PromptLogprobs asks how likely each token of the prompt was, with the
	// PromptTop most likely tokens at its place. The whole prompt is then
	// computed, whatever the prefix cache has.
	PromptLogprobs bool
	PromptTop      int
	// NoAnswer ends the request when the prompt is computed. (MaxTokens of 0
	// sets no limit.)
	NoAnswer bool
	// ID is for the log.
	ID string
}

// Result says how a request went.
type Result struct {
	// Reason says why the answer ended: engine.StopCancelled when somebody left,
	// engine.StopError when the engine or the sampler failed, engine.StopNone
	// while it goes on.
	Reason       engine.StopReason
	PromptTokens int
	// CachedTokens of the prompt were found in the prefix cache.
	CachedTokens int
	OutputTokens int
	// PromptLogprobs has an entry for each token of the prompt, the first of
	// which is not Known. It is complete when the first token is there.
	PromptLogprobs []engine.Score
	// Preempted counts how often the answer had to make room for older ones and
	// was computed again.
	Preempted int

	Queued time.Time // when it was submitted
	Start  time.Time // when it first left the queue; zero if it never did
	First  time.Time // its first token; zero if there is none
	Last   time.Time // its end
}

// Stream gives the tokens of an answer as they come. Tokens wait in it until
// they are read, so a slow reader holds up nobody; there are never more than
// the context has positions. Next and Close may be called from different
// goroutines.
type Stream struct {
	s *Scheduler
	r *request

	mu     sync.Mutex
	buf    []engine.Token // read from buf[head:]
	head   int
	ended  bool
	err    error // after the last token; nil is io.EOF
	result Result
	vector []float32     // of an embedding, at the end
	wake   chan struct{} // holds a value when something changed
}

// Next returns the next token, and io.EOF after the last. When ctx ends first
// the request is cancelled and ctx.Err() returned. Other errors are those of
// the request: the error of the context it was submitted with, ErrClosed after
// Close, an *engine.NonFiniteError, *QueueFullError when it had to leave a full
// queue, and the like. Tokens that came before an error are returned first.
//
// A token may carry text only, see engine.NoToken.
func (st *Stream) Next(ctx context.Context) (engine.Token, error) {
	for {
		st.mu.Lock()
		if st.head < len(st.buf) {
			tok := st.buf[st.head]
			st.buf[st.head] = engine.Token{}
			if st.head++; st.head == len(st.buf) {
				st.buf, st.head = st.buf[:0], 0
			}
			st.mu.Unlock()
			return tok, nil
		}
		ended, err := st.ended, st.err
		st.mu.Unlock()
		if ended {
			st.signal() // for others who wait
			if err == nil {
				err = io.EOF
			}
			return engine.Token{ID: engine.NoToken}, err
		}
		select {
		case <-st.wake:
		case <-ctx.Done():
			st.s.cancel(st.r, ctx.Err())
			return engine.Token{ID: engine.NoToken}, ctx.Err()
		}
	}
}

// Result returns how the request went so far; after the end it does not change.
func (st *Stream) Result() Result {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.result
}

// Close cancels the request if it has not ended. It does not wait.
func (st *Stream) Close() { st.s.cancel(st.r, ErrClosed) }

func (st *Stream) signal() {
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

// push adds a token and what f changes of the result.
func (st *Stream) push(tok engine.Token, f func(r *Result)) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended {
		return
	}
	f(&st.result)
	if tok.ID != engine.NoToken || tok.Text != "" {
		st.buf = append(st.buf, tok)
		st.signal()
	}
}

// update changes the result.
func (st *Stream) update(f func(r *Result)) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.ended {
		f(&st.result)
	}
}

// end ends the stream once.
func (st *Stream) end(reason engine.StopReason, err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended {
		return
	}
	st.ended, st.err = true, err
	st.result.Reason, st.result.Last = reason, time.Now()
	st.signal()
}
