package engine

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"graphrun/backends/cpu/kern"
)

// ErrNoToken says that no token can be chosen: every logit is minus infinity
// after biases and suppressed ids.
var ErrNoToken = errors.New("engine: no token can be chosen: every logit is -inf")

// SampleOptions say how a token is chosen from logits. The zero value is the
// most likely token. Where a number lies outside its range the rule is written
// beside it; NaN is refused everywhere.
//
// The steps, in this order: Bias and Suppress, FrequencyPenalty and
// PresencePenalty, RepeatPenalty, Constraint, TopK, MinP, TopP, Temperature,
// draw. TopP and MinP look at probabilities at temperature 1, so that a high
// temperature does not open the door to unlikely tokens.
type SampleOptions struct {
	// Temperature divides the logits before the draw. 0 takes the largest
	// logit, of equal ones the lowest id. Negative or infinite is refused.
	Temperature float64
	// TopK keeps the K largest logits, of equal ones the lower ids. 0, a
	// negative number or one above the vocabulary keeps all.
	TopK int
	// TopP keeps the fewest tokens that have probability P together, at least
	// one. 0 and below, 1 and above keep all: a caller whose users mean "only
	// the first" by 0 passes a tiny number.
	TopP float64
	// MinP keeps tokens with at least P times the probability of the likeliest.
	// 0 and below keeps all; above 1 is 1, which keeps only the likeliest.
	MinP float64
	// RepeatPenalty divides the positive and multiplies the negative logits of
	// the last RepeatWindow tokens, prompt included. 0 and 1 change nothing;
	// negative or infinite is refused; others are brought into 1e-6 to 1e6.
	RepeatPenalty float64
	// RepeatWindow counts the tokens RepeatPenalty looks back on: 0 is 64, a
	// negative number the whole text.
	RepeatWindow int
	// FrequencyPenalty is taken from the logit of a token for each time it was
	// chosen since the start or Reset, PresencePenalty once if it was: tokens of
	// the prompt do not count. Negative numbers make repetition likelier. Infinite
	// is refused.
	FrequencyPenalty float64
	PresencePenalty  float64
	// Bias is added to the logits of single tokens. +inf and ids outside the
	// vocabulary are refused; -inf suppresses.
	Bias []Bias
	// Suppress names tokens that are never chosen.
	Suppress []int32
	// Seed starts the draws: same seed, options and logits, same tokens.
	Seed uint64
	// Constraint says which tokens may come at all: TopK, MinP and TopP choose
	// among what it allows. Pick moves it past each token.
	Constraint Constraint
}

// Bias is a number added to the logit of a token.
type Bias struct {
	ID  int32
	Add float32
}

const defaultRepeatWindow = 64

// check reports an option that no rule covers.
func (o *SampleOptions) check(vocab int) error {
	bad := func(name string, v float64, want string) error {
		return fmt.Errorf("engine: sampling: %s is %v, want %s", name, v, want)
	}
	switch t := o.Temperature; {
	case math.IsNaN(t) || t < 0 || math.IsInf(t, 0):
		return bad("temperature", t, "a finite number from 0 up")
	case math.IsNaN(o.TopP):
		return bad("top_p", o.TopP, "a number")
	case math.IsNaN(o.MinP):
		return bad("min_p", o.MinP, "a number")
	}
	if p := o.RepeatPenalty; math.IsNaN(p) || p < 0 || math.IsInf(p, 0) {
		return bad("repetition penalty", p, "a finite number from 0 up")
	}
	for name, p := range map[string]float64{"frequency penalty": o.FrequencyPenalty, "presence penalty": o.PresencePenalty} {
		if math.IsNaN(p) || math.IsInf(p, 0) {
			return bad(name, p, "a finite number")
		}
	}
	for _, b := range o.Bias {
		if b.ID < 0 || int(b.ID) >= vocab {
			return fmt.Errorf("engine: sampling: bias for token %d, the vocabulary has %d", b.ID, vocab)
		}
		if a := float64(b.Add); math.IsNaN(a) || math.IsInf(a, 1) {
			return bad(fmt.Sprintf("bias of token %d", b.ID), a, "a number or -inf")
		}
	}
	for _, id := range o.Suppress {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("engine: sampling: suppressed token %d, the vocabulary has %d", id, vocab)
		}
	}
	return nil
}

// Sampler chooses tokens from logits. After the first call choosing allocates
// nothing. It is for one goroutine at a time.
type Sampler struct {
	o        SampleOptions
	pcg      rand.PCG
	vocab    int
	counts   map[int32]int32 // how often each token was chosen, for the penalties
	chosen   []int32         // those that were
	pool     *sync.Pool      // of *scratch
	*scratch                 // during Pick
	target   []candidate     // of verify: p
	minus    []float64       // of verify: q by token, 0 between calls
}

