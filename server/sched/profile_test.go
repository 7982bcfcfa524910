package sched

import (
	"context"
	"errors"
	"testing"
	"time"

	"graphrun/engine"
	"graphrun/profile"
)

// TestProfile watches steps while an answer is written, and gives the program
// back as it was.
func TestProfile(t *testing.T) {
	m := open(t, "llama-q8_0", engine.Options{Context: 128, MaxSeqs: 2})
	s := start(t, m, Options{})
	q := Request{Prompt: prompt(m, 20, 1), Options: engine.GenerateOptions{MaxTokens: 30, IgnoreEOG: true}}
	want := openAlone(t, "llama-q8_0", 128).answer(t, q)
	type result struct {
		r   *profile.Report
		err error
	}
	done := make(chan result)
	go func() {
		r, err := s.Profile(t.Context(), 12, 1)
		done <- result{r, err}
	}()
	for s.watched() == nil {
		time.Sleep(time.Millisecond)
	}
	if _, err := s.Profile(t.Context(), 1, 1); !errors.Is(err, ErrWatched) {
		t.Errorf("a second profile at the same time: %v, want ErrWatched", err)
	}
	st, err := s.Submit(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	got := read(t.Context(), st)
	same(t, "the answer under a profile", got, want)
	res := <-done
	if res.err != nil {
		t.Fatal(res.err)
	}
	steps := map[string]int{}
	for _, p := range res.r.Phases {
		steps[p.Name] = p.Steps
		if len(p.Ops) < 5 || p.NS <= 0 {
			t.Errorf("phase %s has %d operations in %d ns", p.Name, len(p.Ops), p.NS)
		}
	}
	if steps["prefill"] != 1 || steps["decode"] != 11 {
		t.Errorf("steps %v, want 1 of prefill and 11 of decode", steps)
	}
	if s.watched() != nil {
		t.Error("the watch goes on after its profile")
	}
}

func (s *Scheduler) watched() *watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watch
}

// TestProfileOfNothing ends with the context where no step comes.
func TestProfileOfNothing(t *testing.T) {
	m := open(t, "llama-q8_0", engine.Options{Context: 64})
	s := start(t, m, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	r, err := s.Profile(ctx, 5, 1)
	if err != nil || len(r.Phases) != 0 {
		t.Errorf("found %v, %v; want an empty report", r, err)
	}
	s.Close()
	if _, err := s.Profile(t.Context(), 5, 1); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed scheduler: %v, want ErrClosed", err)
	}
}
