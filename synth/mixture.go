package synth

import (
	"slices"
	"strings"

	"graphrun/graph"
	"graphrun/loaders"
)

// mixture says which type each matrix of a file has.
type mixture struct {
	name     string
	base     graph.DType
	fileType uint32 // general.file_type
	// more gives matrices of other types; nil or Invalid is base.
	more func(t tensor, layers, group int) graph.DType
}

// Source of the rules and of the file type numbers: what llama-quantize does
// without an importance matrix.
var mixtures = []mixture{
	{"f32", graph.F32, 0, nil},
	{"f16", graph.F16, 1, nil},
	{"bf16", graph.BF16, 32, nil},
	{"q8_0", graph.Q8_0, 7, nil},
	{"q4_0", graph.Q4_0, 2, nil},
	{"q4_1", graph.Q4_1, 3, nil},
	{"q5_0", graph.Q5_0, 8, nil},
	{"q5_1", graph.Q5_1, 9, nil},
	{"q2_k", graph.Q2_K, 10, mixQ2K},
	{"q3_k", graph.Q3_K, 11, nil},
	{"q3_k_m", graph.Q3_K, 12, mixQ3KM},
	{"q4_k", graph.Q4_K, 14, nil},
	{"q4_k_m", graph.Q4_K, 15, mixKM},
	{"q5_k", graph.Q5_K, 16, nil},
	{"q5_k_m", graph.Q5_K, 17, mixKM},
	{"q6_k", graph.Q6_K, 18, nil},
	{"iq4_nl", graph.IQ4_NL, 25, mixIQ4},
	{"iq4_xs", graph.IQ4_XS, 30, mixIQ4},
	{"iq3_s", graph.IQ3_S, 26, nil},
	{"mxfp4", graph.MXFP4, 38, nil},
	{"tq1_0", graph.TQ1_0, 36, nil},
	{"tq2_0", graph.TQ2_0, 37, nil},
}

// Types returns the names that Options.Type takes.
func Types() []string {
	names := make([]string, len(mixtures))
	for i, m := range mixtures {
		names[i] = m.name
	}
	return names
}

func mixtureByName(name string) (mixture, error) {
	i := slices.IndexFunc(mixtures, func(m mixture) bool { return strings.EqualFold(m.name, name) })
	if i < 0 {
		return mixture{}, &loaders.UnsupportedError{What: "type", Name: name, Known: Types()}
	}
	return mixtures[i], nil
}

// moreBits reports whether a layer is among the half that the medium mixtures
// give more bits: the first and last eighth, and every third between.
func moreBits(layer, layers int) bool {
	return layer < layers/8 || layer >= 7*layers/8 || (layer-layers/8)%3 == 2
}

func mixKM(t tensor, layers, _ int) graph.DType {
	if (t.role == "attn_v" || t.role == "ffn_down" || t.role == "ffn_down_exps") && moreBits(t.layer, layers) {
		return graph.Q6_K
	}
	return graph.Invalid
}

func mixQ3KM(t tensor, layers, _ int) graph.DType {
	switch t.role {
	case "attn_v":
		if t.layer < 2 {
			return graph.Q5_K
		}
		return graph.Q4_K
	case "ffn_down", "ffn_down_exps":
		switch {
		case t.layer < layers/16:
			return graph.Q5_K
		case moreBits(t.layer, layers):
			return graph.Q4_K
		}
	case "attn_output":
		return graph.Q4_K
	}
	return graph.Invalid
}

func mixQ2K(t tensor, _, group int) graph.DType {
	switch t.role {
	case "attn_v":
		if group >= 4 {
			return graph.Q4_K
		}
		return graph.Q3_K
	case "ffn_down", "ffn_down_exps", "attn_output":
		return graph.Q3_K
	}
	return graph.Invalid
}

func mixIQ4(t tensor, layers, group int) graph.DType {
	if t.role == "attn_v" && group >= 4 || t.role == "ffn_down" && t.layer < layers/8 {
		return graph.Q5_K
	}
	return graph.Invalid
}

// typeOf returns the type of a matrix whose rows have k numbers, and the type
// it should have had where rows do not divide.
func (m *mixture) typeOf(s *Shape, t tensor, pure bool) (dt, wanted graph.DType) {
	if t.plain != graph.Invalid {
		return t.plain, t.plain
	}
	head := t.role == "output" || t.role == "token_embd" && !s.untied
	dt = m.base
	switch {
	case pure || !dt.Quantized() || dt == graph.Q8_0:
	case head && dt == graph.MXFP4:
		dt = graph.Q8_0
	case head:
		dt = graph.Q6_K
	case t.role == "token_embd" && (dt == graph.TQ1_0 || dt == graph.TQ2_0):
		dt = graph.Q4_K
	case m.more != nil && t.layer >= 0:
		if other := m.more(t, s.layers, s.heads/s.layer(t.layer).kvHeads); other != graph.Invalid {
			dt = other
		}
	}
	wanted = dt
	k := t.shape[len(t.shape)-1]
	for k%dt.BlockElems() != 0 {
		if dt = narrower[dt]; dt == graph.Invalid {
			dt = graph.F16
		}
	}
	return dt, wanted
}

// narrower gives the type with blocks of 32 that stands in for one of 256.
var narrower = map[graph.DType]graph.DType{
	graph.Q2_K: graph.IQ4_NL, graph.Q3_K: graph.IQ4_NL, graph.IQ3_S: graph.IQ4_NL, graph.IQ4_XS: graph.IQ4_NL,
	graph.Q4_K: graph.Q5_0, graph.Q5_K: graph.Q5_1, graph.Q6_K: graph.Q8_0,
	graph.TQ1_0: graph.Q4_0, graph.TQ2_0: graph.Q4_0,
}
