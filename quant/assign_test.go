package quant_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"graphrun/graph"
	"graphrun/internal/shared"
	"graphrun/loaders"
	"graphrun/quant"
)

func infos(m *loaders.Model) []loaders.TensorInfo {
	var list []loaders.TensorInfo
	for _, t := range m.Tensors {
		list = append(list, loaders.TensorInfo{Name: t.Name, DType: t.DType, Shape: t.Shape})
	}
	return list
}

// TestChooseGolden: every matrix of the golden models has the type that the
// reference program gave it.
func TestChooseGolden(t *testing.T) {
	models := shared.Path(t, "golden", "models")
	for name, typ := range map[string]string{
		"llama-quant-q4_k_m": "q4_k_m", "llama-quant-q5_k_m": "q5_k_m", "llama-quant-q3_k_m": "q3_k_m", "llama-quant-q2_k-mix": "q2_k",
		"gemma4-e2b-like-q4_0": "q4_0", "gemma4-e2b-like-q8_0": "q8_0", "gemma4-26b-a4b-like-q4_0": "q4_0", "gemma4-26b-a4b-like-q8_0": "q8_0",
		"gemma3-4b-like-q8_0": "q8_0", "stories260K-q4_0": "q4_0", "stories260K-q8_0": "q8_0", "stories260K-f16": "f16",
		"llama-quant-q6_k": "pure q6_k", "llama-quant-mxfp4": "pure mxfp4", "llama-quant-tq1_0": "pure tq1_0", "llama-quant-q4_k-pure": "pure q4_k_s",
	} {
		m, err := loaders.Open(filepath.Join(models, name, "model.gguf"))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		typ, pure := strings.CutPrefix(typ, "pure ")
		mix, err := quant.MixtureByName(typ)
		if err != nil {
			t.Fatal(err)
		}
		a := quant.Assignment{Mixture: mix, Sizes: quant.SizesOf(m.Meta), Pure: pure}
		choices, err := a.Choose(infos(m))
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range m.Tensors {
			if choices[i].Type != want.DType {
				t.Errorf("%s: %s %v: got %s (wanted %s), the reference has %s", name, want.Name, want.Shape, choices[i].Type, choices[i].Wanted, want.DType)
			}
		}
		if ft, _, _ := m.Meta.Int("general.file_type"); !pure && uint32(ft) != mix.FileType {
			t.Errorf("%s: file type %d, the reference has %d", name, mix.FileType, ft)
		}
	}
}

// layers returns the tensors of a model with n layers of rows of k.
func layers(n, k int) []loaders.TensorInfo {
	list := []loaders.TensorInfo{{Name: "token_embd.weight", DType: graph.F32, Shape: []int{512, k}}, {Name: "output.weight", DType: graph.F32, Shape: []int{512, k}}}
	for i := range n {
		for _, role := range []string{"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"} {
			list = append(list, loaders.TensorInfo{Name: fmt.Sprintf("blk.%d.%s.weight", i, role), DType: graph.F32, Shape: []int{k, k}})
		}
		list = append(list, loaders.TensorInfo{Name: fmt.Sprintf("blk.%d.attn_norm.weight", i), DType: graph.F32, Shape: []int{k}})
	}
	return list
}

// count returns how many tensors of each type an assignment makes.
func count(t *testing.T, a quant.Assignment, list []loaders.TensorInfo) map[graph.DType]int {
	t.Helper()
	choices, err := a.Choose(list)
	if err != nil {
		t.Fatal(err)
	}
	n := map[graph.DType]int{}
	for i, c := range choices {
		if len(list[i].Shape) > 1 {
			n[c.Type]++
		}
	}
	return n
}

