package quant_test

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"graphrun/graph"
	"graphrun/loaders"
	"graphrun/quant"
)

// legacy returns an importance matrix in the older form.
func legacy(entries map[string][]float32, calls int32, order []string, tail bool) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, uint32(len(order)))
	for _, name := range order {
		b = le.AppendUint32(b, uint32(len(name)))
		b = append(b, name...)
		b = le.AppendUint32(b, uint32(calls))
		b = le.AppendUint32(b, uint32(len(entries[name])))
		for _, v := range entries[name] {
			b = le.AppendUint32(b, math.Float32bits(v))
		}
	}
	if tail {
		b = le.AppendUint32(b, 12)
		b = le.AppendUint32(b, 5)
		b = append(b, "a.txt"...)
	}
	return b
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestImatrixForms reads both forms, and what it saved itself.
func TestImatrixForms(t *testing.T) {
	entries := map[string][]float32{"a.weight": {2, 4, 6, 8}, "exps.weight": {1, 2, 3, 4, 5, 6, 7, 8}}
	m, err := quant.OpenImatrix(write(t, "im.dat", legacy(entries, 2, []string{"a.weight", "exps.weight"}, true)))
	if err != nil {
		t.Fatal(err)
	}
	if m.Chunks != 12 || m.Dataset != "a.txt" || strings.Join(m.Names(), " ") != "a.weight exps.weight" {
		t.Errorf("got %d chunks of %q, %v", m.Chunks, m.Dataset, m.Names())
	}
	if w, err := m.Weights("a.weight", []int{3, 4}); err != nil || len(w) != 1 || w[0][1] != 2 {
		t.Errorf("a: %v, %v", w, err)
	}
	if w, err := m.Weights("none", []int{3, 4}); err != nil || w != nil {
		t.Errorf("none: %v, %v", w, err)
	}
	if _, err := m.Weights("a.weight", []int{3, 5}); err == nil || !strings.Contains(err.Error(), "a.weight") || !strings.Contains(err.Error(), "another model") {
		t.Errorf("wrong length: %v", err)
	}

	own := quant.NewImatrix()
	own.Dataset, own.Chunks = "text", 3
	own.Set("exps.weight", &quant.Importance{Sums: []float32{2, 2, 0, 0, 9, 3}, Counts: []float32{2, 0, 3}})
	path := filepath.Join(t.TempDir(), "im.gguf")
	if err := own.Save(path, 512); err != nil {
		t.Fatal(err)
	}
	if m, err = quant.OpenImatrix(path); err != nil {
		t.Fatal(err)
	}
	w, err := m.Weights("exps.weight", []int{3, 7, 2})
	if err != nil || m.Chunks != 3 || m.Dataset != "text" || len(w) != 3 || w[0][0] != 1 || w[1] != nil || w[2][0] != 3 || w[2][1] != 1 {
		t.Errorf("own: %v, %v, %v", m, w, err)
	}
}

// TestImatrixBad: files that are none, or hold numbers that no sum of squares
// has, are refused by name.
func TestImatrixBad(t *testing.T) {
	one := func(v float32) []byte {
		return legacy(map[string][]float32{"a.weight": {1, v}}, 1, []string{"a.weight"}, true)
	}
	good := one(1)
	for want, data := range map[string][]byte{
		"a.weight: number 1 is NaN":       one(float32(math.NaN())),
		"a.weight: number 1 is +Inf":      one(float32(math.Inf(1))),
		"a.weight: number 1 is -3":        one(-3),
		"takes 8 bytes":                   good[:len(good)-16],
		"the number of entries is -1":     {255, 255, 255, 255},
		"the number of entries takes":     {1},
		"no entries":                      {0, 0, 0, 0},
		"the length of the name of entry": {1, 0, 0, 0, 255, 255, 255, 127},
		"appears twice":                   legacy(map[string][]float32{"a": {1}}, 1, []string{"a", "a"}, false),
	} {
		if _, err := quant.OpenImatrix(write(t, "im.dat", data)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	m := model(t, 256, nil)
	if _, err := quant.OpenImatrix(m.Path); err == nil || !strings.Contains(err.Error(), "may be a model") {
		t.Errorf("a model: %v", err)
	}
	if _, err := quant.OpenImatrix(t.TempDir()); err == nil {
		t.Error("a folder is fine")
	}
}

// TestImatrixUse: importance changes the file and its keys; entries of another
// size are refused, missing ones listed, and zeros do no harm.
func TestImatrixUse(t *testing.T) {
	const name = "blk.0.attn_q.weight"
	m := model(t, 256, nil)
	im := quant.NewImatrix()
	e := &quant.Importance{Sums: make([]float32, 256), Counts: []float32{4}}
	for i := range e.Sums {
		e.Sums[i] = float32(1 + i%16*100)
	}
	im.Set(name, e)
	im.Set("blk.0.attn_k.weight", &quant.Importance{Sums: make([]float32, 256), Counts: []float32{4}})
	o := options(t, "q4_k")
	o.Imatrix = im
	p := plan(t, m, o)
	if len(p.Unweighted) != 15 || p.Unweighted[0] != "token_embd.weight" {
		t.Errorf("without importance: %v", p.Unweighted)
	}
	path := filepath.Join(t.TempDir(), "out.gguf")
	if _, err := p.Write(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	out, err := loaders.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if n, _, _ := out.Meta.Int("quantize.imatrix.entries_count"); n != 2 {
		t.Errorf("entries_count %d", n)
	}
	src, _ := m.Tensor(name)
	got, _ := out.Tensor(name)
	x, y := decode(graph.F32, src.Data, src.Elems()), decode(got.DType, got.Data, got.Elems())
	w := make([]float32, len(x))
	for i := range w {
		w[i] = e.Sums[i%256]
	}
	without := decode(graph.Q4_K, encode(t, x, graph.Q4_K, nil), len(x))
	if a, b := weighted(x, y, w), weighted(x, without, w); !(a < 0.98*b) {
		t.Errorf("weighted error %v with importance, %v without", a, b)
	}
	e.Sums = e.Sums[:128]
	if _, err := quant.NewPlan(m, o); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("half as long: %v", err)
	}
}

func FuzzImatrix(f *testing.F) {
	f.Add(legacy(map[string][]float32{"a.weight": {1, 2, 3}}, 7, []string{"a.weight"}, true))
	f.Add([]byte{1, 0, 0, 0, 255, 255, 255, 127})
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "im")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := quant.OpenImatrix(path)
		if err != nil {
			return
		}
		for _, name := range m.Names() {
			m.Weights(name, []int{2, 3})
		}
	})
}
