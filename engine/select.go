package engine

import "math"

// candidate is a token that is still in the running.
type candidate struct {
	w  float64 // unnormalized probability
	x  float32 // logit
	id int32
}

// before orders candidates: larger logit first, of equal ones the lower id.
// No two are equal, so every selection below has one result.
func before(a, b candidate) bool {
	return a.x > b.x || a.x == b.x && a.id < b.id
}

// choose returns the candidates that top-k, min-p and top-p leave, at least
// one, in no order that means anything but always the same one.
//
// It sorts nothing. Each rule first gives a logit below which nothing can be
// left; what lies above is partitioned, as quickselect does.
func (s *Sampler) choose(x []float32, top float32) []candidate {
	// At temperature 1 p/pmax = exp(x-top): the floor of min-p is a logit.
	floor := float32(math.Inf(-1))
	if s.o.MinP > 0 {
		floor = min(top, top+float32(math.Log(s.o.MinP)))
	}
	if s.o.TopK > 0 && s.o.TopK <= len(x)/(2*topBlock) {
		floor = max(floor, s.topFloor(x))
	}
	sum := 0.0
	if s.o.TopP > 0 && s.o.TopK == 0 {
		for _, v := range x {
			if v >= floor {
				sum += math.Exp(float64(v) - float64(top))
			}
		}
		// Tokens with less than (1-P) of the mean weight have less than (1-P)
		// of the sum together: P is reached without them. The hundredth is for
		// rounding.
		mean := sum / float64(len(x))
		floor = max(floor, min(top, top+float32(math.Log((1-s.o.TopP)*mean)-0.01)))
	}
	c := s.cand[:0]
	for i, v := range x {
		if v >= floor && !math.IsInf(float64(v), -1) {
			c = append(c, candidate{x: v, id: int32(i)})
		}
	}
	s.cand = c
	if s.o.TopK > 0 && s.o.TopK < len(c) {
		selectCount(c, s.o.TopK)
		c = c[:s.o.TopK]
	}
	if s.o.TopP > 0 {
		part := 0.0
		for i := range c {
			c[i].w = math.Exp(float64(c[i].x) - float64(top))
			part += c[i].w
		}
		if s.o.TopK > 0 {
			sum = part
		}
		c = c[:selectMass(c, s.o.TopP*sum)]
	}
	return c
}

// topBlock is the number of tokens of which topFloor looks at the largest.
const topBlock = 16

// topFloor returns a logit that at least TopK tokens reach: the vocabulary is
// cut into blocks, and TopK of the blocks have a token as large as the TopK-th
// largest of the blocks' maxima.
func (s *Sampler) topFloor(x []float32) float32 {
	c := s.cand[:0]
	for i := 0; i < len(x); i += topBlock {
		m := x[i]
		for _, v := range x[i:min(i+topBlock, len(x))] {
			m = max(m, v)
		}
		c = append(c, candidate{x: m, id: int32(i)})
	}
	selectCount(c, s.o.TopK)
	floor := c[0].x
	for _, k := range c[:s.o.TopK] {
		floor = min(floor, k.x)
	}
	return floor
}

// selectCount moves the k first candidates to the front.
func selectCount(c []candidate, k int) {
	for lo, hi := 0, len(c); hi-lo > 1; {
		p := partition(c[lo:hi]) + lo
		switch {
		case k <= p:
			hi = p
		case k == p+1:
			return
		default:
			lo = p + 1
		}
	}
}

// selectMass moves the fewest first candidates whose weights sum to mass or
// more to the front and returns their number, at least 1.
func selectMass(c []candidate, mass float64) int {
	lo, hi := 0, len(c)
	for hi-lo > 1 {
		p := partition(c[lo:hi]) + lo
		sum := 0.0
		for _, x := range c[lo:p] {
			sum += x.w
		}
		switch {
		case sum >= mass && p > lo: // reached before the pivot
			hi = p
		case sum+c[p].w >= mass: // the pivot is the last one needed
			return p + 1
		default:
			mass -= sum + c[p].w
			lo = p + 1
		}
	}
	return min(lo+1, len(c))
}

// partition orders c around a pivot: those before it, the pivot, the rest. It
// returns the pivot's index. The pivot is the median of nine spread elements
// (of three in short slices).
func partition(c []candidate) int {
	n := len(c)
	m := median(c, 0, n/2, n-1)
	if n > 64 {
		e := n / 8
		m = median(c, median(c, 0, e, 2*e), median(c, n/2-e, n/2, n/2+e), median(c, n-1-2*e, n-1-e, n-1))
	}
	c[0], c[m] = c[m], c[0]
	pivot := c[0]
	i, j := 1, n-1
	for {
		for i <= j && before(c[i], pivot) {
			i++
		}
		for i <= j && before(pivot, c[j]) {
			j--
		}
		if i >= j {
			break
		}
		c[i], c[j] = c[j], c[i]
		i++
		j--
	}
	c[0], c[j] = c[j], c[0]
	return j
}

func median(c []candidate, i, j, k int) int {
	if before(c[j], c[i]) {
		i, j = j, i
	}
	if before(c[k], c[j]) {
		j = k
		if before(c[j], c[i]) {
			j = i
		}
	}
	return j
}

// topN writes the n largest logits to out in order, largest first, and returns
// out's filled part. It is for small n: one pass with insertion.
func topN(x []float32, out []Logprob, n int) []Logprob {
	out = out[:0]
	for i, v := range x {
		if len(out) == n && !(float64(v) > out[n-1].Logprob) {
			continue
		}
		if len(out) < n {
			out = append(out, Logprob{})
		}
		j := len(out) - 1
		for ; j > 0 && float64(v) > out[j-1].Logprob; j-- {
			out[j] = out[j-1]
		}
		out[j] = Logprob{ID: int32(i), Logprob: float64(v)}
	}
	return out
}
