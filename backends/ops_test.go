package backends_test

import (
	"context"
	"fmt"
	"testing"

	"graphrun/backends"
	"graphrun/backends/cpu"
	"graphrun/backends/ref"
	"graphrun/graph"
	"graphrun/ops/opstest"
)

// Every backend passes the suite of operations: ref with f32 tolerances, cpu
// with those of kernels that round activations to int8.

func TestRefOps(t *testing.T) { opstest.RunExact(t, execOn(ref.Backend{})) }

func TestCPUOps(t *testing.T) { opstest.Run(t, execOn(cpu.Backend{})) }

// tensors are weights by name.
type tensors map[string]*graph.Tensor

func (w tensors) Weight(name string) (*graph.Tensor, error) {
	if t := w[name]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("no weight %s", name)
}

// execOn compiles a graph of the suite for one step and runs it.
func execOn(b backends.Backend) opstest.Exec {
	return func(t testing.TB, g *graph.Graph, weights, feeds map[string]*graph.Tensor) map[string]*graph.Tensor {
		t.Helper()
		dims := graph.Dims{}
		var list []backends.Feed
		for _, v := range g.Values {
			if v.Op != graph.OpInput {
				continue
			}
			x := feeds[v.Name]
			if x == nil {
				t.Fatalf("input %s is not fed", v.Name)
			}
			for i, d := range v.Type.Shape {
				if d.Name != "" {
					dims[d.Name] = max(1, x.Dims[i])
				}
			}
			list = append(list, backends.Feed{Name: v.Name, Tensor: x})
		}
		for _, v := range g.Values {
			if v.Op == graph.OpCache && v.Type.Shape[0].Name != "" {
				dims[v.Type.Shape[0].Name] = poolPositions(feeds)
			}
		}
		prog, err := b.Compile(g, tensors(weights), backends.Options{Threads: 2, Dims: dims, Check: true})
		if err != nil {
			t.Fatal(err)
		}
		defer prog.Close()
		if err := prog.Run(context.Background(), list); err != nil {
			t.Fatal(err)
		}
		out := map[string]*graph.Tensor{}
		for _, o := range g.Outputs {
			out[o.Name] = prog.Output(o.Name)
		}
		return out
	}
}

// poolPositions returns the positions of a pool that has every page the tables
// name.
func poolPositions(feeds map[string]*graph.Tensor) int {
	pages := 1
	for _, x := range feeds {
		if x.DType == graph.I32 && len(x.Dims) == 2 {
			for _, p := range x.I32 {
				pages = max(pages, int(p)+1)
			}
		}
	}
	return 64 * pages
}
