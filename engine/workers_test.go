package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestFewTokensWorkers: a step of a few tokens has the same logits for any number
// of workers, also where a token sees a chunk of positions more than the one
// before it.
func TestFewTokensWorkers(t *testing.T) {
	for _, name := range []string{"qwen3", "gemma2"} {
		for _, c := range []struct{ prompt, n int }{{126, 4}, {127, 3}, {127, 4}, {128, 4}} {
			var want [][]float32
			for _, threads := range []int{1, 2, 3} {
				m, err := Open("../testdata/models/"+name+".gguf", Options{Threads: threads, Context: 256, Chunk: 128, MaxRows: c.n})
				if err != nil {
					t.Fatal(err)
				}
				seq := m.cache.NewSequence()
				var tokens []int32
				for i := range c.prompt + c.n {
					tokens = append(tokens, int32((i*7+3+i*i)%m.limits.Vocab))
				}
				if err := step(t, m, Item{Seq: seq, Tokens: tokens[:c.prompt], Rows: RowsNone}); err != nil {
					t.Fatal(err)
				}
				b, err := m.Acquire(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				it := []Item{{Seq: seq, Tokens: tokens[c.prompt:], Rows: RowsAll}}
				if err := b.Step(t.Context(), it); err != nil {
					t.Fatal(err)
				}
				for k := range c.n {
					got := b.Logits(&it[0], k)
					if threads == 1 {
						want = append(want, slices.Clone(got))
					} else if !slices.Equal(got, want[k]) {
						t.Errorf("%s, %d tokens after %d: token %d has other logits with %d workers than with one", name, c.n, c.prompt, k, threads)
					}
				}
				b.Release()
				seq.Drop()
				m.Close()
			}
		}
	}
}

// TestRandomStepsWorkers: steps of some tokens of three texts have the same logits
// for any number of workers. They aim at multiples of 128, where attention cuts
// positions.
func TestRandomStepsWorkers(t *testing.T) {
	for _, name := range []string{"llama-moe", "llama-q4_k", "gemma2", "gemma3", "gemma4-e2b", "gptoss", "qwen3"} {
		t.Run(name, func(t *testing.T) {
			want := randomSteps(t, name, 1)
			for _, threads := range []int{2, 3} {
				for i, got := range randomSteps(t, name, threads) {
					if !slices.Equal(got, want[i]) {
						t.Fatalf("logits %d of %d differ between %d workers and one", i, len(want), threads)
					}
				}
			}
		})
	}
}

// randomSteps returns the logits of the steps.
func randomSteps(t *testing.T, name string, threads int) (logits [][]float32) {
	const context, most = 320, 20
	m, err := Open("../testdata/models/"+name+".gguf", Options{Threads: threads, Context: context, Chunk: 3 * most, MaxRows: 3 * most, MaxSeqs: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r := rand.New(rand.NewPCG(1, uint64(len(name))))
	var seqs [3]*Sequence
	var length [3]int
	for s := range seqs {
		seqs[s] = m.cache.NewSequence()
		defer seqs[s].Drop()
	}
	for range 500 {
		var items []Item
		first := r.IntN(len(seqs))
		for s := range seqs {
			if s != first && r.IntN(4) > 0 {
				continue
			}
			n := 1 + r.IntN(4)
			if left := 128 - length[s]%128; left > 2 && left <= most && r.IntN(2) == 0 {
				n = left - 2 + r.IntN(2)
			}
			if length[s]+n > context {
				continue
			}
			var tokens []int32
			for range n {
				tokens = append(tokens, int32(r.IntN(m.limits.Vocab)))
			}
			items = append(items, Item{Seq: seqs[s], Tokens: tokens, Rows: RowsAll})
			length[s] += n
		}
		if len(items) == 0 {
			continue
		}
		b, err := m.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Step(t.Context(), items); err != nil {
			t.Fatal(err)
		}
		for i := range items {
			for k := range items[i].Tokens {
				logits = append(logits, slices.Clone(b.Logits(&items[i], k)))
			}
		}
		b.Release()
	}
	return logits
}
