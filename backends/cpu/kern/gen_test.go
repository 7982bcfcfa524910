package kern

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGenerated runs the generator for amd64 and compares its output with the
// files of the package.
func TestGenerated(t *testing.T) {
	if testing.Short() {
		t.Skip("generating takes some seconds")
	}
	env := generatorEnv()
	download := exec.Command("go", "mod", "download")
	download.Dir, download.Env = "_gen", env
	if out, err := download.CombinedOutput(); err != nil {
		t.Skipf("the generator's module cannot be fetched: %v: %s", err, bytes.TrimSpace(out))
	}
	testGenerated(t, ".", env)
}

// TestGeneratedNEON is TestGenerated for arm64. The encodings are those of the
// GNU assembler, which must be there.
func TestGeneratedNEON(t *testing.T) {
	for _, tool := range []string{"aarch64-linux-gnu-as", "aarch64-linux-gnu-objcopy"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%v (Debian: binutils-aarch64-linux-gnu)", err)
		}
	}
	testGenerated(t, "./neon", generatorEnv())
}

func generatorEnv() []string {
	return append(os.Environ(), "GOOS=", "GOARCH=", "GOFLAGS=-mod=mod")
}

func testGenerated(t *testing.T, program string, env []string) {
	dir := t.TempDir()
	run := exec.Command("go", "run", program, "-dir", dir)
	run.Dir, run.Env = "_gen", env
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("go run %s in _gen: %v\n%s", program, err, out)
	}
	made, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(made) == 0 {
		t.Fatalf("the generator wrote nothing: %v", err)
	}
	for _, path := range made {
		name := filepath.Base(path)
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Errorf("%s is not committed: %v", name, err)
			continue
		}
		if !bytes.Equal(got, want) {
			a, b := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
			i := 0
			for i < len(a) && i < len(b) && a[i] == b[i] {
				i++
			}
			t.Errorf("%s differs from what _gen writes, from line %d on; run go run %s -dir .. in _gen", name, i+1, program)
		}
	}
}
