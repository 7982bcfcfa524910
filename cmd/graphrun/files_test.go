package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// copied returns a copy of a model of testdata/models.
func copied(t *testing.T, name string) string {
	t.Helper()
	from, _ := sample(t, name)
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The model that is read is never written over, under any of its names.
func TestOutputKeepsModel(t *testing.T) {
	model := copied(t, "llama-gqa")
	before, _ := os.ReadFile(model)
	link := filepath.Join(filepath.Dir(model), "link")
	if err := os.Symlink(model, link); err != nil {
		t.Skip(err)
	}
	for _, out := range []string{model, link} {
		for _, args := range []string{
			"logits " + model + " --tokens 1 -o " + out,
			"--dump " + model + " -o " + out,
			"--dump=html " + model + " -o " + out,
			"bench " + model + " -p 1 -n 1 -r 1 -t 1 --cpuprofile " + out,
			"profile " + model + " -p 1 -n 1 -t 1 --trace " + out,
		} {
			refused(t, exitFailed, strings.Fields(args), out, "is a file of the model")
		}
	}
	if after, _ := os.ReadFile(model); !bytes.Equal(before, after) {
		t.Error("the model changed")
	}
	if names := left(t, filepath.Dir(model)); len(names) != 2 {
		t.Errorf("left behind: %v", names)
	}
}

// A folder is no output, which is said before the work begins.
func TestOutputFolder(t *testing.T) {
	model, tokens := sample(t, "llama-gqa")
	dir := t.TempDir()
	for _, args := range []string{
		"logits " + model + " --tokens " + tokens + " -o " + dir,
		"--dump " + model + " -o " + dir,
		"profile " + model + " -p 1 -n 1 -t 1 -o " + dir,
	} {
		refused(t, exitFailed, strings.Fields(args), "create "+dir+": is a folder")
	}
	refused(t, exitFailed, strings.Fields("synth tiny-llama --type q8_0 -o "+dir), dir, "not a regular file")
	if names := left(t, filepath.Dir(dir)); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
}

// A file that is replaced keeps its permissions, a link stays a link, and - is
// standard output.
func TestOutputReplaces(t *testing.T) {
	model, _ := sample(t, "llama-gqa")
	dir := t.TempDir()
	path, link := filepath.Join(dir, "out"), filepath.Join(dir, "link")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Skip(err)
	}
	want := must(t, "--dump", model)
	must(t, "--dump", model, "-o", link)
	if b, _ := os.ReadFile(path); string(b) != want {
		t.Errorf("%d bytes behind the link, want %d", len(b), len(want))
	}
	if st, err := os.Lstat(link); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link became %v (%v)", st.Mode(), err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the file's permissions became %v (%v)", st.Mode(), err)
	}
	if got := must(t, "--dump", model, "-o", "-"); got != want {
		t.Error("-o - is not standard output")
	}
}

// A device is written to, not replaced by a file.
func TestOutputDevice(t *testing.T) {
	const null, full = "/dev/null", "/dev/full"
	st, err := os.Stat(null)
	if err != nil || st.Mode()&os.ModeDevice == 0 {
		t.Skip("no ", null)
	}
	model, _ := sample(t, "llama-gqa")
	dir := t.TempDir()
	link := filepath.Join(dir, "null")
	if err := os.Symlink(null, link); err != nil {
		t.Skip(err)
	}
	must(t, "--dump", model, "-o", link)
	if st, err := os.Lstat(link); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link to %s was replaced", null)
	}
	if _, err := os.Stat(full); err == nil {
		link = filepath.Join(dir, "full")
		if err := os.Symlink(full, link); err != nil {
			t.Skip(err)
		}
		refused(t, exitFailed, []string{"--dump", model, "-o", link}, "write "+link+":")
	}
}

// Reading standard input ends with the context, and an endless input with an
// error.
func TestReadInput(t *testing.T) {
	model, _ := sample(t, "llama-gqa")
	for _, args := range []string{"run " + model, "tokenize " + model, "tokenize --json " + model, "detokenize --json " + model,
		"embed " + model, "perplexity " + model + " -", "template"} {
		if args == "template" {
			path := filepath.Join(t.TempDir(), "t.jinja")
			if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
			args = "template " + path
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		in, w := io.Pipe() // nothing comes
		var out, errOut bytes.Buffer
		code := execute(ctx, strings.Fields(args), in, &out, &errOut)
		if code != exitFailed {
			t.Errorf("%s: exit %d, %q", args, code, errOut.String())
		}
		cancel()
		w.Close()
	}
	if _, err := readAtMost(endless{}, "-", 1000); err == nil || !strings.Contains(err.Error(), "standard input: more than 1000 bytes") {
		t.Errorf("endless input: %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// A synthetic model that is interrupted leaves nothing.
func TestSynthInterrupted(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := cliContext(ctx, "", "synth", "tiny-llama", "--type", "q8_0", "-o", filepath.Join(dir, "m.gguf"))
	if r.code != exitFailed || r.err != "graphrun: interrupted\n" {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	if names := left(t, dir); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
}

// A conversation whose last line asks for another one ends all the same.
func TestChatEndsInBackslash(t *testing.T) {
	p := &pipeReader{in: bufio.NewReader(strings.NewReader("a\\"))}
	c := &conversation{lines: p}
	if text, err := c.message(t.Context()); text != "a\n" || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
	if _, err := c.message(t.Context()); err != io.EOF {
		t.Errorf("then %v, want the end", err)
	}
}

// null is neither a text nor a token.
func TestNullInput(t *testing.T) {
	model, _ := sample(t, "llama-gqa")
	for _, c := range [][2]string{{"tokenize", `["a",null]`}, {"detokenize", `[[1],null]`}, {"detokenize", `[[1,null]]`}} {
		r := cli(t, c[1], c[0], model, "--json")
		if r.code != exitFailed || !strings.Contains(r.err, "null") {
			t.Errorf("%s %s: exit %d, %q, %q", c[0], c[1], r.code, r.out, r.err)
		}
	}
}

// The graph before all passes has a summary too.
func TestSummaryOfBuild(t *testing.T) {
	model, _ := sample(t, "llama-gqa")
	if out := must(t, "--dump=summary", model, "--pass", "build"); !strings.Contains(out, "largest step") {
		t.Errorf("got %q", out)
	}
}

// diff reads a text form from a pipe too, as a shell's <(...) is.
func TestDiffPipe(t *testing.T) {
	model, _ := sample(t, "llama-gqa")
	text := must(t, "--dump", model)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	path := fmt.Sprintf("/dev/fd/%d", r.Fd())
	if _, err := os.Stat(path); err != nil {
		t.Skip("no ", path)
	}
	go func() { io.WriteString(w, text); w.Close() }()
	if got, want := must(t, "diff", path, model), must(t, "diff", model, model); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
