package cpu

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// testJob is a job of stages with the given numbers of chunks. Each chunk must
// see that all chunks of the stages before are done.
type testJob struct {
	stages []int // chunks in each range
	at     int
	done   []atomic.Int32 // by stage
	seen   [][]atomic.Int32
	slow   func(worker int)
	bad    atomic.Int32
}

func newTestJob(ranges int, stages ...int) *testJob {
	j := &testJob{stages: stages, at: -1, done: make([]atomic.Int32, len(stages))}
	for _, n := range stages {
		j.seen = append(j.seen, make([]atomic.Int32, n*ranges))
	}
	return j
}

func (j *testJob) next(_ int, counts []int) bool {
	if j.at >= 0 && int(j.done[j.at].Load()) != j.stages[j.at]*len(counts) {
		j.bad.Add(1)
	}
	if j.at++; j.at == len(j.stages) {
		return false
	}
	for r := range counts {
		counts[r] = j.stages[j.at]
	}
	return true
}

func (j *testJob) idle(int, int) bool { return false }

func (j *testJob) chunk(worker, rng, i int) {
	if j.slow != nil {
		j.slow(worker)
	}
	j.seen[j.at][rng*j.stages[j.at]+i].Add(1)
	j.done[j.at].Add(1)
}

// check reports whether every chunk was done once per step.
func (j *testJob) check(steps int) error {
	if n := j.bad.Load(); n > 0 {
		return fmt.Errorf("%d stages began before the one before was done", n)
	}
	for s := range j.seen {
		for i := range j.seen[s] {
			if n := int(j.seen[s][i].Load()); n != steps {
				return fmt.Errorf("chunk %d of stage %d: done %d times in %d steps", i, s, n, steps)
			}
		}
	}
	return nil
}

func TestTeamDoesEveryChunkOnce(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		j := newTestJob(n, 1, 0, 7, 1, 300, 0)
		tm := newTeam(n, j)
		const steps = 50
		for range steps {
			j.at = -1
			for s := range j.done {
				j.done[s].Store(0)
			}
			tm.run()
		}
		tm.close()
		if err := j.check(steps); err != nil {
			t.Errorf("%d workers: %v", n, err)
		}
	}
}

// A worker that is kept from its work holds up only the chunk it has begun.
func TestTeamHelpsSlowWorker(t *testing.T) {
	j := newTestJob(2, 20)
	slow := 0 // chunks of worker 1, which alone counts them
	release := make(chan struct{})
	var others atomic.Int32
	j.slow = func(w int) {
		if w == 1 {
			if slow++; slow == 1 {
				<-release
			}
			return
		}
		if n := others.Add(1); n == 39 { // all but the one that waits
			close(release)
		}
	}
	tm := newTeam(2, j)
	defer tm.close()
	for started := false; !started; { // until worker 1 has taken a chunk in time
		j.at, slow = -1, 0
		j.done[0].Store(0)
		others.Store(0)
		release = make(chan struct{})
		tm.run()
		started = slow == 1
	}
}

func TestTeamParksAndWakes(t *testing.T) {
	j := newTestJob(3, 1, 2)
	tm := newTeam(3, j)
	defer tm.close()
	const steps = 3
	for range steps {
		deadline := time.Now().Add(10 * time.Second)
		for tm.parked.Load() != 2 {
			if time.Now().After(deadline) {
				t.Fatalf("parked workers: got %d, want 2 after the spin budget", tm.parked.Load())
			}
			time.Sleep(time.Millisecond)
		}
		j.at = -1
		for s := range j.done {
			j.done[s].Store(0)
		}
		tm.run()
	}
	if err := j.check(steps); err != nil {
		t.Error(err)
	}
}

// emptyJob has steps without stages, in which nobody can wait.
type emptyJob struct{ idles atomic.Int32 }

func (j *emptyJob) next(int, []int) bool { return false }
func (j *emptyJob) chunk(int, int, int)  {}
func (j *emptyJob) idle(int, int) bool   { j.idles.Add(1); return false }

func TestTeamStepsWithoutStages(t *testing.T) {
	j := &emptyJob{}
	tm := newTeam(4, j)
	defer tm.close()
	for range 200_000 {
		tm.run()
	}
	if n := j.idles.Load(); n > 0 {
		t.Errorf("workers waited within a stage %d times, want 0: there is none", n)
	}
}

func TestSplitCoversUnitsOnce(t *testing.T) {
	for _, grain := range []int{1, 16, 32} {
		for units := range 200 {
			for n := 1; n <= 5; n++ {
				at := 0
				for w := range n {
					lo, hi := split(units, grain, w, n)
					if lo != at || hi < lo || lo%grain != 0 && lo != units {
						t.Fatalf("split(%d, %d, %d, %d) = %d, %d after %d", units, grain, w, n, lo, hi, at)
					}
					at = hi
				}
				if at != units {
					t.Fatalf("split of %d units by %d over %d workers ends at %d", units, grain, n, at)
				}
			}
		}
	}
}

// BenchmarkStage times a meeting of all workers.
func BenchmarkStage(b *testing.B) {
	for _, n := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers=%d", n), func(b *testing.B) {
			j := &countJob{stages: b.N}
			tm := newTeam(n, j)
			defer tm.close()
			b.ResetTimer()
			tm.run()
		})
	}
}

type countJob struct{ stages int }

func (j *countJob) next(_ int, counts []int) bool {
	for r := range counts {
		counts[r] = 1
	}
	j.stages--
	return j.stages >= 0
}

func (j *countJob) chunk(int, int, int) {
	for range 100 { // work for 2 µs: else one worker does all chunks
		pause()
	}
}

func BenchmarkSpinRound(b *testing.B) {
	var word atomic.Uint32
	for b.Loop() {
		spin(&word, 0, pauseRound)
	}
}

func (j *countJob) idle(int, int) bool { return false }
