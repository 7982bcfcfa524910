package engine

import (
	"fmt"
	"slices"
	"strings"

	"graphrun/graph"
	"graphrun/ops"
)

// AllLayers in Tap.Layer taps a value in every layer, and outside of layers.
const AllLayers = -1

// A Tap reads or replaces a value of the graph while a step runs.
//
//	Taps: []engine.Tap{{Name: "ffn.res", Layer: 7, Func: func(v *graph.Value, t *graph.Tensor) error {
//		for i := range t.Rows() {
//			steer(t.Row(i)) // adds a direction to the stream of layer 7
//		}
//		return nil
//	}}}
//
// A program with taps is a little slower: the value is copied, and computed as
// the graph says even where it would have become part of a fused operation.
type Tap struct {
	// Name is the role of the value, as graphrun --dump shows it.
	Name string
	// Layer is the decoder block, or AllLayers.
	Layer int
	// Func gets the value's elements in each step, one row per token, when all of
	// them are there and nothing has used them yet. What it changes is what the
	// rest of the graph sees. It must not keep the tensor, and runs on one of the
	// workers while the others wait. Its error ends the step.
	Func func(v *graph.Value, t *graph.Tensor) error
}

// insertTaps returns a copy of g with taps in it.
func insertTaps(g *graph.Graph, taps []Tap) (*graph.Graph, error) {
	g = g.Clone()
	for _, tap := range taps {
		if tap.Func == nil {
			return nil, fmt.Errorf("engine: the tap of %q has no function", tap.Name)
		}
		found := false
		for _, v := range slices.Clone(g.Values) {
			if v.Name != tap.Name || v.Op.Is(graph.Leaf) || tap.Layer != AllLayers && v.Layer != tap.Layer {
				continue
			}
			if _, err := ops.InsertTap(g, v, tap.Func); err != nil {
				return nil, fmt.Errorf("engine: %w", err)
			}
			found = true
		}
		if !found {
			return nil, tap.missing(g)
		}
	}
	return g, nil
}

// missing says that the tap found nothing, and what there is.
func (t *Tap) missing(g *graph.Graph) error {
	var names, layers []string
	for _, v := range g.Values {
		if v.Op.Is(graph.Leaf) || v.Op.Is(graph.State) || v.Name == "" {
			continue
		}
		if !slices.Contains(names, v.Name) {
			names = append(names, v.Name)
		}
		if v.Name == t.Name {
			layers = append(layers, fmt.Sprint(v.Layer))
		}
	}
	if len(layers) > 0 {
		return fmt.Errorf("engine: no value %q in layer %d to tap; it is in layers %s", t.Name, t.Layer, strings.Join(layers, ", "))
	}
	return fmt.Errorf("engine: no value %q to tap; there are %s", t.Name, strings.Join(names, ", "))
}
