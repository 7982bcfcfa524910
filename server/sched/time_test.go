package sched

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"graphrun/engine"
)

// perToken is what a token costs in the bubbles below, where a step takes the
// time of its tokens and nothing else takes any.
const perToken = time.Millisecond

func slow(tokens int) { time.Sleep(time.Duration(tokens) * perToken) }

// bubble runs a test in which time is made up.
func bubble(t *testing.T, m *engine.Model, o Options, f func(t *testing.T, s *Scheduler)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(m, o, slow)
		defer s.Close()
		f(t, s)
	})
	unused(t, m)
}

func submit(t *testing.T, s *Scheduler, ctx context.Context, q Request) *Stream {
	t.Helper()
	st, err := s.Submit(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// TestStall: while a long prompt is computed, answers get a token at least once
// in a chunk.
func TestStall(t *testing.T) {
	m := open(t, "llama-q8_0", engine.Options{Context: 2048, Chunk: 512, MaxSeqs: 4})
	bubble(t, m, Options{Chunk: 50}, func(t *testing.T, s *Scheduler) {
		a := submit(t, s, t.Context(), Request{Prompt: prompt(m, 5, 1), Options: greedy(40)})
		if _, err := a.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		long := submit(t, s, t.Context(), Request{Prompt: prompt(m, 600, 2), Options: greedy(1)})
		last, worst := time.Now(), time.Duration(0)
		for range 20 {
			if _, err := a.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
			worst, last = max(worst, time.Since(last)), time.Now()
		}
		if worst > 51*perToken {
			t.Errorf("an answer waited %v, longer than a chunk of 50 and its own token", worst)
		}
		got := read(t.Context(), long)
		if wait := got.res.First.Sub(got.res.Start); wait > (600+20)*perToken {
			t.Errorf("the long prompt took %v", wait)
		}
		// The same for an embedding beside them.
		vector := make(chan error)
		go func() {
			_, err := s.Embed(t.Context(), "", prompt(m, 300, 3), engine.EmbedOptions{})
			vector <- err
		}()
		read(t.Context(), a)
		if err := <-vector; err != nil {
			t.Error(err)
		}
	})
}

// TestShortAndLong: a short prompt does not wait for a long one to end, and many
// short ones do not keep a long one from going on.
func TestShortAndLong(t *testing.T) {
	long(t)
	m := open(t, "llama-q8_0", engine.Options{Context: 2048, Chunk: 100, MaxSeqs: 4})
	bubble(t, m, Options{Chunk: 100, MaxQueue: 1000}, func(t *testing.T, s *Scheduler) {
		long := submit(t, s, t.Context(), Request{Prompt: prompt(m, 2000, 1), Options: greedy(1)})
		time.Sleep(perToken)
		short := submit(t, s, t.Context(), Request{Prompt: prompt(m, 20, 2), Options: greedy(1)})
		if got := read(t.Context(), short); got.res.First.Sub(got.res.Queued) > 200*perToken {
			t.Errorf("the short prompt took %v", got.res.First.Sub(got.res.Queued))
		}
		for i := range 200 {
			submit(t, s, t.Context(), Request{Prompt: prompt(m, 90, uint64(10+i)), Options: greedy(1)})
		}
		if got := read(t.Context(), long); got.res.First.Sub(got.res.Queued) > 2*2000*perToken+300*perToken {
			t.Errorf("the long prompt took %v", got.res.First.Sub(got.res.Queued))
		}
	})
}

// TestPartitionsTakeTurns: one client with a hundred requests does not hold up
// another with one.
func TestPartitionsTakeTurns(t *testing.T) {
	m := open(t, "llama-q8_0", engine.Options{Context: 256, Chunk: 64, MaxSeqs: 2})
	bubble(t, m, Options{}, func(t *testing.T, s *Scheduler) {
		q := Request{Prompt: prompt(m, 30, 1), Options: greedy(20), Partition: "many"}
		for range 100 {
			submit(t, s, t.Context(), q)
		}
		time.Sleep(perToken)
		q.Partition = "one"
		got := read(t.Context(), submit(t, s, t.Context(), q))
		if wait := got.res.First.Sub(got.res.Queued); wait > 250*perToken {
			t.Errorf("the only request of its client waited %v behind a hundred of another", wait)
		}
	})
}

// TestCancel: a request ends at once when its client leaves, in the queue, while
// its prompt is computed and while it is written; the others go on.
func TestCancel(t *testing.T) {
	m := open(t, "llama-q8_0", engine.Options{Context: 1024, Chunk: 100, MaxSeqs: 2})
	bubble(t, m, Options{}, func(t *testing.T, s *Scheduler) {
		ctx, cancel := context.WithCancel(t.Context())
		writing := submit(t, s, ctx, Request{Prompt: prompt(m, 5, 1), Options: greedy(500)})
		reading := submit(t, s, ctx, Request{Prompt: prompt(m, 900, 2), Options: greedy(5)})
		queued := submit(t, s, ctx, Request{Prompt: prompt(m, 5, 3), Options: greedy(5)})
		other := submit(t, s, t.Context(), Request{Prompt: prompt(m, 7, 4), Options: greedy(5)})
		if _, err := writing.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if st := s.Stats(); st.Running != 2 || st.Queued != 2 {
			t.Errorf("%d run and %d wait, want 2 and 2", st.Running, st.Queued)
		}
		cancel()
		left := time.Now()
		for name, st := range map[string]*Stream{"writing": writing, "reading": reading, "queued": queued} {
			got := read(t.Context(), st)
			if !errors.Is(got.err, context.Canceled) || got.res.Reason != engine.StopCancelled || time.Since(left) > 0 {
				t.Errorf("%s: %v, %s, after %v", name, got.err, got.res.Reason, time.Since(left))
			}
		}
		got := read(t.Context(), other)
		if got.err != nil || len(got.tokens) != 5 {
			t.Errorf("the other: %v after %d tokens", got.err, len(got.tokens))
		}
		// The step at hand was abandoned, for nobody wanted it.
		if wait := got.res.Start.Sub(left); wait > 100*perToken {
			t.Errorf("the other waited %v", wait)
		}
		synctest.Wait()
		if st := s.Stats(); st.Running+st.Queued != 0 || st.Cancelled != 3 || st.Full.Used != 0 {
			t.Errorf("%+v", st)
		}

		// The reader's own context, and Close.
		for what, end := range map[string]func(st *Stream, ctx context.Context) error{
			"Next": func(st *Stream, ctx context.Context) error { return read(ctx, st).err },
			"Close": func(st *Stream, ctx context.Context) error {
				<-ctx.Done()
				st.Close()
				st.Close()
				err := read(t.Context(), st).err
				if errors.Is(err, ErrClosed) {
					return context.DeadlineExceeded
				}
				return err
			},
		} {
			st := submit(t, s, t.Context(), Request{Prompt: prompt(m, 5, 5), Options: greedy(500)})
			ctx, cancel := context.WithTimeout(t.Context(), 90*perToken)
			if err := end(st, ctx); !errors.Is(err, context.DeadlineExceeded) || st.Result().Reason != engine.StopCancelled {
				t.Errorf("%s: %v, %s", what, err, st.Result().Reason)
			}
			cancel()
		}
	})
}

// TestSlowReader: tokens wait for who reads late, and nobody else does.
func TestSlowReader(t *testing.T) {
	m := open(t, "llama-q8_0", engine.Options{Context: 256, Chunk: 64, MaxSeqs: 2})
	bubble(t, m, Options{}, func(t *testing.T, s *Scheduler) {
		a := submit(t, s, t.Context(), Request{Prompt: prompt(m, 5, 1), Options: greedy(100)})
		b := submit(t, s, t.Context(), Request{Prompt: prompt(m, 5, 2), Options: greedy(100)})
		got := read(t.Context(), b)
		if d := got.res.Last.Sub(got.res.Queued); d > 220*perToken {
			t.Errorf("the fast reader's answer took %v", d)
		}
		time.Sleep(time.Hour)
		if late := read(t.Context(), a); len(late.tokens) != 100 || late.res.Last.Sub(got.res.Last) > perToken {
			t.Errorf("the slow reader got %d tokens", len(late.tokens))
		}
	})
}

// TestDrain: no more requests, those at hand are answered; Close ends them.
func TestDrain(t *testing.T) {
	m := open(t, "llama-q8_0", engine.Options{Context: 256, Chunk: 64, MaxSeqs: 2})
	bubble(t, m, Options{}, func(t *testing.T, s *Scheduler) {
		var streams []*Stream
		for i := range 4 {
			streams = append(streams, submit(t, s, t.Context(), Request{Prompt: prompt(m, 5, uint64(i)), Options: greedy(50)}))
		}
		short, cancel := context.WithTimeout(t.Context(), 20*perToken)
		defer cancel()
		if err := s.Drain(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a drain that takes long: %v", err)
		}
		if _, err := s.Submit(t.Context(), Request{Prompt: []int32{1}}); !errors.Is(err, ErrDraining) {
			t.Errorf("a request while draining: %v", err)
		}
		if err := s.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		for _, st := range streams {
			if got := read(t.Context(), st); got.err != nil || len(got.tokens) != 50 {
				t.Errorf("%d tokens, %v", len(got.tokens), got.err)
			}
		}
	})
	bubble(t, m, Options{}, func(t *testing.T, s *Scheduler) {
		var streams []*Stream
		for i := range 4 {
			streams = append(streams, submit(t, s, t.Context(), Request{Prompt: prompt(m, 5, uint64(i)), Options: greedy(50)}))
		}
		time.Sleep(50 * perToken)
		s.Close()
		for _, st := range streams {
			if got := read(t.Context(), st); !errors.Is(got.err, ErrClosed) || got.res.Reason != engine.StopCancelled {
				t.Errorf("%s, %v", got.res.Reason, got.err)
			}
		}
		if _, err := s.Submit(t.Context(), Request{Prompt: []int32{1}}); !errors.Is(err, ErrClosed) {
			t.Errorf("a request after Close: %v", err)
		}
	})
}

// TestStuck: health is red when work waits and nothing moves, and never because
// there was a rest before.
func TestStuck(t *testing.T) {
	m := open(t, "llama-q8_0", engine.Options{Context: 256, Chunk: 64, MaxSeqs: 1})
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan bool)
		s := newScheduler(m, Options{}, func(int) { <-hold })
		stuck := func() bool { return s.Stats().Stuck(time.Now(), time.Minute) }
		time.Sleep(time.Hour)
		if stuck() {
			t.Error("stuck without work")
		}
		st := submit(t, s, t.Context(), Request{Prompt: []int32{1}, Options: greedy(2)})
		synctest.Wait()
		if stuck() {
			t.Error("stuck as soon as work comes")
		}
		time.Sleep(2 * time.Minute)
		if !stuck() {
			t.Error("two minutes in a step are not noticed")
		}
		hold <- true
		synctest.Wait()
		if stuck() {
			t.Error("stuck although a step has ended")
		}
		hold <- true
		if got := read(t.Context(), st); got.err != nil {
			t.Error(got.err)
		}
		s.Close()
	})
}

