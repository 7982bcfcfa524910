package opstest

import (
	"math"

	"graphrun/graph"
	"graphrun/ops"
)

// span is a run of positions of one sequence, from first to last.
type span struct{ first, last int }

// attentionSpec is a step that writes all positions of its sequences and
// attends from each of them.
type attentionSpec struct {
	name    string
	h, g, k int
	dt      graph.DType
	seqs    []span
	pages   int // per sequence; a ring when fewer than the positions need
	p       ops.AttnParams
	sinks   bool
	shuffle bool
	turn    *ops.RopeParams // of the keys, on their way to the cache
	factors bool            // frequency factors with it
}

func attentionCases(exact bool) []*Case {
	var specs []attentionSpec
	for _, dt := range []graph.DType{graph.F32, graph.F16, graph.Q8_0} {
		narrow := 8
		if dt == graph.Q8_0 {
			narrow = 32
		}
		scale := func(k int) float32 { return float32(1 / math.Sqrt(float64(k))) }
		specs = append(specs,
			attentionSpec{name: "none", h: 2, g: 1, k: 64, dt: dt, seqs: []span{{0, -1}}, pages: 1},
			attentionSpec{name: "first", h: 1, g: 1, k: narrow, dt: dt, seqs: []span{{0, 0}}, pages: 1},
			attentionSpec{name: "block", h: 4, g: 2, k: 64, dt: dt, seqs: []span{{0, 16}}, pages: 2},
			attentionSpec{name: "page", h: 8, g: 1, k: 32, dt: dt, seqs: []span{{0, 64}}, pages: 2},
			attentionSpec{name: "pages", h: 6, g: 2, k: 96, dt: dt, seqs: []span{{0, 150}}, pages: 5},
			attentionSpec{name: "mixed", h: 4, g: 4, k: 64, dt: dt, seqs: []span{{0, 14}, {0, 65}, {0, 0}, {0, 31}}, pages: 2, shuffle: true},
			attentionSpec{name: "wide", h: 2, g: 1, k: 256, dt: dt, seqs: []span{{0, 40}, {0, 17}}, pages: 1},
			attentionSpec{name: "widest", h: 2, g: 2, k: 512, dt: dt, seqs: []span{{0, 33}}, pages: 1},
			attentionSpec{name: "window", h: 4, g: 2, k: 64, dt: dt, seqs: []span{{0, 100}}, pages: 3, p: ops.AttnParams{Window: 8}},
			attentionSpec{name: "window-1", h: 2, g: 1, k: 32, dt: dt, seqs: []span{{0, 20}}, pages: 2, p: ops.AttnParams{Window: 1}},
			attentionSpec{name: "window-64", h: 2, g: 1, k: 32, dt: dt, seqs: []span{{0, 140}}, pages: 4, p: ops.AttnParams{Window: 64}},
			attentionSpec{name: "window-longer", h: 2, g: 1, k: 32, dt: dt, seqs: []span{{0, 20}}, pages: 1, p: ops.AttnParams{Window: 1000}},
			attentionSpec{name: "ring", h: 4, g: 2, k: 64, dt: dt, seqs: []span{{1000, 1100}, {170, 200}, {63, 130}}, pages: 3, p: ops.AttnParams{Window: 20}, shuffle: true},
			attentionSpec{name: "ring-border", h: 1, g: 1, k: 32, dt: dt, seqs: []span{{127, 250}}, pages: 2, p: ops.AttnParams{Window: 65}},
			attentionSpec{name: "softcap", h: 4, g: 2, k: 64, dt: dt, seqs: []span{{0, 70}}, pages: 2, p: ops.AttnParams{Softcap: 5, Scale: 1}},
			attentionSpec{name: "sinks", h: 4, g: 2, k: 64, dt: dt, seqs: []span{{0, 70}, {0, 3}}, pages: 2, sinks: true},
			attentionSpec{name: "sinks-window", h: 8, g: 1, k: 64, dt: dt, seqs: []span{{0, 90}}, pages: 2, p: ops.AttnParams{Window: 10, Softcap: 30}, sinks: true},
			attentionSpec{name: "sharp", h: 2, g: 1, k: 64, dt: dt, seqs: []span{{0, 80}}, pages: 2, p: ops.AttnParams{Scale: 3}},
		)
		specs = append(specs,
			attentionSpec{name: "turned", h: 4, g: 2, k: 64, dt: dt, seqs: []span{{0, 70}, {0, 5}}, pages: 2, turn: &ops.RopeParams{Base: 10000}, shuffle: true},
			attentionSpec{name: "turned-half", h: 2, g: 1, k: 32, dt: dt, seqs: []span{{1000, 1030}}, pages: 17, p: ops.AttnParams{Window: 5}, turn: &ops.RopeParams{Base: 500, Dims: 16, Half: true, Linear: 2}, factors: true},
		)
		if dt != graph.Q8_0 {
			for _, k := range []int{1, 7, 17, 80} {
				specs = append(specs, attentionSpec{name: "odd", h: 3, g: 1, k: k, dt: dt, seqs: []span{{0, 19}}, pages: 1})
			}
		}
		for i := range specs {
			if specs[i].p.Scale == 0 {
				specs[i].p.Scale = scale(specs[i].k)
			}
		}
	}
	var cases []*Case
	for _, s := range specs {
		cases = append(cases, attentionCase(s, exact))
	}
	return cases
}

