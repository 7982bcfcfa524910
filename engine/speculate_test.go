package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// oracle proposes what it was told the answer will be, wrong now and then.
type oracle struct {
	answer []int32
	from   int // length of the prompt
	wrong  func(i int) bool
	calls  int
}

func (o *oracle) begin(GenerateOptions) error { return nil }

func (o *oracle) draft(_ context.Context, text []int32, n int) ([]proposal, error) {
	o.calls++
	var props []proposal
	for i := len(text) - o.from; i < len(o.answer) && len(props) < n; i++ {
		id := o.answer[i]
		if o.wrong(i) {
			id = (id + 5) % 200
		}
		props = append(props, proposal{id: id})
	}
	return props, nil
}

// speculated compares an answer with and without a drafter to the last bit: ids,
// texts, log-probabilities, the reason, and what the session computes next.
func speculated(t *testing.T, what string, m *Model, prompt []int32, o GenerateOptions, drafter func(answer []int32) Drafter) Stats {
	t.Helper()
	o.Top = 2
	run := func(d Drafter) ([]Token, StopReason, []float32, Stats) {
		o.Drafter = d
		s := m.NewSession()
		defer s.Close()
		if err := s.Append(t.Context(), prompt...); err != nil {
			t.Fatal(err)
		}
		_, toks, err := answer(t, s, o)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if s.Computed() > s.Len() {
			t.Fatalf("%s: %d of %d tokens are computed", what, s.Computed(), s.Len())
		}
		reason := s.StopReason()
		stats := s.Stats()
		var logits []float32
		if s.Len() < m.limits.Context {
			if err := s.Append(t.Context(), prompt[len(prompt)-1]); err != nil {
				t.Fatal(err)
			}
			logits = slices.Clone(s.Logits())
		}
		return toks, reason, logits, stats
	}
	want, reason, logits, _ := run(nil)
	got, reason2, logits2, stats := run(drafter(idsOf(want)))
	if !slices.Equal(idsOf(got), idsOf(want)) || reason != reason2 {
		t.Fatalf("%s: ids %v (%s), want %v (%s)", what, idsOf(got), reason2, idsOf(want), reason)
	}
	for i := range want {
		if got[i].Text != want[i].Text || math.Float64bits(got[i].Logprob) != math.Float64bits(want[i].Logprob) || !slices.Equal(got[i].Top, want[i].Top) {
			t.Fatalf("%s: token %d is %+v, want %+v", what, i, got[i], want[i])
		}
	}
	if err := sameLogits(logits2, logits); err != nil {
		t.Fatalf("%s: afterwards %v", what, err)
	}
	if full, ring := m.cache.Use(); full.Used+ring.Used != 0 {
		t.Fatalf("%s: pages are left: %+v %+v", what, full, ring)
	}
	return stats
}

func never(int) bool  { return false }
func always(int) bool { return true }
func third(i int) bool {
	return i%3 == 2
}

// The fake model reads all its tokens from pages, so a page or a window that a
// wrong proposal has spoilt changes what comes.
func TestSpeculateSame(t *testing.T) {
	d := fakeModel(t, &fake{script: func(text, w []int32, logits []float32) {
		hashed(text, w, logits)
		if len(text)%3 == 0 {
			slices.Reverse(logits)
		}
	}}, 0, Options{Context: 300})
	for _, window := range []int{0, 1, 5, 40} {
		for _, chunk := range []int{2, 8, 64} {
			m := fakeModel(t, &fake{script: hashed}, window, Options{Context: 300, Chunk: chunk})
			prompt := append([]int32{tokBOS}, randomText(33, 5)...)
			for name, o := range map[string]GenerateOptions{
				"greedy": {MaxTokens: 150}, "drawn": {MaxTokens: 60, SampleOptions: SampleOptions{Temperature: 1, Seed: 3}},
				"top-k": {MaxTokens: 60, SampleOptions: SampleOptions{Temperature: 0.8, TopK: 5, Seed: 4, RepeatPenalty: 1.2}},
				"full":  {IgnoreEOG: true}, "one": {MaxTokens: 1, IgnoreEOG: true}, "few": {MaxTokens: 7, IgnoreEOG: true, DraftTokens: 20},
				"stop": {Stop: []string{"a", "q"}, MaxTokens: 200}, "biased": {MaxTokens: 100, SampleOptions: SampleOptions{Bias: []Bias{{tokEOS, 1.5}}}},
			} {
				what := fmt.Sprintf("window %d, chunk %d, %s", window, chunk, name)
				for kind, wrong := range map[string]func(int) bool{"right": never, "wrong": always, "some": third} {
					st := speculated(t, what+", "+kind, m, prompt, o, func(a []int32) Drafter { return &oracle{a, len(prompt), wrong, 0} })
					if kind == "right" && st.Accepted != st.Drafted || kind == "wrong" && st.Accepted > 0 {
						t.Errorf("%s: %d of %d proposals that are all %s were accepted", what, st.Accepted, st.Drafted, kind)
					}
					if name == "full" && kind == "right" && chunk == 64 && st.Steps > st.Generated/4 {
						t.Errorf("%s: %d steps for %d tokens", what, st.Steps, st.Generated)
					}
				}
				speculated(t, what+", lookup", m, prompt, o, func([]int32) Drafter { l, _ := NewLookup(1, 3); return l })
				if o.Temperature == 0 {
					dr, err := NewDraft(m, d)
					if err != nil {
						t.Fatal(err)
					}
					st := speculated(t, what+", draft", m, prompt, o, func([]int32) Drafter { return dr })
					if name == "full" && chunk == 64 && window == 0 && (st.Accepted == 0 || st.Accepted == st.Drafted) {
						t.Errorf("%s: %d of %d proposals of the draft were accepted", what, st.Accepted, st.Drafted)
					}
					dr.Close()
				}
			}
		}
	}
}

