package sched

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"graphrun/engine"
)

// TestAmongOthers: an answer is the same, bit for bit, alone and among thirty
// others, some of which leave.
func TestAmongOthers(t *testing.T) {
	for _, name := range models("llama-q8_0", "gptoss", "gemma3") {
		t.Run(name, func(t *testing.T) {
			ref := openAlone(t, name, 512)
			m := open(t, name, engine.Options{Context: 512, MaxSeqs: 6, Chunk: 96, Positions: 4096, Windows: 8})
			var reqs []Request
			var want []answerOf
			for i := range 31 {
				o := engine.GenerateOptions{MaxTokens: 5 + pick(i, i/4), IgnoreEOG: true, Top: 3}
				if i%2 == 1 {
					o.SampleOptions = engine.SampleOptions{Temperature: 0.9, TopK: 20, Seed: uint64(i)}
				}
				reqs = append(reqs, Request{Prompt: prompt(m, 1+i*pick(9, 2), uint64(i%20)), Options: o, Partition: fmt.Sprint(i % 3)})
				want = append(want, ref.answer(t, reqs[i]))
			}
			s := start(t, m, Options{Chunk: 24, CachePages: -1})
			var all sync.WaitGroup
			for round := range pick(3, 1) {
				for i, q := range reqs {
					st, err := s.Submit(t.Context(), q)
					if err != nil {
						t.Fatal(err)
					}
					leave := -1
					if (i+round)%3 == 0 {
						leave = rand.IntN(q.Options.MaxTokens + 1)
					}
					all.Go(func() {
						for range leave {
							if _, err := st.Next(t.Context()); err != nil {
								t.Error(err)
							}
						}
						if leave >= 0 {
							st.Close()
							return
						}
						a := read(t.Context(), st)
						if a.err != nil {
							t.Errorf("request %d: %v", i, a.err)
						}
						same(t, fmt.Sprintf("request %d", i), a, want[i])
					})
				}
			}
			all.Wait()
			s.Close()
			unused(t, m)
		})
	}
}
