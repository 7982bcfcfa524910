package sched

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"graphrun/engine"
	"graphrun/loaders"
)

// TestPreempted: when pages run out the youngest answers make room, and go on
// later as if nothing had been.
func TestPreempted(t *testing.T) {
	for _, name := range models("llama-q8_0", "gemma3") {
		for _, cached := range []int{0, -1}[pick(0, 1):] {
			ref := openAlone(t, name, 512)
			// Answers that want 3 or 4 pages each, and room for 8 pages.
			m := open(t, name, engine.Options{Context: 512, Chunk: 64, MaxSeqs: 8, Positions: 512})
			s := start(t, m, Options{CachePages: cached})
			var reqs []Request
			var streams []*Stream
			count := pick(8, 4)
			for i := range count {
				o := greedy(pick(210, 110))
				o.SampleOptions = engine.SampleOptions{Temperature: 1, TopP: 0.9, RepeatPenalty: 1.1, Seed: uint64(i)}
				q := Request{Prompt: prompt(m, 30, uint64(i)), Options: o, PromptLogprobs: i == count-1, PromptTop: 2}
				reqs = append(reqs, q)
				streams = append(streams, submit(t, s, t.Context(), q))
			}
			preempted := 0
			for i, st := range streams {
				got := read(t.Context(), st)
				if got.err != nil {
					t.Fatal(got.err)
				}
				same(t, fmt.Sprintf("%s, request %d", name, i), got, ref.answer(t, reqs[i]))
				preempted += got.res.Preempted
				if i == 0 && got.res.Preempted > 0 {
					t.Error("the oldest had to make room")
				}
				if i == count-1 {
					samePrompt(t, got.res.PromptLogprobs, reqs[i], ref)
				}
			}
			if preempted == 0 {
				t.Error("nobody had to make room")
			}
			if st := s.Stats(); int(st.Preempted) != preempted || int(st.Finished) != count {
				t.Errorf("%d preempted: %+v", preempted, st)
			}
			s.Close()
			unused(t, m)
		}
	}
}

// samePrompt compares the scores of a prompt with those of a lone session.
func samePrompt(t *testing.T, got []engine.Score, q Request, ref lone) {
	t.Helper()
	s := ref.m.NewSession()
	defer s.Close()
	want, err := s.Score(t.Context(), q.Prompt, q.PromptTop)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if len(got) != len(want) || got[i].ID != want[i].ID || got[i].Known != want[i].Known || got[i].Logprob != want[i].Logprob ||
			got[i].Rank != want[i].Rank || !slices.Equal(got[i].Top, want[i].Top) {
			t.Errorf("prompt token %d of %d: %+v, want %+v", i, len(got), got[min(i, len(got)-1)], want[i])
			return
		}
	}
}

// TestPromptLogprobs: how likely each token of a prompt was, with and without an
// answer, whatever else is in the steps and in the cache.
func TestPromptLogprobs(t *testing.T) {
	long(t)
	ref := openAlone(t, "llama-q8_0", 512)
	m := open(t, "llama-q8_0", engine.Options{Context: 512, Chunk: 64, MaxSeqs: 4, MaxRows: 9})
	s := start(t, m, Options{CachePages: -1})
	var reqs []Request
	var streams []*Stream
	for i, n := range []int{1, 2, 6, 64, 200, 200, 511, 512} {
		q := Request{Prompt: prompt(m, n, uint64(n)), Options: greedy(3), PromptLogprobs: true, PromptTop: i % 3, NoAnswer: i%2 == 1}
		reqs, streams = append(reqs, q), append(streams, submit(t, s, t.Context(), q))
	}
	for i, st := range streams {
		got, q := read(t.Context(), st), reqs[i]
		samePrompt(t, got.res.PromptLogprobs, q, ref)
		want := min(3, 512-len(q.Prompt))
		if q.NoAnswer {
			want = 0
		}
		if len(got.tokens) != want || got.res.Reason != engine.StopLength || got.err != nil {
			t.Errorf("request %d: %d tokens, %s, %v", i, len(got.tokens), got.res.Reason, got.err)
		}
		if got.res.CachedTokens > 0 {
			t.Errorf("request %d: %d tokens were not scored", i, got.res.CachedTokens)
		}
	}
}

