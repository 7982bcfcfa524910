package loaders

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestTruncated cuts a file before it is opened: by a byte of the last tensor,
// by half, and to the start of the data (GG-06).
func TestTruncated(t *testing.T) {
	path, data := writeSmall(t)
	m, err := OpenBytes("f", data)
	if err != nil {
		t.Fatal(err)
	}
	last := m.Tensors[len(m.Tensors)-1]
	for _, n := range []int64{last.Offset + int64(len(last.Data)) - 1, int64(len(data) / 2), m.Tensors[0].Offset} {
		if err := os.Truncate(path, n); err != nil {
			t.Fatal(err)
		}
		_, err := Open(path)
		wantError(t, err, "model.gguf: tensor ", "needs", "file ends at byte")
	}
}

// TestShrinks truncates a file while it is open. Reading the lost pages is a
// fault that a caller can turn into Check's message.
func TestShrinks(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "js" {
		t.Skip("a mapped file cannot shrink here")
	}
	path, data := writeSmall(t)
	m, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 64); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("model.gguf: tensor token_embd.weight: file shrank from %d to 64 bytes while open", len(data))
	wantError(t, m.Check(), want)

	sum := byte(0)
	err = guardFault(func() error {
		for _, x := range m.Tensors {
			for _, b := range x.Data {
				sum += b
			}
		}
		return nil
	}, m.Check)
	wantError(t, err, want)
	wantError(t, m.CheckFinite(), want)
	if err := WriteFile(filepath.Join(t.TempDir(), "x"), m.Meta, m.Tensors); err == nil {
		t.Error("a model that is gone can be written")
	}
}

// TestGuardFaultPasses checks that panics that are no faults go on.
func TestGuardFaultPasses(t *testing.T) {
	for _, c := range []func(){
		func() { panic("x") },
		func() { var p *int; *p = 1 },
		func() { var s []int; _ = s[len(os.Args)] },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("panic was taken for a fault")
				}
			}()
			guardFault(func() error { c(); return nil }, func() error { return nil })
		}()
	}
	if err := guardFault(func() error { return io.EOF }, nil); err != io.EOF {
		t.Errorf("error %v, want EOF", err)
	}
}

func TestOpenIrregular(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.gguf")
	if err := os.WriteFile(empty, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := Open(empty)
	wantError(t, err, "empty.gguf: file is empty")
	if _, err := os.Stat("/dev/zero"); err == nil {
		_, err := Open("/dev/zero")
		wantError(t, err, "/dev/zero: not a regular file")
	}
	if errors.Is(err, os.ErrNotExist) {
		t.Error("an empty file is not a missing one")
	}
	// A link opens the file it leads to, as in a download cache.
	path, _ := writeSmall(t)
	link := filepath.Join(dir, "link.gguf")
	if err := os.Symlink(path, link); err != nil {
		t.Skip(err)
	}
	m, err := Open(link)
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
}
