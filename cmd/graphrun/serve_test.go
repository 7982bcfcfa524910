package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// serving runs graphrun serve in this process and returns its address.
func serving(t *testing.T, args ...string) (url string, stop func() result) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan result, 1)
	go func() {
		done <- cliContext(ctx, "", append([]string{"serve", "--listen", addr, "-t", "1"}, args...)...)
	}()
	ended := false
	stop = func() (r result) {
		if !ended {
			ended = true
			cancel()
			r = <-done
		}
		return r
	}
	t.Cleanup(func() { stop() })
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		select {
		case r := <-done:
			ended = true
			t.Fatalf("exit %d: %s", r.code, r.err)
		default:
		}
		resp, err := http.Get("http://" + addr + "/health")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return "http://" + addr, stop
			}
		}
		if time.Now().After(end) {
			t.Fatal("the server does not get ready")
		}
	}
}

func postTo(t *testing.T, url, key, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// TestServe: from start to SIGTERM, with keys from a file and from the
// environment; the text is that of graphrun run (PF-15).
func TestServe(t *testing.T) {
	m := newChain()
	m.say(t, "▁well", "▁done", "</s>")
	path := m.write(t)
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("# of the test\nkey-of-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GRAPHRUN_API_KEYS", "key-of-environment")
	t.Setenv("GRAPHRUN_TEMP", "0")
	url, stop := serving(t, path, "--api-key-file", keys, "--name", "chain-model")
	want := answerOf(t, cli(t, "", "run", path, "go", "--temp", "0", "-o", "json")).Text
	for key, status := range map[string]int{"key-of-file": 200, "key-of-environment": 200, "another-key": 401, "": 401} {
		code, body := postTo(t, url+"/v1/completions", key, `{"model":"chain-model","prompt":"go"}`)
		if code != status || status == 200 && !strings.Contains(body, fmt.Sprintf(`"text":%q`, want)) {
			t.Errorf("%q: %d %s, want %q", key, code, body, want)
		}
	}
	r := stop()
	if r.code != 0 || !strings.Contains(r.err, "msg=ready") || !strings.Contains(r.err, "shutting down") || strings.Contains(r.err, "key-of") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
}

// TestServeRefuses: what cannot be served is an error of one line.
func TestServeRefuses(t *testing.T) {
	path, _ := sample(t, "llama-q8_0")
	for _, c := range []struct {
		code  int
		args  []string
		words string
	}{
		{exitUsage, []string{path, "--listen", "0.0.0.0:0"}, "API keys"},
		{exitUsage, []string{path, "--listen", "nonsense"}, "HOST:PORT"},
		{exitUsage, []string{path, "--parallel", "0"}, "--parallel"},
		{exitUsage, []string{path, "--drain", "-1s"}, "--drain"},
		{exitUsage, []string{path, "--log-format", "xml"}, "xml"},
		{exitUsage, []string{path, "--log-level", "loud"}, "loud"},
		{exitUsage, []string{path, "--pool", "max"}, "max"},
		{exitUsage, []string{path, "--temp", "-1"}, "temperature"},
		{exitUsage, []string{path, "--cors", "example.org"}, "origin"},
		{exitUsage, []string{path, "--template-vars", "5"}, "--template-vars"},
		{exitFailed, []string{path, "--api-key-file", filepath.Join(t.TempDir(), "none")}, "none"},
		{exitFailed, []string{filepath.Join(t.TempDir(), "none.gguf")}, "none.gguf"},
	} {
		refused(t, c.code, append([]string{"serve"}, c.args...), c.words)
	}
	// A model that cannot be opened ends the server, too.
	bad := filepath.Join(t.TempDir(), "bad.gguf")
	if err := os.WriteFile(bad, []byte("GGUF"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := cli(t, "", "serve", bad, "--listen", "127.0.0.1:0"); r.code != exitFailed || !strings.Contains(r.err, "bad.gguf") || strings.Contains(r.err, "panic") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
}

// TestEnvironment: a flag may be given by a variable; the command line counts
// more.
func TestEnvironment(t *testing.T) {
	fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
	n, list, d := fs.Int("max-body", 1, ""), fs.StringArray("cors", nil, ""), fs.Duration("drain", 0, "")
	if err := fs.Parse([]string{"--drain", "5s"}); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"GRAPHRUN_MAX_BODY": "7", "GRAPHRUN_CORS": "https://a,https://b", "GRAPHRUN_DRAIN": "9s"}
	lookup := func(k string) (string, bool) { v, ok := env[k]; return v, ok }
	if err := environment(fs, lookup); err != nil || *n != 7 || fmt.Sprint(*list) != "[https://a https://b]" || *d != 5*time.Second {
		t.Errorf("%v: %d, %v, %s", err, *n, *list, *d)
	}
	env["GRAPHRUN_MAX_BODY"] = "many"
	fs = pflag.NewFlagSet("x", pflag.ContinueOnError)
	fs.Int("max-body", 1, "")
	if err := environment(fs, lookup); err == nil || !strings.Contains(err.Error(), `GRAPHRUN_MAX_BODY is "many"`) {
		t.Errorf("%v", err)
	}
}

// TestCheckServer: a model agrees with a server that has it, position by position,
// and not with one that has another; with prompts that are echoed and without.
func TestCheckServer(t *testing.T) {
	path, tokens := sample(t, "llama-q8_0")
	url, _ := serving(t, path)
	for _, how := range []string{"echo", "step"} {
		out := must(t, "check", path, "--server", url, "--tokens", tokens, "-t", "1", "--server-mode", how)
		if !strings.Contains(out, "same first choice in ") || !strings.Contains(out, "within tolerance") {
			t.Errorf("%s: %s", how, out)
		}
	}
	js := must(t, "check", path, "--server", url, "--tokens", tokens, "-t", "1", "-o", "json")
	if !strings.Contains(js, `"mode":"echo"`) || !strings.Contains(js, `"position":1`) {
		t.Errorf("%s", js)
	}
	other, _ := sample(t, "llama-f16")
	refused(t, exitFailed, []string{"check", other, "--server", url, "--tokens", tokens, "-t", "1"}, "position", "none of the likeliest")
	refused(t, exitFailed, []string{"check", path, "--server", url + "/nothing", "--tokens", tokens, "-t", "1"}, "404")
	refused(t, exitFailed, []string{"check", path, "--server", "http://127.0.0.1:1", "--tokens", tokens, "-t", "1"}, "127.0.0.1:1")
	refused(t, exitUsage, []string{"check", path, "--server", "ftp://x", "--tokens", tokens}, "ftp://x")
	refused(t, exitUsage, []string{"check", path, "--server", url, "--against", path}, "--against")
	// The shape of another engine: log-probabilities as chats have them.
	var b bytes.Buffer
	b.WriteString(`{"choices":[{"text":"x","logprobs":{"content":[{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[{"token":"a","logprob":-0.5,"bytes":[97]},{"token":"b","logprob":-1,"bytes":[98]}]}]}}]}`)
	got, err := readTop(b.Bytes())
	if err != nil || len(got) != 1 || got[0]["a"] != -0.5 || got[0]["b"] != -1 {
		t.Errorf("%v, %v", got, err)
	}
}
