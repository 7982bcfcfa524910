package archs_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"graphrun/archs"
	"graphrun/backends"
	"graphrun/backends/ref"
	"graphrun/graph"
	"graphrun/internal/shared"
	"graphrun/loaders"
	"graphrun/ops"
)

// run is a golden model on the reference backend.
type run struct {
	m      *archs.Model
	g      *graph.Graph
	prog   backends.Program
	tokens []int32
}

const pages = 3 // of a sequence of at most 128 positions, and one to spare

func newRun(t testing.TB, dir string, kv graph.DType) *run {
	t.Helper()
	f, err := loaders.Open(filepath.Join(dir, "model.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	r := &run{}
	if r.m, err = archs.Load(f); err != nil {
		t.Fatal(err)
	}
	if len(r.m.Warnings) > 0 {
		t.Errorf("warnings: %q", r.m.Warnings)
	}
	if r.g, err = r.m.Graph(archs.GraphOptions{KV: kv}); err != nil {
		t.Fatal(err)
	}
	dims := graph.Dims{"T": 64, "R": 64, "N": 1, "C": pages, "CW": pages, "S": pages * ops.PageSize, "SW": pages * ops.PageSize}
	if r.prog, err = (ref.Backend{}).Compile(r.g, weights{f}, backends.Options{Dims: dims}); err != nil {
		t.Fatal(err)
	}
	r.tokens = readTokens(t, dir)
	return r
}

type weights struct{ f *loaders.Model }

func (w weights) Weight(name string) (*graph.Tensor, error) {
	t, ok := w.f.Tensor(name)
	if !ok {
		return nil, os.ErrNotExist
	}
	return backends.TensorOf(t.DType, t.Shape, t.Data), nil
}

// step runs tokens lo to hi-1 of the model's tokens, wanting all logits.
func (r *run) step(t testing.TB, lo, hi int) {
	t.Helper()
	n := hi - lo
	pos, seq, rows := make([]int32, n), make([]int32, n), make([]int32, n)
	for i := range n {
		pos[i], rows[i] = int32(lo+i), int32(i)
	}
	feed := func(name string, v []int32, sizes ...int) backends.Feed {
		return backends.Feed{Name: name, Tensor: &graph.Tensor{DType: graph.I32, Dims: sizes, Stride: len(v) / sizes[0], I32: v}}
	}
	table := []int32{1, 2, 0}
	feeds := []backends.Feed{
		feed("tokens", r.tokens[lo:hi], n), feed("pos", pos, n), feed("seq", seq, n), feed("rows", rows, n),
		feed("pages", table, 1, pages),
	}
	if r.m.MaxWindow() > 0 {
		feeds = append(feeds, feed("pages.window", table, 1, pages))
	}
	if err := r.prog.Run(context.Background(), feeds); err != nil {
		t.Fatal(err)
	}
}

// value returns what a value of r.g was in the last step.
func (r *run) value(v *graph.Value) *graph.Tensor {
	p := r.prog.Graph()
	return r.prog.(interface {
		Value(*graph.Value) *graph.Tensor
	}).Value(p.Values[slices.IndexFunc(p.Values, func(w *graph.Value) bool { return w.ID == v.ID })])
}

func readTokens(t testing.TB, dir string) []int32 {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Tokens []int32 `json:"tokens"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Tokens
}

func readFloats(t testing.TB, path string) []float32 {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float32, len(raw)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return out
}

func goldenModels(t *testing.T, test func(t *testing.T, dir string)) {
	dirs, err := filepath.Glob(filepath.Join(shared.Path(t, "golden", "models"), "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatal("no golden models", err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) { test(t, dir) })
	}
}

// TestLogits runs every golden model on the reference backend.
func TestLogits(t *testing.T) {
	goldenModels(t, func(t *testing.T, dir string) {
		r := newRun(t, dir, graph.F32)
		r.step(t, 0, len(r.tokens))
		got := r.prog.Output("logits").F32
		want := readFloats(t, filepath.Join(dir, "logits_ref64.bin"))
		if len(got) != len(want) {
			t.Fatalf("%d logits, want %d", len(got), len(want))
		}
		worst, at := 0.0, 0
		for i := range want {
			if d := math.Abs(float64(got[i]) - float64(want[i])); !(d <= worst) {
				worst, at = d, i
			}
		}
		t.Logf("largest difference %.1e", worst)
		if !(worst < 1e-3) {
			t.Errorf("token %d, logit %d is %v, want %v", at/r.m.V, at%r.m.V, got[at], want[at])
		}
	})
}

// TestGraphs verifies every golden graph and reads its text form back.
func TestGraphs(t *testing.T) {
	goldenModels(t, func(t *testing.T, dir string) {
		f, err := loaders.Open(filepath.Join(dir, "model.gguf"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		m, err := archs.Load(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range []graph.DType{graph.F32, graph.F16} {
			g, err := m.Graph(archs.GraphOptions{KV: kv})
			if err != nil {
				t.Fatal(err)
			}
			if err := graph.Verify(g); err != nil {
				t.Fatal(err)
			}
			text := g.String()
			back, err := graph.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if back.String() != text {
				t.Error("the text form changes when it is read and printed")
			}
			checkShapes(t, m, g)
		}
	})
}

// checkShapes compares the type of every named role with its letters.
func checkShapes(t *testing.T, m *archs.Model, g *graph.Graph) {
	t.Helper()
	for _, v := range g.Values {
		if v.Op.Is(graph.Leaf) || v.Name == "" {
			continue
		}
		var want graph.Shape
		rows := func(n ...int) graph.Shape { return graph.Rows("T", n...) }
		if v.Layer < 0 {
			switch v.Name {
			case "embd", "embd.scaled":
				want = rows(m.D)
			case "out.rows", "out.norm":
				want = graph.Rows("R", m.D)
			case "logits", "logits.raw":
				want = graph.Rows("R", m.V)
			case "ple.token", "ple.proj":
				want = rows(len(m.Layers) * m.P)
			case "ple.proj.norm", "ple":
				want = rows(len(m.Layers), m.P)
			default:
				t.Errorf("%s outside of layers has an unknown role", v.Label())
				continue
			}
		} else if want = layerShape(&m.Layers[v.Layer], m.D, v.Name); want == nil {
			t.Errorf("%s has an unknown role", v.Label())
			continue
		}
		if !v.Type.Shape.Equal(want) {
			t.Errorf("%s is %s, want %s", v.Label(), v.Type, want)
		}
	}
}

func layerShape(l *archs.Layer, d int, role string) graph.Shape {
	switch role {
	case "attn.norm", "attn.out", "attn.out.norm", "attn.res", "ffn.norm", "ffn.out", "ffn.out.norm", "ffn.res",
		"ffn.dense.norm", "ffn.sum", "moe.in.norm", "moe.in", "moe.norm", "moe.out", "moe.out.norm",
		"ple.out", "ple.out.norm", "ple.res", "layer.out":
		return graph.Rows("T", d)
	case "attn.q":
		return graph.Rows("T", l.H*l.K)
	case "attn.k", "attn.v":
		return graph.Rows("T", l.G*l.K)
	case "attn.qkv":
		return graph.Rows("T", (l.H+2*l.G)*l.K)
	case "attn.q.heads", "attn.q.norm", "attn.q.rope", "attn.ctx":
		return graph.Rows("T", l.H, l.K)
	case "attn.k.heads", "attn.k.norm", "attn.k.rope", "attn.v.heads", "attn.v.norm":
		return graph.Rows("T", l.G, l.K)
	case "attn.kv":
		s := graph.Rows("S", 2, l.G, l.K)
		if l.Sliding() {
			s[0] = graph.Named("SW")
		}
		return s
	case "ffn.gate", "ffn.up", "ffn.act":
		return graph.Rows("T", l.F)
	case "moe.logits", "moe.probs":
		return graph.Rows("T", l.E)
	case "moe.ids", "moe.weights", "moe.weights.scaled":
		return graph.Rows("T", l.U)
	case "moe.gate_up":
		return graph.Rows("T", l.U, 2*l.X)
	case "moe.gate", "moe.up", "moe.act":
		return graph.Rows("T", l.U, l.X)
	case "moe.down":
		return graph.Rows("T", l.U, d)
	case "ple.gate", "ple.act":
		return graph.Rows("T", l.P)
	}
	return nil
}
