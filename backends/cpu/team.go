package cpu

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// A team is a fixed set of workers that go through the stages of a step
// together. The goroutine that calls run is worker 0; the others are started
// once and stay. Between stages they spin for a bounded time, then park on a
// channel: an idle team uses no CPU.
//
// A stage is a number of chunks, dealt out in ranges, one for each worker. A
// worker takes the chunks of its own range in order, then helps with the ranges
// of others. So a stage ends when the work is done, not when all workers have
// come: one that the system took off its processor between two chunks holds
// nobody up. Who finishes the last chunk prepares the next stage.
//
// Nothing is sent through a channel per stage. A worker waits by spinning on
// one word; every round of the spin passes through a Go function that is not
// inlined, so that the scheduler and the garbage collector can stop it within
// one round (about 2 µs).
type team struct {
	n      int
	job    job
	counts []int // of the stage being prepared, by range

	_ [64]byte
	// stage counts the stages opened and the steps ended. It changes last when
	// that happens; a claim carries it, so that a worker that comes late, with an
	// old number, takes nothing.
	stage  atomic.Uint32
	ended  atomic.Uint32 // the number that stands for the end of the last step
	first  uint32        // the number of the first stage of the step
	_      [52]byte
	left   atomic.Int32 // chunks of the stage that are not finished
	_      [60]byte
	idlers atomic.Int32 // workers that may be in job.idle
	_      [60]byte
	parked atomic.Int32 // workers blocked on wake
	_      [60]byte
	claims []claim // by range

	wake    []chan struct{} // one per worker, capacity 1
	closing atomic.Bool
	group   errgroup.Group
}

// A job is what a team works on.
type job interface {
	// next prepares a stage: it does what one worker has to do first, and sets
	// the number of chunks in each range, at most maxChunks. It reports false at
	// the end of the step. It is called before the first stage and then after
	// all chunks of each.
	next(worker int, counts []int) bool
	// chunk does chunk i of a range of the stage.
	chunk(worker, rng, i int)
	// idle does a little, below a microsecond, that is of use later, for a worker
	// that waits within a step, in the k-th of its stages that has chunks or while
	// the one after it is prepared. It reports false when there is nothing to do.
	idle(worker, k int) bool
}

// claim is the state of a range: the stage's number in the upper half, then 16
// bits for the number of chunks and 16 for the next one to take.
type claim struct {
	atomic.Uint64
	_ [56]byte
}

const maxChunks = 1<<16 - 1

// take returns the next chunk of the range, if stage is still the one it is
// open for.
func (c *claim) take(stage uint32) (i int, ok bool) {
	for {
		v := c.Load()
		i := v & maxChunks
		if uint32(v>>32) != stage || i == v>>16&maxChunks {
			return 0, false
		}
		if c.CompareAndSwap(v, v+1) {
			return int(i), true
		}
	}
}

// newTeam starts n-1 workers.
func newTeam(n int, j job) *team {
	t := &team{n: n, job: j, counts: make([]int, n), claims: make([]claim, n)}
	for range n {
		t.wake = append(t.wake, make(chan struct{}, 1))
	}
	for w := 1; w < n; w++ {
		t.group.Go(func() error {
			t.serve(w)
			return nil
		})
	}
	return t
}

// run executes a step of the job and returns when it is done.
func (t *team) run() {
	old := debug.SetPanicOnFault(true)
	t.first = t.stage.Load() + 1
	t.advance(0)
	for seen := t.stage.Load(); seen != t.ended.Load(); seen = t.await(0, seen) {
		t.help(0, seen)
	}
	debug.SetPanicOnFault(old)
	for t.idlers.Load() != 0 { // what they look at may change after this
		pause()
	}
}

// serve is the life of worker w. A fault in a kernel, because a mapped file
// shrank, is a panic that the job recovers from.
func (t *team) serve(w int) {
	debug.SetPanicOnFault(true)
	for seen := uint32(0); ; seen = t.await(w, seen) {
		if t.closing.Load() {
			return
		}
		t.help(w, seen)
	}
}

