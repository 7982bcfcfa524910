package quant

import (
	"slices"
	"strings"

	"graphrun/graph"
	"graphrun/loaders"
)

// Mixture says which type each matrix of a file gets: one for most, more bits
// for those where errors cost most.
type Mixture struct {
	Name     string // in upper case, as published files have it
	Base     graph.DType
	FileType uint32 // general.file_type
	Doc      string

	// more gives matrices of other types; nil or Invalid is Base.
	more func(p *place) graph.DType
}

// Source of the rules and of the file type numbers: what llama-quantize does.
// Its types of about two and three bits from code books are not written here.
var mixtures = []Mixture{
	{"F32", graph.F32, 0, "plain numbers", nil},
	{"F16", graph.F16, 1, "plain numbers of 16 bits", nil},
	{"BF16", graph.BF16, 32, "the upper half of F32", nil},
	{"Q8_0", graph.Q8_0, 7, "8 bits, nothing is lost that can be measured", nil},
	{"Q6_K", graph.Q6_K, 18, "6 bits", nil},
	{"Q5_K_M", graph.Q5_K, 17, "5 bits, half of the values and ffn_down in Q6_K", medium(graph.Q6_K)},
	{"Q5_K_S", graph.Q5_K, 16, "5 bits", nil},
	{"Q5_K", graph.Q5_K, 16, "5 bits, every layer alike", nil},
	{"Q5_1", graph.Q5_1, 9, "5 bits, old format", nil},
	{"Q5_0", graph.Q5_0, 8, "5 bits, old format", old(graph.Q5_1)},
	{"Q4_K_M", graph.Q4_K, 15, "4 bits, half of the values and ffn_down in Q6_K: the usual choice", medium(graph.Q5_K)},
	{"Q4_K_S", graph.Q4_K, 14, "4 bits, the first layers' values and ffn_down in Q5_K", mixQ4KS},
	{"Q4_K", graph.Q4_K, 14, "4 bits, every layer alike", nil},
	{"IQ4_NL", graph.IQ4_NL, 25, "4 bits, levels denser near zero", mixIQ4},
	{"IQ4_XS", graph.IQ4_XS, 30, "4 bits, levels denser near zero, smaller scales", mixIQ4},
	{"Q4_1", graph.Q4_1, 3, "4 bits, old format", nil},
	{"Q4_0", graph.Q4_0, 2, "4 bits, old format, fast", old(graph.Q4_1)},
	{"MXFP4", graph.MXFP4, 38, "4-bit floats, a power of two as scale", nil},
	{"MXFP4_MOE", graph.MXFP4, 38, "4-bit floats for experts, the rest in Q8_0", mixExperts},
	{"Q3_K_L", graph.Q3_K, 13, "3 bits, values, ffn_down and attn_output in Q5_K", mixQ3KL},
	{"Q3_K_M", graph.Q3_K, 12, "3 bits, values, ffn_down and attn_output in Q4_K", mixQ3KM},
	{"Q3_K_S", graph.Q3_K, 11, "3 bits", nil},
	{"Q3_K", graph.Q3_K, 11, "3 bits, every layer alike", nil},
	{"IQ3_S", graph.IQ3_S, 26, "3 bits from a code book", mixIQ3S},
	{"Q2_K", graph.Q2_K, 10, "2 bits, values, ffn_down and attn_output in Q3_K or Q4_K", mixQ2K},
	{"Q2_K_S", graph.Q2_K, 21, "2 bits", mixQ2KS},
	{"TQ2_0", graph.TQ2_0, 37, "three values, for models trained so", nil},
	{"TQ1_0", graph.TQ1_0, 36, "three values, for models trained so, smaller", nil},
}

// Mixtures returns all mixtures, those of most bits first. One has a base that
// Row does not write: IQ3_S.
func Mixtures() []Mixture { return slices.Clone(mixtures) }

