package archs_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"graphrun/graph"
	"graphrun/internal/shared"
)

// roles says which of our values is which of llama.cpp's, in the order of
// preference; "name/1" is the second value of that name in a layer. An empty
// list stands for a value we do not compute apart.
var roles = map[string][]string{
	"embd":                        {"embd"},
	"inp_scaled":                  {"embd.scaled"},
	"inp_per_layer_selected":      {"ple.token"},
	"per_layer_proj":              {"ple.proj.norm"},
	"inp_per_layer":               {"ple"},
	"attn_norm":                   {"attn.norm"},
	"Qcur":                        {"attn.q"},
	"Qcur/1":                      {"attn.q.heads"},
	"Qcur/2":                      {"attn.q.rope"},
	"Qcur_normed":                 {"attn.q.norm"},
	"Qcur_pos":                    {"attn.q.rope"},
	"Kcur":                        {"attn.k"},
	"Kcur/1":                      {"attn.k.heads"},
	"Kcur/2":                      {"attn.k.rope"},
	"Kcur_normed":                 {"attn.k.norm"},
	"Kcur_pos":                    {"attn.k.rope"},
	"Vcur":                        {"attn.v", "attn.k"}, // the key projection where it serves as both
	"Vcur/1":                      {"attn.v.heads"},
	"Vcur_normed":                 {"attn.v.norm"},
	"kqv_out":                     {"attn.ctx"},
	"llama:attn_out":              {"attn.out"},
	"attn_out":                    {"attn.res"},
	"attn_post_norm":              {"attn.out.norm"},
	"sa_out":                      {"attn.res"},
	"ffn_inp":                     {"attn.res"},
	"ffn_norm":                    {"ffn.norm"},
	"ffn_norm_1":                  {"ffn.norm"},
	"ffn_gate":                    {"ffn.gate"},
	"ffn_up":                      {"ffn.up"},
	"ffn_swiglu":                  {"ffn.act"},
	"ffn_geglu":                   {"ffn.act"},
	"ffn_out":                     {"ffn.out"},
	"ffn_post_norm":               {"ffn.out.norm"},
	"ffn_mlp":                     {"ffn.dense.norm"},
	"ffn_moe_logits":              {"moe.logits"},
	"ffn_moe_probs":               {"moe.probs"},
	"ffn_moe_argsort":             {},
	"ffn_moe_topk":                {}, // checked through the weights
	"ffn_moe_weights":             {},
	"ffn_moe_weights_sum":         {},
	"ffn_moe_weights_sum_clamped": {},
	"ffn_moe_weights_norm":        {"moe.weights"},
	"ffn_norm_2":                  {"moe.norm"},
	"ffn_moe_gate_up":             {"moe.gate_up"},
	"ffn_moe_gate":                {},
	"ffn_moe_up":                  {},
	"ffn_moe_geglu":               {"moe.act"},
	"ffn_moe_down_scaled":         {},
	"ffn_moe_weighted":            {},
	"ffn_moe_out":                 {"moe.out"},
	"ffn_moe":                     {"moe.out.norm"},
	"ffn_moe_combined":            {"ffn.sum"},
	"pe_in":                       {"ffn.res"},
	"per_layer_embd_out":          {"ple.out.norm"},
	"l_out":                       {"layer.out", "ple.res", "ffn.res"},
	"result_norm":                 {"out.norm"},
	"result_output":               {"logits"},
}

// act is an entry of acts.json.
type act struct {
	Name       string `json:"name"`
	Occurrence int    `json:"occurrence"`
	Shape      []int  `json:"shape_row_major"`
	Offset     int    `json:"offset_f32"`
}

// find returns our value of an entry, nil if we have none, and whether the
// table knows the entry.
func (a act) find(g *graph.Graph) (*graph.Value, bool) {
	name, layer := a.Name, -1
	if i := strings.LastIndexByte(name, '-'); i >= 0 {
		layer, _ = strconv.Atoi(name[i+1:])
		name = name[:i]
	}
	if a.Occurrence > 0 {
		name += "/" + strconv.Itoa(a.Occurrence)
	}
	ours, ok := roles[g.Name+":"+name]
	if !ok {
		ours, ok = roles[name]
	}
	for _, r := range ours {
		if v := g.Find(r, layer); v != nil {
			return v, true
		}
	}
	return nil, ok && len(ours) == 0
}

// TestActs compares every intermediate value of the f32 models by name.
func TestActs(t *testing.T) {
	lists, err := filepath.Glob(filepath.Join(shared.Path(t, "golden", "models"), "*", "acts.json"))
	if err != nil || len(lists) == 0 {
		t.Fatal("no acts.json", err)
	}
	for _, list := range lists {
		dir := filepath.Dir(list)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			r := newRun(t, dir, graph.F32)
			r.step(t, 0, len(r.tokens))
			data := readFloats(t, filepath.Join(dir, "acts.bin"))
			compared := map[*graph.Value]bool{}
			for _, a := range readActs(t, list) {
				v, known := a.find(r.g)
				if !known {
					t.Errorf("%s occurrence %d: no value of ours", a.Name, a.Occurrence)
					continue
				}
				if v == nil {
					continue
				}
				compared[v] = true
				n := 1
				for _, d := range a.Shape {
					n *= d
				}
				compareAct(t, a, v, r.value(v), data[a.Offset:a.Offset+n])
			}
			t.Logf("%d values compared", len(compared))
		})
	}
}

// compareAct reports the first number that is further off than 2e-5 of the
// largest: both sides are f32, and sums differ in order.
func compareAct(t *testing.T, a act, v *graph.Value, got *graph.Tensor, want []float32) {
	t.Helper()
	n := len(want) / a.Shape[0]
	if got.RowElems() != n {
		t.Errorf("%s: %s has rows of %d numbers, want %v", a.Name, v.Label(), got.RowElems(), a.Shape)
		return
	}
	scale := 1.0
	for _, x := range want {
		scale = max(scale, math.Abs(float64(x)))
	}
	for i, x := range want {
		y := got.Row(i / n)[i%n]
		if d := math.Abs(float64(x) - float64(y)); !(d <= 2e-5*scale) {
			t.Errorf("%s occurrence %d is %s: token %d, number %d is %v, want %v (largest %.3g)", a.Name, a.Occurrence, v.Label(), i/n, i%n, y, x, scale)
			return
		}
	}
}

func readActs(t *testing.T, path string) []act {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Tensors []act `json:"tensors"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Tensors
}