// TestNotANumber is NU-02: a token whose embedding is not a number ends its own
// request and no other.
func TestNotANumber(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "models", "llama-gqa.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := loaders.OpenBytes("bad", data)
	if err != nil {
		t.Fatal(err)
	}
	w, ok := f.Tensor("token_embd.weight")
	if !ok {
		t.Fatal("no embeddings")
	}
	const bad = 77
	row := len(w.Data) / w.Shape[0]
	copy(w.Data[bad*row:], []byte{0, 0, 0xc0, 0x7f}) // the first of its numbers
	m, err := engine.OpenBytes("bad", data, engine.Options{Context: 512, MaxSeqs: 4, Chunk: 64, Threads: 1, Deterministic: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := start(t, m, Options{CachePages: -1})
	clean := func(ids []int32) []int32 {
		for i := range ids {
			if ids[i] == bad {
				ids[i]++
			}
		}
		return ids
	}
	o := greedy(20)
	o.Suppress = []int32{bad}
	var good []*Stream
	want := ask(t, s, Request{Prompt: clean(prompt(m, 100, 1)), Options: o})
	for range 3 {
		good = append(good, submit(t, s, t.Context(), Request{Prompt: clean(prompt(m, 100, 1)), Options: o}))
	}
	for i := range 5 {
		st := submit(t, s, t.Context(), Request{Prompt: append(clean(prompt(m, 20*i, uint64(i))), bad), Options: o, ID: "bad"})
		var e *engine.NonFiniteError
		if got := read(t.Context(), st); !errors.As(got.err, &e) || got.res.Reason != engine.StopError {
			t.Errorf("request %d: %v, %s", i, got.err, got.res.Reason)
		}
	}
	for i, st := range good {
		same(t, fmt.Sprintf("good request %d", i), read(t.Context(), st), want)
	}
	if st := s.Stats(); st.Failed != 5 || st.Finished != 4 {
		t.Errorf("%+v", st)
	}
}

// burst is a constraint that panics or fails at its third token.
type burst struct {
	n     int
	panic bool
}

func (b *burst) Mask(mask []uint64) {}
func (b *burst) Done() bool         { return false }
func (b *burst) Accept(int32) error {
	if b.n++; b.n < 3 {
		return nil
	}
	if b.panic {
		panic("burst")
	}
	return errors.New("no third token")
}

// TestPanic: a constraint that panics ends its own request and no other, and the
// log says where.
func TestPanic(t *testing.T) {
	m := open(t, "llama-q8_0", engine.Options{Context: 512, MaxSeqs: 4})
	var log bytes.Buffer
	s := start(t, m, Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), CachePages: -1})
	q := Request{Prompt: prompt(m, 9, 1), Options: greedy(12)}
	good := submit(t, s, t.Context(), q)
	for _, b := range []*burst{{panic: true}, {}} {
		bad := Request{Prompt: prompt(m, 9, 2), Options: engine.GenerateOptions{MaxTokens: 12}, ID: "the bad one"}
		bad.Options.Constraint = b
		got := read(t.Context(), submit(t, s, t.Context(), bad))
		var p *PanicError
		if errors.As(got.err, &p) != b.panic || got.err == nil || got.res.Reason != engine.StopError || len(got.tokens) != 2 {
			t.Errorf("%d tokens, %v, %s", len(got.tokens), got.err, got.res.Reason)
		}
	}
	if got := read(t.Context(), good); got.err != nil || len(got.tokens) != 12 {
		t.Errorf("the other request: %d tokens, %v", len(got.tokens), got.err)
	}
	s.Close()
	if text := log.String(); !strings.Contains(text, "the bad one") || !strings.Contains(text, "Accept") {
		t.Errorf("the log: %s", text)
	}
	unused(t, m)
}

// TestPagesTaken: when somebody beside the scheduler holds the pages, requests
// end with a typed error, and go on when the pages are back.
func TestPagesTaken(t *testing.T) {
	m := open(t, "llama-q8_0", engine.Options{Context: 256, MaxSeqs: 2, Positions: 256})
	other := m.NewSession()
	if err := other.Append(t.Context(), prompt(m, 200, 1)...); err != nil {
		t.Fatal(err)
	}
	s := start(t, m, Options{CachePages: -1})
	q := Request{Prompt: prompt(m, 100, 2), Options: greedy(5)}
	var e *engine.PagesError
	if got := read(t.Context(), submit(t, s, t.Context(), q)); !errors.As(got.err, &e) {
		t.Errorf("got %v", got.err)
	}
	other.Close()
	if got := ask(t, s, q); len(got.tokens) != 5 {
		t.Errorf("%d tokens", len(got.tokens))
	}
}

// TestEmbed: vectors through the queue are those of the model, also while answers
// are written.
func TestEmbed(t *testing.T) {
	ref := openAlone(t, "llama-q8_0", 512)
	m := open(t, "llama-q8_0", engine.Options{Context: 512, MaxSeqs: 4, Chunk: 64})
	s := start(t, m, Options{Chunk: 16, CachePages: -1})
	answers := submit(t, s, t.Context(), Request{Prompt: prompt(m, 9, 1), Options: greedy(100)})
	for i, n := range []int{1, 64, 65, pick(512, 80)} {
		o := engine.EmbedOptions{Pool: engine.Pool(i % 2)}
		got, err := s.Embed(t.Context(), "x", prompt(m, n, uint64(i)), o)
		if err != nil {
			t.Fatal(err)
		}
		want, err := ref.m.Embed(t.Context(), prompt(m, n, uint64(i)), o)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("the vector of %d tokens differs, %v", n, err)
		}
	}
	if got := read(t.Context(), answers); len(got.tokens) != 100 || got.err != nil {
		t.Errorf("%d tokens, %v", len(got.tokens), got.err)
	}
}

// TestIdle: a scheduler without work takes no processor time and leaves the
// model to others.
func TestIdle(t *testing.T) {
	m := open(t, "llama-q8_0", engine.Options{Context: 256, MaxSeqs: 2})
	s := start(t, m, Options{CachePages: -1})
	ask(t, s, Request{Prompt: []int32{1}, Options: greedy(3)})
	b, err := m.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.Release()
	steps, before := s.Stats().Steps, processorTime()
	time.Sleep(200 * time.Millisecond)
	if s.Stats().Steps != steps {
		t.Error("steps without work")
	}
	if d := processorTime() - before; d > 20*time.Millisecond {
		t.Errorf("200 ms of rest took %v of processor time", d)
	}
	// A stream may be read by two, and after its end.
	st := submit(t, s, t.Context(), Request{Prompt: []int32{1}, Options: greedy(3)})
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() { read(t.Context(), st) })
	}
	all.Wait()
	if _, err := st.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
}
