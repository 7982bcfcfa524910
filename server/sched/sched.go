package sched

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"graphrun/engine"
)

// Options say how requests are scheduled. The zero value is right but for
// CachePages.
type Options struct {
	// MaxQueue is how many requests may wait, 0 is 256.
	MaxQueue int
	// MaxRunning is how many answers are written at once, 0 is as many as the
	// model was opened for: engine.Options.MaxSeqs.
	MaxRunning int
	// Chunk is how many tokens of prompts a step takes at most while answers are
	// being written: 0 is 128. Alone, prompts fill whole steps.
	Chunk int
	// CachePages is how many pages of engine.PageSize tokens the prefix cache
	// may keep: -1 is all that nobody else needs, 0 turns it off.
	CachePages int
	// Samplers is how many goroutines choose tokens at once, 0 is GOMAXPROCS.
	Samplers int
	// Logger gets what goes wrong and, at debug level, what happens; nil is none.
	// It never gets the text of a request.
	Logger *slog.Logger
}

const (
	defaultQueue = 256
	defaultChunk = 128
)

// Scheduler runs the requests of many clients in one model.
type Scheduler struct {
	m     *engine.Model
	cache *engine.Cache
	o     Options
	log   *slog.Logger
	wake  chan struct{} // holds a value when the loop has to look again
	done  chan struct{} // closed when the loop has ended
	ctx   context.Context
	stop  context.CancelFunc

	mu       sync.Mutex
	queue    queue
	evicted  []*request // preempted, the oldest first; they go before the queue
	running  []*request // in the order they were admitted
	embeds   []*request // running too, one at a time
	prefix   *prefixCache
	number   uint64 // requests so far
	draining bool
	closed   bool
	idle     chan struct{} // closed when a draining scheduler has nothing left
	counts   Counts
	watch    *watch    // the profile that is being taken
	progress time.Time // the end of the last step, or when work came after a rest

	live    int                // requests of the running step that nobody has cancelled
	abandon context.CancelFunc // ends the running step

	// Of the loop alone.
	batch   *engine.Batch
	items   []engine.Item
	step    []*request
	jobs    []job
	stepCtx context.Context
	embedTo bool             // the next turn's prompt chunk is an embedding's
	before  func(tokens int) // for tests: called before each step
}

// New starts a scheduler for m: one goroutine, which holds m's batch while there
// is work and sleeps otherwise. Close ends it, and must come before m.Close.
func New(m *engine.Model, o Options) *Scheduler { return newScheduler(m, o, nil) }

func newScheduler(m *engine.Model, o Options, before func(tokens int)) *Scheduler {
	l := m.Limits()
	if o.MaxQueue <= 0 {
		o.MaxQueue = defaultQueue
	}
	if o.MaxRunning <= 0 || o.MaxRunning > l.Seqs {
		o.MaxRunning = l.Seqs
	}
	if o.Chunk <= 0 {
		o.Chunk = defaultChunk
	}
	o.Chunk = min(o.Chunk, l.Step)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Scheduler{m: m, cache: m.Cache(), o: o, log: o.Logger, wake: make(chan struct{}, 1), done: make(chan struct{}),
		prefix: newPrefixCache(m.Cache(), o.CachePages), idle: make(chan struct{}), progress: time.Now(), before: before}
	s.queue.init(o.MaxQueue)
	s.ctx, s.stop = context.WithCancel(context.Background())
	go s.loop()
	return s
}

// request is a Request on its way.
type request struct {
	Request
	number uint64 // in the order they came
	stream *Stream
	unhook func() bool // stops watching the client's context
	part   *partition
	state  state
	err    error // why it was cancelled

	answer *engine.Answer
	seq    *engine.Sequence
	text   []int32 // prompt and answer; what is beyond seq.Len() is to be computed
	order  uint64  // when it was first admitted
	chunk  int     // tokens it has in this step
	scores int     // prompt tokens scored
	twins  int     // requests that wait for its prompt
	sums   []engine.Score
	result result // of this step

	embedding *engine.Embedding
}

type state uint8

const (
	waiting state = iota
	preempted
	running
	ended
)

// left returns the tokens to be computed before the next can be chosen.
func (r *request) left() int { return len(r.text) - r.seq.Len() }

// prompting reports whether the prompt, or a text that is computed again, is not
// done.
func (r *request) prompting() bool {
	return r.seq.Len() == 0 || r.left() > 1 || len(r.text) == len(r.Prompt)
}

