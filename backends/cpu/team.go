package cpu

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// A team is a fixed set of workers that walk the same instruction list and
// meet at barriers. The goroutine that calls run is worker 0; the others are
// started once and stay. Between steps they spin for a bounded time, then park
// on a channel: an idle team uses no CPU.
//
// Nothing is sent through a channel per instruction. A worker waits by
// spinning on one word; every round of the spin passes through a Go function
// that is not inlined, so that the scheduler and the garbage collector can
// stop it within one round (about 2 µs).
type team struct {
	n    int
	work func(worker int) // what a step runs; set before seq is raised

	_      [64]byte
	seq    atomic.Uint32 // steps begun
	_      [60]byte
	parked atomic.Int32 // workers blocked on wake
	_      [60]byte
	bar    barrier

	wake    []chan struct{} // one per worker, capacity 1
	closing atomic.Bool
	group   errgroup.Group
}

// spinRounds bounds the spin of a worker that waits for the next step. A round
// is pauseRound PAUSE instructions; together they last 1 to 3 ms, longer than
// the gap between two tokens, after which the worker parks.
const (
	spinRounds = 1024
	pauseRound = 64
)

// newTeam starts n-1 workers.
func newTeam(n int) *team {
	t := &team{n: n, wake: make([]chan struct{}, n)}
	t.bar.n = uint32(n)
	for w := 1; w < n; w++ {
		t.wake[w] = make(chan struct{}, 1)
		t.group.Go(func() error {
			t.serve(w)
			return nil
		})
	}
	return t
}

// run executes work(0) to work(n-1), one per worker, and returns when all are
// done.
func (t *team) run(work func(worker int)) {
	if t.n == 1 {
		work(0)
		return
	}
	t.work = work
	t.seq.Add(1)
	t.wakeParked()
	work(0)
	t.bar.wait()
}

func (t *team) wakeParked() {
	if t.parked.Load() == 0 {
		return
	}
	for w := 1; w < t.n; w++ {
		select {
		case t.wake[w] <- struct{}{}:
		default: // a token is there already
		}
	}
}

// serve is the life of worker w.
func (t *team) serve(w int) {
	seen := uint32(0)
	for {
		if !t.await(w, seen) {
			return
		}
		seen++
		t.work(w)
		t.bar.wait()
	}
}

// await returns true when a step after seen has begun, false when the team
// closes.
func (t *team) await(w int, seen uint32) bool {
	for range spinRounds {
		if t.seq.Load() != seen {
			return !t.closing.Load()
		}
		spin(&t.seq, seen, pauseRound)
	}
	t.parked.Add(1)
	for t.seq.Load() == seen {
		<-t.wake[w]
	}
	t.parked.Add(-1)
	return !t.closing.Load()
}

// close ends the workers and waits for them.
func (t *team) close() {
	if t.n == 1 || t.closing.Swap(true) {
		return
	}
	t.seq.Add(1)
	t.wakeParked()
	t.group.Wait() //nolint:errcheck // serve returns no error
}

// A barrier lets n workers wait for each other. The last to arrive opens it.
type barrier struct {
	n       uint32
	_       [60]byte
	arrived atomic.Uint32
	_       [60]byte
	phase   atomic.Uint32
	_       [60]byte
}

// How a worker waits at a barrier, in rounds of about 1 µs: it spins; then it
// lets other goroutines run between rounds, because with fewer free processors
// than workers the one that is waited for may need this one's; then it sleeps
// between rounds, because on a busy machine another process may hold the
// processor that is needed.
const (
	yieldAfter = 64
	napAfter   = 512
	nap        = 50 * time.Microsecond
)

// wait returns when all workers have called it.
func (b *barrier) wait() {
	phase := b.phase.Load()
	if b.arrived.Add(1) == b.n {
		b.arrived.Store(0)
		b.phase.Add(1)
		return
	}
	for i := 0; b.phase.Load() == phase; i++ {
		spin(&b.phase, phase, pauseRound)
		switch {
		case i >= napAfter:
			time.Sleep(nap)
		case i >= yieldAfter:
			runtime.Gosched()
		}
	}
}

// spin returns when *word differs from old or after the given rounds. It is
// not inlined: its prologue is where a waiting worker can be preempted.
//
//go:noinline
func spin(word *atomic.Uint32, old uint32, rounds int) {
	for range rounds {
		if word.Load() != old {
			return
		}
		pause()
	}
}
