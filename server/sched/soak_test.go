package sched

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"graphrun/engine"
)

// soak is a crowd of clients that ask at once, again and again.
type soak struct {
	clients, requests int           // at least so many requests
	limit             time.Duration // and for at least so long
}

// The soak of everyday tests; GRAPHRUN_SOAK=180 makes it the one of a release:
// 200 clients, so many seconds and 5000 requests at least.
func soakOf(t *testing.T) soak {
	if v := os.Getenv("GRAPHRUN_SOAK"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			t.Fatalf("GRAPHRUN_SOAK is %q, want a number of seconds", v)
		}
		return soak{200, 5000, time.Duration(n) * time.Second}
	}
	return soak{pick(200, 40), pick(300, 40), 3 * time.Second}
}

// TestSoak: a crowd asks for answers of all sizes, a third of it leaving at some
// moment, others asking for too much. No answer is lost or mixed up, the queue
// stays below its bound, health is never red, and afterwards nothing is left.
func TestSoak(t *testing.T) {
	const context_ = 256
	o := soakOf(t)
	ref := openAlone(t, "gemma3", context_)
	m := open(t, "gemma3", engine.Options{Context: context_, Chunk: 64, MaxSeqs: 8, Positions: 3 * context_, Windows: 4})

	// Texts to ask about, from one token to the whole context, a few of which
	// begin alike; the answers are computed beforehand.
	r := rand.New(rand.NewPCG(1, 1))
	var reqs []Request
	var want []answerOf
	begin := prompt(m, 100, 99)
	for i := range pick(60, 20) {
		n := 1 + r.IntN(r.IntN(context_-1)+1)
		switch i {
		case 0:
			n = 1
		case 1:
			n = context_ - 1
		}
		text := prompt(m, n, uint64(i))
		if i%4 == 2 {
			text = slices.Concat(begin, text)[:max(n, 2)]
		}
		opt := engine.GenerateOptions{IgnoreEOG: true, Logprobs: true, MaxTokens: r.IntN(60 + 190*(i%2))}
		if i%3 == 0 {
			opt.SampleOptions = engine.SampleOptions{Temperature: 0.8, TopP: 0.95, Seed: uint64(i)}
		}
		q := Request{Prompt: text, Options: opt, Partition: strconv.Itoa(i % 5)}
		reqs, want = append(reqs, q), append(want, ref.answer(t, q))
	}

	s := New(m, Options{MaxQueue: o.clients, CachePages: -1, Chunk: 32, Logger: faults(t)})
	goroutines := runtime.NumGoroutine()
	var before runtime.MemStats
	var asked, done, canceled, embedded atomic.Int64
	start := time.Now()
	var all sync.WaitGroup
	for client := range o.clients {
		r := rand.New(rand.NewPCG(uint64(client), 5))
		all.Go(func() {
			for (time.Since(start) < o.limit || asked.Load() < int64(o.requests)) && !t.Failed() {
				asked.Add(1)
				k := r.IntN(len(reqs))
				what := fmt.Sprintf("client %d, request %d", client, k)
				ctx, cancel := context.WithCancel(t.Context())
				switch i := r.IntN(100); {
				case i < 33: // leaves while it waits, reads or is written for
					time.AfterFunc(time.Duration(r.ExpFloat64()*float64(time.Second)/10), cancel)
				case i < 36: // asks for too much
					var e *engine.ContextError
					if _, err := s.Submit(ctx, Request{Prompt: make([]int32, context_+r.IntN(1000))}); !errors.As(err, &e) {
						t.Errorf("%s: %v", what, err)
					}
					cancel()
					continue
				case i < 38:
					if _, err := s.Embed(ctx, "e", reqs[k].Prompt, engine.EmbedOptions{}); err != nil {
						t.Errorf("%s: %v", what, err)
					}
					embedded.Add(1)
					cancel()
					continue
				}
				st, err := s.Submit(ctx, reqs[k])
				if err != nil {
					if ctx.Err() == nil {
						t.Errorf("%s: %v", what, err)
					}
					cancel()
					continue
				}
				got := read(t.Context(), st)
				switch {
				case got.err == nil:
					same(t, what, got, want[k])
					done.Add(1)
				case errors.Is(got.err, context.Canceled) && ctx.Err() != nil:
					canceled.Add(1)
				default:
					t.Errorf("%s: %v", what, got.err)
				}
				cancel()
			}
		})
	}
	watching, watched := make(chan bool), make(chan bool)
	go func() {
		defer close(watched)
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			select {
			case <-watching:
				tick.Stop()
				return
			case <-tick.C:
				st := s.Stats()
				if st.Stuck(time.Now(), 20*time.Second) || st.Queued > o.clients || st.Running > 9 || st.Full.Used > st.Full.Total {
					t.Errorf("%+v", st)
					return
				}
				if before.HeapAlloc == 0 && time.Since(start) > o.limit/3 {
					runtime.GC()
					runtime.ReadMemStats(&before)
				}
			}
		}
	}()
	all.Wait()
	close(watching)
	<-watched
	took := time.Since(start)
	if err := s.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	st := s.Stats()
	t.Logf("%v: %d answers, %d left, %d embedded; %+v", took.Round(time.Millisecond), done.Load(), canceled.Load(), embedded.Load(), st)
	if st.Queued+st.Running != 0 || st.Failed != 0 || done.Load() == 0 {
		t.Errorf("afterwards: %+v", st)
	}
	var after runtime.MemStats
	for range 100 {
		runtime.GC()
		runtime.ReadMemStats(&after)
		if runtime.NumGoroutine() <= goroutines && after.HeapAlloc < before.HeapAlloc+8<<20 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines afterwards, %d before", n, goroutines)
	}
	if before.HeapAlloc > 0 && after.HeapAlloc > before.HeapAlloc+8<<20 {
		t.Errorf("the heap has %d bytes afterwards, %d after a third of the time", after.HeapAlloc, before.HeapAlloc)
	}
	s.Close()
	unused(t, m)
}
