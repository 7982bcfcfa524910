package engine

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"graphrun/graph"
)

const tapModel = "../testdata/models/llama-gqa.gguf"

var tapIDs = []int32{1, 5, 9, 2, 11, 3}

// logitsOf opens a model and returns the logits after tapIDs, in two steps.
func logitsOf(t *testing.T, path string, o Options) []float32 {
	t.Helper()
	m, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := m.NewSession()
	defer s.Close()
	for _, ids := range [][]int32{tapIDs[:4], tapIDs[4:]} {
		if err := s.Append(t.Context(), ids...); err != nil {
			t.Fatal(err)
		}
	}
	return slices.Clone(s.Logits())
}

// TestTapReads looks at values, of fused operations too, and changes nothing.
func TestTapReads(t *testing.T) {
	for _, backend := range Backends() {
		want := logitsOf(t, tapModel, Options{Backend: backend})
		for _, name := range []string{"attn.q", "attn.q.rope", "attn.ctx", "ffn.norm", "ffn.gate", "ffn.up", "ffn.act", "ffn.res", "logits"} {
			rows, layers := 0, map[int]bool{}
			got := logitsOf(t, tapModel, Options{Backend: backend, Taps: []Tap{{Name: name, Layer: AllLayers,
				Func: func(v *graph.Value, x *graph.Tensor) error {
					if v.Name != name || x.F32 == nil {
						t.Errorf("%s: the tap of %s got %s, %s", backend, name, v.Label(), x.DType)
					}
					rows, layers[v.Layer] = rows+x.Rows(), true
					return nil
				}}}})
			if !slices.Equal(got, want) {
				t.Errorf("%s: a tap of %s that only reads changes the logits", backend, name)
			}
			wantRows := len(tapIDs) * len(layers)
			if name == "logits" {
				wantRows = 2 // one row each step
			}
			if rows != wantRows || len(layers) == 0 {
				t.Errorf("%s: the tap of %s saw %d rows in %d layers, want %d rows", backend, name, rows, len(layers), wantRows)
			}
		}
	}
}

// TestTapReplaces silences a layer's feed-forward network, and does the same by
// a graph without it.
func TestTapReplaces(t *testing.T) {
	m, err := Open(tapModel, Options{})
	if err != nil {
		t.Fatal(err)
	}
	without := m.Graph.Clone()
	m.Close()
	res := without.Find("ffn.res", 1)
	stream := res.Args[slices.IndexFunc(res.Args, func(a *graph.Value) bool { return a.Name != "ffn.out" })]
	without.Replace(res, stream)
	if err := graph.DCE(without); err != nil {
		t.Fatal(err)
	}
	// Through the text form, as a person would change it.
	parsed, err := graph.Parse(without.String())
	if err != nil {
		t.Fatal(err)
	}
	want := logitsOf(t, tapModel, Options{Graph: parsed})
	got := logitsOf(t, tapModel, Options{Taps: []Tap{{Name: "ffn.out", Layer: 1, Func: func(_ *graph.Value, x *graph.Tensor) error {
		for i := range x.Rows() {
			clear(x.Row(i))
		}
		return nil
	}}}})
	if !slices.Equal(got, want) {
		t.Errorf("a silenced network and a graph without it differ:\ngot  %v\nwant %v", got[:4], want[:4])
	}
	if slices.Equal(got, logitsOf(t, tapModel, Options{})) {
		t.Error("silencing a network changes nothing")
	}
}

// TestTapFails stops a step, after which the next one works.
func TestTapFails(t *testing.T) {
	for _, backend := range Backends() {
		mine := errors.New("enough")
		fail := true
		m, err := Open(tapModel, Options{Backend: backend, Taps: []Tap{{Name: "ffn.out", Layer: 0, Func: func(*graph.Value, *graph.Tensor) error {
			if fail {
				return mine
			}
			return nil
		}}}})
		if err != nil {
			t.Fatal(err)
		}
		s := m.NewSession()
		if err := s.Append(t.Context(), tapIDs...); !errors.Is(err, mine) {
			t.Errorf("%s: the step's error is %v, want the tap's", backend, err)
		}
		fail = false
		if err := s.Append(t.Context(), tapIDs...); err != nil {
			t.Errorf("%s: the step after it: %v", backend, err)
		}
		s.Close()
		m.Close()
	}
}

// TestChangesRefused gives taps and graphs that do not fit.
func TestChangesRefused(t *testing.T) {
	nop := func(*graph.Value, *graph.Tensor) error { return nil }
	m, err := Open(tapModel, Options{})
	if err != nil {
		t.Fatal(err)
	}
	text := m.Graph.String()
	m.Close()
	edited := func(old, to string) *graph.Graph {
		t.Helper()
		if !strings.Contains(text, old) {
			t.Fatalf("%q is not in the graph", old)
		}
		g, err := graph.Parse(strings.ReplaceAll(text, old, to))
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Taps: []Tap{{Name: "attn.qq", Func: nop}}}, `no value "attn.qq" to tap; there are embd, attn.norm`},
		{Options{Taps: []Tap{{Name: "attn.q", Layer: 99, Func: nop}}}, `no value "attn.q" in layer 99 to tap; it is in layers 0, 1`},
		{Options{Taps: []Tap{{Name: "attn.q"}}}, `the tap of "attn.q" has no function`},
		{Options{Graph: edited(`input "tokens"`, `input "words"`)}, `has the input "words", which a step of this model does not give`},
		{Options{Graph: edited(`output "logits"`, `output "scores"`)}, `has no output "logits"`},
		{Options{Graph: edited(`"blk.0.attn_q.weight"`, `"blk.0.attn_z.weight"`)}, `blk.0.attn_z.weight`},
		{Options{Graph: graph.New("empty")}, `no output`},
	} {
		m, err := Open(tapModel, c.o)
		if err == nil {
			m.Close()
			t.Errorf("opened; want an error with %q", c.want)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %q, want one with %q", err, c.want)
		}
	}
}
