package sched

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"time"

	"graphrun/engine"
)

// loop runs steps while there is work and sleeps otherwise.
func (s *Scheduler) loop() {
	defer close(s.done)
	defer s.shut()
	for {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return
		}
		if !s.work() {
			s.rest()
			s.mu.Unlock()
			<-s.wake
			continue
		}
		s.mu.Unlock()
		if s.batch == nil {
			b, err := s.m.Acquire(s.ctx)
			if err != nil {
				continue // closed
			}
			s.batch = b
		}
		s.turn()
	}
}

// work reports whether there is anything to do.
func (s *Scheduler) work() bool {
	return s.queue.n+len(s.evicted)+len(s.running)+len(s.embeds) > 0
}

// rest gives back what is held only while there is work.
func (s *Scheduler) rest() {
	s.unwatch()
	if s.batch != nil {
		s.batch.Release()
		s.batch = nil
	}
	s.queue.tidy()
	if s.draining {
		select {
		case <-s.idle:
		default:
			close(s.idle)
		}
	}
}

// shut ends all requests of a closed scheduler.
func (s *Scheduler) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Concat(s.evicted, s.running, s.embeds)
	s.queue.each(func(r *request) bool { all = append(all, r); return true })
	for _, r := range all {
		s.drop(r)
		s.counts.Cancelled++
		s.end(r, engine.StopCancelled, ErrClosed)
	}
	s.evicted, s.running, s.embeds = nil, nil, nil
	s.queue.init(s.o.MaxQueue)
	s.queue.n = 0
	s.prefix.clear()
	s.rest()
	s.stop()
}

// drop gives back what a request holds of the model.
func (s *Scheduler) drop(r *request) {
	if r.seq != nil {
		r.seq.Drop()
		r.seq = nil
	}
	if r.embedding != nil {
		r.embedding.Close()
	}
}

// turn plans a step, runs it and hands out what came of it.
func (s *Scheduler) turn() {
	s.mu.Lock()
	s.reap()
	s.admit()
	embed := s.plan()
	ctx := s.begin()
	s.mu.Unlock()
	if s.before != nil {
		n := 0
		for i := range s.items {
			n += len(s.items[i].Tokens)
		}
		s.before(n)
	}
	if len(s.items) > 0 {
		if err := s.run(ctx); err != nil {
			s.mu.Lock()
			s.failed(err)
			s.mu.Unlock()
		} else {
			s.choose()
			s.mu.Lock()
			s.deliver()
			s.mu.Unlock()
		}
	}
	if embed != nil {
		s.embed(embed)
	}
	s.mu.Lock()
	s.finish()
	s.mu.Unlock()
}

// reap gives back what requests hold whose clients have left.
func (s *Scheduler) reap() {
	left := func(r *request) bool {
		if r.err == nil {
			return false
		}
		s.keep(r)
		s.leave(r)
		s.counts.Cancelled++
		s.end(r, engine.StopCancelled, r.err)
		return true
	}
	s.running = slices.DeleteFunc(s.running, left)
	s.embeds = slices.DeleteFunc(s.embeds, left)
}

// keep puts what a request has computed into the prefix cache.
func (s *Scheduler) keep(r *request) {
	if r.seq != nil && r.seq.Len() > 0 {
		s.prefix.insert(r.Partition, r.text, r.seq, r.seq.Len(), true)
		s.prefix.ends(r.Partition, r.text, r.seq.Len())
		s.prefix.ends(r.Partition, r.text, min(len(r.Prompt), r.seq.Len()))
	}
}

// leave takes a request out of work; the caller takes it off its list.
func (s *Scheduler) leave(r *request) {
	s.drop(r)
	r.part.running--
}

// begin makes the context of a step, which ends early when every client in it
// has left.
func (s *Scheduler) begin() context.Context {
	s.live = len(s.step)
	if s.stepCtx == nil || s.stepCtx.Err() != nil {
		s.stepCtx, s.abandon = context.WithCancel(s.ctx)
	}
	return s.stepCtx
}

// run runs the step. A panic in it is an error.
func (s *Scheduler) run(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
			s.log.Error("a step panicked", "value", v, "stack", string(debug.Stack()))
		}
	}()
	return s.observe(func() error { return s.batch.Step(ctx, s.items) })
}

// failed deals with a step of which nothing was computed.
func (s *Scheduler) failed(err error) {
	var bad *engine.NonFiniteError
	var full *engine.PagesError
	switch {
	case s.ctx.Err() != nil || s.stepCtx.Err() != nil:
		// Closed, or all have left: the next turn sees to it.
	case errors.As(err, &bad):
		s.fail(s.step[bad.Item], err) // the others try again
	case errors.As(err, &full) && len(s.running) > 1:
		// Somebody beside the scheduler took pages.
		s.preempt(s.running[len(s.running)-1])
	default:
		for _, r := range slices.Clone(s.step) {
			s.fail(r, err)
		}
	}
}

// fail ends a running request with an error.
func (s *Scheduler) fail(r *request, err error) {
	s.log.Warn("request failed", "id", r.ID, "error", err)
	s.running = slices.DeleteFunc(s.running, func(o *request) bool { return o == r })
	s.leave(r)
	s.counts.Failed++
	s.end(r, engine.StopError, err)
}

// deliver gives the tokens that were chosen to their streams.
func (s *Scheduler) deliver() {
	now := time.Now()
	for i, r := range s.step {
		if r.err != nil {
			continue // reap sees to it
		}
		n := r.seq.Len()
		if prompting := s.items[i].Rows != engine.RowsLast || len(s.items[i].Tokens) > 1 || n == len(r.Prompt); prompting {
			s.computed(r, n)
		} else if n%engine.PageSize == 0 {
			s.prefix.insert(r.Partition, r.text, r.seq, n, false)
		}
		j := &r.result
		if !j.chosen {
			continue
		}
		j.chosen = false
		if j.err != nil {
			s.fail(r, j.err)
			continue
		}
		if r.NoAnswer {
			r.stream.update(func(o *Result) { o.PromptLogprobs = r.sums })
			s.complete(r, engine.StopLength)
			continue
		}
		if j.tok.ID != engine.NoToken {
			r.text = append(r.text, j.tok.ID)
			r.part.served += answerCost
			s.counts.GeneratedTokens++
		}
		r.stream.push(j.tok, func(o *Result) {
			if o.First.IsZero() {
				o.First, o.PromptLogprobs = now, r.sums
			}
			if j.tok.ID != engine.NoToken {
				o.OutputTokens++
			}
		})
		if r.answer.Done() {
			s.complete(r, r.answer.Reason())
		}
	}
}

// computed notes that n tokens of a prompt are computed.
func (s *Scheduler) computed(r *request, n int) {
	tail := n == len(r.text) && r.twins > 0 // others wait for all of it
	s.prefix.insert(r.Partition, r.text, r.seq, n, tail)
	if n == len(r.text) {
		s.prefix.ends(r.Partition, r.text, n-n%engine.PageSize)
	}
}

// complete ends a running request that has its answer.
func (s *Scheduler) complete(r *request, reason engine.StopReason) {
	s.keep(r)
	s.running = slices.DeleteFunc(s.running, func(o *request) bool { return o == r })
	s.leave(r)
	s.counts.Finished++
	s.end(r, reason, nil)
}

// finish ends a turn.
func (s *Scheduler) finish() {
	for _, r := range s.step {
		r.chunk = 0
	}
	s.unwatch()
	s.step, s.items = s.step[:0], s.items[:0]
	s.counts.Steps++
	s.progress = time.Now()
	s.live = 0
}
