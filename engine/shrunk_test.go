//go:build unix

package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A model file that is cut short while it runs is an error that names the file,
// with both backends, and later steps do no worse.
func TestShrunkFile(t *testing.T) {
	for _, backend := range Backends() {
		path := filepath.Join(t.TempDir(), "model.gguf")
		if err := os.WriteFile(path, chainFile(t, nil, nil), 0o644); err != nil {
			t.Fatal(err)
		}
		m, err := Open(path, Options{Backend: backend, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		s := m.NewSession()
		if err := s.Append(t.Context(), 5, 6); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			err := s.Append(t.Context(), 7)
			if err == nil || !strings.Contains(err.Error(), path+": file shrank from ") {
				t.Errorf("%s: error %v, want one that says that %s shrank", backend, err, path)
			}
		}
		s.Close()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
