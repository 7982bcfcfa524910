package sched

import (
	"context"
	"errors"
	"io"
	"slices"

	"graphrun/engine"
)

// Embed returns a vector for the text, see engine.Model.Embed. It waits its turn
// in the queue like any request, and is computed in chunks between the steps of
// answers. Errors are those of Submit and of engine.Model.Embed.
func (s *Scheduler) Embed(ctx context.Context, partition string, tokens []int32, o engine.EmbedOptions) ([]float32, error) {
	r := &request{Request: Request{Prompt: tokens, Partition: partition, NoAnswer: true}}
	if err := s.check(r); err != nil {
		return nil, err
	}
	var err error
	if r.embedding, err = s.m.NewEmbedding(slices.Clone(tokens), o); err != nil {
		return nil, err
	}
	st, err := s.enter(ctx, r)
	if err != nil {
		return nil, err
	}
	if _, err := st.Next(ctx); !errors.Is(err, io.EOF) {
		return nil, err
	}
	return st.vector, nil
}

// embed computes a chunk of an embedding.
func (s *Scheduler) embed(r *request) {
	n := s.m.Limits().Step
	if len(s.items) > 0 {
		n = s.o.Chunk
	}
	s.mu.Lock()
	if r.err != nil {
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	before := r.embedding.Len()
	ended, err := r.embedding.Step(s.ctx, n)
	s.mu.Lock()
	defer s.mu.Unlock()
	r.part.served += uint64(r.embedding.Len()-before) * promptCost
	if r.err != nil || s.ctx.Err() != nil || err == nil && !ended {
		return
	}
	s.embeds = slices.DeleteFunc(s.embeds, func(o *request) bool { return o == r })
	reason := engine.StopLength
	if err != nil {
		s.log.Warn("embedding failed", "id", r.ID, "error", err)
		reason = engine.StopError
		s.counts.Failed++
	} else {
		r.stream.vector = r.embedding.Vector()
		s.counts.PromptTokens += uint64(len(r.Prompt))
		s.counts.Finished++
	}
	s.leave(r)
	s.end(r, reason, err)
}
