package engine

import (
	"context"
	"errors"
	"fmt"
)

// VocabError says that a draft model has another vocabulary than the model.
type VocabError struct {
	Model, Draft int   // sizes
	Differ       int   // ids that stand for different tokens
	First        int32 // the lowest of them, -1 if none
	A, B         string
}

// Error prints the numbers.
func (e *VocabError) Error() string {
	if e.Model != e.Draft {
		return fmt.Sprintf("engine: the draft model has a vocabulary of %d tokens, the model one of %d; they must be the same: take a smaller model of the same family", e.Draft, e.Model)
	}
	return fmt.Sprintf("engine: the draft model's vocabulary differs from the model's in %d of %d tokens, first %d (%q instead of %q); they must be the same: take a smaller model of the same family",
		e.Differ, e.Model, e.First, e.B, e.A)
}

// sameVocab compares the vocabularies token by token.
func sameVocab(m, d *Model) error {
	e := &VocabError{Model: m.limits.Vocab, Draft: d.limits.Vocab, First: -1}
	if e.Model != e.Draft {
		return e
	}
	if a, b := m.Tokenizer.Size(), d.Tokenizer.Size(); a != b {
		return &VocabError{Model: a, Draft: b, First: -1}
	}
	for id := range int32(m.Tokenizer.Size()) {
		a, b := m.Tokenizer.TokenText(id), d.Tokenizer.TokenText(id)
		if a != b || m.Tokenizer.IsControl(id) != d.Tokenizer.IsControl(id) {
			if e.Differ == 0 {
				e.First, e.A, e.B = id, a, b
			}
			e.Differ++
		}
	}
	if e.Differ > 0 {
		return e
	}
	return nil
}

// Draft proposes what a smaller model of the same vocabulary would write.
type Draft struct {
	s       *Session
	sampler *Sampler
	props   []proposal
	room    [][]candidate // memory for the probabilities of each proposal
}

// NewDraft returns a drafter for m that uses the model d. Another vocabulary is
// a *VocabError. Close gives back its pages; d itself stays open.
func NewDraft(m, d *Model) (*Draft, error) {
	if err := sameVocab(m, d); err != nil {
		return nil, err
	}
	return &Draft{s: d.NewSession()}, nil
}

// Close gives back the draft's pages.
func (d *Draft) Close() error { return d.s.Close() }

// begin takes over how tokens are chosen. A constraint, and penalties for tokens
// chosen before, are left to the model, which does not accept what they rule out.
func (d *Draft) begin(o GenerateOptions) error {
	so := o.SampleOptions
	so.Constraint, so.FrequencyPenalty, so.PresencePenalty = nil, 0, 0
	so.Seed ^= 0x6a09e667f3bcc909 // draws of its own
	var err error
	d.sampler, err = NewSampler(d.s.m.limits.Vocab, so)
	return err
}

func (d *Draft) draft(ctx context.Context, text []int32, n int) ([]proposal, error) {
	d.props = d.props[:0]
	n = min(n, d.s.m.limits.Context-len(text))
	if n <= 0 {
		return nil, nil // the draft's context is the shorter one
	}
	if _, err := d.s.Prompt(ctx, text); err != nil {
		var full *PagesError
		if errors.As(err, &full) {
			return nil, nil
		}
		return nil, fmt.Errorf("draft model: %w", err)
	}
	for {
		i := len(d.props)
		d.props = append(d.props, proposal{})
		p := &d.props[i]
		var err error
		if d.sampler.o.Temperature == 0 {
			p.id, err = d.sampler.Pick(d.s.Logits(), d.s.Tokens())
		} else {
			if len(d.room) <= i {
				d.room = append(d.room, nil)
			}
			if p.probs, err = d.sampler.probs(d.room[i], d.s.Logits(), d.s.Tokens()); err == nil {
				d.room[i] = p.probs
				p.id = d.sampler.drawFrom(p.probs)
			}
		}
		if errors.Is(err, ErrNoToken) {
			return d.props[:i], nil
		}
		if err != nil {
			return nil, fmt.Errorf("draft model: %w", err)
		}
		if i+1 >= n || d.s.m.Tokenizer.IsEOG(p.id) {
			return d.props, nil
		}
		if err := d.s.Append(ctx, p.id); err != nil {
			return nil, fmt.Errorf("draft model: %w", err)
		}
	}
}
