package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

func step(t testing.TB, m *Model, items ...Item) error {
	t.Helper()
	b, err := m.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	return b.Step(t.Context(), items)
}

// TestSequences grows, cuts, forks and drops sequences at random and compares
// the logits of each step with those of a text computed from nothing.
func TestSequences(t *testing.T) {
	for _, window := range []int{0, 1, 5, 64, 100, 300} {
		m := fakeModel(t, &fake{script: hashed}, window, Options{Context: 700, Chunk: 96, MaxSeqs: 6, MaxRows: 96})
		r := rand.New(rand.NewPCG(uint64(window), 1))
		type text struct {
			seq    *Sequence
			tokens []int32
		}
		var texts []*text
		refused := 0
		want := make([]float32, m.limits.Vocab)
		for range 1500 {
			switch k := r.IntN(10); {
			case len(texts) == 0 || k == 0 && len(texts) < 4:
				texts = append(texts, &text{seq: m.cache.NewSequence()})
			case k == 1 && len(texts) < 4:
				x := texts[r.IntN(len(texts))]
				n := r.IntN(len(x.tokens) + 1)
				f, err := x.seq.Fork(n)
				if err != nil {
					refused++
					continue
				}
				texts = append(texts, &text{f, append([]int32(nil), x.tokens[:n]...)})
			case k == 2:
				x := texts[r.IntN(len(texts))]
				n := r.IntN(len(x.tokens) + 1)
				if r.IntN(2) == 0 {
					n = max(0, len(x.tokens)-r.IntN(20))
				}
				var lost *RewindError
				if err := x.seq.Rewind(n); errors.As(err, &lost) {
					refused++
					if window == 0 || n >= lost.Lowest {
						t.Fatalf("window %d: %v", window, err)
					}
					continue
				} else if err != nil {
					t.Fatal(err)
				}
				x.tokens = x.tokens[:n]
			case k == 3 && r.IntN(8) == 0:
				i := r.IntN(len(texts))
				texts[i].seq.Drop()
				texts = append(texts[:i], texts[i+1:]...)
			default:
				var items []Item
				left := 96
				for _, x := range texts {
					n := min(left, 1+r.IntN(60), 700-len(x.tokens))
					if n <= 0 || r.IntN(3) == 0 {
						continue
					}
					left -= n
					items = append(items, Item{Seq: x.seq, Tokens: randomText(n, r.Uint32()), Rows: RowsAll})
				}
				if len(items) == 0 {
					continue
				}
				b, _ := m.Acquire(t.Context())
				if err := b.Step(t.Context(), items); err != nil {
					t.Fatalf("window %d: %v", window, err)
				}
				for i := range items {
					for _, x := range texts {
						if x.seq != items[i].Seq {
							continue
						}
						for j, id := range items[i].Tokens {
							x.tokens = append(x.tokens, id)
							w := x.tokens
							if window > 0 {
								w = w[max(0, len(w)-window):]
							}
							hashed(x.tokens, w, want)
							if err := sameLogits(b.Logits(&items[i], j), want); err != nil {
								t.Fatalf("window %d, text of %d: %v", window, len(x.tokens), err)
							}
						}
					}
				}
				b.Release()
			}
		}
		if window == 0 && refused > 0 {
			t.Errorf("%d cuts of full caches were refused", refused)
		}
		for _, x := range texts {
			x.seq.Drop()
		}
		if full, ring := m.cache.Use(); full.Used != 0 || ring.Used != 0 {
			t.Errorf("window %d: %d and %d pages are lost", window, full.Used, ring.Used)
		}
	}
}

func TestRewindRule(t *testing.T) {
	m := fakeModel(t, &fake{script: hashed}, 10, Options{Context: 1024, Chunk: 64})
	if got, want := m.cache.size.CW(), 3; got != want { // 10+64 positions, a page more
		t.Fatalf("a ring has %d pages, want %d", got, want)
	}
	s := m.cache.NewSequence()
	for range 5 {
		if err := step(t, m, Item{Seq: s, Tokens: randomText(64, 1)}); err != nil {
			t.Fatal(err)
		}
	}
	// 5 pages written, 3 kept: positions 128 up. Length 137 sees 128 to 137.
	if s.Lowest() != 137 {
		t.Errorf("the lowest length is %d, want 137", s.Lowest())
	}
	var lost *RewindError
	if err := s.Rewind(136); !errors.As(err, &lost) || lost.Lowest != 137 || s.Len() != 320 {
		t.Errorf("rewind to 136: %v, length %d", err, s.Len())
	}
	if err := s.Rewind(137); err != nil || s.Len() != 137 {
		t.Errorf("rewind to 137: %v", err)
	}
	if err := s.Rewind(0); err != nil || s.Len() != 0 {
		t.Errorf("rewind to 0: %v", err)
	}
	if err := s.Rewind(1); err == nil {
		t.Error("rewind upwards is accepted")
	}
}

