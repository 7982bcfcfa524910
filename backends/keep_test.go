package backends_test

import (
	"math"
	"slices"
	"testing"

	"graphrun/backends"
	"graphrun/backends/cpu"
	"graphrun/graph"
)

// TestKeep: a program that keeps its values computes the same logits, and every
// value is there after a step of either plan, the outputs as the program gives
// them.
func TestKeep(t *testing.T) {
	for _, path := range []string{"../testdata/models/llama-gqa.gguf", "../testdata/models/gemma4-moe.gguf"} {
		ids := []int32{1, 5, 9, 2, 7, 11, 3, 8, 4, 6, 10, 12, 14, 13, 15, 17, 16, 18, 19, 20}
		want := newRunner(t, cpu.Backend{}, path, graph.F32, backends.Options{Threads: 2}).logits(t, ids, 0, 17)
		r := newRunner(t, cpu.Backend{}, path, graph.F32, backends.Options{Threads: 2, Keep: true})
		for _, chunk := range []int{17, 3} {
			if got := r.logits(t, ids, 0, chunk); chunk == 17 && !slices.Equal(got, want) {
				t.Errorf("%s: keeping the values changes the logits", path)
			}
			p := r.prog.(backends.Inspector)
			for _, v := range p.Graph().Values {
				x := p.Value(v)
				if x == nil {
					t.Fatalf("%s: no value for %s %s", path, v, v.Label())
				}
				if x.DType == graph.F32 && !v.Op.Is(graph.Leaf) && !v.Op.Is(graph.State) { // caches are raw bytes
					for i := range x.Rows() {
						for _, y := range x.F32[i*x.Stride : i*x.Stride+x.RowElems()] {
							if math.IsNaN(float64(y)) {
								t.Fatalf("%s: NaN in %s", path, v.Label())
							}
						}
					}
				}
			}
			for _, o := range p.Graph().Outputs {
				if p.Value(o.Value) != p.Output(o.Name) {
					t.Errorf("%s: output %s is not its value", path, o.Name)
				}
			}
		}
	}
	r := newRunner(t, cpu.Backend{}, "../testdata/models/llama-gqa.gguf", graph.F32, backends.Options{Threads: 1})
	r.logits(t, []int32{1, 2}, 0, 2)
	p := r.prog.(backends.Inspector)
	if v := p.Graph().Values[len(p.Graph().Values)-1]; p.Value(v) != nil {
		t.Error("values are there without Keep")
	}
}
