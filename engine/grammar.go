package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"graphrun/loaders"
)

// Constraint limits which token may come next; package grammar makes them from
// JSON Schemas and grammars. One belongs to one answer.
//
// A constraint may have two methods more. TrimSpace() is called before the first
// token where a space at the very start is left out of the text (see
// loaders.DecodeOptions.KeepPrefix). Err() error tells why Mask allowed nothing.
type Constraint interface {
	// Mask clears the bit of every token id that may not come next: bit id%64
	// of mask[id/64]. All bits are set before, those of ids above the
	// vocabulary too, which are cleared as well. The bits of tokens that end a
	// generation stay set only where the text may end.
	Mask(mask []uint64)
	// Accept moves past a token that was chosen. It is an error if Mask had not
	// allowed it.
	Accept(id int32) error
	// Done reports that nothing more can follow: the answer ends.
	Done() bool
}

// ErrConstraint says that a constraint allows no token at all.
var ErrConstraint = errors.New("engine: the constraint allows no token")

// mask returns x with -inf for every token that the constraint does not allow.
// x may be s.work itself.
func (s *Sampler) mask(x []float32) ([]float32, error) {
	for i := range s.allowed {
		s.allowed[i] = math.MaxUint64
	}
	s.o.Constraint.Mask(s.allowed)
	out, inf := s.work[:len(x)], float32(math.Inf(-1))
	some := false
	for w, bits := range s.allowed {
		from := w * 64
		to := min(from+64, len(x))
		if to-from < 64 {
			bits &= 1<<(to-from) - 1
		}
		switch bits {
		case 0:
			for i := from; i < to; i++ {
				out[i] = inf
			}
			continue
		case math.MaxUint64:
			copy(out[from:to], x[from:to])
		default:
			for i := from; i < to; i++ {
				if bits>>(i-from)&1 == 0 {
					out[i] = inf
				} else {
					out[i] = x[i]
				}
			}
		}
		some = true
	}
	if !some {
		if e, ok := s.o.Constraint.(interface{ Err() error }); ok && e.Err() != nil {
			return nil, fmt.Errorf("%w: %w", ErrConstraint, e.Err())
		}
		return nil, fmt.Errorf("%w of the %d: the vocabulary cannot spell what must come next", ErrConstraint, len(x))
	}
	return out, nil
}

// endings makes the tokens of GenerateOptions.EOG, which a constraint knows
// nothing of, follow the vocabulary's: they may come where one of those may.
type endings struct {
	Constraint
	extra []int32 // of GenerateOptions
	eog   []int32 // of the vocabulary
}

func newEndings(c Constraint, t *loaders.Tokenizer, extra []int32) Constraint {
	e := &endings{Constraint: c, eog: t.Vocab().EOG}
	for _, id := range extra {
		if id >= 0 && !t.IsEOG(id) {
			e.extra = append(e.extra, id)
		}
	}
	if len(e.extra) == 0 {
		return c
	}
	return e
}

func bit(mask []uint64, id int32) bool {
	return id >= 0 && int(id/64) < len(mask) && mask[id/64]>>(id%64)&1 == 1
}

// Mask implements Constraint.
func (e *endings) Mask(mask []uint64) {
	e.Constraint.Mask(mask)
	end := slices.ContainsFunc(e.eog, func(id int32) bool { return bit(mask, id) })
	for _, id := range e.extra {
		switch {
		case int(id/64) >= len(mask):
		case end:
			mask[id/64] |= 1 << (id % 64)
		default:
			mask[id/64] &^= 1 << (id % 64)
		}
	}
}

// Accept implements Constraint.
func (e *endings) Accept(id int32) error {
	if slices.Contains(e.extra, id) {
		id = e.eog[0]
	}
	return e.Constraint.Accept(id)
}

// Err returns the constraint's error.
func (e *endings) Err() error {
	if c, ok := e.Constraint.(interface{ Err() error }); ok {
		return c.Err()
	}
	return nil
}
