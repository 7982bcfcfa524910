//go:build unix

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"graphrun/loaders"
)

// openChain writes the scripted model to a file of its own and opens it.
func openChain(t *testing.T, backend string) (path string, m *Model) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, chainFile(t, nil, nil), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := Open(path, Options{Backend: backend, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return path, m
}

// uses are the ways to run a model, each from its beginning.
var uses = map[string]func(context.Context, *Model) error{
	"append": func(ctx context.Context, m *Model) error {
		s := m.NewSession()
		defer s.Close()
		return s.Append(ctx, 5, 6)
	},
	"generate": func(ctx context.Context, m *Model) error {
		s := m.NewSession()
		defer s.Close()
		if err := s.Append(ctx, 5, 6); err != nil {
			return err
		}
		for _, err := range s.Generate(ctx, GenerateOptions{MaxTokens: 3}) {
			if err != nil {
				return err
			}
		}
		return nil
	},
	"score": func(ctx context.Context, m *Model) error {
		s := m.NewSession()
		defer s.Close()
		_, err := s.Score(ctx, []int32{5, 6, 7}, 0)
		return err
	},
	"perplexity": func(ctx context.Context, m *Model) error {
		_, err := m.Perplexity(ctx, []int32{5, 6, 7, 8, 9, 10, 11, 12}, PerplexityOptions{Window: 4})
		return err
	},
	"compare": func(ctx context.Context, m *Model) error {
		_, err := m.Compare(ctx, m, []int32{5, 6, 7, 8, 9, 10, 11, 12}, PerplexityOptions{Window: 4})
		return err
	},
	"embed": func(ctx context.Context, m *Model) error {
		_, err := m.Embed(ctx, []int32{5, 6}, EmbedOptions{})
		return err
	},
	"check": func(_ context.Context, m *Model) error { return m.File.CheckFinite() },
	"estimate": func(_ context.Context, m *Model) error {
		if _, err := Estimate(m.File, Options{}); err != nil {
			return err
		}
		return m.File.Check()
	},
}

// A model file that changes under a model is an error that names it, and the
// tensor where that can be known, with both backends and whatever is done;
// later calls do no worse.
func TestFileChanges(t *testing.T) {
	for name, c := range map[string]struct {
		change func(path string) error
		want   string
	}{
		"cut to nothing": {func(p string) error { return os.Truncate(p, 0) }, ": tensor token_embd.weight: file shrank from "},
		"cut by a byte": {func(p string) error {
			st, err := os.Stat(p)
			if err != nil {
				return err
			}
			return os.Truncate(p, st.Size()-1)
		}, ": tensor output.weight: file shrank from "},
		"written to": {func(p string) error {
			f, err := os.OpenFile(p, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt([]byte("other"), 100)
			return errors.Join(err, os.Chtimes(p, time.Time{}, time.Now().Add(time.Second)))
		}, ": file was written to while open, last at "},
		"overwritten by a shorter one": {func(p string) error { return os.WriteFile(p, []byte("GGUF"), 0o644) }, ": file shrank from "},
		"deleted":                      {os.Remove, ": tensor token_embd.weight: file was deleted, or replaced "},
		"replaced": {func(p string) error {
			if err := os.WriteFile(p+".new", []byte("GGUF"), 0o644); err != nil {
				return err
			}
			return os.Rename(p+".new", p)
		}, ": tensor token_embd.weight: file was deleted, or replaced "},
	} {
		for _, backend := range Backends() {
			path, m := openChain(t, backend)
			if name == "written to" { // the first embedding compiles another program
				if err := uses["embed"](t.Context(), m); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.change(path); err != nil {
				t.Fatal(err)
			}
			for use, fn := range uses {
				if backend == "ref" && use == "compare" {
					continue // slow, and the same as perplexity
				}
				for range 2 {
					err := fn(t.Context(), m)
					if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), c.want) {
						t.Errorf("%s, %s, %s: error %v, want %s%s", backend, name, use, err, path, c.want)
					}
				}
			}
		}
	}
}

// A fault in the middle names the tensor that was being read.
func TestFaultNamesTensor(t *testing.T) {
	path, m := openChain(t, "cpu")
	w, ok := m.File.Tensor("blk.0.ffn_gate.weight")
	if !ok {
		t.Fatal("no such tensor")
	}
	if err := os.Truncate(path, w.Offset&^0xffff); err != nil {
		t.Fatal(err)
	}
	err := m.File.Guard(func() error {
		sum := 0
		for _, b := range w.Data {
			sum += int(b)
		}
		return fmt.Errorf("read all of it: %d", sum)
	})
	var te *loaders.TensorError
	if !errors.As(err, &te) || te.Name != w.Name || te.File != path || !strings.Contains(err.Error(), "file shrank") {
		t.Errorf("error %v", err)
	}
}
