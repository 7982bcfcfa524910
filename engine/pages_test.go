package engine

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestAdopt holds the pages of texts that grow and die, begins others in them,
// and compares each logit with that of a text computed from nothing.
func TestAdopt(t *testing.T) {
	type text struct {
		seq    *Sequence
		tokens []int32
		held   []Page
	}
	for _, window := range []int{0, 1, 64, 100, 300} {
		m := fakeModel(t, &fake{script: hashed}, window, Options{Context: 700, Chunk: 96, MaxSeqs: 4, MaxRows: 96, Windows: 20, Positions: 6000})
		c := m.cache
		r := rand.New(rand.NewPCG(uint64(window), 2))
		var texts, kept []*text
		adopted := 0
		want := make([]float32, m.limits.Vocab)
		for range 800 {
			switch k := r.IntN(8); {
			case len(texts) == 0 || k == 0 && len(texts) < 3:
				texts = append(texts, &text{seq: c.NewSequence()})
			case k == 1: // a text dies, its pages stay
				i := r.IntN(len(texts))
				x := texts[i]
				texts = slices.Delete(texts, i, i+1)
				for p := len(x.held); p < pages(len(x.tokens)); p++ {
					h, err := x.seq.Hold(p)
					if err != nil {
						t.Fatal(err)
					}
					if full, ring := x.seq.Lies(p, h); full != true || ring != h.Windowed() {
						t.Fatalf("page %d does not lie where it was held", p)
					}
					x.held = append(x.held, h)
				}
				x.seq.Drop()
				kept = append(kept, x)
				if len(kept) > 4 {
					for _, h := range kept[0].held {
						c.Release(c.ReleaseWindow(h))
					}
					kept = kept[1:]
				}
			case k == 2 && len(kept) > 0 && len(texts) < 3: // another begins in them
				x := kept[r.IntN(len(kept))]
				n := r.IntN(len(x.tokens) + 1)
				missing := false
				for p := c.WindowFrom(n); p < pages(n); p++ {
					missing = missing || !x.held[p].Windowed()
				}
				s, err := c.Adopt(x.held, n)
				if missing && n > 0 {
					if err == nil || !strings.Contains(err.Error(), "windowed") {
						t.Fatalf("window %d: %d tokens without their window: %v", window, n, err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				adopted++
				texts = append(texts, &text{seq: s, tokens: slices.Clone(x.tokens[:n])})
			default:
				x := texts[r.IntN(len(texts))]
				n := min(1+r.IntN(96), 700-len(x.tokens))
				if n == 0 {
					continue
				}
				it := []Item{{Seq: x.seq, Tokens: randomText(n, r.Uint32()), Rows: RowsAll}}
				full, ring := x.seq.Need(n)
				freeFull, freeRing := c.Free()
				b, _ := m.Acquire(t.Context())
				if err := b.Step(t.Context(), it); err != nil {
					t.Fatalf("window %d: %v", window, err)
				}
				if f, w := c.Free(); freeFull-f > full || freeRing-w > ring {
					t.Fatalf("window %d: a step took %d and %d pages, Need said %d and %d", window, freeFull-f, freeRing-w, full, ring)
				}
				for j, id := range it[0].Tokens {
					x.tokens = append(x.tokens, id)
					w := x.tokens
					if window > 0 {
						w = w[max(0, len(w)-window):]
					}
					hashed(x.tokens, w, want)
					if err := sameLogits(b.Logits(&it[0], j), want); err != nil {
						t.Fatalf("window %d, text of %d: %v", window, len(x.tokens), err)
					}
				}
				b.Release()
				for p := len(x.held); r.IntN(2) == 0 && p < len(x.tokens)/PageSize; p++ {
					h, err := x.seq.Hold(p)
					if err != nil {
						t.Fatal(err)
					}
					x.held = append(x.held, h)
				}
			}
		}
		for _, x := range append(texts, kept...) {
			x.seq.Drop()
			for _, h := range x.held {
				c.Release(h)
			}
		}
		if full, ring := c.Use(); full.Used != 0 || ring.Used != 0 {
			t.Errorf("window %d: %d and %d pages are lost", window, full.Used, ring.Used)
		}
		if adopted < 10 {
			t.Errorf("window %d: only %d texts began in pages of others", window, adopted)
		}
	}
}

func TestPageRules(t *testing.T) {
	m := fakeModel(t, &fake{script: hashed}, 10, Options{Context: 512, Chunk: 64, MaxSeqs: 2})
	c := m.cache
	s := c.NewSequence()
	if _, err := s.Hold(0); err == nil {
		t.Error("a page of an empty sequence is held")
	}
	for range 5 {
		if err := step(t, m, Item{Seq: s, Tokens: randomText(64, 1)}); err != nil {
			t.Fatal(err)
		}
	}
	old, _ := s.Hold(0) // the ring of 3 pages has pages 2 to 4
	last, _ := s.Hold(4)
	if old.Windowed() || !last.Windowed() {
		t.Errorf("windows of the first and the last page: %v, %v", old.Windowed(), last.Windowed())
	}
	if full, ring := s.Need(1); full != 1 || ring != 0 {
		t.Errorf("one token more needs %d and %d pages, want 1 and 0", full, ring)
	}
	mid, _ := s.Hold(2) // which the ring comes round to
	if _, ring := s.Need(1); ring != 1 {
		t.Error("a page that is held is to be written again")
	}
	mid = c.ReleaseWindow(mid)
	if _, ring := s.Need(1); ring != 0 || mid.Windowed() {
		t.Error("a page given back is still held")
	}
	again, _ := s.Hold(4)
	old = c.TakeWindow(old, again)
	if !old.Windowed() {
		t.Error("a window was not taken over")
	}
	if full, ring := c.Sole(last); full || ring {
		t.Error("a page of a sequence has one holder only")
	}
	s.Drop()
	if full, ring := c.Sole(last); !full || ring {
		t.Errorf("the only holder of the page, one of two of the window: %v, %v", full, ring)
	}
	if _, err := c.Adopt([]Page{last}, 70); err == nil {
		t.Error("70 positions lie in one page")
	}
	if _, err := c.Adopt([]Page{NoPage}, 10); err == nil {
		t.Error("a text begins in no page")
	}
	for _, p := range []Page{old, last, mid} {
		c.Release(p)
	}
	if full, ring := c.Use(); full.Used != 0 || ring.Used != 0 {
		t.Errorf("%d and %d pages are lost", full.Used, ring.Used)
	}
}

// TestPositions: the ceiling of the KV cache, and the room for windows nobody
// writes in.
func TestPositions(t *testing.T) {
	m := fakeModel(t, &fake{script: hashed}, 100, Options{Context: 640, Chunk: 64, MaxSeqs: 8, Positions: 1000, Windows: 3})
	if z := m.cache.Size(); z.Full != 16 || z.Ring != 8*z.CW()+3*3 {
		t.Errorf("%+v", z)
	}
	o := Options{Context: 640, Positions: 600}
	if _, err := o.limits(100, 0); err == nil || !strings.Contains(err.Error(), "600") || !strings.Contains(err.Error(), "640") {
		t.Errorf("got %v", err)
	}
	for _, o := range []Options{{Positions: -1}, {Windows: -1}, {Positions: 1 << 40}} {
		if _, err := o.limits(100, 0); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
