package synth

import (
	"strings"

	"graphrun/graph"
	"graphrun/loaders"
	"graphrun/quant"
)

// Types returns the names that Options.Type takes: those of the mixtures of
// package quant, in lower case.
func Types() []string {
	var names []string
	for _, m := range quant.Mixtures() {
		names = append(names, strings.ToLower(m.Name))
	}
	return names
}

func mixtureByName(name string) (quant.Mixture, error) {
	for _, m := range quant.Mixtures() {
		if strings.EqualFold(m.Name, name) {
			return m, nil
		}
	}
	return quant.Mixture{}, &loaders.UnsupportedError{What: "type", Name: name, Known: Types(), Closest: loaders.Closest(strings.ToLower(name), Types())}
}

// choose returns the type of each tensor.
func (s *Shape) choose(tensors []tensor, m quant.Mixture, pure bool) ([]quant.Choice, error) {
	infos := make([]loaders.TensorInfo, len(tensors))
	for i, t := range tensors {
		infos[i] = loaders.TensorInfo{Name: t.name, DType: t.plain, Shape: t.shape}
		if t.plain == graph.Invalid {
			infos[i].DType = graph.F32
		}
	}
	a := quant.Assignment{
		Mixture: m, Pure: pure,
		Sizes: quant.Sizes{Layers: s.layers, Group: s.heads / s.layer(0).kvHeads, Experts: s.experts},
	}
	return a.Choose(infos)
}
