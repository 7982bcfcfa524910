package engine

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestPromptReuse compares prompts that reuse what a session holds with the
// same prompts computed from nothing.
func TestPromptReuse(t *testing.T) {
	for _, window := range []int{0, 4} {
		m := fakeModel(t, &fake{script: hashed}, window, Options{Context: 700, Chunk: 40, MaxSeqs: 2})
		long := randomText(600, 9)
		cases := []struct {
			name           string
			first, second  []int32
			cached, window int // with full layers only, and with a window too
		}{
			{"continued", long[:60], long[:65], 60, 60},
			{"same again", long[:300], long[:300], 299, 299},
			{"a beginning of it", long[:300], long[:280], 279, 279},
			{"one token", long[:1], long[:1], 0, 0},
			{"other end", long[:60], slices.Concat(long[:30], randomText(5, 3)), 30, 30},
			{"far back", long[:600], slices.Concat(long[:30], randomText(5, 3)), 30, 0},
			{"nothing in common", long[:60], randomText(50, 8), 0, 0},
		}
		for _, c := range cases {
			s := m.NewSession()
			if _, err := s.Prompt(t.Context(), c.first); err != nil {
				t.Fatal(err)
			}
			cached, err := s.Prompt(t.Context(), c.second)
			if err != nil {
				t.Fatal(err)
			}
			want := c.cached
			if window > 0 {
				want = c.window
			}
			if st := s.Stats(); cached != want || st.Cached != want || st.Prompt != len(c.second) {
				t.Errorf("%s, window %d: %d tokens were reused (%+v), want %d", c.name, window, cached, st, want)
			}
			cold := m.NewSession()
			if err := cold.Append(t.Context(), c.second...); err != nil {
				t.Fatal(err)
			}
			if err := sameLogits(s.Logits(), cold.Logits()); err != nil {
				t.Errorf("%s, window %d: %v", c.name, window, err)
			}
			s.Close()
			cold.Close()
		}
	}
}

func TestContextRefused(t *testing.T) {
	runs := 0
	m := fakeModel(t, &fake{script: hashed, layer: func() { runs++ }}, 0, Options{Context: 100})
	s := m.NewSession()
	var e *ContextError
	if err := s.Append(t.Context(), randomText(101, 1)...); !errors.As(err, &e) || e.Have != 100 || e.Want != 101 {
		t.Errorf("Append: %v", err)
	}
	if !strings.Contains(e.Error(), "101") || !strings.Contains(e.Error(), "100") {
		t.Errorf("the text has not both numbers: %v", e)
	}
	if _, err := s.Prompt(t.Context(), randomText(102, 1)); !errors.As(err, &e) || e.Want != 102 {
		t.Errorf("Prompt: %v", err)
	}
	if _, err := s.Score(t.Context(), randomText(103, 1), 0); !errors.As(err, &e) || e.Want != 103 {
		t.Errorf("Score: %v", err)
	}
	if _, err := m.Embed(t.Context(), randomText(104, 1), EmbedOptions{}); !errors.As(err, &e) || e.Want != 104 {
		t.Errorf("Embed: %v", err)
	}
	if runs != 0 || s.Len() != 0 {
		t.Errorf("%d layers ran for refused texts", runs)
	}
	if err := s.Append(t.Context(), randomText(100, 1)...); err != nil {
		t.Errorf("a text that fits exactly: %v", err)
	}
	if _, err := s.Prompt(t.Context(), nil); !errors.Is(err, ErrEmpty) {
		t.Errorf("an empty prompt: %v", err)
	}
}

func TestRewindAndAppend(t *testing.T) {
	m := fakeModel(t, &fake{script: hashed}, 0, Options{Context: 300, Chunk: 32, MaxSeqs: 2})
	s, cold := m.NewSession(), m.NewSession()
	text := randomText(200, 5)
	if err := s.Append(t.Context(), text...); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{200, 150, 128, 64, 1, 0} {
		if err := s.Rewind(n); err != nil {
			t.Fatal(err)
		}
		tail := randomText(70, uint32(n))
		if err := s.Append(t.Context(), tail...); err != nil {
			t.Fatal(err)
		}
		if _, err := cold.Prompt(t.Context(), append(slices.Clone(text[:n]), tail...)); err != nil {
			t.Fatal(err)
		}
		if err := sameLogits(s.Logits(), cold.Logits()); err != nil {
			t.Errorf("cut to %d: %v", n, err)
		}
		if err := s.Rewind(n); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Rewind(1); err == nil {
		t.Error("rewind upwards is accepted")
	}
}

// TestNonFinite is NU-02: an error that names the token, no endless answer.
func TestNonFinite(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		f := &fake{script: func(text, _ []int32, logits []float32) {
			clear(logits)
			logits[tokA] = 1
			if len(text) == 5 {
				logits[7] = float32(bad)
			}
		}}
		m := fakeModel(t, f, 0, Options{Context: 100})
		s := m.NewSession()
		if err := s.Append(t.Context(), 1, 9, 9); err != nil {
			t.Fatal(err)
		}
		n := 0
		var last error
		for tok, err := range s.Generate(t.Context(), GenerateOptions{}) {
			if last = err; err == nil && tok.ID != tokA {
				t.Errorf("token %d", tok.ID)
			}
			n++
		}
		var e *NonFiniteError
		if !errors.As(last, &e) || e.Token != 4 || e.ID != tokA || n != 3 || s.StopReason() != StopError {
			t.Errorf("after %d steps: %v, %s", n, last, s.StopReason())
		}
		if want := "non-finite logits at token 4 (layer unknown"; last == nil || !strings.Contains(last.Error(), want) {
			t.Errorf("got %v, want %q", last, want)
		}
		// The model is as good as before.
		s2 := m.NewSession()
		s.Close()
		if err := s2.Append(t.Context(), 1, 9, 9); err != nil {
			t.Error(err)
		}
		s2.Close()
		if _, err := s2.Score(t.Context(), randomText(8, 1), 0); !errors.As(err, &e) {
			t.Errorf("Score: %v", err)
		}
	}
}

