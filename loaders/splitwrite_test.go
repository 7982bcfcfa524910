package loaders

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWriteSplit: a model split and merged again is the same file, byte by byte,
// whichever part it is opened by.
func TestWriteSplit(t *testing.T) {
	path := filepath.Join("..", "testdata", "models", "llama-q4_k.gguf")
	if _, err := os.Stat(path); err != nil {
		path = filepath.Join("..", "testdata", "models", "llama-gqa.gguf")
	}
	m, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, limit := range []SplitLimit{{Tensors: 4}, {Bytes: 20000}} {
		dir := t.TempDir()
		paths, err := m.WriteSplit(t.Context(), filepath.Join(dir, "part"), limit)
		if err != nil {
			t.Fatal(err)
		}
		if want := m.parts(limit); len(paths) != len(want) || len(paths) < 3 {
			t.Fatalf("%+v: %d parts, want %d", limit, len(paths), len(want))
		}
		for _, p := range []string{paths[0], paths[len(paths)-1]} {
			s, err := Open(p)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.WriteWhole(t.Context(), paths[1]); err == nil || !strings.Contains(err.Error(), "another name") {
				t.Errorf("onto a part: %v", err)
			}
			whole := filepath.Join(dir, "whole.gguf")
			if err := s.WriteWhole(t.Context(), whole); err != nil {
				t.Fatal(err)
			}
			s.Close()
			direct := filepath.Join(dir, "direct.gguf")
			if err := m.WriteWhole(t.Context(), direct); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(read(t, whole), read(t, direct)) {
				t.Errorf("%+v: the merged file differs", limit)
			}
		}
	}
}

// TestWriteSplitRefused: what cannot be split leaves nothing behind.
func TestWriteSplitRefused(t *testing.T) {
	m, err := Open(filepath.Join("..", "testdata", "models", "llama-gqa.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	dir := t.TempDir()
	prefix := filepath.Join(dir, "part")
	if _, err := m.WriteSplit(t.Context(), prefix, SplitLimit{Bytes: 1 << 30}); err == nil || !strings.Contains(err.Error(), "fit one part") {
		t.Errorf("one part: %v", err)
	}
	if _, err := m.WriteSplit(t.Context(), prefix, SplitLimit{}); err == nil {
		t.Error("no limit is fine")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.WriteSplit(ctx, prefix, SplitLimit{Tensors: 3}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	// The second part cannot be written: its name is a folder's.
	n := len(m.parts(SplitLimit{Tensors: 3}))
	if err := os.Mkdir(shardName{prefix, 2, n}.path(2), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := m.WriteSplit(t.Context(), prefix, SplitLimit{Tensors: 3}); err == nil {
		t.Error("a folder is replaced")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	// An older model of the same name stays whole then.
	old := shardName{prefix, 1, n}.path(1)
	if err := os.WriteFile(old, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := m.WriteSplit(t.Context(), prefix, SplitLimit{Tensors: 3}); err == nil {
		t.Error("a folder is replaced")
	}
	if b, err := os.ReadFile(old); string(b) != "old" {
		t.Errorf("the older part is lost: %q, %v", b, err)
	}
	if _, err := m.WriteSplit(t.Context(), "", SplitLimit{Tensors: 3}); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("no prefix: %v", err)
	}
}

// TestReadAt: ranges of a tensor are those of its data, and its end is one.
func TestReadAt(t *testing.T) {
	m, err := Open(filepath.Join("..", "testdata", "models", "llama-gqa.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, tensor := range m.Tensors {
		n := tensor.Size()
		p := make([]byte, n/2+10)
		k, err := tensor.ReadAt(p, int64(n/2))
		if k != n-n/2 || err == nil || !bytes.Equal(p[:k], tensor.Data[n/2:]) {
			t.Errorf("%s: %d bytes, %v", tensor.Name, k, err)
		}
		m.DropPages()
		if k, err := tensor.ReadAt(p[:4], 0); k != 4 || err != nil || !bytes.Equal(p[:4], tensor.Data[:4]) {
			t.Errorf("%s: %d bytes, %v", tensor.Name, k, err)
		}
		if _, err := tensor.ReadAt(p, int64(n+1)); err == nil {
			t.Errorf("%s: a read beyond the end is fine", tensor.Name)
		}
	}
}
