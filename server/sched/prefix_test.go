package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"graphrun/engine"
)

// greedy asks for n tokens with their log-probabilities.
func greedy(n int) engine.GenerateOptions {
	return engine.GenerateOptions{MaxTokens: n, IgnoreEOG: true, Top: 2}
}

// TestConversation is KV-05: the next turn of a conversation computes what is
// new, and a text that parts from it early gives what it gives cold.
func TestConversation(t *testing.T) {
	long(t)
	for _, name := range []string{"llama-q8_0", "gemma3", "gptoss"} {
		ref := openAlone(t, name, 1024)
		m := open(t, name, engine.Options{Context: 1024, Chunk: 128, MaxSeqs: 2, Windows: 4})
		for _, n := range []int{60, 64, 130, 700} {
			s := start(t, m, Options{CachePages: -1})
			first := prompt(m, n, 1)
			second := slices.Concat(first, prompt(m, 5, 2))
			third := slices.Concat(first[:n/2], prompt(m, 5, 3))
			fourth := slices.Concat(second, prompt(m, 200, 4))
			for i, c := range []struct {
				text   []int32
				cached []int // at least, at most
			}{
				{first, []int{0, 0}},
				{second, []int{n, n}},
				{third, []int{0, n / 2}},
				{fourth, []int{len(second), len(second)}},
				{third, []int{n / 2, len(third) - 1}},
			} {
				q := Request{Prompt: c.text, Options: greedy(3)}
				got := ask(t, s, q)
				what := fmt.Sprintf("%s, turn %d after %d tokens", name, i+1, n)
				same(t, what, got, ref.answer(t, q))
				if k := got.res.CachedTokens; k < c.cached[0] || k > c.cached[1] {
					t.Errorf("%s: %d of %d tokens were cached, want %d to %d", what, k, len(c.text), c.cached[0], c.cached[1])
				}
			}
			s.Close()
			unused(t, m)
		}
	}
}

// TestWholePromptKnown is KV-08: the last token of a prompt is always computed.
func TestWholePromptKnown(t *testing.T) {
	long(t)
	for _, name := range []string{"llama-q8_0", "gemma3"} {
		ref := openAlone(t, name, 512)
		m := open(t, name, engine.Options{Context: 512, MaxSeqs: 2, Windows: 4})
		s := start(t, m, Options{CachePages: -1})
		for _, n := range []int{1, 2, 63, 64, 65, 128, 200} {
			text := prompt(m, n, uint64(n))
			for i, q := range []Request{
				{Prompt: text, Options: greedy(8)},
				{Prompt: text, Options: greedy(8)},
				{Prompt: text[:max(1, n-1)], Options: greedy(8)},
				{Prompt: text, Options: greedy(1)},
			} {
				got := ask(t, s, q)
				same(t, fmt.Sprintf("%s, %d tokens, request %d", name, n, i), got, ref.answer(t, q))
				if want := len(q.Prompt) - 1; i > 0 && n >= 63 && got.res.CachedTokens != want {
					t.Errorf("%s, %d tokens, request %d: %d cached, want %d", name, n, i, got.res.CachedTokens, want)
				}
			}
		}
	}
}

// TestSystemPrompt: a long beginning that texts share stays known to a
// sliding-window model, although each text goes far beyond it.
func TestSystemPrompt(t *testing.T) {
	long(t)
	ref := openAlone(t, "gemma3", 1024)
	m := open(t, "gemma3", engine.Options{Context: 1024, Chunk: 128, MaxSeqs: 2, Windows: 2})
	s := start(t, m, Options{CachePages: -1})
	system := prompt(m, 300, 1)
	for i := range 8 {
		q := Request{Prompt: slices.Concat(system, prompt(m, 250, uint64(100+i))), Options: greedy(4)}
		got := ask(t, s, q)
		same(t, fmt.Sprintf("request %d", i), got, ref.answer(t, q))
		// The second request finds out that others begin like this, so from the
		// third on the place is worth keeping.
		if k := got.res.CachedTokens; i >= 2 && k < 256 {
			t.Errorf("request %d: %d tokens were cached, want the 256 whole pages of the beginning", i, k)
		}
	}
}

// TestPartitions: what one partition computed is not found by another.
func TestPartitions(t *testing.T) {
	m := open(t, "llama-q8_0", engine.Options{Context: 512, MaxSeqs: 2})
	s := start(t, m, Options{CachePages: -1})
	text := prompt(m, 200, 1)
	for i, want := range []int{0, 0, 199, 199} {
		q := Request{Prompt: text, Options: greedy(2), Partition: fmt.Sprint("key", i%2)}
		if got := ask(t, s, q); got.res.CachedTokens != want {
			t.Errorf("request %d: %d tokens were cached, want %d", i, got.res.CachedTokens, want)
		}
	}
}

// TestCacheOff: without cache nothing is kept.
func TestCacheOff(t *testing.T) {
	m := open(t, "llama-q8_0", engine.Options{Context: 512, MaxSeqs: 2})
	s := start(t, m, Options{})
	q := Request{Prompt: prompt(m, 200, 1), Options: greedy(2)}
	for range 2 {
		if got := ask(t, s, q); got.res.CachedTokens != 0 {
			t.Errorf("%d tokens were cached", got.res.CachedTokens)
		}
	}
	unused(t, m)
}