func TestOutOfPages(t *testing.T) {
	m := fakeModel(t, &fake{script: hashed}, 0, Options{Context: 256, Chunk: 64, MaxSeqs: 2})
	var seqs []*Sequence
	for range 3 {
		seqs = append(seqs, m.cache.NewSequence())
	}
	for i := range 8 {
		if err := step(t, m, Item{Seq: seqs[i%2], Tokens: randomText(64, 1)}); err != nil {
			t.Fatal(err)
		}
	}
	var full *PagesError
	err := step(t, m, Item{Seq: seqs[2], Tokens: randomText(3, 1)})
	if !errors.As(err, &full) || full.Need != 1 || full.Free != 0 || full.Total != 8 {
		t.Fatalf("got %v", err)
	}
	var ctx *ContextError
	err = step(t, m, Item{Seq: seqs[0], Tokens: randomText(3, 1)})
	if !errors.As(err, &ctx) || ctx.Have != 256 || ctx.Want != 259 {
		t.Fatalf("got %v", err)
	}
	seqs[1].Drop()
	// A step of two, of which the second finds no room, leaves the first as it
	// was.
	if err := step(t, m, Item{Seq: seqs[2], Tokens: randomText(10, 1)}, Item{Seq: seqs[0], Tokens: randomText(1, 1)}); err == nil {
		t.Fatal("no error")
	}
	if use, _ := m.cache.Use(); seqs[2].Len() != 0 || use.Used != 4 {
		t.Errorf("length %d, %d pages in use after a refused step", seqs[2].Len(), use.Used)
	}
	if err := step(t, m, Item{Seq: seqs[2], Tokens: randomText(3, 1)}); err != nil {
		t.Error(err)
	}
}

func TestForkShares(t *testing.T) {
	m := fakeModel(t, &fake{script: hashed}, 20, Options{Context: 512, Chunk: 128, MaxSeqs: 3})
	a := m.cache.NewSequence()
	if err := step(t, m, Item{Seq: a, Tokens: randomText(100, 1)}); err != nil {
		t.Fatal(err)
	}
	b, err := a.Fork(90)
	if err != nil {
		t.Fatal(err)
	}
	if full, ring := m.cache.Use(); full.Used != 2 || full.Shared != 2 || ring.Shared != 1 {
		t.Errorf("after the fork: %+v %+v", full, ring)
	}
	if err := step(t, m, Item{Seq: b, Tokens: randomText(1, 1)}); err != nil {
		t.Fatal(err)
	}
	if full, ring := m.cache.Use(); full.Used != 3 || full.Shared != 1 || ring.Shared != 0 {
		t.Errorf("after a write: %+v %+v", full, ring)
	}
	if a.full[1] == b.full[1] || a.full[0] != b.full[0] {
		t.Error("the pages shared are not those expected")
	}
}

func TestStepRefuses(t *testing.T) {
	m := fakeModel(t, &fake{script: hashed}, 0, Options{Context: 128, Chunk: 16, MaxSeqs: 2, MaxRows: 4})
	other := fakeModel(t, &fake{script: hashed}, 0, Options{Context: 128})
	s, s2 := m.cache.NewSequence(), m.cache.NewSequence()
	for name, items := range map[string][]Item{
		"no items":        {},
		"no tokens":       {{Seq: s}},
		"too many tokens": {{Seq: s, Tokens: randomText(17, 1)}},
		"too many rows":   {{Seq: s, Tokens: randomText(5, 1), Rows: RowsAll}},
		"twice":           {{Seq: s, Tokens: []int32{1}}, {Seq: s, Tokens: []int32{1}}},
		"other model":     {{Seq: other.cache.NewSequence(), Tokens: []int32{1}}},
		"no sequence":     {{Tokens: []int32{1}}},
		"negative id":     {{Seq: s, Tokens: []int32{-1}}},
		"id too large":    {{Seq: s2, Tokens: []int32{1}}, {Seq: s, Tokens: []int32{int32(m.limits.Vocab)}}},
		"too many":        {{Seq: s, Tokens: []int32{1}}, {Seq: s2, Tokens: []int32{1}}, {Seq: m.cache.NewSequence(), Tokens: []int32{1}}},
	} {
		if err := step(t, m, items...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := step(t, m, Item{Seq: s, Tokens: randomText(16, 1), Rows: RowsLast}); err != nil {
		t.Error(err)
	}
}

func TestCancelledStepChangesNothing(t *testing.T) {
	f := &fake{script: hashed}
	m := fakeModel(t, f, 8, Options{Context: 512, Chunk: 64})
	s := m.NewSession()
	if err := s.Append(t.Context(), randomText(200, 3)...); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	f.layer = func() {
		if calls++; calls == 6 { // in the second layer of the second chunk
			cancel()
		}
	}
	if err := s.Append(ctx, randomText(150, 4)...); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	f.layer = nil
	if calls != 6 || s.Len() != 264 || s.Computed() != 264 || s.Logits() != nil {
		t.Errorf("%d layers ran, %d tokens, %d computed", calls, s.Len(), s.Computed())
	}
	if err := s.Append(t.Context(), randomText(150, 4)[64:]...); err != nil {
		t.Fatal(err)
	}
	got := slices.Clone(s.Logits())
	s.Close()
	want := m.NewSession()
	if err := want.Append(t.Context(), append(randomText(200, 3), randomText(150, 4)...)...); err != nil {
		t.Fatal(err)
	}
	if err := sameLogits(got, want.Logits()); err != nil {
		t.Error(err)
	}
}

func TestStepAllocates(t *testing.T) {
	m := fakeModel(t, &fake{script: hashed}, 0, Options{Context: 8192, Chunk: 64, MaxSeqs: 2})
	a, b := m.cache.NewSequence(), m.cache.NewSequence()
	ba, _ := m.Acquire(t.Context())
	defer ba.Release()
	items := []Item{{Seq: a, Tokens: []int32{5}, Rows: RowsLast}, {Seq: b, Tokens: []int32{6}, Rows: RowsLast}}
	ctx := t.Context()
	if n := testing.AllocsPerRun(300, func() {
		if err := ba.Step(ctx, items); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("a step allocates %v times", n)
	}
}
