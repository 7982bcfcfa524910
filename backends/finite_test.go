package backends_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"graphrun/backends"
	"graphrun/engine"
	"graphrun/loaders"
)

// spoiled opens a model of testdata/models after setting an element of an f32
// tensor.
func spoiled(t *testing.T, model, tensor string, at int, x float32, o engine.Options) (*engine.Model, error) {
	t.Helper()
	path := filepath.Join("..", "testdata", "models", model+".gguf")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if tensor != "" {
		f, err := loaders.OpenBytes(path, slices.Clone(data))
		if err != nil {
			t.Fatal(err)
		}
		w, ok := f.Tensor(tensor)
		if !ok {
			t.Fatalf("no tensor %s", tensor)
		}
		binary.LittleEndian.PutUint32(data[w.Offset+int64(4*at):], math.Float32bits(x))
		f.Close()
	}
	o.Context = 64
	m, err := engine.OpenBytes(model, data, o)
	if err == nil {
		t.Cleanup(func() { m.Close() })
	}
	return m, err
}

func step(m *engine.Model, tokens ...int32) error {
	b, err := m.Acquire(context.Background())
	if err != nil {
		return err
	}
	defer b.Release()
	seq := m.Cache().NewSequence()
	defer seq.Drop()
	return b.Step(context.Background(), []engine.Item{{Seq: seq, Tokens: tokens, Rows: engine.RowsLast}})
}

// The first value that is not finite is named, by both backends and for any
// number of workers.
func TestFinite(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		tensor, name, op string
		x                float32
		layer            int
		parts            []string
	}{
		{"blk.1.ffn_norm.weight", "ffn.norm", "rmsnorm", float32(math.NaN()), 1, []string{"NaN at [0 5]", "blk.1.ffn_norm.weight", "1 not finite", "llama.go:"}},
		{"blk.0.attn_norm.weight", "attn.norm", "rmsnorm", inf, 0, []string{"Inf at [0 5]"}},
		{"blk.1.attn_norm.weight", "attn.kv", "kvwrite", 1e12, 1, []string{"f16 cannot hold", "attn.k.rope"}},
		{"output_norm.weight", "out.norm", "rmsnorm", inf, -1, []string{"out.norm"}},
	} {
		for _, o := range []engine.Options{{Threads: 1}, {Threads: 2}, {Backend: "ref"}} {
			o.Finite = true
			if o.Backend == "ref" && c.op == "kvwrite" {
				continue // its cache is f32
			}
			m, err := spoiled(t, "llama-gqa", c.tensor, 5, c.x, o)
			if err != nil {
				t.Fatal(err)
			}
			err = step(m, 1, 2, 3)
			var bad *backends.ValueError
			if !errors.As(err, &bad) {
				t.Errorf("%s, %+v: %v, want a *ValueError", c.tensor, o, err)
				continue
			}
			if bad.Value.Name != c.name || bad.Value.Op.Name != c.op || bad.Value.Layer != c.layer || len(bad.Inputs) == 0 {
				t.Errorf("%s, %s %d: found %v, want %s of layer %d", c.tensor, o.Backend, o.Threads, err, c.name, c.layer)
			}
			for _, part := range c.parts {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s: %q does not speak of %q", c.tensor, err, part)
				}
			}
			// The program goes on: the next step says the same.
			if again := step(m, 1, 2, 3); again == nil || again.Error() != err.Error() {
				t.Errorf("%s: then %v", c.tensor, again)
			}
		}
	}
}

// A model without fault runs as before, at less than twice the time.
func TestFiniteCost(t *testing.T) {
	plain, err := spoiled(t, "llama-q8_0", "", 0, 0, engine.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	checked, err := spoiled(t, "llama-q8_0", "", 0, 0, engine.Options{Threads: 1, Finite: true})
	if err != nil {
		t.Fatal(err)
	}
	best := math.Inf(1)
	for range 5 { // the machine may be busy with other tests
		with, without := time.Hour, time.Hour
		for range 20 {
			for m, d := range map[*engine.Model]*time.Duration{plain: &without, checked: &with} {
				start := time.Now()
				if err := step(m, 1, 2, 3, 4, 5, 6, 7, 8); err != nil {
					t.Fatal(err)
				}
				*d = min(*d, time.Since(start))
			}
		}
		best = min(best, float64(with)/float64(without))
	}
	t.Logf("looking at every value takes %.2f times as long", best)
	if best > 2 {
		t.Errorf("looking at every value takes %.2f times as long, want 2 at most", best)
	}
}
