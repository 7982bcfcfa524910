package opstest

import (
	"testing"

	"graphrun/graph"
)

// Machine evaluates a graph with the plain kernels, value by value, with storage
// of its own for each: the simplest program there is.
type Machine struct {
	Graph   *graph.Graph
	Calls   []*graph.Call // in graph order
	tensors map[*graph.Value]*graph.Tensor
}

// NewMachine binds the named dimensions by the feeds and prepares the calls.
func NewMachine(t testing.TB, g *graph.Graph, weights, feeds map[string]*graph.Tensor) *Machine {
	t.Helper()
	m := &Machine{Graph: g, tensors: map[*graph.Value]*graph.Tensor{}}
	dims := graph.Dims{}
	for _, v := range g.Values {
		if v.Op == graph.OpInput {
			for i, d := range v.Type.Shape {
				if d.Name != "" {
					dims[d.Name] = feeds[v.Name].Dims[i]
				}
			}
		}
	}
	for _, v := range g.Values {
		switch v.Op {
		case graph.OpInput:
			m.tensors[v] = feeds[v.Name]
		case graph.OpWeight:
			m.tensors[v] = weights[v.Name]
		case graph.OpConst:
			m.tensors[v] = graph.NewTensor(v.Type, nil)
			copy(m.tensors[v].F32, v.Data)
		case graph.OpCache:
			x := graph.NewTensor(graph.Type{DType: graph.I8, Shape: graph.ShapeOf(v.Type.Bytes(dims))}, nil)
			x.DType = v.Type.DType
			m.tensors[v] = x
		default:
			c := &graph.Call{Value: v}
			for _, a := range v.Args {
				c.In = append(c.In, m.tensors[a])
			}
			if v.Op.Is(graph.State) {
				c.Out = c.In[0]
			} else {
				c.Out = graph.NewTensor(v.Type, dims)
			}
			m.tensors[v] = c.Out
			if v.Op.Prepare != nil {
				var err error
				if c.Param, err = v.Op.Prepare(v); err != nil {
					t.Fatalf("prepare %s: %v", v.Op.Name, err)
				}
			}
			m.Calls = append(m.Calls, c)
		}
	}
	return m
}

// Run computes all values. cuts splits the units of a call: it returns rising
// points between 0 and units; nil computes each call in one go.
func (m *Machine) Run(cuts func(units int) []int) {
	for _, c := range m.Calls {
		lo, units := 0, c.Units()
		if cuts != nil {
			for _, at := range cuts(units) {
				c.Value.Op.Kernel(c, lo, at)
				lo = at
			}
		}
		c.Value.Op.Kernel(c, lo, units)
	}
}

// Outputs returns the outputs by name.
func (m *Machine) Outputs() map[string]*graph.Tensor {
	out := map[string]*graph.Tensor{}
	for _, o := range m.Graph.Outputs {
		out[o.Name] = m.tensors[o.Value]
	}
	return out
}

// Plain is the Exec of the plain kernels.
func Plain(t testing.TB, g *graph.Graph, weights, feeds map[string]*graph.Tensor) map[string]*graph.Tensor {
	m := NewMachine(t, g, weights, feeds)
	m.Run(nil)
	return m.Outputs()
}
