// Package shared finds the folder of test data that lies outside the
// repository: golden models, malformed files, tokenizers and templates. Tests
// that need it call Dir and are skipped where the folder is absent.
package shared

import (
	"os"
	"path/filepath"
	"testing"
)

// Env is the environment variable that names the folder when it does not lie
// beside the checkout.
const Env = "GRAPHRUN_SHARED"

// Dir returns the folder of test data: $GRAPHRUN_SHARED if set, else the first
// folder named shared with a golden folder inside it that is found going up
// from the test's own folder. Where there is none the test is skipped; a set
// variable that leads nowhere fails the test.
func Dir(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv(Env); dir != "" {
		if !hasGolden(dir) {
			t.Fatalf("%s=%s holds no golden folder", Env, dir)
		}
		return dir
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if dir := filepath.Join(here, "shared"); hasGolden(dir) {
			return dir
		}
		up := filepath.Dir(here)
		if up == here {
			t.Skipf("no shared folder above this one and %s is not set", Env)
		}
		here = up
	}
}

// Path returns the path of a file or folder in the folder of test data, the
// parts joined by separators. The test is skipped where it is missing.
func Path(t testing.TB, parts ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{Dir(t)}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("test data is missing: %v", err)
	}
	return path
}

func hasGolden(dir string) bool {
	st, err := os.Stat(filepath.Join(dir, "golden"))
	return err == nil && st.IsDir()
}
