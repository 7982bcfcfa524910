package sched

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"graphrun/engine"
)

// now is the time on the wall.
func now() time.Time { return time.Now() }

// result is what a step has brought a request.
type result struct {
	chosen bool
	tok    engine.Token
	err    error
}

// job is what one goroutine does after a step: choose a token from a row of
// logits, or score a token of a prompt.
type job struct {
	r    *request
	item int
	row  int
	at   int // the prompt token to score, 0 = choose
}

// parallelWork is the number of logits to look at above which several goroutines
// are worth waking; it takes one of them about 50 µs.
const parallelWork = 1 << 17

// Drawing and scoring take an exponential for each logit, the most likely token
// only a comparison of vectors.
const exponential = 16

// choose does the jobs that follow a step, on several goroutines if there is
// much to do. Each request's own results do not depend on that.
func (s *Scheduler) choose() {
	s.jobs = s.jobs[:0]
	cost := 0
	add := func(j job, c int) {
		s.jobs = append(s.jobs, j)
		cost += c * s.m.Limits().Vocab
	}
	for i, r := range s.step {
		it := &s.items[i]
		n := len(it.Tokens)
		from := r.seq.Len() - n
		if it.Rows == engine.RowsAll {
			if r.sums == nil {
				r.sums = make([]engine.Score, len(r.Prompt))
				r.sums[0] = engine.Score{ID: r.Prompt[0]}
			}
			for k := range n {
				if at := from + k + 1; at < len(r.Prompt) {
					add(job{r, i, k, at}, exponential)
				}
			}
			r.scores = min(from+n+1, len(r.Prompt))
			if from+n == len(r.Prompt) {
				r.scores = len(r.Prompt)
			}
		}
		if r.seq.Len() < len(r.text) {
			continue
		}
		r.result = result{chosen: true}
		if r.NoAnswer {
			continue
		}
		row, c := 0, 1
		if it.Rows == engine.RowsAll {
			row = n - 1
		}
		if o := &r.Options; o.Temperature > 0 || o.Logprobs || o.Top > 0 {
			c = exponential
		}
		add(job{r, i, row, 0}, c)
	}
	workers := s.o.Samplers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	workers = min(workers, len(s.jobs))
	if cost < parallelWork || workers < 2 {
		for i := range s.jobs {
			s.do(&s.jobs[i])
		}
		return
	}
	var next atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(s.jobs) {
					return
				}
				s.do(&s.jobs[i])
			}
		})
	}
	all.Wait()
}

// do does one job. A panic in it ends its request only.
func (s *Scheduler) do(j *job) {
	r := j.r
	defer func() {
		if v := recover(); v != nil {
			r.result.err = &PanicError{Value: v, Stack: debug.Stack()}
			s.log.Error("choosing a token panicked", "id", r.ID, "value", v, "stack", string(debug.Stack()))
		}
	}()
	logits := s.batch.Logits(&s.items[j.item], j.row)
	if j.at > 0 {
		r.sums[j.at] = engine.ScoreToken(logits, r.Prompt[j.at], r.PromptTop)
		return
	}
	r.result.tok, r.result.err = r.answer.Next(logits, r.text)
}
