package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// Pool says how the states of a text's tokens become one vector.
type Pool uint8

// The ways: the mean over all tokens, or the state of the last one.
const (
	PoolMean Pool = iota
	PoolLast
)

// ErrNoHidden says that the graph has no output "hidden".
var ErrNoHidden = errors.New(`engine: the graph has no output "hidden": the model gives no embeddings`)

// EmbedOptions say how texts are embedded. The zero value is the normalized
// mean.
type EmbedOptions struct {
	Pool Pool
	// Raw leaves out the division by the length of the vector.
	Raw bool
}

// Embed returns a vector for the text: the normed state before the head, pooled
// over its tokens, D numbers of length 1 unless o.Raw is set. A vector of zeros
// stays one. The text must fit the context.
//
// The first call compiles the graph a second time, without the head, and with a
// KV cache for one sequence; see EmbedMemory.
func (m *Model) Embed(ctx context.Context, tokens []int32, o EmbedOptions) ([]float32, error) {
	switch {
	case len(tokens) == 0:
		return nil, ErrEmpty
	case len(tokens) > m.limits.Context:
		return nil, &ContextError{Have: m.limits.Context, Want: len(tokens)}
	case o.Pool != PoolMean && o.Pool != PoolLast:
		return nil, fmt.Errorf("engine: pooling %d is not known; known: mean (0), last (1)", o.Pool)
	}
	e, err := m.embedding()
	if err != nil {
		return nil, err
	}
	b, err := e.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer b.Release()
	seq := b.cache.NewSequence()
	defer seq.Drop()
	var sum []float64
	for done := 0; done < len(tokens); {
		n := min(len(tokens)-done, b.limits.Step)
		it := [1]Item{{Seq: seq, Tokens: tokens[done : done+n], Rows: RowsAll}}
		switch {
		case o.Pool == PoolMean:
		case done+n == len(tokens):
			it[0].Rows = RowsLast
		default:
			it[0].Rows = RowsNone
		}
		if err := b.Step(ctx, it[:]); err != nil {
			return nil, err
		}
		for k := range it[0].n {
			row := b.Hidden(&it[0], k)
			if sum == nil {
				sum = make([]float64, len(row))
			}
			for i, x := range row {
				sum[i] += float64(x)
			}
		}
		done += n
	}
	scale := 1.0
	if o.Pool == PoolMean {
		scale = 1 / float64(len(tokens))
	}
	if !o.Raw {
		scale = 0
		for _, x := range sum {
			scale += x * x
		}
		if scale > 0 {
			scale = 1 / math.Sqrt(scale)
		}
	}
	out := make([]float32, len(sum))
	for i, x := range sum {
		out[i] = float32(x * scale)
	}
	return out, nil
}

// EmbedMemory returns the bytes of activations and KV cache that Embed holds, 0
// before its first call.
func (m *Model) EmbedMemory() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.embedder == nil {
		return 0
	}
	mem := m.embedder.prog.Memory()
	return mem.Cache + mem.Arena + mem.Scratch
}

// embedding returns the batch of the program without head.
func (m *Model) embedding() (*Batch, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.embedder != nil {
		return m.embedder, nil
	}
	if m.Graph.Output("hidden") == nil {
		return nil, ErrNoHidden
	}
	g := m.Graph.Clone()
	outs := g.Outputs[:0]
	for _, o := range g.Outputs {
		if o.Name == "hidden" {
			outs = append(outs, o)
		}
	}
	g.Outputs = outs
	l := m.limits
	l.Seqs = 1
	l.Step = min(l.Step, l.Context)
	l.Rows = l.Step
	b, _, err := m.compile(g, l)
	if err != nil {
		return nil, err
	}
	m.embedder = b
	return b, nil
}
