package engine

import (
	"context"
	"fmt"
	"math"
)

// PerplexityOptions say how a long text is cut into windows. The text is cut
// into pieces of Window tokens that do not overlap; a rest is left out. In each
// the first token is replaced by BOS if the vocabulary adds one, the first half
// is only context, and the tokens of the second half are scored. This is how
// llama.cpp measures, so that numbers can be compared.
type PerplexityOptions struct {
	Window int // tokens; 0 is 512 or the context, whichever is less
	// Progress is called after each window.
	Progress func(done, windows int, p Perplexity)
}

// Perplexity is the exponential of the mean negative log-probability, with its
// standard error.
type Perplexity struct {
	Value   float64
	Error   float64 // one standard deviation
	Mean    float64 // mean negative log-probability, in nats
	Tokens  int     // scored
	Windows int
}

// mean gathers numbers for their mean and its standard error.
type mean struct {
	n          int
	sum, sumSq float64
}

func (m *mean) add(x float64) {
	m.n++
	m.sum += x
	m.sumSq += x * x
}

func (m *mean) value() float64 {
	if m.n == 0 {
		return 0
	}
	return m.sum / float64(m.n)
}

// err returns the standard error of the mean, 0 for fewer than two numbers.
func (m *mean) err() float64 {
	if m.n < 2 {
		return 0
	}
	v := m.sumSq/float64(m.n) - m.value()*m.value()
	return math.Sqrt(max(v, 0) / float64(m.n-1))
}

func (m *mean) perplexity(windows int) Perplexity {
	p := math.Exp(m.value())
	return Perplexity{Value: p, Error: p * m.err(), Mean: m.value(), Tokens: m.n, Windows: windows}
}

// windows returns the window length and the number of windows of a text.
func (m *Model) windows(tokens []int32, window int) (int, int, error) {
	if window == 0 {
		window = min(512, m.limits.Context)
	}
	if window < 4 || window > m.limits.Context {
		return 0, 0, fmt.Errorf("engine: a window of %d tokens; want 4 to the context of %d", window, m.limits.Context)
	}
	if len(tokens) < window {
		return 0, 0, fmt.Errorf("engine: the text has %d tokens, one window needs %d", len(tokens), window)
	}
	for _, id := range tokens {
		if uint(id) >= uint(m.limits.Vocab) {
			return 0, 0, fmt.Errorf("engine: token id %d, the vocabulary has %d", id, m.limits.Vocab)
		}
	}
	return window, len(tokens) / window, nil
}

// piece copies window i of tokens to dst, with BOS in front where it belongs.
func (m *Model) piece(dst, tokens []int32, i int) []int32 {
	w := cap(dst)
	dst = append(dst[:0], tokens[i*w:(i+1)*w]...)
	if v := m.Tokenizer.Vocab(); v.AddBOS && v.BOS >= 0 {
		dst[0] = v.BOS
	}
	return dst
}

// Perplexity measures how well the model predicts a text.
func (m *Model) Perplexity(ctx context.Context, tokens []int32, o PerplexityOptions) (Perplexity, error) {
	window, n, err := m.windows(tokens, o.Window)
	if err != nil {
		return Perplexity{}, err
	}
	s := m.NewSession()
	defer s.Close()
	var nll mean
	text := make([]int32, 0, window)
	for i := range n {
		text = m.piece(text, tokens, i)
		s.Reset()
		err := s.Append(ctx, text[:window/2]...)
		if err == nil {
			err = s.each(ctx, text[window/2:], func(k int, logits []float32) error {
				if t := window/2 + k + 1; t < window {
					nll.add(logSumExp(logits) - float64(logits[text[t]]))
				}
				return nil
			})
		}
		if err != nil {
			return nll.perplexity(i), err
		}
		if o.Progress != nil {
			o.Progress(i+1, n, nll.perplexity(i+1))
		}
	}
	return nll.perplexity(n), nil
}

// Divergence compares the predictions of a model with those of a base model on
// the same text.
type Divergence struct {
	Base, Model Perplexity
	KL          float64 // mean Kullback-Leibler divergence from base to model, in nats
	KLError     float64 // its standard error
	KLMax       float64
	Top1        float64 // share of positions at which both find the same token likeliest
	Top1Error   float64
}

// Compare measures m against base on a text, cut as PerplexityOptions say. Both
// vocabularies must have the same size; the token ids are taken to mean the
// same.
func (m *Model) Compare(ctx context.Context, base *Model, tokens []int32, o PerplexityOptions) (Divergence, error) {
	if m.limits.Vocab != base.limits.Vocab {
		return Divergence{}, fmt.Errorf("engine: vocabularies of %d and %d tokens cannot be compared", m.limits.Vocab, base.limits.Vocab)
	}
	if o.Window == 0 {
		o.Window = min(512, m.limits.Context, base.limits.Context)
	}
	window, n, err := m.windows(tokens, o.Window)
	if err == nil {
		_, _, err = base.windows(tokens, o.Window)
	}
	if err != nil {
		return Divergence{}, err
	}
	a, b := base.NewSession(), m.NewSession()
	defer a.Close()
	defer b.Close()
	// The base's logits of one piece are kept, no more than a step's rows.
	rows := min(m.limits.Rows, m.limits.Step, base.limits.Rows, base.limits.Step)
	kept := make([]float32, rows*base.limits.Vocab)
	c := comparison{vocab: base.limits.Vocab}
	text := make([]int32, 0, window)
	for i := range n {
		text = m.piece(text, tokens, i)
		a.Reset()
		b.Reset()
		if err = a.Append(ctx, text[:window/2]...); err == nil {
			err = b.Append(ctx, text[:window/2]...)
		}
		for from := window / 2; from < window && err == nil; from += rows {
			part := text[from:min(from+rows, window)]
			err = a.each(ctx, part, func(k int, logits []float32) error {
				copy(kept[k*c.vocab:], logits)
				return nil
			})
			if err != nil {
				break
			}
			err = b.each(ctx, part, func(k int, logits []float32) error {
				if t := from + k + 1; t < window {
					c.add(kept[k*c.vocab:(k+1)*c.vocab], logits, text[t])
				}
				return nil
			})
		}
		if err != nil {
			return c.result(i), err
		}
		if o.Progress != nil {
			o.Progress(i+1, n, c.b.perplexity(i+1))
		}
	}
	return c.result(n), nil
}

type comparison struct {
	vocab         int
	a, b, kl, top mean
	klMax         float64
}

func (c *comparison) add(base, model []float32, id int32) {
	za, zb := logSumExp(base), logSumExp(model)
	c.a.add(za - float64(base[id]))
	c.b.add(zb - float64(model[id]))
	kl := 0.0
	for i := range base {
		la := float64(base[i]) - za
		kl += math.Exp(la) * (la - (float64(model[i]) - zb))
	}
	kl = max(kl, 0) // rounding
	c.kl.add(kl)
	c.klMax = max(c.klMax, kl)
	same := 0.0
	if argmax(base) == argmax(model) {
		same = 1
	}
	c.top.add(same)
}

func (c *comparison) result(windows int) Divergence {
	return Divergence{Base: c.a.perplexity(windows), Model: c.b.perplexity(windows),
		KL: c.kl.value(), KLError: c.kl.err(), KLMax: c.klMax, Top1: c.top.value(), Top1Error: c.top.err()}
}
