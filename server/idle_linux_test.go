package server

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"graphrun/engine"
	"graphrun/server/sched"
)

// TestIdle is PF-04: a server without work takes no processor time.
func TestIdle(t *testing.T) {
	m, err := engine.Open(filepath.Join("..", "testdata", "stories.gguf"), engine.Options{MaxSeqs: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	r := startModel(t, m, sched.Options{CachePages: -1}, nil)
	r.post("/v1/completions", `{"prompt":"Once upon a time","max_tokens":30}`)
	cpu := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	// The collector may have something left to do the first time.
	best := time.Hour
	for range 3 {
		time.Sleep(100 * time.Millisecond)
		before := cpu()
		time.Sleep(400 * time.Millisecond)
		if best = min(best, cpu()-before); best < 4*time.Millisecond {
			return
		}
	}
	t.Errorf("%s of processor time in 400 ms without work, want less than 4 ms", best)
}
