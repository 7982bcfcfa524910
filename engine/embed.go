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
	e, err := m.NewEmbedding(tokens, o)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	for ended := false; !ended; {
		if ended, err = e.Step(ctx, m.limits.Step); err != nil {
			return nil, err
		}
	}
	return e.Vector(), nil
}

// Embedding is a text whose vector is computed in steps, for those who have
// other things to do in between. Step it until it has ended, then take the
// Vector; Close it in any case. From the first step on others wait who want to
// embed.
type Embedding struct {
	m      *Model
	tokens []int32
	o      EmbedOptions
	b      *Batch // from the first step on
	seq    *Sequence
	done   int
	sum    []float64
}

// NewEmbedding checks text and options and computes nothing. Its errors are
// those of Embed.
func (m *Model) NewEmbedding(tokens []int32, o EmbedOptions) (*Embedding, error) {
	switch {
	case len(tokens) == 0:
		return nil, ErrEmpty
	case len(tokens) > m.limits.Context:
		return nil, &ContextError{Have: m.limits.Context, Want: len(tokens)}
	case o.Pool != PoolMean && o.Pool != PoolLast:
		return nil, fmt.Errorf("engine: pooling %d is not known; known: mean (0), last (1)", o.Pool)
	case m.Graph.Output("hidden") == nil:
		return nil, ErrNoHidden
	}
	return &Embedding{m: m, tokens: tokens, o: o}, nil
}

// Len returns the number of tokens computed.
func (e *Embedding) Len() int { return e.done }

// Step computes up to limit tokens more and reports whether all are.
func (e *Embedding) Step(ctx context.Context, limit int) (ended bool, err error) {
	if e.b == nil {
		b, err := e.m.embedding()
		if err != nil {
			return false, err
		}
		if e.b, err = b.acquire(ctx); err != nil {
			e.b = nil
			return false, err
		}
		e.seq = e.b.cache.NewSequence()
	}
	n := min(len(e.tokens)-e.done, e.b.limits.Step, max(limit, 1))
	if n == 0 {
		return true, nil
	}
	it := [1]Item{{Seq: e.seq, Tokens: e.tokens[e.done : e.done+n], Rows: RowsAll}}
	ended = e.done+n == len(e.tokens)
	switch {
	case e.o.Pool == PoolMean:
	case ended:
		it[0].Rows = RowsLast
	default:
		it[0].Rows = RowsNone
	}
	if err := e.b.Step(ctx, it[:]); err != nil {
		return false, err
	}
	for k := range it[0].n {
		row := e.b.Hidden(&it[0], k)
		if e.sum == nil {
			e.sum = make([]float64, len(row))
		}
		for i, x := range row {
			e.sum[i] += float64(x)
		}
	}
	e.done += n
	return ended, nil
}

// Vector returns the vector of a text whose steps have ended.
func (e *Embedding) Vector() []float32 {
	scale := 1.0
	if e.o.Pool == PoolMean {
		scale = 1 / float64(len(e.tokens))
	}
	if !e.o.Raw {
		scale = 0
		for _, x := range e.sum {
			scale += x * x
		}
		if scale > 0 {
			scale = 1 / math.Sqrt(scale)
		}
	}
	out := make([]float32, len(e.sum))
	for i, x := range e.sum {
		out[i] = float32(x * scale)
	}
	return out
}

// Close gives back what the steps took.
func (e *Embedding) Close() {
	if e.b != nil {
		e.seq.Drop()
		e.b.Release()
		e.b = nil
	}
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
	b, _, err := m.compile(g, l, new(Options).cacheSize(g, l))
	if err != nil {
		return nil, err
	}
	m.embedder = b
	return b, nil
}
