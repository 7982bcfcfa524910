// Package docs_test runs what the documentation shows.
package docs_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// block is a fenced block of a page.
type block struct {
	kind  string // "sh", "output", "go"
	line  int
	lines []string
}

// blocks returns the fenced blocks of a page.
func blocks(text string) []block {
	var all []block
	open := false
	for i, line := range strings.Split(text, "\n") {
		kind, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && !open:
			all = append(all, block{kind: kind, line: i + 1})
			open = true
		case fence:
			open = false
		case open:
			b := &all[len(all)-1]
			b.lines = append(b.lines, line)
		}
	}
	return all
}

// pages returns the names of README.md and of all pages of this folder.
func pages(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob("*.md")
	if err != nil || len(list) < 3 {
		t.Fatalf("found only %v (%v)", list, err)
	}
	return append(list, filepath.Join("..", "README.md"))
}

// shell runs the commands of sh blocks without a shell: words and quotes, no
// pipes or variables.
type shell struct {
	root, dir string // of the repository; where graphrun runs
	graphrun  string // the program

	t       *testing.T
	address string // of the server that runs
}

func newShell(t *testing.T) *shell {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	s := &shell{t: t, root: root, dir: t.TempDir(), graphrun: filepath.Join(t.TempDir(), "graphrun")}
	if runtime.GOOS == "windows" {
		s.graphrun += ".exe"
	}
	if out, err := s.exec(root, "go", "build", "-o", s.graphrun, "./cmd/graphrun"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	startHub(t, root)
	for _, dir := range []string{"testdata", "docs"} {
		if err := os.Symlink(filepath.Join(root, dir), filepath.Join(s.dir, dir)); err != nil {
			t.Skip(err)
		}
	}
	return s
}

// startHub starts a hub with the one repository that the pages name, and points
// the environment to it.
func startHub(t *testing.T, root string) {
	t.Helper()
	const commit, repo = "0123456789abcdef0123456789abcdef01234567", "example/tiny-llama-GGUF"
	files := map[string][]byte{}
	var list []map[string]any
	for name, file := range map[string]string{"tiny-llama-Q8_0.gguf": "llama-q8_0.gguf", "tiny-llama-F16.gguf": "llama-f16.gguf"} {
		data, err := os.ReadFile(filepath.Join(root, "testdata", "models", file))
		if err != nil {
			t.Fatal(err)
		}
		files["/"+repo+"/resolve/"+commit+"/"+name] = data
		list = append(list, map[string]any{"rfilename": name, "lfs": map[string]any{"sha256": fmt.Sprintf("%x", sha256.Sum256(data)), "size": len(data)}})
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch data, ok := files[r.URL.Path]; {
		case ok:
			w.Write(data)
		case strings.HasPrefix(r.URL.Path, "/api/models/"+repo+"/revision/"):
			json.NewEncoder(w).Encode(map[string]any{"sha": commit, "siblings": list})
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(srv.Close)
	for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE"} {
		t.Setenv(name, "")
	}
	t.Setenv("HF_ENDPOINT", srv.URL)
	t.Setenv("HF_HOME", t.TempDir())
}

// exec returns what a program writes to standard output; the error has what it
// writes to standard error.
func (s *shell) exec(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	var out, errOut bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%v: %s", err, errOut.String())
	}
	return out.String(), nil
}

// run runs one line. The tests themselves are not run again.
func (s *shell) run(line string) (string, error) {
	if strings.HasPrefix(line, "curl ") {
		return s.curl(line)
	}
	if s.address != "" {
		line = strings.ReplaceAll(line, docAddress, s.address)
	}
	args, err := words(line)
	switch {
	case err != nil:
		return "", err
	case len(args) == 0:
		return "", nil
	case args[0] == "graphrun" && len(args) > 1 && args[1] == "serve":
		return "", s.serve(s.t, args[1:])
	case args[0] == "graphrun":
		return s.exec(s.dir, s.graphrun, args[1:]...)
	case line == "go test ./...":
		return "", nil
	case len(args) > 2 && args[0] == "go" && args[1] == "tool":
		return s.exec(s.dir, "go", args[1:]...)
	case len(args) > 2 && args[0] == "go" && args[1] == "run":
		return s.exec(s.root, "go", args[1:]...)
	}
	return "", fmt.Errorf("not a command that the test knows")
}

// words splits a command line; double quotes hold words together.
func words(line string) ([]string, error) {
	if strings.ContainsAny(line, "|<>$`'\\;&") {
		return nil, fmt.Errorf("the test runs no shell")
	}
	var args []string
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			args = append(args, part)
		} else {
			args = append(args, strings.Fields(part)...)
		}
	}
	return args, nil
}

