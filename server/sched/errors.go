package sched

import (
	"errors"
	"fmt"
)

// ErrDraining says that the scheduler takes no more requests.
var ErrDraining = errors.New("sched: the server is shutting down and takes no more requests")

// ErrClosed is the end of a request that was closed, by its Stream or because
// the scheduler was.
var ErrClosed = errors.New("sched: the request was closed before its answer ended")

// QueueFullError says that too many requests wait already. Try again later.
type QueueFullError struct {
	Queued int // requests that wait
	Max    int // how many may
}

// Error prints both numbers.
func (e *QueueFullError) Error() string {
	return fmt.Sprintf("sched: the queue is full: %d of at most %d requests wait; try again later", e.Queued, e.Max)
}

// TokenError says that a token of a prompt is not one of the vocabulary.
type TokenError struct {
	Index int   // its place in the prompt
	ID    int32 // the token
	Vocab int   // ids are below it
}

// Error prints place, id and vocabulary.
func (e *TokenError) Error() string {
	return fmt.Sprintf("sched: token %d of the prompt is %d, want 0 to %d", e.Index, e.ID, e.Vocab-1)
}

// PanicError says that the code of one request panicked: a sampler or a
// constraint. The other requests go on.
type PanicError struct {
	Value any
	Stack []byte
}

// Error prints the value; the stack goes to the log.
func (e *PanicError) Error() string {
	return fmt.Sprintf("sched: internal error: %v", e.Value)
}
