package cpu

import (
	"sync/atomic"
	"testing"
	"time"
)

func TestTeamRunsEveryWorkerOncePerStep(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		tm := newTeam(n)
		counts := make([]int, n)
		for range 100 {
			tm.run(func(w int) { counts[w]++ })
		}
		tm.close()
		for w, c := range counts {
			if c != 100 {
				t.Errorf("%d workers: worker %d ran %d of 100 steps", n, w, c)
			}
		}
	}
}

// Every worker must see what all others wrote before the barrier.
func TestBarrierOrdersWrites(t *testing.T) {
	const n, rounds = 3, 300
	tm := newTeam(n)
	defer tm.close()
	var cells [n]int
	var bad atomic.Int32
	tm.run(func(w int) {
		for r := 1; r <= rounds; r++ {
			cells[w] = r
			tm.bar.wait()
			for _, c := range cells {
				if c != r {
					bad.Add(1)
				}
			}
			tm.bar.wait()
		}
	})
	if bad.Load() != 0 {
		t.Errorf("%d stale reads behind a barrier", bad.Load())
	}
}

func TestTeamParksAndWakes(t *testing.T) {
	tm := newTeam(3)
	defer tm.close()
	for range 3 {
		deadline := time.Now().Add(10 * time.Second)
		for tm.parked.Load() != 2 {
			if time.Now().After(deadline) {
				t.Fatalf("parked workers: got %d, want 2 after the spin budget", tm.parked.Load())
			}
			time.Sleep(time.Millisecond)
		}
		var ran atomic.Int32
		tm.run(func(int) { ran.Add(1) })
		if ran.Load() != 3 {
			t.Fatalf("workers that ran after waking: got %d, want 3", ran.Load())
		}
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
