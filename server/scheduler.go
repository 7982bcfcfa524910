package server

import (
	"context"

	"graphrun/engine"
	"graphrun/server/sched"
)

// Scheduler is what the server needs of a scheduler; Scheduled makes one of a
// *sched.Scheduler.
type Scheduler interface {
	Submit(ctx context.Context, r sched.Request) (Stream, error)
	Embed(ctx context.Context, partition string, tokens []int32, o engine.EmbedOptions) ([]float32, error)
	Stats() sched.Stats
	Close() error
}

// Stream is an answer that is being written, as *sched.Stream.
type Stream interface {
	Next(ctx context.Context) (engine.Token, error)
	Result() sched.Result
	Close()
}

// Scheduled makes a Scheduler of a *sched.Scheduler.
func Scheduled(s *sched.Scheduler) Scheduler { return scheduled{s} }

type scheduled struct{ *sched.Scheduler }

// Submit implements Scheduler.
func (s scheduled) Submit(ctx context.Context, r sched.Request) (Stream, error) {
	st, err := s.Scheduler.Submit(ctx, r)
	if err != nil {
		return nil, err // not an interface that holds a nil stream
	}
	return st, nil
}