// TestFullQueue: what does not fit the queue is refused, and a second client
// still finds a place.
func TestFullQueue(t *testing.T) {
	m := open(t, "llama-q8_0", engine.Options{Context: 256, Chunk: 64, MaxSeqs: 1})
	bubble(t, m, Options{MaxQueue: 4}, func(t *testing.T, s *Scheduler) {
		var streams []*Stream
		q := Request{Prompt: prompt(m, 5, 1), Options: greedy(20), Partition: "a"}
		for i := range 5 {
			streams = append(streams, submit(t, s, t.Context(), q))
			if i == 0 {
				synctest.Wait() // it runs
			}
		}
		var full *QueueFullError
		if _, err := s.Submit(t.Context(), q); !errors.As(err, &full) || full.Max != 4 {
			t.Errorf("got %v", err)
		}
		q.Partition = "b"
		streams = append(streams, submit(t, s, t.Context(), q))
		for i, st := range streams {
			got := read(t.Context(), st)
			if refused := errors.As(got.err, &full); refused != (i == 4) {
				t.Errorf("request %d: %v", i, got.err)
			}
		}
		if st := s.Stats(); st.Refused != 2 || st.Finished != 5 {
			t.Errorf("%+v", st)
		}
	})
}

// TestRefused: what can never be answered is refused at once, with numbers.
func TestRefused(t *testing.T) {
	m := open(t, "llama-q8_0", engine.Options{Context: 100, MaxSeqs: 2})
	s := start(t, m, Options{})
	vocab := m.Limits().Vocab
	for _, c := range []struct {
		q    Request
		want error
	}{
		{Request{}, engine.ErrEmpty},
		{Request{Prompt: prompt(m, 100, 1)}, &engine.ContextError{Have: 100, Want: 101}},
		{Request{Prompt: prompt(m, 101, 1), NoAnswer: true}, &engine.ContextError{Have: 100, Want: 101}},
		{Request{Prompt: []int32{1, -1}}, &TokenError{Index: 1, ID: -1, Vocab: vocab}},
		{Request{Prompt: []int32{int32(vocab)}}, &TokenError{Index: 0, ID: int32(vocab), Vocab: vocab}},
	} {
		if _, err := s.Submit(t.Context(), c.q); err == nil || err.Error() != c.want.Error() {
			t.Errorf("got %v, want %v", err, c.want)
		}
	}
	if _, err := s.Submit(t.Context(), Request{Prompt: []int32{1}, Options: engine.GenerateOptions{MaxTokens: -1}}); err == nil {
		t.Error("a negative number of tokens is accepted")
	}
	if _, err := s.Embed(t.Context(), "", prompt(m, 101, 1), engine.EmbedOptions{}); err == nil {
		t.Error("a text beyond the context is embedded")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Submit(ctx, Request{Prompt: []int32{1}}); !errors.Is(err, context.Canceled) {
		t.Errorf("a client that has left: %v", err)
	}
	// KV-03: an answer without end ends with the context.
	for range 2 {
		got := ask(t, s, Request{Prompt: prompt(m, 40, 1), Options: engine.GenerateOptions{IgnoreEOG: true}})
		if len(got.tokens) != 60 || got.res.Reason != engine.StopLength {
			t.Errorf("%d tokens, %s; want 60, length", len(got.tokens), got.res.Reason)
		}
	}
	if got := ask(t, s, Request{Prompt: prompt(m, 99, 1), Options: greedy(0)}); len(got.tokens) != 1 {
		t.Errorf("%d tokens after 99 of 100, want 1", len(got.tokens))
	}
}
