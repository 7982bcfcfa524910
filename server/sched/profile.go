package sched

import (
	"context"
	"errors"
	"time"

	"graphrun/backends"
	"graphrun/profile"
)

// ErrWatched says that the steps are being profiled for somebody else.
var ErrWatched = errors.New("sched: the steps are being profiled already; try again")

// watch is a profile that is being taken. The loop alone touches c; left and off
// are under the scheduler's lock.
type watch struct {
	c     *profile.Collector
	left  int  // steps to come
	off   bool // nobody wants more
	begun bool
	full  chan struct{} // closed when left is 0
	ended chan struct{} // closed when nothing is recorded any more
}

// Profile watches the next steps, as they come, and returns what they spent their
// time on: prompts, answers and steps that mix the two apart. It returns what
// there is when ctx ends, which may be nothing. One profile is taken at a time.
func (s *Scheduler) Profile(ctx context.Context, steps, threads int) (*profile.Report, error) {
	rec, ok := s.m.Program().(backends.Recorder)
	if !ok {
		return nil, errors.New("sched: this backend records no steps")
	}
	w := &watch{c: profile.New(rec, s.m.Graph.Name, threads), left: max(1, steps), full: make(chan struct{}), ended: make(chan struct{})}
	s.mu.Lock()
	switch {
	case s.closed:
		s.mu.Unlock()
		return nil, ErrClosed
	case s.watch != nil:
		s.mu.Unlock()
		return nil, ErrWatched
	}
	s.watch = w
	s.mu.Unlock()
	select {
	case <-w.full:
	case <-ctx.Done():
	case <-s.done:
		return nil, ErrClosed
	}
	s.mu.Lock()
	w.off = true
	s.mu.Unlock()
	s.look()
	select {
	case <-w.ended:
		return w.c.Report(profile.Roof{}), nil
	case <-s.done:
		return nil, ErrClosed
	}
}

// observe runs a step, under the watch if there is one.
func (s *Scheduler) observe(step func() error) error {
	s.mu.Lock()
	w := s.watch
	wanted := w != nil && w.left > 0
	s.mu.Unlock()
	if !wanted {
		return step()
	}
	if !w.begun {
		w.begun = true
		w.c.Start(false)
	}
	begin := time.Now()
	if err := step(); err != nil {
		return err
	}
	phase, tokens := "decode", 0
	ones := 0
	for i := range s.items {
		tokens += len(s.items[i].Tokens)
		if len(s.items[i].Tokens) == 1 {
			ones++
		}
	}
	switch ones {
	case len(s.items):
	case 0:
		phase = "prefill"
	default:
		phase = "mixed"
	}
	d := time.Since(begin)
	w.c.Step(phase, tokens, s.items[0].Seq.Len()-len(s.items[0].Tokens))
	w.c.Rest(phase, "engine", d-w.c.Last())
	w.c.Wall(phase, d)
	s.mu.Lock()
	if w.left--; w.left == 0 {
		close(w.full)
	}
	s.mu.Unlock()
	return nil
}

// unwatch ends a watch nobody waits for any more. The lock is held.
func (s *Scheduler) unwatch() {
	if w := s.watch; w != nil && w.off {
		if w.begun {
			w.c.Stop()
		}
		s.watch = nil
		close(w.ended)
	}
}
