package engine

import (
	"context"
	"errors"
	"fmt"

	"graphrun/backends"
	"graphrun/backends/cpu/kern"
	"graphrun/graph"
	"graphrun/loaders"
)

// Rows says of which tokens of an item the logits are wanted.
type Rows uint8

// The choices of Rows.
const (
	RowsNone Rows = iota // of none: a chunk in the middle of a prompt
	RowsLast             // of the last token: the next one is to be chosen
	RowsAll              // of all: scores, or a draft to verify
)

// Item is the part one sequence has in a step.
type Item struct {
	Seq    *Sequence
	Tokens []int32 // appended to the sequence
	// States are the embeddings of the tokens, D numbers each, scaled as the
	// table's rows are: for a model that was opened without its table.
	States []float32
	Rows   Rows

	first, n int // rows of the output that belong to the item
}

// Limits are the largest sizes of a step and of a sequence.
type Limits struct {
	Vocab   int // token ids are below it
	Context int // positions of a sequence
	Step    int // tokens of a step, all items together: T
	Rows    int // rows of logits of a step: R
	Seqs    int // sequences of a step: N
}

// Batch runs steps of a program: T tokens of any mix of sequences in one go.
// A model has one, which Model.Acquire lends to one goroutine at a time.
type Batch struct {
	prog   backends.Program
	cache  *Cache
	limits Limits
	unlock chan struct{}

	count uint64 // steps so far
	// The inputs, at their largest sizes; the tensors are cut to each step.
	tokens, pos, seq, rows, full, ring graph.Tensor
	states                             *graph.Tensor // f32[T,D], nil where the graph looks tokens up
	feeds                              []backends.Feed
	logits, hidden                     *graph.Tensor  // of the last step
	file                               *loaders.Model // nil without one
}

// newBatch makes the feeds for the inputs that g has.
func newBatch(prog backends.Program, g *graph.Graph, c *Cache, l Limits) (*Batch, error) {
	b := &Batch{prog: prog, cache: c, limits: l, unlock: make(chan struct{}, 1)}
	b.tokens, b.pos, b.seq = ids(l.Step), ids(l.Step), ids(l.Step)
	b.rows = ids(l.Rows)
	b.full, b.ring = ids(l.Seqs, c.size.C()), ids(l.Seqs, c.size.CW())
	known := map[string]*graph.Tensor{
		"tokens": &b.tokens, "pos": &b.pos, "seq": &b.seq,
		"rows": &b.rows, "pages": &b.full, "pages.window": &b.ring,
	}
	for _, v := range g.Values {
		if v.Op != graph.OpInput {
			continue
		}
		t := known[v.Name]
		if v.Name == stateInput {
			d := v.Type.Shape.Last()
			t = &graph.Tensor{DType: graph.F32, Dims: []int{l.Step, d}, Stride: d, F32: make([]float32, l.Step*d)}
			b.states = t
		}
		if t == nil {
			return nil, fmt.Errorf("engine: graph %s has an input %q; known: tokens, pos, seq, rows, pages, pages.window", g.Name, v.Name)
		}
		b.feeds = append(b.feeds, backends.Feed{Name: v.Name, Tensor: t})
	}
	return b, nil
}

// ids returns an i32 tensor with room for the given sizes.
func ids(sizes ...int) graph.Tensor {
	n, stride := 1, 1
	for i, d := range sizes {
		n *= d
		if i > 0 {
			stride *= d
		}
	}
	return graph.Tensor{DType: graph.I32, Dims: sizes, Stride: stride, I32: make([]int32, n)}
}

// cut sets the leading size of an input.
func cut(t *graph.Tensor, rows int) {
	t.Dims[0] = rows
	t.I32 = t.I32[:rows*t.Stride]
}