// scratch is what choosing a token needs for the time of it: up to 25 bytes for
// each token of the vocabulary. The samplers of a model share them, so that a
// thousand answers that wait need none.
type scratch struct {
	work    []float32   // the logits after biases and penalty
	cand    []candidate // what top-k, min-p and top-p work on
	sums    []float64   // of blocks of weights, when nothing limits the draw
	allowed []uint64    // the constraint's mask
	seen    []uint32    // call number at which the penalty met a token
	call    uint32
}

// NewSampler returns a sampler for a vocabulary of the given size.
func NewSampler(vocab int, o SampleOptions) (*Sampler, error) {
	if err := o.check(vocab); err != nil {
		return nil, err
	}
	if o.TopK <= 0 || o.TopK >= vocab {
		o.TopK = 0
	}
	if o.TopP <= 0 || o.TopP >= 1 {
		o.TopP = 0
	}
	o.MinP = min(max(o.MinP, 0), 1)
	if o.RepeatPenalty == 0 {
		o.RepeatPenalty = 1
	}
	if o.RepeatWindow == 0 {
		o.RepeatWindow = defaultRepeatWindow
	}
	s := &Sampler{o: o, vocab: vocab, pool: new(sync.Pool)}
	if s.o.FrequencyPenalty != 0 || s.o.PresencePenalty != 0 {
		s.counts = make(map[int32]int32)
	}
	s.Reset()
	return s, nil
}

// adjusts reports whether the logits are changed before a token is chosen.
func (s *Sampler) adjusts() bool {
	return len(s.o.Bias) > 0 || len(s.o.Suppress) > 0 || s.o.RepeatPenalty != 1 || s.o.Constraint != nil || s.counts != nil
}

// selects reports whether top-k, min-p or top-p limit the draw.
func (s *Sampler) selects() bool { return s.o.TopK > 0 || s.o.TopP > 0 || s.o.MinP > 0 }

// borrow takes scratch memory and makes in it what is needed and not there yet.
func (s *Sampler) borrow() {
	c, ok := s.pool.Get().(*scratch)
	if !ok {
		c = new(scratch)
	}
	if c.work == nil && s.adjusts() {
		c.work = make([]float32, s.vocab)
	}
	if c.allowed == nil && s.o.Constraint != nil {
		c.allowed = make([]uint64, (s.vocab+63)/64)
	}
	if c.seen == nil && s.o.RepeatPenalty != 1 {
		c.seen = make([]uint32, s.vocab)
	}
	switch {
	case s.o.Temperature == 0:
	case s.selects():
		if c.cand == nil {
			c.cand = make([]candidate, 0, s.vocab)
		}
	case c.sums == nil:
		c.sums = make([]float64, (s.vocab+drawBlock-1)/drawBlock)
	}
	s.scratch = c
}

// giveBack returns the scratch memory.
func (s *Sampler) giveBack() {
	s.pool.Put(s.scratch)
	s.scratch = nil
}

// Reset starts the draws over from the seed, with nothing chosen yet. A
// constraint stays where it is.
func (s *Sampler) Reset() {
	s.pcg.Seed(s.o.Seed, 0x9e3779b97f4a7c15)
	clear(s.counts)
	s.chosen = s.chosen[:0]
}

// Pick chooses a token. logits are those after the last token of history; they
// are not changed, and must hold no NaN and no +inf: the engine's step has
// refused those. -inf everywhere is ErrNoToken; a constraint that allows nothing
// is ErrConstraint.
func (s *Sampler) Pick(logits []float32, history []int32) (int32, error) {
	s.borrow()
	defer s.giveBack()
	id, err := s.pick(logits, history)
	if err == nil {
		err = s.take(id)
	}
	return id, err
}

// take notes that a token was chosen.
func (s *Sampler) take(id int32) error {
	if s.o.Constraint != nil {
		if err := s.o.Constraint.Accept(id); err != nil {
			return err
		}
	}
	if s.counts != nil {
		if s.counts[id] == 0 {
			s.chosen = append(s.chosen, id)
		}
		s.counts[id]++
	}
	return nil
}

func (s *Sampler) pick(logits []float32, history []int32) (int32, error) {
	x, best, err := s.prepare(logits, history)
	if err != nil || s.o.Temperature == 0 {
		return best, err
	}
	if !s.selects() {
		return s.drawAll(x, x[best]), nil
	}
	return s.drawCandidates(s.choose(x, x[best]), x[best]), nil
}

