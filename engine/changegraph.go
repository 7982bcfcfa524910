package engine

import (
	"fmt"

	"graphrun/graph"
)

// changeGraph puts Options.Graph and Options.Taps into effect.
func (m *Model) changeGraph() (err error) {
	if g := m.o.Graph; g != nil {
		if err := fits(g, m.Graph); err != nil {
			return err
		}
		m.Graph = g
	}
	if len(m.o.Taps) > 0 {
		m.Graph, err = insertTaps(m.Graph, m.o.Taps)
	}
	return err
}

// fits reports whether g can take the place of own: inputs that own has, and the
// outputs of own.
func fits(g, own *graph.Graph) error {
	if err := graph.Verify(g); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	inputs := map[string]*graph.Value{}
	for _, v := range own.Values {
		if v.Op == graph.OpInput {
			inputs[v.Name] = v
		}
	}
	for _, v := range g.Values {
		switch {
		case v.Op != graph.OpInput:
		case inputs[v.Name] == nil:
			return fmt.Errorf("engine: the graph %q has the input %q, which a step of this model does not give", g.Name, v.Name)
		case v.Type.String() != inputs[v.Name].Type.String():
			return fmt.Errorf("engine: input %q of the graph %q is %s, a step of this model gives %s", v.Name, g.Name, v.Type, inputs[v.Name].Type)
		}
	}
	for _, o := range own.Outputs {
		v := g.Output(o.Name)
		if v == nil {
			return fmt.Errorf("engine: the graph %q has no output %q %s", g.Name, o.Name, o.Value.Type)
		}
		if v.Type.String() != o.Value.Type.String() {
			return fmt.Errorf("engine: output %q of the graph %q is %s, want %s", o.Name, g.Name, v.Type, o.Value.Type)
		}
	}
	return nil
}
