package backends_test

import (
	"strings"
	"testing"

	"graphrun/backends"
	"graphrun/backends/cpu"
	"graphrun/backends/cpu/kern"
	"graphrun/graph"
	"graphrun/ops"
)

// A program says so when attention has no kernel, and only then.
func TestNotices(t *testing.T) {
	for _, c := range []struct {
		k    int
		slow bool
	}{{64, false}, {40, true}} {
		b := graph.NewBuilder("attention")
		q := b.Input("q", graph.F32, graph.Rows("T", 2, c.k))
		k := b.Input("k", graph.F32, graph.Rows("T", 1, c.k))
		pos, seq := b.Input("pos", graph.I32, graph.Rows("T")), b.Input("seq", graph.I32, graph.Rows("T"))
		pages := b.Input("pages", graph.I32, graph.Shape{graph.Named("N"), graph.Named("C")})
		cache := b.Cache("kv", graph.Type{DType: graph.F16, Shape: graph.Rows("S", 2, 1, c.k)}, 0)
		w := ops.KVWrite(b, cache, k, k, pos, seq, pages)
		b.Output("y", ops.Attention(b, q, w, pos, seq, pages, nil, ops.AttnParams{Scale: 1}))
		g, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		prog, err := cpu.Backend{}.Compile(g, tensors{}, backends.Options{Threads: 1, Dims: graph.Dims{"T": 4, "N": 1, "C": 1, "S": 64}})
		if err != nil {
			t.Fatal(err)
		}
		defer prog.Close()
		notices := strings.Join(prog.(backends.Reporter).Notices(), "; ")
		if want := c.slow && kern.Level() != "generic"; strings.Contains(notices, "plain Go") != want {
			t.Errorf("heads of %d: notices are %q, want one about plain Go: %v", c.k, notices, want)
		}
	}
}