// Real models, windows, experts and shared caches among them: the same ids and
// bits with proposals as without.
func TestSpeculateModels(t *testing.T) {
	list, err := filepath.Glob("../testdata/models/*.gguf")
	if err != nil || len(list) < 10 {
		t.Fatalf("found %v (%v)", list, err)
	}
	for _, path := range list {
		m, err := Open(path, Options{Threads: 1, Context: 128, Deterministic: true})
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".gguf")
		prompt := randomText(20, 9)
		for i := range prompt {
			prompt[i] %= int32(m.limits.Vocab)
		}
		for _, o := range []GenerateOptions{{MaxTokens: 60, IgnoreEOG: true}, {MaxTokens: 40, IgnoreEOG: true, SampleOptions: SampleOptions{Temperature: 0.7, TopK: 20, Seed: 2}}} {
			speculated(t, name+", some right", m, prompt, o, func(a []int32) Drafter { return &oracle{a, len(prompt), third, 0} })
			speculated(t, name+", lookup", m, prompt, o, func([]int32) Drafter { l, _ := NewLookup(1, 4); return l })
		}
		m.Close()
	}
}

// Leaving in the middle of tokens that were chosen together keeps those that
// were given out.
func TestSpeculateLeave(t *testing.T) {
	m := fakeModel(t, &fake{script: hashed}, 6, Options{Context: 200})
	prompt := append([]int32{tokBOS}, randomText(20, 8)...)
	whole := promptOf(t, m, prompt...)
	o := GenerateOptions{MaxTokens: 30, IgnoreEOG: true}
	_, toks, err := answer(t, whole, o)
	if err != nil {
		t.Fatal(err)
	}
	want := idsOf(toks)
	whole.Close()
	for leave := 1; leave < 30; leave++ {
		s := promptOf(t, m, prompt...)
		o.Drafter = &oracle{want, len(prompt), never, 0}
		n := 0
		for _, err := range s.Generate(t.Context(), o) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == leave {
				break
			}
		}
		if s.Len() != len(prompt)+leave || s.Computed() > s.Len() || s.Stats().Generated != leave {
			t.Fatalf("left after %d: %d tokens, %d computed, %d counted", leave, s.Len()-len(prompt), s.Computed(), s.Stats().Generated)
		}
		rest := o
		rest.MaxTokens = 30 - leave
		_, toks, err := answer(t, s, rest)
		if err != nil || !slices.Equal(idsOf(toks), want[leave:]) {
			t.Fatalf("left after %d: %v, %v, want %v", leave, idsOf(toks), err, want[leave:])
		}
		s.Close()
	}
}

// Where the proposals do not fit the cache, the answer goes on without them.
func TestSpeculateNoRoom(t *testing.T) {
	m := fakeModel(t, &fake{script: hashed}, 0, Options{Context: 4 * PageSize})
	other := m.NewSession()
	if err := other.Append(t.Context(), randomText(3*PageSize, 1)...); err != nil {
		t.Fatal(err)
	}
	prompt := []int32{tokBOS, tokA}
	o := GenerateOptions{MaxTokens: 14, IgnoreEOG: true, Drafter: &oracle{randomText(200, 2), 2, never, 0}, DraftTokens: 2 * PageSize}
	s := promptOf(t, m, prompt...)
	if _, toks, err := answer(t, s, o); err != nil || len(toks) != 14 {
		t.Errorf("%d tokens, %v", len(toks), err)
	}
}

