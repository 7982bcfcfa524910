package quant

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"graphrun/graph"
	"graphrun/loaders"
)

// Sizes are what mixtures want to know of a model.
type Sizes struct {
	Layers  int
	Group   int // query heads for each key and value head, in the first layer
	Experts int // 0 if there are none
}

// SizesOf reads the sizes from the keys of a model file. Where one is absent or
// odd, as in files that hold no language model, the rules that ask for it do not
// apply; the numbers are then 0.
func SizesOf(meta *loaders.Metadata) Sizes {
	arch, _, err := meta.String("general.architecture")
	if err != nil {
		return Sizes{}
	}
	number := func(key string) int {
		if n, ok, err := meta.Int(arch + "." + key); ok && err == nil && n > 0 && n < 1<<20 {
			return int(n)
		}
		if list, ok, err := meta.Ints(arch + "." + key); ok && err == nil && len(list) > 0 && list[0] > 0 && list[0] < 1<<20 {
			return int(list[0])
		}
		return 0
	}
	s := Sizes{Layers: number("block_count"), Experts: number("expert_count")}
	heads := number("attention.head_count")
	if kv := number("attention.head_count_kv"); kv > 0 {
		s.Group = heads / kv
	} else if heads > 0 {
		s.Group = 1
	}
	return s
}

// Rule gives the tensors whose names match a type; Keep leaves them as they are.
type Rule struct {
	Match *regexp.Regexp
	Type  graph.DType
	Keep  bool
}

// ParseRule reads PATTERN=TYPE, where TYPE is one of Types or "keep".
func ParseRule(text string) (Rule, error) {
	i := strings.LastIndexByte(text, '=')
	if i < 1 {
		return Rule{}, fmt.Errorf("found %q, want PATTERN=TYPE, e.g. ffn_down=q6_k", text)
	}
	re, err := regexp.Compile(text[:i])
	if err != nil {
		return Rule{}, err
	}
	name := strings.ToLower(text[i+1:])
	if name == "keep" {
		return Rule{Match: re, Keep: true}, nil
	}
	for _, t := range types {
		if t.String() == name {
			return Rule{Match: re, Type: t}, nil
		}
	}
	known := append(typeNames(), "KEEP")
	return Rule{}, &loaders.UnsupportedError{What: "type", Name: text[i+1:], Known: known, Closest: loaders.Closest(strings.ToUpper(name), known)}
}

// Assignment says how types are chosen.
type Assignment struct {
	Mixture Mixture
	Sizes   Sizes
	// Pure gives every matrix the mixture's base.
	Pure bool
	// Imatrix is that importance weights will be used: some rules ask for it.
	Imatrix bool
	// Rules come before all others, the first that matches.
	Rules []Rule
}

// Choice is the type a tensor gets.
type Choice struct {
	// Type is what the tensor will be, Wanted what it would be if its rows
	// divided into blocks.
	Type, Wanted graph.DType
	// Kept is that the tensor stays as it is, being no matrix of the kind that is
	// quantized, or because a rule says so.
	Kept bool
	Rule int // the rule that decided, -1 if none did
}

// Choose returns the choice for each tensor of a model. Of a tensor that is kept
// the type is its own. An error says which rule asks for what cannot be.
func (a *Assignment) Choose(tensors []loaders.TensorInfo) ([]Choice, error) {
	s := a.survey(tensors)
	choices := make([]Choice, len(tensors))
	for i, t := range tensors {
		c := &choices[i]
		c.Rule = -1
		for j, r := range a.Rules {
			if r.Match.MatchString(t.Name) {
				c.Rule = j
				break
			}
		}
		k := t.Shape[len(t.Shape)-1]
		switch {
		case c.Rule >= 0 && a.Rules[c.Rule].Keep:
			c.Kept, c.Type = true, t.DType
		case c.Rule >= 0 && len(t.Shape) < 2 && a.Rules[c.Rule].Type.Quantized():
			return nil, &loaders.TensorError{Name: t.Name, Err: fmt.Errorf("%s=%s asks for blocks, but a vector stays plain", a.Rules[c.Rule].Match, a.Rules[c.Rule].Type)}
		case c.Rule >= 0:
			c.Type = a.Rules[c.Rule].Type
		case !quantizable(t):
			c.Kept, c.Type = true, t.DType
		default:
			c.Type = a.typeOf(t, s)
		}
		c.Wanted = c.Type
		if !c.Kept {
			for k%c.Type.BlockElems() != 0 {
				if c.Type = narrower[c.Type]; c.Type == graph.Invalid {
					c.Type = graph.F16
				}
			}
		}
	}
	return choices, nil
}

