package engine

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

// TestScore compares with log-probabilities computed one by one, also across
// chunks and after text that is there already.
func TestScore(t *testing.T) {
	m := fakeModel(t, &fake{script: hashed}, 0, Options{Context: 200, Chunk: 16, MaxRows: 5})
	text := randomText(60, 4)
	row := make([]float32, m.limits.Vocab)
	check := func(scores []Score, from int) {
		t.Helper()
		for i, sc := range scores {
			at := from + i
			if sc.ID != text[at] || sc.Known != (at > 0) {
				t.Fatalf("score %d: %+v", at, sc)
			}
			if at == 0 {
				continue
			}
			hashed(text[:at], text[:at], row)
			sum, rank := 0.0, 0
			for j, x := range row {
				sum += math.Exp(float64(x))
				if x > row[sc.ID] || x == row[sc.ID] && int32(j) < sc.ID {
					rank++
				}
			}
			want := float64(row[sc.ID]) - math.Log(sum)
			if math.Abs(sc.Logprob-want) > 1e-6 || sc.Rank != rank || len(sc.Top) != 2 || sc.Top[0].ID != argmax(row) {
				t.Fatalf("score %d: %+v, want %v, rank %d", at, sc, want, rank)
			}
		}
	}
	s := m.NewSession()
	scores, err := s.Score(t.Context(), text[:33], 2)
	if err != nil || len(scores) != 33 {
		t.Fatal(len(scores), err)
	}
	check(scores, 0)
	if scores, err = s.Score(t.Context(), text[33:], 2); err != nil || len(scores) != 27 {
		t.Fatal(len(scores), err)
	}
	check(scores, 33)
	hashed(text, text, row)
	if err := sameLogits(s.Logits(), row); err != nil {
		t.Error(err)
	}
	if scores, err = s.Score(t.Context(), nil, 0); err != nil || len(scores) != 0 {
		t.Error(scores, err)
	}
}

func TestPerplexity(t *testing.T) {
	// All logits equal: the perplexity is the size of the vocabulary, and its
	// error 0.
	m := fakeModel(t, &fake{script: func(_, _ []int32, logits []float32) { clear(logits) }}, 0, Options{Context: 64, MaxRows: 7})
	p, err := m.Perplexity(t.Context(), randomText(200, 1), PerplexityOptions{Window: 32})
	if err != nil || math.Abs(p.Value-float64(m.limits.Vocab)) > 1e-6 || p.Error > 1e-5 || p.Windows != 6 || p.Tokens != 6*15 {
		t.Errorf("%+v, %v", p, err)
	}
	// Against numbers computed one by one.
	m = fakeModel(t, &fake{script: hashed}, 0, Options{Context: 64, Chunk: 10, MaxRows: 7})
	text := randomText(130, 2)
	var nll []float64
	row := make([]float32, m.limits.Vocab)
	for i := 0; i+40 <= len(text); i += 40 {
		w := slices.Clone(text[i : i+40])
		w[0] = tokBOS
		for k := 21; k < 40; k++ {
			hashed(w[:k], w[:k], row)
			nll = append(nll, logSumExp(row)-float64(row[w[k]]))
		}
	}
	sum, sq := 0.0, 0.0
	for _, x := range nll {
		sum += x
	}
	avg := sum / float64(len(nll))
	for _, x := range nll {
		sq += (x - avg) * (x - avg)
	}
	want := math.Exp(avg)
	wantErr := want * math.Sqrt(sq/float64(len(nll))/float64(len(nll)-1))
	calls := 0
	p, err = m.Perplexity(t.Context(), text, PerplexityOptions{Window: 40, Progress: func(done, n int, _ Perplexity) {
		if calls++; done != calls || n != 3 {
			t.Errorf("progress %d of %d", done, n)
		}
	}})
	if err != nil || calls != 3 || math.Abs(p.Value-want) > 1e-6*want || math.Abs(p.Error-wantErr) > 1e-6*wantErr {
		t.Errorf("%+v, %v, want %v ± %v", p, err, want, wantErr)
	}
	for _, w := range []int{-1, 3, 65} {
		if _, err := m.Perplexity(t.Context(), text, PerplexityOptions{Window: w}); err == nil {
			t.Errorf("a window of %d is accepted", w)
		}
	}
	if _, err := m.Perplexity(t.Context(), text[:10], PerplexityOptions{}); err == nil || !strings.Contains(err.Error(), "10 tokens") {
		t.Errorf("a short text: %v", err)
	}
}

