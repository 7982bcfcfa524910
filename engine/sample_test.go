package engine

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

func sampler(t testing.TB, vocab int, o SampleOptions) *Sampler {
	t.Helper()
	s, err := NewSampler(vocab, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func randomLogits(n int, seed uint64, scale float64) []float32 {
	r := rand.New(rand.NewPCG(seed, 2))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64() * scale)
	}
	return x
}

// TestSamplerEdges is NU-15: all combinations of extreme options.
func TestSamplerEdges(t *testing.T) {
	const vocab = 70
	biasAll := make([]Bias, vocab)
	for i := range biasAll {
		biasAll[i] = Bias{int32(i), -100}
	}
	logits := map[string][]float32{
		"random": randomLogits(vocab, 1, 3),
		"flat":   make([]float32, vocab),
		"huge":   randomLogits(vocab, 2, 1e37),
		"one":    append(slices.Repeat([]float32{float32(math.Inf(-1))}, vocab-1), 2),
	}
	history := []int32{1, 2, 3, 3, 69, 5}
	for name, x := range logits {
		greedy := argmax(x)
		for _, temp := range []float64{0, 1e-300, 1e-6, 1, 1e6, math.MaxFloat64} {
			for _, k := range []int{math.MinInt, -1, 0, 1, 2, vocab, vocab + 1, 1<<31 - 1} {
				for _, p := range []float64{-1, 0, 1e-300, 1e-9, 0.5, 1, 1.5, math.Inf(1), math.Inf(-1)} {
					for _, mp := range []float64{-1, 0, 1e-300, 0.05, 1, 2, math.Inf(1)} {
						for _, bias := range [][]Bias{nil, biasAll} {
							o := SampleOptions{Temperature: temp, TopK: k, TopP: p, MinP: mp, Bias: bias, Seed: 7, RepeatPenalty: 1}
							s, again := sampler(t, vocab, o), sampler(t, vocab, o)
							for range 3 {
								id, err := s.Pick(x, history)
								if err != nil || id < 0 || id >= vocab || math.IsInf(float64(x[id]), -1) {
									t.Fatalf("%s %+v: token %d, %v", name, o, id, err)
								}
								if id2, _ := again.Pick(x, history); id2 != id {
									t.Fatalf("%s %+v: the same seed gives %d and %d", name, o, id, id2)
								}
								if sure := temp == 0 || k == 1 || p > 0 && p <= 1e-9; sure && bias == nil && id != greedy {
									t.Fatalf("%s %+v: token %d, want %d", name, o, id, greedy)
								}
								if (mp >= 1 || temp <= 1e-300) && bias == nil && x[id] != x[greedy] {
									t.Fatalf("%s %+v: token %d of logit %v, want %v", name, o, id, x[id], x[greedy])
								}
							}
						}
					}
				}
			}
		}
	}
}

