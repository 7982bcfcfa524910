package quant_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"graphrun/graph"
	"graphrun/loaders"
	"graphrun/quant"
)

// model writes a small F32 model of two layers with rows of k and opens it.
// change may alter a tensor's numbers.
func model(t *testing.T, k int, change func(name string, x []float32)) *loaders.Model {
	t.Helper()
	meta := loaders.NewMetadata()
	meta.Set("general.architecture", "llama")
	meta.Set("general.file_type", uint32(0))
	meta.Set("llama.block_count", uint32(2))
	meta.Set("llama.attention.head_count", uint32(8))
	meta.Set("llama.attention.head_count_kv", uint32(2))
	list := layers(2, k)
	path := filepath.Join(t.TempDir(), "in.gguf")
	err := loaders.Create(path, meta, list, func(w io.Writer, i int) error {
		n := 1
		for _, d := range list[i].Shape {
			n *= d
		}
		x := gaussian(n, uint64(i))
		if change != nil {
			change(list[i].Name, x)
		}
		raw := make([]byte, 4*n)
		for j, v := range x {
			binary.LittleEndian.PutUint32(raw[4*j:], math.Float32bits(v))
		}
		_, err := w.Write(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	m, err := loaders.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func options(t *testing.T, typ string) quant.Options {
	t.Helper()
	mix, err := quant.MixtureByName(typ)
	if err != nil {
		t.Fatal(err)
	}
	return quant.Options{Mixture: mix}
}

func plan(t *testing.T, m *loaders.Model, o quant.Options) *quant.Plan {
	t.Helper()
	p, err := quant.NewPlan(m, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestFile: the file is what the plan says, for any number of workers.
func TestFile(t *testing.T) {
	m := model(t, 256, nil)
	o := options(t, "q4_k_m")
	var last int
	o.Progress = func(done int) { last = done }
	p := plan(t, m, o)
	path := filepath.Join(t.TempDir(), "out.gguf")
	if _, err := p.Write(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	out, err := loaders.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := out.CheckFinite(); err != nil {
		t.Error(err)
	}
	bytesOf := 0
	for i, w := range out.Tensors {
		pt := p.Tensors[i]
		if w.Name != pt.Name || w.DType != pt.Type || len(w.Data) != pt.Bytes {
			t.Errorf("%s: %s, %d bytes, planned %+v", w.Name, w.DType, len(w.Data), pt)
		}
		bytesOf += len(w.Data)
		src, _ := m.Tensor(w.Name)
		x, y := decode(src.DType, src.Data, src.Elems()), decode(w.DType, w.Data, w.Elems())
		if e := weighted(x, y, nil); e > 0.1 || pt.Kept && e != 0 {
			t.Errorf("%s: error %v", w.Name, e)
		}
	}
	if bytesOf != p.Bytes || last != p.Bytes {
		t.Errorf("%d bytes, planned %d, progress said %d", bytesOf, p.Bytes, last)
	}
	if ft, _, _ := out.Meta.Int("general.file_type"); ft != 15 {
		t.Errorf("file type %d", ft)
	}
	if v, _, _ := out.Meta.Int("general.quantization_version"); v != 2 {
		t.Errorf("quantization version %d", v)
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, workers := range []int{1, 3} {
		o.Workers = workers
		var b bytes.Buffer
		if _, err := plan(t, m, o).WriteTo(t.Context(), &b); err != nil || !bytes.Equal(b.Bytes(), want) {
			t.Errorf("%d workers: other bytes (%v)", workers, err)
		}
	}
	// A second time it must be asked for, unless nothing changes.
	var again *quant.RequantizeError
	if _, err := quant.NewPlan(out, options(t, "q8_0")); !errors.As(err, &again) || again.Count != 16 {
		t.Errorf("again: %v", err)
	}
	same := plan(t, out, options(t, "q4_k_m"))
	var b bytes.Buffer
	if _, err := same.WriteTo(t.Context(), &b); err != nil || !bytes.Equal(b.Bytes(), want) {
		t.Errorf("to the same types: other bytes (%v)", err)
	}
	o = options(t, "f32")
	o.Requantize = true
	back := plan(t, out, o)
	b.Reset()
	if _, err := back.WriteTo(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	plain, err := loaders.OpenBytes("plain", b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range plain.Tensors {
		src, _ := out.Tensor(w.Name)
		if e := weighted(decode(src.DType, src.Data, src.Elems()), decode(w.DType, w.Data, w.Elems()), nil); w.DType != graph.F32 || e != 0 {
			t.Errorf("%s back as %s: error %v", w.Name, w.DType, e)
		}
	}
}

// TestBadWeights: a weight that is no number is refused by name, one beyond the
// type is counted; nothing is left behind.
func TestBadWeights(t *testing.T) {
	bad := "blk.1.ffn_up.weight"
	m := model(t, 256, func(name string, x []float32) {
		if name == bad {
			x[3*256+7] = float32(math.NaN())
		}
	})
	dir := t.TempDir()
	_, err := plan(t, m, options(t, "q5_0")).Write(t.Context(), filepath.Join(dir, "out.gguf"))
	var te *loaders.TensorError
	var nonFinite *quant.NonFiniteError
	if !errors.As(err, &te) || te.Name != bad || te.File != m.Path || !errors.As(err, &nonFinite) || nonFinite.Index != 7 || !strings.Contains(err.Error(), "row 3") {
		t.Errorf("NaN: %v", err)
	}
	wantEmpty(t, dir)

	m = model(t, 256, func(name string, x []float32) {
		if name == bad {
			x[0], x[1] = 1e38, -7e4
		}
	})
	r, err := plan(t, m, options(t, "f16")).Write(t.Context(), filepath.Join(dir, "out.gguf"))
	if err != nil || len(r.Clipped) != 1 || r.Clipped[bad] != 2 {
		t.Errorf("beyond f16: %+v, %v", r, err)
	}
}

// TestRefusals: a file is not written over itself, fallbacks can be forbidden,
// and what cannot be written is no type.
func TestRefusals(t *testing.T) {
	m := model(t, 128, nil)
	before, err := os.ReadFile(m.Path)
	if err != nil {
		t.Fatal(err)
	}
	p := plan(t, m, options(t, "q4_k_m"))
	if p.Fallbacks["q4_k as q5_0"] != 13 || p.Fallbacks["q6_k as q8_0"] != 3 {
		t.Errorf("fallbacks %v", p.Fallbacks)
	}
	link := filepath.Join(t.TempDir(), "link.gguf")
	if err := os.Symlink(m.Path, link); err != nil {
		link = m.Path
	}
	for _, path := range []string{m.Path, link} {
		if _, err := p.Write(t.Context(), path); err == nil || !strings.Contains(err.Error(), "another name") {
			t.Errorf("onto itself: %v", err)
		}
	}
	if after, err := os.ReadFile(m.Path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the model has changed (%v)", err)
	}
	o := options(t, "q4_k_m")
	o.NoFallback = true
	if _, err := quant.NewPlan(m, o); !errors.Is(err, quant.ErrFallback) {
		t.Errorf("forbidden fallback: %v", err)
	}
	for _, mix := range quant.Mixtures() {
		if mix.Base == graph.IQ3_S {
			var unsupported *loaders.UnsupportedError
			if _, err := quant.NewPlan(m, quant.Options{Mixture: mix}); !errors.As(err, &unsupported) || len(unsupported.Known) < 20 {
				t.Errorf("IQ3_S: %v", err)
			}
		}
	}
}

// TestInterrupted: neither the end of the context nor a writer that fails leaves
// anything behind.
func TestInterrupted(t *testing.T) {
	m := model(t, 256, nil)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	o := options(t, "q4_0")
	o.Progress = func(done int) {
		if done > 200<<10 {
			cancel()
		}
	}
	if _, err := plan(t, m, o).Write(ctx, filepath.Join(dir, "out.gguf")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	wantEmpty(t, dir)
	full := errors.New("full")
	if _, err := plan(t, m, options(t, "q4_0")).WriteTo(t.Context(), &limited{left: 300 << 10, err: full}); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
}

type limited struct {
	left int
	err  error
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, l.err
	}
	return len(p), nil
}

// TestWrittenMeanwhile: what was read of a file that was written to may be of two
// models and gets no name; a file that was only deleted was read whole.
func TestWrittenMeanwhile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file cannot be removed there")
	}
	m := model(t, 256, nil)
	p := plan(t, m, options(t, "q4_0"))
	dir := t.TempDir()
	out := filepath.Join(dir, "out.gguf")
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(m.Path, later, later); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Write(t.Context(), out); err == nil || !strings.Contains(err.Error(), m.Path+": file was written to while open") {
		t.Errorf("got %v", err)
	}
	wantEmpty(t, dir)

	m = model(t, 256, nil)
	p = plan(t, m, options(t, "q4_0"))
	if err := os.Remove(m.Path); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Write(t.Context(), out); err != nil {
		t.Error(err)
	}
}

// TestCutShort: a model whose file was cut short after it was opened gives an
// error that names it.
func TestCutShort(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file cannot be cut there")
	}
	m := model(t, 256, nil)
	p := plan(t, m, options(t, "q4_0"))
	if err := os.Truncate(m.Path, 100<<10); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := p.Write(t.Context(), filepath.Join(dir, "out.gguf")); err == nil || !strings.Contains(err.Error(), "shrank") || !strings.Contains(err.Error(), m.Path) {
		t.Errorf("got %v", err)
	}
	wantEmpty(t, dir)
}