// TestSessionsSideBySide runs sessions in goroutines of their own: each text is
// the one a lone session writes.
func TestSessionsSideBySide(t *testing.T) {
	m := fakeModel(t, &fake{script: hashed}, 6, Options{Context: 256, Chunk: 16, MaxSeqs: 8})
	o := GenerateOptions{MaxTokens: 60, IgnoreEOG: true, SampleOptions: SampleOptions{Temperature: 1, TopP: 0.9}}
	write := func(i int) []int32 {
		s := m.NewSession()
		defer s.Close()
		if _, err := s.Prompt(t.Context(), randomText(20+3*i, uint32(i))); err != nil {
			t.Error(err)
			return nil
		}
		o := o
		o.Seed = uint64(i)
		for _, err := range s.Generate(t.Context(), o) {
			if err != nil {
				t.Error(err)
			}
		}
		return slices.Clone(s.Tokens())
	}
	var wg sync.WaitGroup
	got := make([][]int32, 8)
	for i := range got {
		wg.Go(func() { got[i] = write(i) })
	}
	wg.Wait()
	for i := range got {
		if want := write(i); !slices.Equal(got[i], want) {
			t.Errorf("session %d: %v, want %v", i, got[i], want)
		}
	}
	if full, ring := m.cache.Use(); full.Used+ring.Used != 0 {
		t.Errorf("pages are lost: %+v %+v", full, ring)
	}
}

func TestAcquireObeysContext(t *testing.T) {
	m := fakeModel(t, &fake{script: hashed}, 0, Options{})
	b, err := m.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := m.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	b.Release()
	if b, err = m.Acquire(t.Context()); err != nil {
		t.Error(err)
	}
	b.Release()
}

func TestForkSession(t *testing.T) {
	m := fakeModel(t, &fake{script: hashed}, 0, Options{Context: 300, MaxSeqs: 2})
	s := m.NewSession()
	if err := s.Append(t.Context(), randomText(150, 1)...); err != nil {
		t.Fatal(err)
	}
	f, err := s.Fork(100)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []*Session{s, f} {
		if err := x.Append(t.Context(), letters("abc")...); err != nil {
			t.Fatal(err)
		}
	}
	text := randomText(150, 1)
	want := make([]float32, m.limits.Vocab)
	for _, c := range []struct {
		s *Session
		n int
	}{{s, 150}, {f, 100}} {
		all := append(slices.Clone(text[:c.n]), letters("abc")...)
		hashed(all, all, want)
		if err := sameLogits(c.s.Logits(), want); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Fork(500); err == nil {
		t.Error("a fork beyond the end is accepted")
	}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		o       Options
		vocab   int
		trained int
		want    Limits
	}{
		{Options{}, 32000, 131072, Limits{32000, 4096, 512, 131, 1}},
		{Options{}, 32000, 2048, Limits{32000, 2048, 512, 131, 1}},
		{Options{}, 512, 128, Limits{512, 128, 128, 128, 1}},
		{Options{Context: 8192, MaxSeqs: 40}, 262144, 2048, Limits{262144, 8192, 512, 40, 40}},
		{Options{Context: 10, Chunk: 100, MaxRows: 7}, 100, 0, Limits{100, 10, 10, 7, 1}},
		{Options{Chunk: 1, MaxSeqs: 4}, 100, 0, Limits{100, 4096, 4, 4, 4}},
	} {
		got, err := c.o.limits(c.vocab, c.trained)
		if err != nil || got != c.want {
			t.Errorf("%+v: %+v, %v, want %+v", c.o, got, err, c.want)
		}
	}
	for _, o := range []Options{{Context: -1}, {Chunk: -5}, {MaxSeqs: -1}, {MaxRows: 1 << 31}} {
		if _, err := o.limits(100, 100); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	if _, err := (&Options{Backend: "gpu"}).backend(); err == nil || !strings.Contains(err.Error(), "cpu, ref") {
		t.Errorf("got %v", err)
	}
}
