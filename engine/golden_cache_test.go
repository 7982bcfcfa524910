package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"graphrun/graph"
)

// TestForkGolden: texts that share pages in real caches, full and windowed, go
// on as they would alone.
func TestForkGolden(t *testing.T) {
	if testing.Short() {
		t.Skip("about numbers, and minutes long under the race detector")
	}
	for _, name := range []string{"llama-gqa", "gemma3-1b-like", "gemma4-e2b-like"} {
		for _, backend := range []string{"ref", "cpu"} {
			t.Run(name+"/"+backend, func(t *testing.T) {
				m, g := openGolden(t, name, Options{Backend: backend, Threads: 1, Context: 512, MaxSeqs: 3})
				long := slices.Concat(g.Tokens, g.Tokens, g.Tokens)
				other := slices.Clone(g.Tokens)
				slices.Reverse(other)
				s := promptOf(t, m, long...)
				f, err := s.Fork(100) // inside the second page
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range []struct {
					s    *Session
					text []int32
					want []int32
				}{
					{f, other, slices.Concat(long[:100], other)},
					{s, g.Tokens, slices.Concat(long, g.Tokens)},
				} {
					if err := c.s.Append(t.Context(), c.text...); err != nil {
						t.Fatal(err)
					}
					alone := promptOf(t, m, c.want...)
					if d := worst(t, c.s.Logits(), alone.Logits()); d > 1e-3 {
						t.Errorf("%d tokens: the largest difference is %g", len(c.want), d)
					}
					alone.Close()
				}
			})
		}
	}
}

// TestThreads: logits do not depend on the number of threads.
func TestThreads(t *testing.T) {
	var want []float32
	for _, n := range []int{1, 2, 3} {
		m, g := openGolden(t, "stories260K-q8_0", Options{Threads: n, MaxRows: 64})
		got := all(t, m.NewSession(), g.Tokens, 16)
		if want == nil {
			want = got
		}
		if err := sameLogits(got, want); err != nil {
			t.Errorf("%d threads: %v", n, err)
		}
	}
}

// TestKVTypes: what the element type of the cache changes. A type that does not
// fit the model's heads is refused with a way out.
func TestKVTypes(t *testing.T) {
	if testing.Short() {
		t.Skip("about numbers, and minutes long under the race detector")
	}
	for _, name := range []string{"stories260K-f32", "llama-gqa", "gemma3-4b-like"} {
		for _, c := range []struct {
			kv    graph.DType
			bound float64
		}{{graph.F32, 1e-3}, {graph.F16, 2e-2}, {graph.Q8_0, 0.5}} {
			t.Run(fmt.Sprint(name, "/", c.kv), func(t *testing.T) {
				m, g, err := tryGolden(t, name, Options{Threads: 1, KV: c.kv, MaxRows: 64})
				if err != nil {
					if c.kv != graph.Q8_0 || !strings.Contains(err.Error(), "f16") {
						t.Error(err)
					}
					return
				}
				if d := worst(t, all(t, m.NewSession(), g.Tokens, 8), g.logits); d > c.bound {
					t.Errorf("the largest difference is %g, at most %g is expected", d, c.bound)
				}
			})
		}
	}
}
