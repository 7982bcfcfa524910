package quant_test

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
)

// TestFullDisk: a disk that is full leaves nothing behind. It needs the right to
// mount one.
func TestFullDisk(t *testing.T) {
	m := model(t, 256, nil)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=400k"); err != nil {
		t.Skipf("no small disk: %v", err)
	}
	defer syscall.Unmount(dir, 0)
	_, err := plan(t, m, options(t, "q4_0")).Write(t.Context(), filepath.Join(dir, "out.gguf"))
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want no space left", err)
	}
	t.Log(err)
	wantEmpty(t, dir)
}