// acquire waits until the batch is free.
func (b *Batch) acquire(ctx context.Context) (*Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case b.unlock <- struct{}{}:
		return b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Release lets the next goroutine run steps. Rows of the last step must not be
// read afterwards.
func (b *Batch) Release() { <-b.unlock }

// Limits returns the largest sizes of a step.
func (b *Batch) Limits() Limits { return b.limits }

// Step appends each item's tokens to its sequence and computes the rows that
// are wanted. Either all of it happens, or an error is returned and no sequence
// has grown: *ContextError or *PagesError when there is no room,
// *NonFiniteError when a wanted row is not finite, loaders.Model.Check's error
// when the model file was cut short or written to meanwhile, ctx.Err() when ctx
// ended.
// In the steady state it allocates nothing.
func (b *Batch) Step(ctx context.Context, items []Item) error {
	if err := b.check(items); err != nil {
		return err
	}
	b.logits, b.hidden = nil, nil
	for i := range items {
		if err := items[i].Seq.reserve(len(items[i].Tokens), b.prog); err != nil {
			b.undo(items[:i])
			return err
		}
	}
	b.fill(items)
	if err := b.prog.Run(ctx, b.feeds); err != nil {
		b.undo(items)
		return b.reason(err)
	}
	// A file that was cut within a page, or written to, faults nowhere.
	if err := b.changed(); err != nil {
		b.undo(items)
		return err
	}
	b.logits, b.hidden = b.prog.Output("logits"), b.prog.Output("hidden")
	for i := range items {
		if err := b.finite(items, i); err != nil {
			b.undo(items)
			return err
		}
	}
	for i := range items {
		items[i].Seq.n += len(items[i].Tokens)
	}
	return nil
}

// changed reports whether the model file is no longer what was opened.
func (b *Batch) changed() error {
	if b.file == nil {
		return nil
	}
	return b.file.Check()
}

// reason returns why a step failed: if it is a memory fault, what happened to
// the model file there.
func (b *Batch) reason(err error) error {
	var fault interface{ Addr() uintptr }
	if b.file != nil && errors.As(err, &fault) {
		if lost := b.file.Fault(fault.Addr()); lost != nil {
			return lost
		}
	}
	return err
}

// check refuses what does not fit a step, before anything changes.
func (b *Batch) check(items []Item) error {
	if len(items) == 0 || len(items) > b.limits.Seqs {
		return fmt.Errorf("engine: a step of %d sequences; this model was opened for 1 to %d", len(items), b.limits.Seqs)
	}
	b.count++
	tokens, rows := 0, 0
	for i := range items {
		it := &items[i]
		switch {
		case it.Seq == nil || it.Seq.cache != b.cache:
			return fmt.Errorf("engine: item %d of a step: the sequence belongs to another model", i)
		case it.Seq.step == b.count:
			return fmt.Errorf("engine: item %d of a step: the sequence is in the step already", i)
		case len(it.Tokens) == 0:
			return fmt.Errorf("engine: item %d of a step has no tokens", i)
		}
		if err := b.checkStates(it); err != nil {
			return fmt.Errorf("engine: item %d of a step %w", i, err)
		}
		for _, id := range it.Tokens {
			if uint(id) >= uint(b.limits.Vocab) {
				return fmt.Errorf("engine: token id %d, the vocabulary has %d", id, b.limits.Vocab)
			}
		}
		it.Seq.step, it.Seq.row = b.count, i
		it.first, it.n = rows, 0
		switch it.Rows {
		case RowsLast:
			it.n = 1
		case RowsAll:
			it.n = len(it.Tokens)
		}
		tokens += len(it.Tokens)
		rows += it.n
	}
	if tokens > b.limits.Step || rows > b.limits.Rows {
		return fmt.Errorf("engine: a step of %d tokens and %d rows of logits; this model was opened for %d and %d", tokens, rows, b.limits.Step, b.limits.Rows)
	}
	return nil
}

// checkStates refuses states where tokens are looked up, and tokens alone where
// they are not.
func (b *Batch) checkStates(it *Item) error {
	want := 0
	if b.states != nil {
		want = len(it.Tokens) * b.states.Stride
	}
	switch {
	case len(it.States) == want:
		return nil
	case b.states == nil:
		return errors.New("brings states, but this model looks tokens up; open it with Drop embed")
	}
	return fmt.Errorf("brings %d numbers as states, want %d: the model was opened without its token embeddings", len(it.States), want)
}

// fill writes the inputs of the step.
func (b *Batch) fill(items []Item) {
	b.size(b.limits.Step, b.limits.Rows, len(items))
	t, r := 0, 0
	for i := range items {
		it := &items[i]
		for k, id := range it.Tokens {
			b.tokens.I32[t] = id
			b.pos.I32[t] = int32(it.Seq.n + k)
			b.seq.I32[t] = int32(i)
			if s := b.states; s != nil {
				copy(s.F32[t*s.Stride:(t+1)*s.Stride], it.States[k*s.Stride:])
			}
			if it.Rows == RowsAll || it.Rows == RowsLast && k == len(it.Tokens)-1 {
				b.rows.I32[r] = int32(t)
				r++
			}
			t++
		}
		it.Seq.tables(b.full.I32[i*b.full.Stride:(i+1)*b.full.Stride], b.ring.I32[i*b.ring.Stride:(i+1)*b.ring.Stride])
	}
	b.size(t, r, len(items))
}

func (b *Batch) size(tokens, rows, seqs int) {
	cut(&b.tokens, tokens)
	cut(&b.pos, tokens)
	cut(&b.seq, tokens)
	cut(&b.rows, rows)
	if s := b.states; s != nil {
		s.Dims[0], s.F32 = tokens, s.F32[:tokens*s.Stride]
	}
	cut(&b.full, seqs)
	cut(&b.ring, seqs)
}

func (b *Batch) undo(items []Item) {
	for i := range items {
		items[i].Seq.release()
	}
}

// finite checks the rows of item i.
func (b *Batch) finite(items []Item, i int) error {
	it := &items[i]
	for k := range it.n {
		what := ""
		switch {
		case b.logits != nil && !kern.Finite(b.logits.Row(it.first+k)):
			what = "logits"
		case b.hidden != nil && !kern.Finite(b.hidden.Row(it.first+k)):
			what = "hidden state"
		default:
			continue
		}
		t := len(it.Tokens) - it.n + k
		return &NonFiniteError{What: what, Token: it.Seq.n + t, ID: it.Tokens[t], Item: i}
	}
	return nil
}

// Logits returns row k of those the item asked for: V numbers, valid until the
// next step or Release. It is nil where the model was opened without its head.
func (b *Batch) Logits(it *Item, k int) []float32 {
	if b.logits == nil {
		return nil
	}
	return b.logits.Row(it.first + k)
}

// Hidden returns row k of the normed state before the head: D numbers, valid
// until the next step or Release. It is nil where the graph has no such output.
func (b *Batch) Hidden(it *Item, k int) []float32 {
	if b.hidden == nil {
		return nil
	}
	return b.hidden.Row(it.first + k)
}