// prepare returns the logits as they are chosen from, and the largest one's
// token.
func (s *Sampler) prepare(logits []float32, history []int32) (x []float32, best int32, err error) {
	x = s.adjust(logits, history)
	if s.o.Constraint != nil {
		if x, err = s.mask(x); err != nil {
			return nil, -1, err
		}
	}
	best = argmax(x)
	if best < 0 || math.IsInf(float64(x[best]), -1) {
		if s.o.Constraint != nil {
			return nil, -1, fmt.Errorf("%w: what the constraint allows is suppressed by a bias or by the vocabulary", ErrNoToken)
		}
		return nil, -1, ErrNoToken
	}
	return x, best, nil
}

// adjust returns the logits after biases, suppressed ids and penalty.
func (s *Sampler) adjust(logits []float32, history []int32) []float32 {
	if !s.adjusts() {
		return logits
	}
	x := s.work[:len(logits)]
	copy(x, logits)
	for _, b := range s.o.Bias {
		x[b.ID] = min(x[b.ID]+b.Add, math.MaxFloat32)
	}
	for _, id := range s.chosen {
		if math.IsInf(float64(x[id]), -1) {
			continue
		}
		less := s.o.FrequencyPenalty*float64(s.counts[id]) + s.o.PresencePenalty
		x[id] = float32(min(max(float64(x[id])-less, -math.MaxFloat32), math.MaxFloat32))
	}
	if s.o.RepeatPenalty != 1 {
		s.penalize(x, history)
	}
	for _, id := range s.o.Suppress {
		x[id] = float32(math.Inf(-1))
	}
	return x
}

func (s *Sampler) penalize(x []float32, history []int32) {
	if n := s.o.RepeatWindow; n > 0 && len(history) > n {
		history = history[len(history)-n:]
	}
	if s.call++; s.call == 0 { // wrapped: old marks would look new
		clear(s.seen)
		s.call = 1
	}
	p := float32(min(max(s.o.RepeatPenalty, 1e-6), 1e6))
	for _, id := range history {
		if id < 0 || int(id) >= len(x) || s.seen[id] == s.call {
			continue
		}
		s.seen[id] = s.call
		switch {
		case math.IsInf(float64(x[id]), -1): // stays: -inf times 0 is NaN
		case x[id] > 0:
			x[id] = min(x[id]/p, math.MaxFloat32)
		default:
			x[id] = max(x[id]*p, -math.MaxFloat32)
		}
	}
}

// argmax returns the index of the largest number, of equal ones the first, and
// -1 when all are NaN.
func argmax(x []float32) int32 { return int32(kern.ArgMax(x)) }

// uniform returns a number in [0,1).
func (s *Sampler) uniform() float64 { return float64(s.pcg.Uint64()>>11) * 0x1p-53 }

// weight is the unnormalized probability of logit x where the largest is top:
// at most 1, never NaN.
func (s *Sampler) weight(x, top float32) float64 {
	return math.Exp((float64(x) - float64(top)) / s.o.Temperature)
}

// drawBlock is the number of tokens whose weights drawAll sums up together.
const drawBlock = 256

// drawAll draws from the whole vocabulary: a pass for the sums of blocks, then
// one over the block that the draw fell into.
func (s *Sampler) drawAll(x []float32, top float32) int32 {
	sum := 0.0
	for i := range s.sums {
		part := 0.0
		for _, v := range x[i*drawBlock : min((i+1)*drawBlock, len(x))] {
			part += s.weight(v, top)
		}
		s.sums[i] = part
		sum += part
	}
	r := s.uniform() * sum
	block := 0
	for i, part := range s.sums {
		if part == 0 {
			continue
		}
		block = i
		if r < part {
			break
		}
		r -= part
	}
	from := block * drawBlock
	last := int32(-1)
	for i, v := range x[from:min(from+drawBlock, len(x))] {
		w := s.weight(v, top)
		if w == 0 {
			continue
		}
		last = int32(from + i)
		if r < w {
			break
		}
		r -= w
	}
	return last // never -1: the block has a weight
}

func (s *Sampler) drawCandidates(c []candidate, top float32) int32 {
	sum := 0.0
	for i := range c {
		c[i].w = s.weight(c[i].x, top)
		sum += c[i].w
	}
	r := s.uniform() * sum
	last := int32(-1)
	for i := range c {
		if c[i].w == 0 {
			continue
		}
		last = c[i].id
		if r < c[i].w {
			break
		}
		r -= c[i].w
	}
	return last
}