// stored returns a vector as a cache of the type gives it back, and for each
// element how far another rounding of ties could move it: one step of q8_0.
func stored(dt graph.DType, x []float32) (y, step []float64) {
	y, step = wide(x), make([]float64, len(x))
	switch dt {
	case graph.F16:
		for i := range y {
			y[i] = roundF16(y[i])
		}
	case graph.Q8_0:
		for b := 0; b < len(x); b += 32 {
			amax := float32(0)
			for _, z := range x[b : b+32] {
				amax = max(amax, z, -z)
			}
			d := roundF16(float64(amax / 127))
			for i := b; i < b+32; i++ {
				y[i] = math.RoundToEven(float64(x[i]*(127/amax))) * d
				step[i] = d
			}
		}
	}
	return y, step
}

// token is one row of the step.
type token struct{ seq, pos int }

func attentionCase(s attentionSpec, exact bool) *Case {
	op := "attention"
	if s.turn != nil {
		op = "ropewrite"
	}
	c := newCase(op, "%s/%s/%dof%dx%d", s.dt, s.name, s.h, s.g, s.k)
	r := random(c.Name)
	var tokens []token
	for i, sp := range s.seqs {
		for p := sp.first; p <= sp.last; p++ {
			tokens = append(tokens, token{i, p})
		}
	}
	if s.shuffle {
		r.Shuffle(len(tokens), func(i, j int) { tokens[i], tokens[j] = tokens[j], tokens[i] })
	}
	t := len(tokens)
	q, k, v := normal(r, t*s.h*s.k, 1), normal(r, t*s.g*s.k, 1), normal(r, t*s.g*s.k, 1)
	pos, seq := make([]int32, t), make([]int32, t)
	row := map[token]int{}
	for i, tk := range tokens {
		pos[i], seq[i] = int32(tk.pos), int32(tk.seq)
		row[tk] = i
	}
	pool := len(s.seqs)*s.pages + 2
	table := make([]int32, 0, pool)
	for _, page := range r.Perm(pool)[:len(s.seqs)*s.pages] {
		table = append(table, int32(page))
	}
	var sink []float32
	var sinks *graph.Value
	if s.sinks {
		w := Weight(c.Name, graph.F32, s.h)
		for i := range w.F32 {
			w.F32[i] *= 5
		}
		sink, sinks = w.F32, c.weight("sinks", w)
	}

	var ks, vs [][]float64 // by row and kv head
	var kstep, vstep [][]float64
	var factors *graph.Value
	turned, slack := k, 0.0
	if s.turn != nil {
		turned, factors = c.turnKeys(&s, k, pos)
		slack = 0x1p-20
		if s.dt == graph.F16 {
			slack = 0x1p-10 // a key between two numbers of f16
		}
	}
	for o := 0; o < len(k); o += s.k {
		y, d := stored(s.dt, turned[o:o+s.k])
		for i := range d {
			d[i] += slack * (math.Abs(y[i]) + 0x1p-10)
		}
		ks, kstep = append(ks, y), append(kstep, d)
		y, d = stored(s.dt, v[o:o+s.k])
		vs, vstep = append(vs, y), append(vstep, d)
	}
	want, tol := make([]float64, t*s.h*s.k), make([]float64, t*s.h*s.k)
	for i, tk := range tokens {
		first := 0
		if s.p.Window > 0 {
			first = max(0, tk.pos-s.p.Window+1)
		}
		for h := range s.h {
			y, d := want[(i*s.h+h)*s.k:][:s.k], tol[(i*s.h+h)*s.k:][:s.k]
			if first < s.seqs[tk.seq].first { // sees positions before the step
				for j := range d {
					d[j] = math.Inf(1)
				}
				continue
			}
			var seen []int
			for p := first; p <= tk.pos; p++ {
				seen = append(seen, row[token{tk.seq, p}]*s.g+h/(s.h/s.g))
			}
			a := attended{q: q[(i*s.h+h)*s.k:][:s.k], p: s.p, exact: exact}
			if s.sinks {
				a.sink, a.hasSink = float64(sink[h]), true
			}
			a.attend(y, d, seen, ks, vs, kstep, vstep)
		}
	}

	b := c.b
	cache := b.Cache("kv", graph.Type{DType: s.dt, Shape: graph.ShapeOf(pool*ops.PageSize, 2, s.g, s.k)}, s.p.Window)
	posV, seqV := c.index("pos", graph.Rows("T"), pos, t), c.index("seq", graph.Rows("T"), seq, t)
	pages := c.index("pages", graph.Shape{graph.Named("N"), graph.Named("C")}, table, len(s.seqs), s.pages)
	kIn, vIn := c.input("k", "T", k, t, s.g, s.k), c.input("v", "T", v, t, s.g, s.k)
	var kv *graph.Value
	if s.turn != nil {
		kv = ops.RopeWrite(b, cache, kIn, vIn, posV, seqV, pages, factors, *s.turn)
	} else {
		kv = ops.KVWrite(b, cache, kIn, vIn, posV, seqV, pages)
	}
	y := ops.Attention(b, c.input("q", "T", q, t, s.h, s.k), kv, posV, seqV, pages, sinks, s.p)
	c.output("y", y, want, tol)
	return c.done()
}

