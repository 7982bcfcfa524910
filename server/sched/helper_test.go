package sched

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"graphrun/engine"
)

// open opens one of the small models of the repository.
func open(t testing.TB, name string, o engine.Options) *engine.Model {
	t.Helper()
	o.Threads = 1
	o.Deterministic = true
	m, err := engine.Open(filepath.Join("..", "..", "testdata", "models", name+".gguf"), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// faults is a logger that fails the test on errors: a scheduler logs one only
// when it is itself at fault, or when a step or a sampler panics.
func faults(t testing.TB) *slog.Logger { return slog.New(errorsFail{slog.DiscardHandler, t}) }

type errorsFail struct {
	slog.Handler
	t testing.TB
}

func (h errorsFail) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }

func (h errorsFail) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool { h.t.Errorf("logged: %s: %s", r.Message, a); return true })
	return nil
}

func start(t testing.TB, m *engine.Model, o Options) *Scheduler {
	t.Helper()
	if o.Logger == nil {
		o.Logger = faults(t)
	}
	s := New(m, o)
	t.Cleanup(func() { s.Close() })
	return s
}

// prompt returns n tokens that look random.
func prompt(m *engine.Model, n int, seed uint64) []int32 {
	r := rand.New(rand.NewPCG(seed, 7))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = r.Int32N(int32(m.Limits().Vocab))
	}
	return ids
}

// answerOf is what came of a request.
type answerOf struct {
	tokens []engine.Token
	res    Result
	err    error
}

// read reads a stream to its end.
func read(ctx context.Context, st *Stream) answerOf {
	var a answerOf
	for {
		tok, err := st.Next(ctx)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				a.err = err
			}
			a.res = st.Result()
			return a
		}
		a.tokens = append(a.tokens, tok)
	}
}

// ask submits a request and reads its answer.
func ask(t testing.TB, s *Scheduler, q Request) answerOf {
	t.Helper()
	st, err := s.Submit(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	a := read(t.Context(), st)
	if a.err != nil {
		t.Fatal(a.err)
	}
	return a
}

// lone is a model that computes one text at a time, each from nothing.
type lone struct{ m *engine.Model }

func openAlone(t testing.TB, name string, context int) lone {
	return lone{open(t, name, engine.Options{Context: context})}
}

// answer computes the answer to a request.
func (l lone) answer(t testing.TB, q Request) answerOf {
	t.Helper()
	s := l.m.NewSession()
	defer s.Close()
	var a answerOf
	if err := s.Append(t.Context(), q.Prompt...); err != nil {
		t.Fatal(err)
	}
	for tok, err := range s.Generate(t.Context(), q.Options) {
		if err != nil {
			t.Fatal(err)
		}
		a.tokens = append(a.tokens, tok)
	}
	a.res.Reason = s.StopReason()
	return a
}

// same reports a difference between two answers, log-probabilities bit for bit.
func same(t testing.TB, what string, got, want answerOf) {
	t.Helper()
	for i := range min(len(got.tokens), len(want.tokens)) {
		g, w := got.tokens[i], want.tokens[i]
		if g.ID != w.ID || g.Text != w.Text || g.Logprob != w.Logprob || !slices.Equal(g.Top, w.Top) {
			t.Errorf("%s: token %d of %d is %v, want %v", what, i, len(got.tokens), g, w)
			return
		}
	}
	if len(got.tokens) != len(want.tokens) || got.res.Reason != want.res.Reason {
		t.Errorf("%s: %d tokens, %s; want %d, %s", what, len(got.tokens), got.res.Reason, len(want.tokens), want.res.Reason)
	}
}

// unused reports pages that nobody gave back.
func unused(t testing.TB, m *engine.Model) {
	t.Helper()
	if full, ring := m.Cache().Use(); full.Used != 0 || ring.Used != 0 {
		t.Errorf("%d and %d pages are lost", full.Used, ring.Used)
	}
}

// long skips a test that is about numbers when the race detector, for which the
// tests are run with -short, would make it take minutes.
func long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("about numbers, and minutes long under the race detector")
	}
}

// pick returns n, or fewer in a short run.
func pick(n, short int) int {
	if testing.Short() {
		return short
	}
	return n
}

// models returns the names, or the last of them in a short run.
func models(names ...string) []string {
	if testing.Short() {
		return names[len(names)-1:]
	}
	return names
}
