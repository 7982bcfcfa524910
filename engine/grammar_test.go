package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// turns is a constraint that allows a list of tokens at each step and is done
// after the last.
type turns struct {
	list [][]int32
	at   int
}

func (c *turns) Mask(mask []uint64) {
	clear(mask)
	if c.at < len(c.list) {
		for _, id := range c.list[c.at] {
			mask[id/64] |= 1 << (id % 64)
		}
	}
}

func (c *turns) Accept(id int32) error {
	if c.at >= len(c.list) || !slices.Contains(c.list[c.at], id) {
		return fmt.Errorf("token %d was not allowed at step %d", id, c.at)
	}
	c.at++
	return nil
}

func (c *turns) Done() bool { return c.at >= len(c.list) }

// Every way of choosing obeys the constraint, and chooses among what it allows
// as if there were nothing else.
func TestConstraintSampler(t *testing.T) {
	const vocab = 300
	few := []int32{3, 63, 64, 65, 127, 299}
	for _, o := range []SampleOptions{
		{}, {Temperature: 1}, {Temperature: 1, TopK: 3}, {Temperature: 1, TopP: 0.5}, {Temperature: 2, MinP: 0.1},
		{Temperature: 1, RepeatPenalty: 2}, {Bias: []Bias{{ID: 100, Add: 1e6}}}, {Temperature: 1e6, Suppress: []int32{64}},
	} {
		met := map[int32]bool{}
		for seed := range uint64(200) {
			x := randomLogits(vocab, seed, 3)
			before := slices.Clone(x)
			o.Seed, o.Constraint = seed, &turns{list: [][]int32{few}}
			id, err := sampler(t, vocab, o).Pick(x, []int32{3, 64})
			if err != nil || !slices.Contains(few, id) {
				t.Fatalf("%+v: token %d, %v; allowed are %v", o, id, err, few)
			}
			if err := sameLogits(x, before); err != nil {
				t.Fatalf("the caller's logits changed: %v", err)
			}
			if o.Temperature == 0 {
				for _, other := range few {
					if x[other] > x[id] {
						t.Fatalf("token %d of logit %v, %d has %v", id, x[id], other, x[other])
					}
				}
			}
			met[id] = true
		}
		if want := len(few) - len(o.Suppress); o.MinP == 0 && len(met) != want {
			t.Errorf("%+v: only %v were chosen", o, met)
		}
	}
	s := sampler(t, vocab, SampleOptions{Constraint: &turns{list: [][]int32{few, few}}, Temperature: 1})
	if _, err := s.Pick(randomLogits(vocab, 1, 1), nil); err != nil {
		t.Fatal(err)
	}
	c := &turns{list: slices.Repeat([][]int32{few}, 1000)}
	s, x := sampler(t, vocab, SampleOptions{Constraint: c}), randomLogits(vocab, 1, 1)
	if n := testing.AllocsPerRun(500, func() { s.Pick(x, nil) }); n != 0 {
		t.Errorf("%v allocations per token", n)
	}
}

func TestConstraintImpossible(t *testing.T) {
	x := randomLogits(70, 1, 1)
	if _, err := sampler(t, 70, SampleOptions{Constraint: &turns{list: [][]int32{nil}}}).Pick(x, nil); !errors.Is(err, ErrConstraint) {
		t.Errorf("nothing allowed: %v", err)
	}
	// Bits above the vocabulary are nobody's.
	if _, err := sampler(t, 70, SampleOptions{Constraint: &turns{list: [][]int32{{70, 127}}}}).Pick(x, nil); !errors.Is(err, ErrConstraint) {
		t.Errorf("only padding allowed: %v", err)
	}
	_, err := sampler(t, 70, SampleOptions{Constraint: &turns{list: [][]int32{{5}}}, Suppress: []int32{5}}).Pick(x, nil)
	if !errors.Is(err, ErrNoToken) || !strings.Contains(err.Error(), "constraint") {
		t.Errorf("allowed but suppressed: %v", err)
	}
}

// An answer under a constraint: forced tokens, log-probabilities of the model's
// own logits, ends by tokens of the vocabulary, of the options, and by Done.
func TestConstraintAnswer(t *testing.T) {
	f := &fake{script: chain(nil)} // token 0 always has logit 10, others 0
	m := fakeModel(t, f, 0, Options{})
	one := func(text string) [][]int32 {
		var list [][]int32
		for _, id := range letters(text) {
			list = append(list, []int32{id})
		}
		return list
	}
	s := promptOf(t, m, tokBOS, tokA)
	text, toks, err := answer(t, s, GenerateOptions{SampleOptions: SampleOptions{Constraint: &turns{list: one("{yes}")}}, Top: 1})
	if err != nil || text != "{yes}" || s.StopReason() != StopString {
		t.Errorf("%q, %v, ended by %q", text, err, s.StopReason())
	}
	sum := math.Log(math.Exp(10) + float64(f.vocab-1))
	for _, tok := range toks {
		if math.Abs(tok.Logprob+sum) > 1e-4 || tok.Top[0].ID != 0 || math.Abs(tok.Top[0].Logprob-(10-sum)) > 1e-4 {
			t.Errorf("token %d: log-probability %v, top %v; want %v beside token 0 with %v", tok.ID, tok.Logprob, tok.Top, -sum, 10-sum)
		}
	}
	// Ends of generation: allowed last, beside a letter that is never first.
	const own = tokWords + 3
	for _, o := range []GenerateOptions{{}, {EOG: []int32{own}}} {
		list := append(one("ab"), []int32{tokEOS, tokEOT})
		o.Constraint = &turns{list: list}
		o.Bias = []Bias{{ID: own, Add: 100}} // wants to end at once, and may not
		s := promptOf(t, m, tokBOS, tokA)
		text, _, err := answer(t, s, o)
		if err != nil || text != "ab" || s.StopReason() != StopEOG {
			t.Errorf("%v: %q, %v, ended by %q", o.EOG, text, err, s.StopReason())
		}
	}
	s = promptOf(t, m, tokBOS, tokA)
	if text, toks, err := answer(t, s, GenerateOptions{SampleOptions: SampleOptions{Constraint: &turns{}}}); err != nil || text != "" || len(toks) != 0 || s.StopReason() != StopString {
		t.Errorf("done from the start: %q, %v, ended by %q", text, err, s.StopReason())
	}
	if _, _, err := answer(t, promptOf(t, m, tokBOS), GenerateOptions{IgnoreEOG: true, SampleOptions: SampleOptions{Constraint: &turns{}}}); err == nil {
		t.Error("IgnoreEOG with a constraint is accepted")
	}
	s = promptOf(t, m, tokBOS)
	if _, _, err := answer(t, s, GenerateOptions{SampleOptions: SampleOptions{Constraint: &turns{list: [][]int32{nil}}}}); !errors.Is(err, ErrConstraint) || s.StopReason() != StopError {
		t.Errorf("nothing allowed: %v, ended by %q", err, s.StopReason())
	}
}