// MixtureByName returns the mixture of that name, in any case. The error of an
// unknown one, a *loaders.UnsupportedError, lists those that can be written.
func MixtureByName(name string) (Mixture, error) {
	var known []string
	for _, m := range mixtures {
		if strings.EqualFold(m.Name, name) {
			return m, nil
		}
		if slices.Contains(types, m.Base) {
			known = append(known, m.Name)
		}
	}
	return Mixture{}, &loaders.UnsupportedError{What: "type", Name: name, Known: known, Closest: loaders.Closest(strings.ToUpper(name), known)}
}

// place is a matrix in a model, as far as rules ask for it.
type place struct {
	role           string // the name without layer and ending: attn_v
	layer, layers  int    // layer is -1 outside of them
	value, values  int    // which of the matrices attn_v it is
	down           int    // which of the matrices ffn_down, also of experts, it is
	group, experts int
	stacked        bool // one matrix for each expert
	imatrix        bool
}

// moreBits reports whether number i of n is among the half that the medium
// mixtures give more bits: the first and last eighth, and every third between.
func moreBits(i, n int) bool {
	return i < n/8 || i >= 7*n/8 || (i-n/8)%3 == 2
}

// downLayer returns the number that rules for ffn_down count by, of layers.
func (p *place) downLayer() int {
	if p.experts > 1 {
		return p.layer
	}
	return p.down
}

func (p *place) isDown() bool { return strings.HasPrefix(p.role, "ffn_down") }

// medium gives more bits to half of the values and of ffn_down.
func medium(qkv graph.DType) func(p *place) graph.DType {
	return func(p *place) graph.DType {
		switch {
		case p.role == "attn_v" && moreBits(p.value, p.values), p.isDown() && moreBits(p.downLayer(), p.layers):
			return graph.Q6_K
		case p.role == "attn_qkv":
			return qkv
		}
		return graph.Invalid
	}
}

func mixQ4KS(p *place) graph.DType {
	if p.role == "attn_v" && p.value < 4 || p.isDown() && p.downLayer() < p.layers/8 {
		return graph.Q5_K
	}
	return graph.Invalid
}

func mixQ3KM(p *place) graph.DType {
	switch {
	case p.role == "attn_v" && p.value < 2, p.isDown() && p.downLayer() < p.layers/16:
		return graph.Q5_K
	case p.role == "attn_v", p.isDown(), p.role == "attn_output", p.role == "attn_qkv":
		return graph.Q4_K
	}
	return graph.Invalid
}

func mixQ3KL(p *place) graph.DType {
	switch {
	case p.role == "attn_v", p.isDown(), p.role == "attn_output":
		return graph.Q5_K
	case p.role == "attn_qkv":
		return graph.Q4_K
	}
	return graph.Invalid
}

func mixQ2K(p *place) graph.DType {
	switch {
	case p.role == "attn_v" && p.group >= 4:
		return graph.Q4_K
	case p.role == "attn_v", p.isDown(), p.role == "attn_output":
		return graph.Q3_K
	}
	return graph.Invalid
}

func mixQ2KS(p *place) graph.DType {
	if p.role == "attn_v" && p.group >= 4 || p.isDown() && p.downLayer() < p.layers/8 {
		return graph.Q4_K
	}
	return graph.Invalid
}

func mixIQ3S(p *place) graph.DType {
	if p.role == "attn_v" && p.group >= 4 {
		return graph.Q4_K
	}
	return graph.Invalid
}

func mixIQ4(p *place) graph.DType {
	if p.role == "attn_v" && p.group >= 4 || p.isDown() && p.downLayer() < p.layers/8 && !p.imatrix {
		return graph.Q5_K
	}
	return graph.Invalid
}

// old guards the first layers' ffn_down, which importance weights alone serve
// badly in formats without a minimum.
func old(more graph.DType) func(p *place) graph.DType {
	return func(p *place) graph.DType {
		if p.isDown() && p.imatrix && p.downLayer() < p.layers/8 {
			return more
		}
		return graph.Invalid
	}
}

func mixExperts(p *place) graph.DType {
	if p.stacked {
		return graph.MXFP4
	}
	return graph.Q8_0
}