// turnKeys returns the keys turned to their positions, and the factors of the
// frequencies, nil without.
func (c *Case) turnKeys(s *attentionSpec, k []float32, pos []int32) ([]float32, *graph.Value) {
	dims := s.turn.Dims
	if dims == 0 {
		dims = s.k
	}
	linear := max(1, float64(s.turn.Linear)) // 0 is off
	factors := make([]float32, dims/2)
	for i := range factors {
		factors[i] = 1
		if s.factors {
			factors[i] = 1 + float32(i)/4
		}
	}
	out := narrowed(wide(k))
	for o := 0; o < len(k); o += s.k {
		p := float64(pos[o/s.k/s.g])
		for i := range dims / 2 {
			a, b := o+2*i, o+2*i+1
			if s.turn.Half {
				a, b = o+i, o+i+dims/2
			}
			sin, cos := math.Sincos(p * math.Pow(float64(s.turn.Base), -2*float64(i)/float64(dims)) / linear / float64(factors[i]))
			u, v := float64(k[a]), float64(k[b])
			out[a], out[b] = float32(u*cos-v*sin), float32(u*sin+v*cos)
		}
	}
	if !s.factors {
		return out, nil
	}
	w := graph.NewTensor(graph.Type{DType: graph.F32, Shape: graph.ShapeOf(dims / 2)}, nil)
	copy(w.F32, factors)
	return out, c.weight("rope_freqs.weight", w)
}

// attended computes one head of one token.
type attended struct {
	q       []float32
	p       ops.AttnParams
	sink    float64
	hasSink bool
	exact   bool
}

// attend writes the result and its tolerances.
//
// A score may be off by the rounding of K products in f32 and, where the cache
// may be rounded otherwise, by a step of each key; by that, relatively, and by
// 2e-6 for exp, each weight is off. Then come the sum over n values in f32 and a
// step of each value.
func (a *attended) attend(y, tol []float64, seen []int, ks, vs, kstep, vstep [][]float64) {
	scores := make([]float64, len(seen))
	worst, top := 0.0, math.Inf(-1)
	for i, r := range seen {
		s, size, step := 0.0, 0.0, 0.0
		for d, z := range a.q {
			s += float64(z) * ks[r][d]
			size += math.Abs(float64(z) * ks[r][d])
			step += math.Abs(float64(z)) * kstep[r][d]
		}
		off := size * float64(len(a.q)+4) * 0x1p-24
		if !a.exact {
			off += step
		}
		s *= float64(a.p.Scale)
		if c := float64(a.p.Softcap); c > 0 {
			s = c * math.Tanh(s/c)
		}
		scores[i] = s
		worst = max(worst, off*float64(a.p.Scale)+math.Abs(s)*0x1p-22)
		top = max(top, s)
	}
	sum := 0.0
	if a.hasSink {
		top = max(top, a.sink)
		sum = math.Exp(a.sink - top)
	}
	for _, s := range scores {
		sum += math.Exp(s - top)
	}
	relative := math.Expm1(2*worst) + 2e-6 + float64(len(seen)+4)*0x1p-24
	for d := range y {
		size := 0.0
		for i, r := range seen {
			w := math.Exp(scores[i]-top) / sum
			y[d] += w * vs[r][d]
			size += w * math.Abs(vs[r][d])
			if !a.exact {
				tol[d] += w * vstep[r][d]
			}
		}
		tol[d] += size*relative + 1e-30 // weights that small may be 0
	}
}