// TestCeiling is KV-06: many long prompts stay below the ceiling, which counts
// what had to go.
func TestCeiling(t *testing.T) {
	long(t)
	for _, name := range []string{"llama-q8_0", "gemma3"} {
		m := open(t, name, engine.Options{Context: 512, MaxSeqs: 2, Windows: 2})
		for _, max := range []int{1, 5, -1} {
			s := start(t, m, Options{CachePages: max})
			most := max
			if max < 0 {
				most = m.Cache().Size().Full
			}
			for i := range 24 {
				ask(t, s, Request{Prompt: prompt(m, 500, uint64(i)), Options: greedy(2), Partition: fmt.Sprint(i % 7)})
				if st := s.Stats(); st.CachedPages > most || i > 16 && (st.CachedPages < most-8 || st.PrefixEvicted == 0) {
					t.Errorf("%s: %d pages are cached, %d evicted; the ceiling is %d", name, st.CachedPages, st.PrefixEvicted, most)
				}
			}
			s.Close()
			unused(t, m)
		}
	}
}

// TestSharedPrompt: of prompts that come together and begin alike, one is
// computed and the others wait for it.
func TestSharedPrompt(t *testing.T) {
	for _, name := range models("llama-q8_0", "gemma3") {
		ref := openAlone(t, name, 512)
		m := open(t, name, engine.Options{Context: 512, Chunk: 64, MaxSeqs: 8, Windows: 8})
		s := start(t, m, Options{CachePages: -1})
		text := prompt(m, pick(410, 100), 1)
		var streams []*Stream
		for i := range pick(8, 4) {
			o := greedy(20)
			o.SampleOptions = engine.SampleOptions{Temperature: 1, Seed: uint64(i)}
			st, err := s.Submit(t.Context(), Request{Prompt: text, Options: o})
			if err != nil {
				t.Fatal(err)
			}
			streams = append(streams, st)
		}
		for i, st := range streams {
			o := greedy(20)
			o.SampleOptions = engine.SampleOptions{Temperature: 1, Seed: uint64(i)}
			got := read(t.Context(), st)
			same(t, fmt.Sprintf("%s, choice %d", name, i), got, ref.answer(t, Request{Prompt: text, Options: o}))
			if i > 0 && got.res.CachedTokens != len(text)-1 {
				t.Errorf("%s, choice %d: %d tokens were cached, want %d", name, i, got.res.CachedTokens, len(text)-1)
			}
		}
		s.Close()
		unused(t, m)
	}
}

// TestTree grows, matches and shrinks a tree at random and compares it with a
// list of all texts.
func TestTree(t *testing.T) {
	long(t)
	for _, name := range []string{"llama-q8_0", "gemma3"} {
		m := open(t, name, engine.Options{Context: 640, Chunk: 640, MaxSeqs: 3, Windows: 10, Positions: 3000})
		b, err := m.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := m.Cache()
		p := newPrefixCache(c, -1)
		r := rand.New(rand.NewPCG(3, 3))
		texts := [][]int32{prompt(m, 600, 1)}
		matched := 0
		for i := range 160 {
			old := texts[r.IntN(len(texts))]
			text := slices.Clone(old[:r.IntN(len(old)+1)])
			text = append(text, prompt(m, 1+r.IntN(639-len(text)), uint64(1000+i))...)
			held, n := p.match("", text, len(text)-1)
			longest := 0
			for _, o := range texts {
				longest = max(longest, common(o, text))
			}
			if n > longest {
				t.Fatalf("%d tokens match, no text has more than %d", n, longest)
			}
			seq, err := c.Adopt(held, n)
			if err != nil {
				t.Fatal(err)
			}
			if n > 0 {
				matched++
			}
			full, window := seq.Need(len(text) - n)
			if !p.room(full, window) {
				p.yield("", text, seq, len(text)-n)
				if full, window = seq.Need(len(text) - n); !p.room(full, window) {
					t.Fatalf("no room for %d and %d pages", full, window)
				}
			}
			if err := b.Step(t.Context(), []engine.Item{{Seq: seq, Tokens: text[n:]}}); err != nil {
				t.Fatal(err)
			}
			p.insert("", text, seq, seq.Len(), true)
			p.ends("", text, seq.Len())
			seq.Drop()
			texts = append(texts, text)
			p.valid(t)
		}
		if matched < 30 {
			t.Errorf("%s: only %d texts found their beginning", name, matched)
		}
		p.clear()
		b.Release()
		unused(t, m)
		if p.n != 0 || len(p.roots) != 0 || p.pages.Len()+p.windows.Len()+p.cold.Len() != 0 {
			t.Errorf("%s: the tree is not empty: %+v", name, p)
		}
	}
}

// valid checks what always holds of a tree.
func (p *prefixCache) valid(t *testing.T) {
	t.Helper()
	age := map[*node]int{}
	for e := p.pages.Front(); e != nil; e = e.Next() {
		age[e.Value.(*node)] = len(age)
	}
	windows, n := 0, 0
	var walk func(x *node)
	walk = func(x *node) {
		for i, c := range x.children {
			n++
			switch {
			case c.parent != x:
				t.Fatal("a child has another parent")
			case i > 0 && slices.Compare(x.children[i-1].tokens, c.tokens) >= 0:
				t.Fatal("children are out of order")
			case len(c.tokens) == 0 || len(c.tokens) > engine.PageSize || len(c.tokens) < engine.PageSize && len(c.children) > 0:
				t.Fatalf("a node of %d tokens has %d children", len(c.tokens), len(c.children))
			case x.parent != nil && age[x] > age[c]:
				t.Fatal("a child was used after its parent")
			case c.page.Windowed() != (c.window != nil):
				t.Fatal("a window is on no list, or one that is gone is on one")
			}
			if c.window != nil {
				windows++
			}
			walk(c)
		}
	}
	for _, root := range p.roots {
		walk(root)
	}
	if n != p.n || n != p.pages.Len() || windows != p.windows.Len()+p.cold.Len() {
		t.Fatalf("%d nodes, %d windows; counted %d; lists of %d and %d+%d", n, windows, p.n, p.pages.Len(), p.windows.Len(), p.cold.Len())
	}
}