func TestCompare(t *testing.T) {
	text := randomText(200, 3)
	m := fakeModel(t, &fake{script: hashed}, 0, Options{Context: 64, MaxRows: 7})
	same := fakeModel(t, &fake{script: hashed}, 0, Options{Context: 50, MaxRows: 4})
	d, err := m.Compare(t.Context(), same, text, PerplexityOptions{Window: 50})
	if err != nil || d.KL != 0 || d.KLMax != 0 || d.Top1 != 1 || d.Base != d.Model || d.Base.Tokens != 4*24 {
		t.Errorf("%+v, %v", d, err)
	}
	p, err := m.Perplexity(t.Context(), text, PerplexityOptions{Window: 50})
	if err != nil || math.Abs(p.Value-d.Model.Value) > 1e-9 {
		t.Errorf("%+v, want %+v", d.Model, p)
	}
	// Two logits against each other: KL is known.
	two := func(x float32) *fake {
		return &fake{script: func(_, _ []int32, logits []float32) {
			for i := range logits {
				logits[i] = -1e4
			}
			logits[0], logits[1] = 0, x
		}}
	}
	a, b := fakeModel(t, two(0), 0, Options{Context: 64}), fakeModel(t, two(1), 0, Options{Context: 64})
	d, err = b.Compare(t.Context(), a, text, PerplexityOptions{})
	e := math.E
	want := 0.5*math.Log(0.5*(1+e)) + 0.5*math.Log(0.5*(1+e)/e)
	if err != nil || math.Abs(d.KL-want) > 1e-6 || d.KLError > 1e-6 || d.Top1 != 0 {
		t.Errorf("%+v, %v, want KL %v", d, err, want)
	}
}

func TestEmbed(t *testing.T) {
	m := fakeModel(t, &fake{script: hashed}, 0, Options{Context: 100, Chunk: 16, MaxRows: 3})
	text := randomText(50, 1)
	sum := float32(0)
	for _, id := range text {
		sum += float32(id)
	}
	last := float32(text[49])
	one := []float32{0.26726124, 0.5345225, 0.80178374} // 1, 2, 3 to length 1
	for _, c := range []struct {
		o    EmbedOptions
		want []float32
	}{
		{EmbedOptions{}, one},
		{EmbedOptions{Pool: PoolLast}, one},
		{EmbedOptions{Raw: true}, []float32{sum / 50, 2 * sum / 50, 3 * sum / 50}},
		{EmbedOptions{Raw: true, Pool: PoolLast}, []float32{last, 2 * last, 3 * last}},
	} {
		got, err := m.Embed(t.Context(), text, c.o)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if math.Abs(float64(got[i]-c.want[i])) > 1e-5*math.Abs(float64(c.want[i])) {
				t.Errorf("%+v: %v, want %v", c.o, got, c.want)
				break
			}
		}
	}
	if zero, err := m.Embed(t.Context(), []int32{0}, EmbedOptions{}); err != nil || !slices.Equal(zero, []float32{0, 0, 0}) {
		t.Errorf("zeros become %v, %v", zero, err)
	}
	if _, err := m.Embed(t.Context(), nil, EmbedOptions{}); !errors.Is(err, ErrEmpty) {
		t.Errorf("no tokens: %v", err)
	}
	if _, err := m.Embed(t.Context(), text, EmbedOptions{Pool: 9}); err == nil {
		t.Error("an unknown pooling is accepted")
	}
	if full, _ := m.embedder.cache.Use(); full.Used != 0 {
		t.Errorf("%d pages are lost", full.Used)
	}
}