// Drafts that are drawn leave the distribution of the model as it is. The pairs
// of two tokens after the first are counted and compared with the product of
// probabilities; the drafts' own distribution would be found out.
func TestSpeculateDistribution(t *testing.T) {
	letters := []int32{tokA, tokA + 1, tokA + 2, tokA + 3}
	script := func(seed uint64) func(text, _ []int32, logits []float32) {
		return func(text, _ []int32, logits []float32) {
			for i := range logits {
				logits[i] = -200
			}
			r := rand.New(rand.NewPCG(seed, uint64(text[len(text)-1])))
			for _, id := range letters {
				logits[id] = float32(r.NormFloat64())
			}
		}
	}
	target := fakeModel(t, &fake{script: script(1)}, 0, Options{Context: 32})
	draft := fakeModel(t, &fake{script: script(2)}, 0, Options{Context: 32})
	dr, err := NewDraft(target, draft)
	if err != nil {
		t.Fatal(err)
	}
	for name, so := range map[string]SampleOptions{
		"all": {Temperature: 1}, "cold": {Temperature: 0.6}, "top-k": {Temperature: 1.3, TopK: 3}, "top-p": {Temperature: 1, TopP: 0.8}, "min-p": {Temperature: 1, MinP: 0.3},
	} {
		// probabilities of the letter after one, by the sampler's own rule
		after := func(seed uint64, last int32) map[int32]float64 {
			x := make([]float32, target.limits.Vocab)
			script(seed)([]int32{last}, nil, x)
			p, err := sampler(t, len(x), so).probs(nil, x, nil)
			if err != nil {
				t.Fatal(err)
			}
			m := map[int32]float64{}
			for _, c := range p {
				if slices.Contains(letters, c.id) { // others have a weight of exp(-200)
					m[c.id] = c.w
				}
			}
			return m
		}
		chi := func(count map[[3]int32]int, n int, seed uint64) (x float64, free int) {
			sum := 0
			for a, pa := range after(seed, tokBOS) {
				for b, pb := range after(seed, a) {
					for c, pc := range after(seed, b) {
						want := pa * pb * pc * float64(n)
						got := count[[3]int32{a, b, c}]
						sum += got
						if want > 0 {
							x += (float64(got) - want) * (float64(got) - want) / want
							free++
						}
					}
				}
			}
			if sum != n {
				return math.Inf(1), free // tokens that cannot be
			}
			return x, free - 1
		}
		count := map[[3]int32]int{}
		const n = 3000
		s := target.NewSession()
		accepted, drafted := 0, 0
		for i := range n {
			if _, err := s.Prompt(t.Context(), []int32{tokBOS}); err != nil {
				t.Fatal(err)
			}
			o := GenerateOptions{SampleOptions: so, MaxTokens: 4, Drafter: dr, DraftTokens: 4}
			o.Seed = uint64(i)*7919 + 11
			p := &speculation{drafter: dr, n: 3, most: 3, steps: 10} // never plain
			if err := dr.begin(o); err != nil {
				t.Fatal(err)
			}
			a, err := target.NewAnswer(s.tokens, o)
			if err != nil {
				t.Fatal(err)
			}
			s.seq.Drop()
			s.at = 0
			var ids []int32
			for len(ids) < 3 {
				toks, err := s.speculate(t.Context(), a, p)
				if err != nil {
					t.Fatal(err)
				}
				s.tokens = append(s.tokens, idsOf(toks)...)
				ids = append(ids, idsOf(toks)...)
			}
			count[[3]int32(ids[:3])]++
			accepted += s.Stats().Accepted
			drafted += s.Stats().Drafted
		}
		x, free := chi(count, n, 1)
		// Mean free, deviation sqrt(2 free): six deviations happen by chance less
		// than once in a million runs, and the seeds are fixed.
		if limit := float64(free) + 6*math.Sqrt(2*float64(free)); x > limit {
			t.Errorf("%s: chi-square %.1f with %d degrees of freedom, want below %.1f", name, x, free, limit)
		}
		if y, free := chi(count, n, 2); y < 5*(float64(free)+6*math.Sqrt(2*float64(free))) {
			t.Errorf("%s: the draft's distribution is too close to tell them apart: %.1f", name, y)
		}
		if drafted == 0 || accepted == 0 || accepted == drafted {
			t.Errorf("%s: %d of %d accepted", name, accepted, drafted)
		}
		s.Close()
	}
}

func TestSpeculateRefuses(t *testing.T) {
	m := fakeModel(t, &fake{script: hashed}, 0, Options{Context: 64})
	s := promptOf(t, m, tokBOS)
	if _, _, err := answer(t, s, GenerateOptions{Drafter: &Lookup{}, DraftTokens: -1}); err == nil {
		t.Error("-1 proposals are accepted")
	}
	for _, c := range [][2]int{{-1, 2}, {3, 2}, {1, 65}} {
		if _, err := NewLookup(c[0], c[1]); err == nil {
			t.Errorf("a lookup of %v is accepted", c)
		}
	}
	other, err := Open("../testdata/stories.gguf", Options{Threads: 1, Context: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var e *VocabError
	if _, err := NewDraft(m, other); !errors.As(err, &e) || !strings.Contains(err.Error(), fmt.Sprint(other.limits.Vocab)) || !strings.Contains(err.Error(), fmt.Sprint(m.limits.Vocab)) {
		t.Errorf("another vocabulary: %v", err)
	}
}