func TestSamplerRefuses(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, o := range []SampleOptions{
		{Temperature: nan}, {Temperature: -1}, {Temperature: inf}, {TopP: nan}, {MinP: nan},
		{RepeatPenalty: nan}, {RepeatPenalty: -1}, {RepeatPenalty: inf},
		{Bias: []Bias{{-1, 0}}}, {Bias: []Bias{{10, 0}}}, {Bias: []Bias{{1, float32(nan)}}}, {Bias: []Bias{{1, float32(inf)}}},
		{Suppress: []int32{10}}, {Suppress: []int32{-1}},
	} {
		if _, err := NewSampler(10, o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

func TestSamplerNothingLeft(t *testing.T) {
	none := slices.Repeat([]float32{float32(math.Inf(-1))}, 10)
	all := []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	for _, temp := range []float64{0, 1} {
		for _, o := range []SampleOptions{{}, {TopK: 3}, {TopP: 0.5}, {MinP: 0.1}} {
			o.Temperature = temp
			if _, err := sampler(t, 10, o).Pick(none, nil); !errors.Is(err, ErrNoToken) {
				t.Errorf("%+v: %v", o, err)
			}
			o.Suppress = all
			if _, err := sampler(t, 10, o).Pick(make([]float32, 10), nil); !errors.Is(err, ErrNoToken) {
				t.Errorf("all suppressed: %v", err)
			}
		}
	}
}

func TestGreedyTakesLowestOfEquals(t *testing.T) {
	x := []float32{1, 3, 3, 2, 3}
	if id, _ := sampler(t, 5, SampleOptions{}).Pick(x, nil); id != 1 {
		t.Errorf("token %d, want 1", id)
	}
	if id, _ := sampler(t, 5, SampleOptions{Suppress: []int32{1}}).Pick(x, nil); id != 2 {
		t.Errorf("token %d, want 2", id)
	}
	if id, _ := sampler(t, 5, SampleOptions{Bias: []Bias{{3, 5}}}).Pick(x, nil); id != 3 {
		t.Errorf("token %d, want 3", id)
	}
	if x[3] != 2 {
		t.Error("the logits were changed")
	}
}

func TestRepeatPenalty(t *testing.T) {
	x := []float32{4, 3, -1, -2}
	s := sampler(t, 4, SampleOptions{RepeatPenalty: 2})
	s.borrow()
	got := s.adjust(x, []int32{0, 2, 0, 99, -1})
	if want := []float32{2, 3, -2, -2}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: each token once", got, want)
	}
	s = sampler(t, 4, SampleOptions{RepeatPenalty: 2, RepeatWindow: 1})
	s.borrow()
	if got, want := s.adjust(x, []int32{0, 1}), []float32{4, 1.5, -1, -2}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: the last token only", got, want)
	}
	s = sampler(t, 4, SampleOptions{RepeatPenalty: 1e-30})
	s.borrow()
	for _, v := range s.adjust([]float32{3e38, 0, -3e38, float32(math.Inf(-1))}, []int32{0, 1, 2, 3}) {
		if v != v || math.IsInf(float64(v), 1) {
			t.Errorf("%v after an extreme penalty", v)
		}
	}
}

// choose by sorting: what selection must agree with.
func sorted(x []float32, o SampleOptions) []int32 {
	ids := make([]int32, len(x))
	for i := range ids {
		ids[i] = int32(i)
	}
	slices.SortFunc(ids, func(a, b int32) int { return cmp.Or(cmp.Compare(x[b], x[a]), cmp.Compare(a, b)) })
	top := float64(x[ids[0]])
	if o.TopK > 0 {
		ids = ids[:min(o.TopK, len(ids))]
	}
	if o.MinP > 0 {
		for i, id := range ids {
			if x[id] < float32(top)+float32(math.Log(o.MinP)) {
				ids = ids[:i]
				break
			}
		}
	}
	if o.TopP > 0 && o.TopP < 1 {
		sum := 0.0
		for _, id := range ids {
			sum += math.Exp(float64(x[id]) - top)
		}
		part := 0.0
		for i, id := range ids {
			if part += math.Exp(float64(x[id]) - top); part >= o.TopP*sum {
				ids = ids[:i+1]
				break
			}
		}
	}
	slices.Sort(ids)
	return ids
}

func TestChoose(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 600 {
		vocab := 1 + r.IntN(700)
		x := randomLogits(vocab, uint64(n), []float64{0.01, 1, 4, 30}[n%4])
		if n%5 == 0 {
			for i := range x {
				x[i] = float32(math.Round(float64(x[i]))) // many equals
			}
		}
		o := SampleOptions{Temperature: 1, TopK: r.IntN(vocab + 1), TopP: r.Float64(), MinP: r.Float64() * r.Float64() * 0.2}
		switch n % 3 {
		case 0:
			o.TopK = 0
		case 1:
			o.TopP = 0
		}
		s := sampler(t, vocab, o)
		s.borrow()
		var got []int32
		for _, c := range s.choose(x, x[argmax(x)]) {
			got = append(got, c.id)
		}
		slices.Sort(got)
		if want := sorted(x, o); !slices.Equal(got, want) {
			t.Fatalf("case %d, %+v: %d tokens %v, want %d %v", n, o, len(got), got, len(want), want)
		}
	}
}

// TestDrawFrequencies draws often and compares with the probabilities.
func TestDrawFrequencies(t *testing.T) {
	x := []float32{1, 0, -1, 2, 0.5}
	for _, o := range []SampleOptions{{Temperature: 1}, {Temperature: 2}, {Temperature: 0.5, TopK: 3}, {Temperature: 1, TopP: 0.8}, {Temperature: 3, MinP: 0.3}} {
		keep := sorted(x, o)
		sum := 0.0
		want := make([]float64, len(x))
		for _, id := range keep {
			want[id] = math.Exp(float64(x[id]) / o.Temperature)
			sum += want[id]
		}
		const n = 200000
		got := make([]float64, len(x))
		s := sampler(t, len(x), o)
		for range n {
			id, err := s.Pick(x, nil)
			if err != nil {
				t.Fatal(err)
			}
			got[id]++
		}
		for i := range x {
			p := want[i] / sum
			if d := math.Abs(got[i]/n - p); d > 5*math.Sqrt(p*(1-p)/n) {
				t.Errorf("%+v: token %d was drawn %.4f of the time, want %.4f", o, i, got[i]/n, p)
			}
		}
	}
}

func TestSeeds(t *testing.T) {
	x := randomLogits(1000, 1, 1)
	draw := func(seed uint64) string {
		s := sampler(t, len(x), SampleOptions{Temperature: 1, TopP: 0.95, Seed: seed})
		var ids []int32
		for range 20 {
			id, _ := s.Pick(x, nil)
			ids = append(ids, id)
		}
		return fmt.Sprint(ids)
	}
	first := draw(1)
	if again := draw(1); again != first || draw(2) == first {
		t.Error("seeds do not decide the draws")
	}
}

func BenchmarkPick(b *testing.B) {
	for _, c := range []struct {
		name string
		o    SampleOptions
	}{
		{"greedy", SampleOptions{}},
		{"temperature", SampleOptions{Temperature: 1}},
		{"top-k=40", SampleOptions{Temperature: 1, TopK: 40}},
		{"top-k=100000", SampleOptions{Temperature: 1, TopK: 100000}},
		{"top-p=0.95", SampleOptions{Temperature: 1, TopP: 0.95}},
		{"min-p=0.05", SampleOptions{Temperature: 1, MinP: 0.05}},
		{"usual", SampleOptions{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, RepeatPenalty: 1.1}},
	} {
		for _, spread := range []float64{0, 3} {
			b.Run(fmt.Sprintf("%s/262144/spread=%v", c.name, spread), func(b *testing.B) {
				x := randomLogits(262144, 1, spread)
				s := sampler(b, len(x), c.o)
				for b.Loop() {
					s.Pick(x, nil)
				}
			})
		}
	}
}

// TestCountPenalties: what was chosen becomes less likely each time, or once;
// the prompt does not count, and Reset forgets.
func TestCountPenalties(t *testing.T) {
	logits := []float32{3, 2.5, 1, float32(math.Inf(-1))}
	pick := func(o SampleOptions) (ids []int32) {
		s, err := NewSampler(len(logits), o)
		if err != nil {
			t.Fatal(err)
		}
		for round := range 2 {
			ids = ids[:0]
			for range 6 {
				id, err := s.Pick(logits, []int32{0, 0, 0, 3})
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, id)
			}
			if round == 0 {
				s.Reset()
			}
		}
		return ids
	}
	for _, c := range []struct {
		o    SampleOptions
		want []int32
	}{
		{SampleOptions{}, []int32{0, 0, 0, 0, 0, 0}},
		{SampleOptions{PresencePenalty: 1}, []int32{0, 1, 0, 0, 0, 0}},
		{SampleOptions{FrequencyPenalty: 1}, []int32{0, 1, 0, 1, 0, 2}},
		{SampleOptions{FrequencyPenalty: -1}, []int32{0, 0, 0, 0, 0, 0}},
	} {
		if got := pick(c.o); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.o, got, c.want)
		}
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		if _, err := NewSampler(4, SampleOptions{FrequencyPenalty: bad}); err == nil {
			t.Errorf("a penalty of %v is taken", bad)
		}
	}
}

