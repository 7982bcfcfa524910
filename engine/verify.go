package engine

import "math"

// verify chooses a token as Pick does, where prop was proposed.
//
// A proposal x that was drawn with probability q(x) is taken with probability
// min(1, p(x)/q(x)), p being the probabilities that Pick draws with; otherwise
// the token is drawn from max(0, p-q). So it has the probabilities p, whatever q
// is. Without a draw there is nothing to correct: the token is picked, and the
// proposal was right or wrong.
//
// Source: Leviathan, Kalman and Matias, 2023.
func (s *Sampler) verify(logits []float32, history []int32, prop *proposal) (int32, error) {
	if prop == nil || prop.probs == nil || s.o.Temperature == 0 {
		return s.Pick(logits, history)
	}
	p, err := s.probs(s.target, logits, history)
	if err != nil {
		return -1, err
	}
	s.target = p
	id := s.residual(p, prop)
	return id, s.take(id)
}

func (s *Sampler) residual(p []candidate, prop *proposal) int32 {
	if s.minus == nil {
		s.minus = make([]float64, s.vocab)
	}
	px, qx := 0.0, 0.0
	for _, c := range p {
		if c.id == prop.id {
			px = c.w
		}
	}
	for _, c := range prop.probs {
		s.minus[c.id] = c.w
		if c.id == prop.id {
			qx = c.w
		}
	}
	id := prop.id
	if s.uniform()*qx >= px {
		sum := 0.0
		for _, c := range p {
			sum += max(0, c.w-s.minus[c.id])
		}
		if sum <= 0 { // p and q are the same but for rounding
			id = s.drawFrom(p)
		} else {
			r := s.uniform() * sum
			for _, c := range p {
				w := max(0, c.w-s.minus[c.id])
				if w == 0 {
					continue
				}
				id = c.id
				if r < w {
					break
				}
				r -= w
			}
		}
	}
	for _, c := range prop.probs {
		s.minus[c.id] = 0
	}
	return id
}

// probs writes the probabilities that Pick draws with to dst and returns its
// filled part. Temperature must not be 0.
func (s *Sampler) probs(dst []candidate, logits []float32, history []int32) ([]candidate, error) {
	s.borrow()
	defer s.giveBack()
	x, best, err := s.prepare(logits, history)
	if err != nil {
		return nil, err
	}
	top := x[best]
	dst = dst[:0]
	if !s.selects() {
		for i, v := range x {
			if !math.IsInf(float64(v), -1) {
				dst = append(dst, candidate{x: v, id: int32(i)})
			}
		}
	} else {
		dst = append(dst, s.choose(x, top)...)
	}
	sum := 0.0
	for i := range dst {
		dst[i].w = s.weight(dst[i].x, top)
		sum += dst[i].w
	}
	for i := range dst {
		dst[i].w /= sum
	}
	return dst, nil
}

// drawFrom draws a token from probabilities.
func (s *Sampler) drawFrom(p []candidate) int32 {
	r := s.uniform()
	last := int32(-1)
	for _, c := range p {
		if c.w == 0 {
			continue
		}
		last = c.id
		if r < c.w {
			break
		}
		r -= c.w
	}
	return last
}
