package shared

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDir(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "shared", "golden"), 0o777); err != nil {
		t.Fatal(err)
	}
	deep := filepath.Join(root, "checkout", "pkg", "sub")
	if err := os.MkdirAll(deep, 0o777); err != nil {
		t.Fatal(err)
	}

	t.Setenv(Env, "")
	t.Chdir(deep)
	want, err := filepath.EvalSymlinks(filepath.Join(root, "shared"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := filepath.EvalSymlinks(Dir(t))
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("Dir = %s, want %s", got, want)
	}

	t.Setenv(Env, filepath.Join(root, "shared"))
	t.Chdir(t.TempDir())
	if got := Dir(t); got != filepath.Join(root, "shared") {
		t.Errorf("Dir with %s set = %s", Env, got)
	}

	t.Run("missing file skips", func(t *testing.T) {
		t.Cleanup(func() {
			if !t.Skipped() {
				t.Error("Path of a missing file did not skip")
			}
		})
		Path(t, "no", "such", "file")
	})
}