// narrower gives the type with blocks of 32 that stands in for one of 256.
var narrower = map[graph.DType]graph.DType{
	graph.Q2_K: graph.IQ4_NL, graph.Q3_K: graph.IQ4_NL, graph.IQ3_S: graph.IQ4_NL, graph.IQ4_XS: graph.IQ4_NL,
	graph.Q4_K: graph.Q5_0, graph.Q5_K: graph.Q5_1, graph.Q6_K: graph.Q8_0,
	graph.TQ1_0: graph.Q4_0, graph.TQ2_0: graph.Q4_0,
}

// plainRoles are matrices that stay as they are: routers, and those that are
// small, or no operand of a product with activations.
var plainRoles = []string{
	"_norm.weight", "ffn_gate_inp", "per_layer_model_proj", "altup", "laurel", "pos_embd.weight", "position_embd",
	"token_types.weight", "ssm_conv1d", "shortconv.conv", "attn_rel_b", "time_mix_", "rope_freqs",
}

// quantizable reports whether a tensor is a matrix that mixtures speak of.
func quantizable(t loaders.TensorInfo) bool {
	if len(t.Shape) < 2 || !strings.HasSuffix(t.Name, "weight") {
		return false
	}
	for _, role := range plainRoles {
		if strings.Contains(t.Name, role) {
			return false
		}
	}
	return true
}

// survey is what rules count over all tensors.
type survey struct {
	tied        bool           // the embedding is the head
	value, down map[string]int // which of the matrices attn_v, ffn_down a name is
}

func (a *Assignment) survey(tensors []loaders.TensorInfo) *survey {
	s := &survey{tied: true, value: map[string]int{}, down: map[string]int{}}
	for _, t := range tensors {
		if t.Name == "output.weight" {
			s.tied = false
		}
		if !quantizable(t) {
			continue
		}
		switch role, _ := roleOf(t.Name); {
		case role == "attn_v":
			s.value[t.Name] = len(s.value)
		case strings.HasPrefix(role, "ffn_down"):
			s.down[t.Name] = len(s.down)
		}
	}
	return s
}

// roleOf splits a tensor's name into its role and its layer, -1 outside of
// layers: blk.3.attn_v.weight is attn_v, 3.
func roleOf(name string) (role string, layer int) {
	role, layer = strings.TrimSuffix(name, ".weight"), -1
	if rest, ok := strings.CutPrefix(role, "blk."); ok {
		if number, r, ok := strings.Cut(rest, "."); ok {
			if n, err := strconv.Atoi(number); err == nil {
				role, layer = r, n
			}
		}
	}
	return role, layer
}

// typeOf returns the type that the mixture gives a matrix.
func (a *Assignment) typeOf(t loaders.TensorInfo, s *survey) graph.DType {
	base := a.Mixture.Base
	if a.Pure || !base.Quantized() {
		return base
	}
	role, layer := roleOf(t.Name)
	embedding := role == "token_embd" || role == "per_layer_token_embd"
	switch {
	case role == "output" || embedding && s.tied:
		switch base {
		case graph.Q8_0, graph.MXFP4:
			return graph.Q8_0
		}
		return graph.Q6_K
	case embedding:
		switch base {
		case graph.TQ1_0, graph.TQ2_0:
			return graph.Q4_K
		case graph.MXFP4:
			return graph.Q8_0
		}
		return base
	}
	p := &place{
		role: role, layer: layer, layers: a.Sizes.Layers, value: s.value[t.Name], values: len(s.value), down: s.down[t.Name],
		group: a.Sizes.Group, experts: a.Sizes.Experts, stacked: len(t.Shape) > 2, imatrix: a.Imatrix,
	}
	dt := graph.Invalid
	if a.Mixture.more != nil && layer >= 0 {
		dt = a.Mixture.more(p)
	}
	if dt == graph.Invalid {
		dt = base
	}
	// Some matrices are so small beside the experts or heads they serve that more
	// bits cost next to nothing.
	switch {
	case base == graph.MXFP4:
	case p.experts == 8 && (role == "attn_v" || role == "attn_k"):
		return graph.Q8_0
	case p.experts == 8 && role == "attn_output" && fewBits[base] && a.Mixture.Name != "Q3_K_L":
		return graph.Q5_K
	case role == "attn_v" && p.layers == 80 && p.group == 8 && (dt == graph.Q3_K || dt == graph.Q4_K):
		return graph.Q5_K
	}
	return dt
}

var fewBits = map[graph.DType]bool{graph.Q2_K: true, graph.Q3_K: true, graph.Q4_K: true, graph.IQ3_S: true, graph.IQ4_NL: true, graph.IQ4_XS: true}

// ErrFallback is the class of errors about rows that do not divide into blocks,
// where that is forbidden.
var ErrFallback = errors.New("rows do not divide into blocks")