// The commands of all pages succeed, and what the last command of a block
// prints is the output block behind it. There … stands for any text, and a line
// of its own for any lines.
func TestCommands(t *testing.T) {
	s := newShell(t)
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		out, ran := "", 0
		for _, b := range blocks(string(text)) {
			switch b.kind {
			case "sh":
				for i, line := range b.lines {
					if out, err = s.run(line); err != nil {
						t.Errorf("%s:%d: %s: %v", page, b.line+i+1, line, err)
					}
					ran++
				}
			case "output":
				if missing := match(b.lines, out); missing != "" {
					t.Errorf("%s:%d: the command does not print %q, in this place; it prints\n%s", page, b.line, missing, out)
				}
			}
		}
		if ran == 0 && page != "index.md" {
			t.Errorf("%s shows no command", page)
		}
	}
}

// match returns the first line of want that out does not have where it should,
// "" if there is none.
func match(want []string, out string) string {
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	at, anywhere := 0, false
	for _, w := range want {
		if w == "…" {
			anywhere = true
			continue
		}
		parts := strings.Split(w, "…")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		re := regexp.MustCompile("^" + strings.Join(parts, ".*") + "$")
		for anywhere && at < len(lines) && !re.MatchString(lines[at]) {
			at++
		}
		if at >= len(lines) || !re.MatchString(lines[at]) {
			return w
		}
		at, anywhere = at+1, false
	}
	if at < len(lines) && !anywhere {
		return "(the end)"
	}
	return ""
}

func TestMatch(t *testing.T) {
	const out = "a 1\nb 2\nc 3\n"
	for want, ok := range map[string]bool{
		"a 1|b 2|c 3": true, "a…|…": true, "…|c 3": true, "a 1|…|c…": true, "…|b…2|…": true,
		"a 1|b 2": false, "b 2|c 3": false, "a 1|c 3": false, "…|d": false, "…|b 2": false,
	} {
		if got := match(strings.Split(want, "|"), out) == ""; got != ok {
			t.Errorf("%q: %v", want, got)
		}
	}
}

// Pages link to what is there.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)\)`)
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}

// The README begins with exactly two commands: one that runs the main job, one
// that passes the tests.
func TestReadmeStart(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	b := blocks(string(text))
	if want := "go run ./cmd/graphrun run \"Once upon a time\"\ngo test ./..."; b[0].kind != "sh" || strings.Join(b[0].lines, "\n") != want {
		t.Errorf("the README starts with %q", b[0].lines)
	}
}

// The Go code that pages show is code of the example, comments of omission
// apart.
func TestGoBlocks(t *testing.T) {
	code, err := os.ReadFile(filepath.Join("examples", "newarch", "tandem.go"))
	if err != nil {
		t.Fatal(err)
	}
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	have := squeeze(string(code))
	text, err := os.ReadFile("architectures.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks(string(text)) {
		if b.kind != "go" {
			continue
		}
		for i, line := range b.lines {
			if l := squeeze(line); l != "// …" && !strings.Contains(have, l) {
				t.Errorf("architectures.md:%d: the example has no %q", b.line+i+1, l)
			}
		}
	}
}

// The example works in a module of its own, outside of this one.
func TestOutsideModule(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files, err := filepath.Glob(filepath.Join("examples", "newarch", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no example (%v)", err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(f)), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"mod", "init", "example.com/newarch"}, {"work", "init", ".", root}, {"test", "."}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=", "GOPROXY=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
}
