package engine

import (
	"context"
	"errors"
	"fmt"

	"graphrun/backends"
	"graphrun/backends/cpu"
	"graphrun/graph"
	"graphrun/quant"
)

// ImportanceOptions say how a text is cut. As for Perplexity, it is cut into
// windows that do not overlap, each with BOS in front where the vocabulary adds
// one; a rest is left out.
type ImportanceOptions struct {
	Window int // tokens; 0 is 512 or the context, whichever is less
	// Progress is called after each window.
	Progress func(done, windows int)
}

// importanceStep is the number of tokens of a step: all values of one are kept
// until it has ended.
const importanceStep = 64

// Importance runs the model over a text and returns, for each matrix that
// activations are multiplied with, the sums of the squares of each column's
// activations: of experts, those of the tokens that chose them. The head is left
// out, whose columns matter alike.
//
// The graph is compiled a second time, without the passes that join operations,
// so that the activations are there as numbers.
func (m *Model) Importance(ctx context.Context, tokens []int32, o ImportanceOptions) (*quant.Imatrix, error) {
	window, n, err := m.windows(tokens, o.Window)
	if err != nil {
		return nil, err
	}
	b, err := m.observing(window)
	if err != nil {
		return nil, err
	}
	defer b.prog.Close()
	sums, err := observe(b.prog)
	if err != nil {
		return nil, err
	}
	text := make([]int32, 0, window)
	for i := range n {
		text = m.piece(text, tokens, i)
		seq := b.cache.NewSequence()
		for at := 0; at < window && err == nil; at += b.limits.Step {
			items := []Item{{Seq: seq, Tokens: text[at:min(at+b.limits.Step, window)]}}
			if err = b.Step(ctx, items); err == nil {
				sums.add()
			}
		}
		seq.Drop()
		if err != nil {
			return nil, err
		}
		if o.Progress != nil {
			o.Progress(i+1, n)
		}
	}
	im := sums.imatrix()
	im.Chunks = n
	return im, nil
}

// observing compiles the graph up to the hidden state so that its values can be
// looked at.
func (m *Model) observing(window int) (*Batch, error) {
	g := m.Graph.Clone()
	for _, out := range g.Outputs {
		if out.Name == "hidden" {
			g.Outputs = []graph.Output{out}
			break
		}
	}
	o := m.o
	o.Keep, o.Finite, o.Deterministic, o.OnPass, o.Off = true, false, false, nil, nil
	for _, p := range cpu.Passes().Passes() {
		if !p.Required && p.Name != "cse" && p.Name != "dce" {
			o.Off = append(o.Off, p.Name)
		}
	}
	l := Limits{Vocab: m.limits.Vocab, Context: window, Step: min(importanceStep, window), Rows: 1, Seqs: 1}
	c := &Model{File: m.File, o: o, backend: cpu.Backend{}}
	b, _, err := c.compile(g, l, new(Options).cacheSize(g, l))
	return b, err
}

// product is a matrix, or a stack of one for each expert, with what it is
// multiplied with.
type product struct {
	weight *graph.Value
	x      *graph.Value
	ids    *graph.Value // of the experts, nil for a single matrix
	sums   []float64
	counts []int
}

type products struct {
	prog backends.Inspector
	list []*product
}

// observe finds the products of a program.
func observe(prog backends.Program) (*products, error) {
	p, ok := prog.(backends.Inspector)
	if !ok {
		return nil, errors.New("engine: the backend does not let values be looked at")
	}
	found := &products{prog: p}
	seen := map[string]bool{}
	for _, v := range p.Graph().Values {
		var ids *graph.Value
		switch v.Op.Name {
		case "matmul":
		case "expertmatmul":
			ids = v.Args[2]
		default:
			continue
		}
		x, w := v.Args[0], v.Args[1]
		if x.Op.Name == "quantize" {
			x = x.Args[0]
		}
		if w.Op != graph.OpWeight || seen[w.Name] {
			continue
		}
		seen[w.Name] = true
		n := 1
		if ids != nil {
			n = w.Type.Shape[0].Size
		}
		found.list = append(found.list, &product{weight: w, x: x, ids: ids, sums: make([]float64, n*w.Type.Shape.Last()), counts: make([]int, n)})
	}
	if len(found.list) == 0 {
		return nil, fmt.Errorf("engine: graph %s has no product with a weight", p.Graph().Name)
	}
	return found, nil
}

// add adds the activations of the last step.
func (ps *products) add() {
	for _, p := range ps.list {
		x := ps.prog.Value(p.x)
		k := x.Dims[len(x.Dims)-1]
		if p.ids == nil {
			for t := range x.Rows() {
				p.square(0, x.F32[t*x.Stride:][:k])
			}
			continue
		}
		ids, per := ps.prog.Value(p.ids), 1
		if len(x.Dims) == 3 {
			per = x.Dims[1]
		}
		used := ids.Dims[1]
		for t := range ids.Rows() {
			for u := range used {
				e := int(ids.I32[t*ids.Stride+u])
				p.square(e, x.F32[t*x.Stride+u%per*k:][:k])
			}
		}
	}
}

func (p *product) square(e int, x []float32) {
	p.counts[e]++
	sums := p.sums[e*len(x):][:len(x)]
	for i, v := range x {
		sums[i] += float64(v) * float64(v)
	}
}

func (ps *products) imatrix() *quant.Imatrix {
	m := quant.NewImatrix()
	for _, p := range ps.list {
		e := &quant.Importance{Sums: make([]float32, len(p.sums)), Counts: make([]float32, len(p.counts))}
		for i, s := range p.sums {
			e.Sums[i] = float32(s)
		}
		some := false
		for i, n := range p.counts {
			e.Counts[i] = float32(n)
			some = some || n > 0
		}
		if some {
			m.Set(p.weight.Name, e)
		}
	}
	return m
}