// TestChoose counts types of a model of 32 layers as published files have them.
func TestChoose(t *testing.T) {
	list := layers(32, 256)
	for typ, want := range map[string]map[graph.DType]int{
		"q4_k_m": {graph.Q4_K: 193, graph.Q6_K: 33},               // as Llama 3.1 8B
		"q5_k_m": {graph.Q5_K: 193, graph.Q6_K: 33},               // as Llama 3.1 8B
		"q4_k_s": {graph.Q4_K: 217, graph.Q5_K: 8, graph.Q6_K: 1}, // as Llama 3.1 8B
		"q3_k_m": {graph.Q3_K: 129, graph.Q4_K: 92, graph.Q5_K: 4, graph.Q6_K: 1},
		"q3_k_l": {graph.Q3_K: 129, graph.Q5_K: 96, graph.Q6_K: 1},
		"q2_k":   {graph.Q2_K: 129, graph.Q3_K: 64, graph.Q4_K: 32, graph.Q6_K: 1},
		"q4_k":   {graph.Q4_K: 225, graph.Q6_K: 1},
		"q8_0":   {graph.Q8_0: 226},
		"iq4_xs": {graph.IQ4_XS: 189, graph.Q5_K: 36, graph.Q6_K: 1},
		"tq2_0":  {graph.TQ2_0: 224, graph.Q4_K: 1, graph.Q6_K: 1},
		"bf16":   {graph.BF16: 226},
	} {
		mix, err := quant.MixtureByName(typ)
		if err != nil {
			t.Fatal(err)
		}
		got := count(t, quant.Assignment{Mixture: mix, Sizes: quant.Sizes{Layers: 32, Group: 4}}, list)
		for dt, n := range want {
			if got[dt] != n {
				t.Errorf("%s: got %v, want %v", typ, got, want)
				break
			}
		}
	}
}

// TestFallbacks: rows that do not divide get the types that files of this kind
// have, and f16 where not even 32 divides.
func TestFallbacks(t *testing.T) {
	for _, c := range []struct {
		k    int
		typ  string
		want graph.DType
	}{
		{1152, "q4_k", graph.Q5_0}, {576, "q5_k", graph.Q5_1}, {64, "q6_k", graph.Q8_0}, {1152, "q2_k_s", graph.IQ4_NL},
		{96, "q3_k", graph.IQ4_NL}, {64, "iq4_xs", graph.IQ4_NL}, {64, "tq1_0", graph.Q4_0}, {48, "q4_k", graph.F16}, {33, "q8_0", graph.F16},
		{33, "bf16", graph.BF16},
	} {
		mix, err := quant.MixtureByName(c.typ)
		if err != nil {
			t.Fatal(err)
		}
		list := []loaders.TensorInfo{{Name: "blk.0.attn_q.weight", DType: graph.F32, Shape: []int{8, c.k}}}
		got, err := (&quant.Assignment{Mixture: mix}).Choose(list)
		if err != nil || got[0].Type != c.want || got[0].Wanted != mix.Base {
			t.Errorf("%s, rows of %d: got %+v, %v, want %s", c.typ, c.k, got, err, c.want)
		}
	}
}

// TestRules: the first rule that matches decides, and must be possible.
func TestRules(t *testing.T) {
	list := layers(2, 256)
	mix, err := quant.MixtureByName("Q4_0")
	if err != nil {
		t.Fatal(err)
	}
	var rules []quant.Rule
	for _, text := range []string{`blk\.0\.attn_v=q8_0`, "attn_v=keep", "=output=="} {
		r, err := quant.ParseRule(text)
		if (err != nil) != (text == "=output==") {
			t.Fatalf("%s: %v", text, err)
		}
		if err == nil {
			rules = append(rules, r)
		}
	}
	choices, err := (&quant.Assignment{Mixture: mix, Rules: rules}).Choose(list)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range choices {
		switch name := list[i].Name; {
		case strings.HasPrefix(name, "blk.0.attn_v"):
			if c.Type != graph.Q8_0 || c.Rule != 0 {
				t.Errorf("%s: %+v", name, c)
			}
		case strings.HasPrefix(name, "blk.1.attn_v"):
			if c.Type != graph.F32 || !c.Kept || c.Rule != 1 {
				t.Errorf("%s: %+v", name, c)
			}
		}
	}
	if _, err := (&quant.Assignment{Mixture: mix, Rules: []quant.Rule{{Match: regexp.MustCompile("norm"), Type: graph.Q4_0}}}).Choose(list); err == nil {
		t.Error("a vector in blocks is fine")
	}
	var unsupported *loaders.UnsupportedError
	if _, err := quant.ParseRule("x=q4_m"); !errors.As(err, &unsupported) || unsupported.Closest == "" {
		t.Errorf("unknown type: %v", err)
	}
	if _, err := quant.MixtureByName("q4_k_n"); !errors.As(err, &unsupported) || unsupported.Closest != "Q4_K_M" {
		t.Errorf("unknown mixture: %v", err)
	}
}
