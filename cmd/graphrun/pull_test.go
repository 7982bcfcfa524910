package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hubWith starts a hub with one repository, org/model, that holds the files,
// and sets the environment to it.
func hubWith(t *testing.T, files map[string]string) {
	t.Helper()
	const commit = "0123456789abcdef0123456789abcdef01234567"
	contents := map[string][]byte{}
	var siblings []map[string]any
	for name, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		contents[name] = data
		siblings = append(siblings, map[string]any{"rfilename": name, "lfs": map[string]any{"sha256": hex.EncodeToString(sum[:]), "size": len(data)}})
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/models/org/model/revision/") {
			json.NewEncoder(w).Encode(map[string]any{"sha": commit, "siblings": siblings})
			return
		}
		name := strings.TrimPrefix(r.URL.Path, "/org/model/resolve/"+commit+"/")
		data, ok := contents[name]
		if !ok {
			http.Error(w, "no such repository", http.StatusNotFound)
			return
		}
		w.Write(data)
	}))
	t.Cleanup(srv.Close)
	for _, k := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE", "HF_TOKEN_PATH"} {
		t.Setenv(k, "")
	}
	t.Setenv("HF_ENDPOINT", srv.URL)
	t.Setenv("HF_HOME", filepath.Join(t.TempDir(), "hf"))
}

func TestPullVerb(t *testing.T) {
	model, tokens := sample(t, "llama-gqa")
	other, _ := sample(t, "llama-q8_0")
	hubWith(t, map[string]string{"m-F32.gguf": model, "m-Q8_0.gguf": other})

	path := strings.TrimSpace(must(t, "pull", "org/model:f32"))
	want := must(t, "run", model, "--tokens", tokens, "-n", "4", "--temp", "0", "--ids")
	if got := must(t, "run", path, "--tokens", tokens, "-n", "4", "--temp", "0", "--ids"); got != want {
		t.Errorf("the pulled file says %s, want %s", got, want)
	}
	// A name is a MODEL everywhere, downloaded if need be.
	if got := must(t, "run", "hf.co/org/model:f32", "--tokens", tokens, "-n", "4", "--temp", "0", "--ids", "--offline"); got != want {
		t.Errorf("hf.co/org/model:f32 says %s, want %s", got, want)
	}
	refused(t, exitFailed, []string{"run", "hf.co/org/model:q8_0", "hi", "--offline"}, "not in the cache", "graphrun pull")
	refused(t, exitFailed, []string{"pull", "org/model", "--offline", "--revision", "v2"}, "hf.co/org/model@v2 is not in the cache")
	for _, args := range []string{
		"inspect hf.co/org/model:q8_0", "tokenize hf.co/org/model:q8_0 hi", "embed hf.co/org/model:q8_0 hi", "--dump=summary hf.co/org/model:q8_0",
		"logits hf.co/org/model:q8_0 --tokens 1,2 -o " + filepath.Join(t.TempDir(), "x"), "pull org/model:q8_0 --offline", "run https://huggingface.co/org/model:q8_0 hi -n 1",
	} {
		must(t, strings.Fields(args)...)
	}
	var out struct {
		Model   string
		Commit  string
		Fetched int64 `json:"fetched_bytes"`
		Files   []struct {
			Name  string
			Bytes int64
		}
	}
	if err := json.Unmarshal([]byte(must(t, "pull", "org/model:F32", "-o", "json")), &out); err != nil {
		t.Fatal(err)
	}
	if out.Model != path || out.Fetched != 0 || len(out.Files) != 1 || out.Files[0].Name != "m-F32.gguf" || out.Files[0].Bytes == 0 {
		t.Errorf("%+v", out)
	}

	refused(t, exitFailed, []string{"pull", "org/model"}, "holds 2 models", "m-F32.gguf, m-Q8_0.gguf")
	refused(t, exitFailed, []string{"pull", "org/model:Q4_0"}, "no GGUF file of type Q4_0")
	refused(t, exitFailed, []string{"pull", "org/other"}, "404 Not Found")
	refused(t, exitFailed, []string{"inspect", "hf.co/org/other"}, "404 Not Found")
	refused(t, exitUsage, []string{"pull", "org/model:Q4_0", "x.json"}, "named twice")
	refused(t, exitUsage, []string{"pull", "org/model@v1", "--revision", "v2"}, "given twice")
	refused(t, exitUsage, []string{"pull", "org/model", "--revision", "../x"}, "is no revision")
	refused(t, exitUsage, []string{"pull", "../model"}, "want REPO")
	refused(t, exitUsage, []string{"pull"}, "1 argument")
	refused(t, exitUsage, []string{"pull", "org/model", "-j", "0"}, "--parallel is 0")
	refused(t, exitUsage, []string{"run", "hf.co/../x", "hi"}, "want REPO")
}

// The lines for programs tell rate and remaining time.
func TestPullLine(t *testing.T) {
	hubWith(t, map[string]string{"m.gguf": writeNoise(t, 3<<20)})
	r := cli(t, "", "pull", "org/model")
	if r.code != 0 || !strings.Contains(r.err, "1 file(s), 3.0 MiB downloaded in ") {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
}

func writeNoise(t *testing.T, n int) string {
	t.Helper()
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	path := filepath.Join(t.TempDir(), fmt.Sprint("noise", n))
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