// help works on a stage until none of its chunks is to be had. The chunks of the
// worker's own range are counted together, when they are done: all workers count
// in one cache line, which takes 0.2 µs to move to another processor.
func (t *team) help(w int, stage uint32) {
	n := 0
	for {
		i, ok := t.claims[w].take(stage)
		if !ok {
			break
		}
		t.job.chunk(w, w, i)
		n++
	}
	if t.finish(w, n) {
		return
	}
	for k := 1; k < t.n; k++ {
		r := w + k
		if r >= t.n {
			r -= t.n
		}
		for {
			i, ok := t.claims[r].take(stage)
			if !ok {
				break
			}
			t.job.chunk(w, r, i)
			if t.finish(w, 1) {
				return
			}
		}
	}
}

// finish counts n chunks as done. If they were the last ones it opens the next
// stage and reports true.
func (t *team) finish(w, n int) bool {
	if n == 0 || t.left.Add(int32(-n)) != 0 {
		return false
	}
	t.advance(w)
	return true
}

// advance opens the next stage that has chunks, or ends the step. Nobody else
// touches the team's stage meanwhile: no chunk is left.
func (t *team) advance(w int) {
	for {
		if !t.job.next(w, t.counts) {
			end := t.stage.Load() + 1
			t.ended.Store(end)
			t.open(end)
			return
		}
		if sum(t.counts) > 0 {
			break
		}
	}
	stage := t.stage.Load() + 1
	t.left.Store(int32(sum(t.counts)))
	for r, n := range t.counts {
		t.claims[r].Store(uint64(stage)<<32 | uint64(n)<<16)
	}
	t.open(stage)
}

func sum(list []int) int {
	n := 0
	for _, x := range list {
		n += x
	}
	return n
}

// open lets the workers see the number of a stage.
func (t *team) open(stage uint32) {
	t.stage.Store(stage)
	if t.parked.Load() > 0 {
		t.wakeAll()
	}
}

// wakeAll wakes the workers that are parked. A token for one that is not makes
// it look again before it parks the next time.
func (t *team) wakeAll() {
	for _, c := range t.wake {
		select {
		case c <- struct{}{}:
		default: // a token is there already
		}
	}
}

// await returns the number of the stage when it is no longer seen.
func (t *team) await(w int, seen uint32) uint32 {
	rounds := spinInStep
	if seen == t.ended.Load() {
		rounds = spinIdle
	} else if s := t.idle(w, seen); s != seen {
		return s
	}
	for i := range rounds {
		if s := spin(&t.stage, seen, pauseRound); s != seen {
			return s
		}
		if i >= yieldAfter {
			runtime.Gosched()
		}
	}
	t.parked.Add(1)
	s := t.stage.Load()
	for ; s == seen; s = t.stage.Load() {
		<-t.wake[w]
	}
	t.parked.Add(-1)
	return s
}

// idle lets a worker that waits within a step do something of use, and returns
// the number of the stage, which is another one than seen if it has changed. A
// step that ends without a stage has none to wait in: seen is the end of the step
// before then.
func (t *team) idle(w int, seen uint32) uint32 {
	for {
		t.idlers.Add(1)
		s := t.stage.Load()
		more := false
		if s == seen {
			k := int(int32(seen - t.first))
			more = k >= 0 && t.job.idle(w, k)
		}
		t.idlers.Add(-1)
		if !more {
			return s
		}
	}
}

// close ends the workers and waits for them.
func (t *team) close() {
	if t.closing.Swap(true) {
		return
	}
	t.open(t.stage.Load() + 1)
	t.group.Wait() //nolint:errcheck // serve returns no error
}

// A worker that waits for the next stage spins for some rounds and then parks.
// A round is pauseRound PAUSE instructions, 1 to 2 µs. Within a step a wait is
// that long only when the system runs something else on the processor of a
// worker that has begun a chunk: spinning on would take time from it. Between
// steps the rounds last 1 to 3 ms, longer than the gap between two tokens.
const (
	pauseRound = 64
	spinInStep = 32
	spinIdle   = 1024
	// yieldAfter is the number of rounds after which a waiting worker lets other
	// goroutines run: with fewer free processors than workers the one that is
	// waited for may need this one's.
	yieldAfter = 16
)

// spin returns *word when it differs from old or after the given rounds. It is
// not inlined: its prologue is where a waiting worker can be preempted.
//
//go:noinline
func spin(word *atomic.Uint32, old uint32, rounds int) uint32 {
	for range rounds {
		if s := word.Load(); s != old {
			return s
		}
		pause()
	}
	return old
}