// Submit puts a request into the queue and returns at once. It fails with
//
//   - engine.ErrEmpty or *TokenError for a prompt the model cannot read,
//   - *engine.ContextError for one that leaves no room for an answer, even in an
//     empty server,
//   - engine.Model.NewAnswer's errors for bad options,
//   - *QueueFullError, ErrDraining, ErrClosed, ctx.Err().
//
// The request is cancelled when ctx ends, wherever it is.
func (s *Scheduler) Submit(ctx context.Context, q Request) (*Stream, error) {
	r := &request{Request: q, text: slices.Clone(q.Prompt)}
	if err := s.check(r); err != nil {
		return nil, err
	}
	return s.enter(ctx, r)
}

// check refuses what can never be answered.
func (s *Scheduler) check(r *request) (err error) {
	l := s.m.Limits()
	want := len(r.Prompt)
	if !r.NoAnswer {
		want++
	}
	switch {
	case len(r.Prompt) == 0:
		return engine.ErrEmpty
	case want > l.Context:
		return &engine.ContextError{Have: l.Context, Want: want}
	}
	for i, id := range r.Prompt {
		if id < 0 || int(id) >= l.Vocab {
			return &TokenError{Index: i, ID: id, Vocab: l.Vocab}
		}
	}
	if !r.NoAnswer {
		r.answer, err = s.m.NewAnswer(r.Prompt, r.Options)
	}
	return err
}

// enter puts a checked request into the queue.
func (s *Scheduler) enter(ctx context.Context, r *request) (*Stream, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	st := &Stream{s: s, r: r, wake: make(chan struct{}, 1)}
	st.result = Result{PromptTokens: len(r.Prompt), Queued: time.Now()}
	r.stream = st
	s.mu.Lock()
	switch {
	case s.closed:
		s.mu.Unlock()
		return nil, ErrClosed
	case s.draining:
		s.mu.Unlock()
		return nil, ErrDraining
	}
	s.number++
	r.number = s.number
	leaves, err := s.queue.push(r)
	if err != nil {
		s.counts.Refused++
		s.mu.Unlock()
		return nil, err
	}
	if leaves != nil {
		s.counts.Refused++
		s.end(leaves, engine.StopError, &QueueFullError{Queued: s.queue.n, Max: s.queue.max})
	}
	if len(s.running)+len(s.embeds)+len(s.evicted) == 0 && s.queue.n == 1 {
		s.progress = time.Now() // the rest before does not count
	}
	s.mu.Unlock()
	// The hook may run at once, and cancel takes the lock.
	unhook := context.AfterFunc(ctx, func() { s.cancel(r, ctx.Err()) })
	s.mu.Lock()
	if r.state == ended {
		unhook()
	}
	r.unhook = unhook
	s.mu.Unlock()
	s.look()
	return st, nil
}

// look wakes the loop.
func (s *Scheduler) look() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// cancel ends a request that its client has left.
func (s *Scheduler) cancel(r *request, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.state {
	case ended:
		return
	case waiting:
		s.queue.remove(r)
	case preempted:
		r.part.running--
		s.evicted = slices.DeleteFunc(s.evicted, func(o *request) bool { return o == r })
	case running:
		if r.err != nil {
			return
		}
		// The loop gives back its pages; the step goes on for the others.
		r.err = err
		if r.chunk > 0 {
			if s.live--; s.live == 0 {
				s.abandon()
			}
		}
		r.stream.end(engine.StopCancelled, err)
		s.look()
		return
	}
	s.counts.Cancelled++
	s.end(r, engine.StopCancelled, err)
	s.look() // a drain may be over
}

// end ends a request that has no place in queue or step any more.
func (s *Scheduler) end(r *request, reason engine.StopReason, err error) {
	r.state = ended
	if r.unhook != nil {
		r.unhook()
	}
	r.stream.end(reason, err)
	// A stream that somebody keeps keeps nothing else.
	r.answer, r.text, r.Prompt, r.Options, r.sums, r.embedding = nil, nil, nil, engine.GenerateOptions{}, nil, nil
}

// Drain takes no more requests and waits until those that it has are answered.
// When ctx ends first they go on, and ctx.Err() is returned.
func (s *Scheduler) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	s.look()
	select {
	case <-s.idle:
		return nil
	case <-s.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends all requests with ErrClosed, and waits until the running step has
// ended and all pages are given back.
func (s *Scheduler) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.look()
	<-s.done
	return nil
}
