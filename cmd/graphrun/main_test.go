package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"graphrun/internal/shared"
)

// result is what one command line did.
type result struct {
	code     int
	out, err string
}

// cli runs a command line in this process, with stdin as standard input.
func cli(t testing.TB, stdin string, args ...string) result {
	t.Helper()
	return cliContext(t.Context(), stdin, args...)
}

func cliContext(ctx context.Context, stdin string, args ...string) result {
	var out, errOut bytes.Buffer
	code := execute(ctx, args, strings.NewReader(stdin), &out, &errOut)
	return result{code, out.String(), errOut.String()}
}

// must runs a command line that has to succeed and returns its output.
func must(t testing.TB, args ...string) string {
	t.Helper()
	r := cli(t, "", args...)
	if r.code != 0 {
		t.Fatalf("graphrun %s: exit %d: %s", strings.Join(args, " "), r.code, r.err)
	}
	return r.out
}

// refused runs a command line that has to fail with one line on standard error
// and nothing like a panic. The line holds all parts.
func refused(t testing.TB, code int, args []string, parts ...string) {
	t.Helper()
	r := cli(t, "", args...)
	line := strings.TrimSuffix(r.err, "\n")
	name := "graphrun " + strings.Join(args, " ")
	if r.code != code {
		t.Errorf("%s: exit %d, want %d (%s)", name, r.code, code, line)
		return
	}
	if !strings.HasPrefix(line, "graphrun: ") || strings.Contains(line, "\n") || strings.Contains(line, "panic") || strings.Contains(line, "goroutine") {
		t.Errorf("%s: standard error is %q, want one line", name, r.err)
	}
	for _, p := range parts {
		if !strings.Contains(line, p) {
			t.Errorf("%s: %q does not speak of %q", name, line, p)
		}
	}
}

// sample returns the path of a model of testdata/models and its tokens.
func sample(t testing.TB, name string) (path, tokens string) {
	t.Helper()
	stem := filepath.Join("..", "..", "testdata", "models", name)
	var s struct {
		Tokens []int32 `json:"tokens"`
	}
	readJSON(t, stem+".json", &s)
	return stem + ".gguf", join(s.Tokens)
}

// sampleNames returns the names of all models of testdata/models.
func sampleNames(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "models", "*.gguf"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no models in testdata/models (%v)", err)
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".gguf")
	}
	return files
}

// golden is a golden model outside of the repository.
type golden struct {
	Tokens []int32 `json:"tokens"`
	Greedy struct {
		Tokens  []int32   `json:"tokens_dequant_f32"`
		Margins []float64 `json:"margins_dequant_f32"`
	} `json:"greedy"`
	Story struct {
		Prompt string `json:"prompt"`
		Text   string `json:"text"`
	} `json:"story"`

	dir, model string
}

func openGolden(t testing.TB, name string) *golden {
	t.Helper()
	g := &golden{dir: shared.Path(t, "golden", "models", name)}
	g.model = filepath.Join(g.dir, "model.gguf")
	readJSON(t, filepath.Join(g.dir, "golden.json"), g)
	return g
}

func readJSON(t testing.TB, path string, into any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func readFloats(t testing.TB, path string) []float32 {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f := make([]float32, len(b)/4)
	for i := range f {
		f[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return f
}

func join(ids []int32) string {
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = strconv.Itoa(int(id))
	}
	return strings.Join(parts, ",")
}

// left returns the names of the files in a folder.
func left(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
