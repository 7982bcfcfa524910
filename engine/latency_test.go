//go:build unix

package engine_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"graphrun/engine"
	"graphrun/synth"
)

// TestLatency asks what a server asks of the process it lives in: while a model
// writes on all processors, timers come in time and collections are short; when it
// has written, nothing runs. GRAPHRUN_MODEL names another model than SmolLM2-135M
// with random weights.
func TestLatency(t *testing.T) {
	if os.Getenv("GRAPHRUN_TIMING") == "" {
		t.Skip("times are checked when GRAPHRUN_TIMING is set, on a machine that does nothing else")
	}
	path := os.Getenv("GRAPHRUN_MODEL")
	if path == "" {
		path = filepath.Join(t.TempDir(), "model.gguf")
		shape, err := synth.Lookup("smollm2-135m")
		if err != nil {
			t.Fatal(err)
		}
		if err := synth.Write(t.Context(), path, shape, synth.Options{Type: "q4_0"}); err != nil {
			t.Fatal(err)
		}
	}
	m, err := engine.Open(path, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		defer func() { done <- n }()
		for {
			s := m.NewSession()
			s.Append(t.Context(), 1, 2, 3)
			for _, err := range s.Generate(t.Context(), engine.GenerateOptions{MaxTokens: 200, IgnoreEOG: true}) {
				if err != nil {
					t.Error(err)
					return
				}
				n++
				select {
				case <-stop:
					s.Close()
					return
				default:
				}
			}
			s.Close()
		}
	}()
	time.Sleep(200 * time.Millisecond)
	measure := func(n int, f func()) (median, worst time.Duration) {
		var all []time.Duration
		for range n {
			start := time.Now()
			f()
			all = append(all, time.Since(start))
		}
		slices.Sort(all)
		return all[n/2], all[n-1]
	}
	sleep, sleepMax := measure(500, func() { time.Sleep(time.Millisecond) })
	gc, gcMax := measure(50, runtime.GC)
	close(stop)
	n := <-done
	t.Logf("%d threads, %d tokens; Sleep(1ms): median %s, worst %s; GC: median %s, worst %s", m.Threads(), n, sleep, sleepMax, gc, gcMax)
	if sleep > 2*time.Millisecond {
		t.Errorf("Sleep(1ms) takes %s, want at most 2ms", sleep)
	}
	if gc > 20*time.Millisecond {
		t.Errorf("GC takes %s, want at most 20ms", gc)
	}
	time.Sleep(50 * time.Millisecond)
	const rest = 2 * time.Second
	before := processorTime()
	time.Sleep(rest)
	if used := processorTime() - before; used > rest/100 {
		t.Errorf("an idle model used %s of processor time in %s", used, rest)
	} else {
		t.Logf("idle: %s of processor time in %s", used, rest)
	}
}

// processorTime is what this process has taken of all processors.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