// TestSamplersShareScratch: a sampler that waits holds nothing, and what others
// left behind in the memory changes no choice.
func TestSamplersShareScratch(t *testing.T) {
	const vocab = 700
	r := rand.New(rand.NewPCG(4, 4))
	var pool sync.Pool
	var own, shared []*Sampler
	for i, o := range []SampleOptions{
		{}, {Bias: []Bias{{3, 2}}}, {Temperature: 1}, {Temperature: 1, TopK: 9}, {Temperature: 2, TopP: 0.9},
		{RepeatPenalty: 1.4}, {Temperature: 1, RepeatPenalty: 3, MinP: 0.01}, {Suppress: []int32{1, 2}, Temperature: 0.3}, {FrequencyPenalty: 0.5, PresencePenalty: 0.1},
	} {
		o.Seed = uint64(i)
		own = append(own, sampler(t, vocab, o))
		s := sampler(t, vocab, o)
		s.pool = &pool
		shared = append(shared, s)
	}
	var history []int32
	x := make([]float32, vocab)
	for range 300 {
		for i := range x {
			x[i] = float32(r.NormFloat64() * 3)
		}
		k := r.IntN(len(own))
		want, err := own[k].Pick(x, history)
		if err != nil {
			t.Fatal(err)
		}
		got, err := shared[k].Pick(x, history)
		if err != nil || got != want {
			t.Fatalf("sampler %d: token %d, %v, want %d", k, got, err, want)
		}
		if shared[k].scratch != nil {
			t.Fatal("a sampler keeps its scratch memory")
		}
		history = append(history, got)
	}
}
