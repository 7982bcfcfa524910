package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var ggufName = Name{Repo: "org/model", Quant: "Q4_0"}

// ggufFiles is a repository of GGUF files.
func ggufFiles() map[string][]byte {
	return map[string][]byte{
		"model-Q4_0.gguf": noise(700_001, 1), "model-Q8_0.gguf": noise(1200, 2), "README.md": []byte("read me"), "config.json": []byte("{}"),
	}
}

// whole fails unless the cache's final names stand for whole files alone.
func whole(t *testing.T, h *fakeHub, cache string) {
	t.Helper()
	byHash := map[string][]byte{}
	for name, data := range h.files {
		byHash[digest(data, h.small[name])] = data
	}
	blobs, _ := filepath.Glob(filepath.Join(cache, "models--*", "blobs", "*"))
	for _, b := range blobs {
		if strings.HasSuffix(b, ".incomplete") {
			continue
		}
		data, err := os.ReadFile(b)
		if err != nil || digest(data, len(filepath.Base(b)) == 40) != filepath.Base(b) {
			t.Errorf("%s holds %d bytes that are not its own (%v)", b, len(data), err)
		}
	}
	filepath.WalkDir(filepath.Join(cache, "models--org--model", "snapshots", testCommit), func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		name, _ := filepath.Rel(filepath.Join(cache, "models--org--model", "snapshots", testCommit), p)
		data, err := os.ReadFile(p)
		if err != nil || !bytes.Equal(data, h.files[filepath.ToSlash(name)]) {
			t.Errorf("%s has %d bytes, want %d (%v)", p, len(data), len(h.files[name]), err)
		}
		return nil
	})
}

// leftovers returns the files of the cache that are no part of its layout.
func leftovers(t *testing.T, cache string) []string {
	t.Helper()
	var list []string
	filepath.WalkDir(cache, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && (strings.HasSuffix(p, ".incomplete") || strings.Contains(filepath.Base(p), ".tmp") || strings.HasPrefix(filepath.Base(p), ".link")) {
			list = append(list, p)
		}
		return nil
	})
	return list
}

func TestPull(t *testing.T) {
	h := newFakeHub(t, ggufFiles())
	c := h.client(t)
	s, err := c.Pull(t.Context(), ggufName)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(s.Model)
	if err != nil || !bytes.Equal(data, h.files["model-Q4_0.gguf"]) {
		t.Fatalf("%s: %d bytes, %v", s.Model, len(data), err)
	}
	if s.Fetched != int64(len(data)) || s.Commit != testCommit {
		t.Errorf("fetched %d at %s", s.Fetched, s.Commit)
	}
	dir := filepath.Join(c.Cache, "models--org--model")
	hash := digest(data, false)
	if link, err := os.Readlink(s.Model); err != nil || filepath.ToSlash(link) != "../../blobs/"+hash {
		t.Errorf("link %q, %v", link, err)
	}
	if ref, err := os.ReadFile(filepath.Join(dir, "refs", "main")); err != nil || string(ref) != testCommit {
		t.Errorf("refs/main %q, %v", ref, err)
	}
	if list := leftovers(t, c.Cache); len(list) > 0 {
		t.Errorf("left behind: %v", list)
	}
	// The second time nothing is downloaded, and offline there is no request.
	if s, err = c.Pull(t.Context(), ggufName); err != nil || s.Fetched != 0 {
		t.Errorf("second pull: %+v, %v", s, err)
	}
	before := h.count()
	c.Offline = true
	again, err := c.Pull(t.Context(), ggufName)
	if err != nil || again.Model != s.Model || h.count() != before {
		t.Errorf("offline: %+v, %v, %d requests", again, err, h.count()-before)
	}
	if _, err := c.Pull(t.Context(), Name{Repo: "org/model", Quant: "Q8_0"}); !isMissing(err) {
		t.Errorf("offline, not there: %v", err)
	}
	if _, err := c.Pull(t.Context(), Name{Repo: "org/other"}); !isMissing(err) || !strings.Contains(err.Error(), "hf.co/org/other is not in the cache") {
		t.Errorf("offline, nothing there: %v", err)
	}
}

func isMissing(err error) bool {
	var m *MissingError
	return errors.As(err, &m)
}

// What another tool downloaded is used: a blob without a snapshot, the
// beginning of a download, and a file that lies in the snapshot itself.
func TestReuse(t *testing.T) {
	h := newFakeHub(t, ggufFiles())
	data := h.files["model-Q4_0.gguf"]
	for _, kind := range []string{"blob", "beginning", "file", "too long", "damaged"} {
		h.sent.Store(0)
		h.mu.Lock()
		h.requests = nil
		h.mu.Unlock()
		c := h.client(t)
		dir := filepath.Join(c.Cache, "models--org--model")
		blob := filepath.Join(dir, "blobs", digest(data, false))
		path, put := blob, data
		want := int64(0)
		switch kind {
		case "file":
			path = filepath.Join(dir, "snapshots", testCommit, "model-Q4_0.gguf")
		case "beginning":
			path, put, want = blob+".incomplete", data[:300_000], 400_001
		case "too long":
			path, put, want = blob+".incomplete", append(slices.Clone(data), 1), 700_001
		case "damaged":
			path, put, want = blob+".incomplete", make([]byte, 300_000), 400_001+700_001
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, put, 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := c.Pull(t.Context(), ggufName)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if s.Fetched != want {
			t.Errorf("%s: fetched %d bytes, want %d", kind, s.Fetched, want)
		}
		if got, err := os.ReadFile(s.Model); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes, %v", kind, len(got), err)
		}
		whole(t, h, c.Cache)
	}
}

// The token goes to the endpoint and to no other host or port, not even when a
// redirect leads back.
func TestToken(t *testing.T) {
	h := newFakeHub(t, ggufFiles())
	h.token = "hf_secret"
	c := h.client(t)
	_, err := c.Pull(t.Context(), ggufName)
	var status *StatusError
	if !errors.As(err, &status) || status.Status != 401 || !strings.Contains(err.Error(), "HF_TOKEN") || !strings.Contains(err.Error(), "accept the terms") {
		t.Errorf("without token: %v", err)
	}
	c.Token = "hf_wrong"
	if _, err = c.Pull(t.Context(), ggufName); err == nil || strings.Contains(err.Error(), "hf_wrong") || !strings.Contains(err.Error(), "has no access") {
		t.Errorf("wrong token: %v", err)
	}
	c.Token = h.token
	if _, err := c.Pull(t.Context(), ggufName); err != nil {
		t.Fatal(err)
	}
	storage := strings.TrimPrefix(h.storage.URL, "http://")
	if n := h.count(storage); n == 0 {
		t.Error("the storage was not asked")
	}
	if n := h.count(storage, "token"); n != 0 {
		t.Errorf("the storage saw the token %d times", n)
	}
	// A redirect under the same host name, but another port, is another host.
	h.fault = func(w http.ResponseWriter, r *http.Request, data []byte) bool {
		http.Error(w, "expired link", http.StatusForbidden)
		return true
	}
	_, err = c.Pull(t.Context(), Name{Repo: "org/model", Quant: "Q8_0"})
	if err == nil || strings.Contains(err.Error(), "signature") {
		t.Errorf("error %v, want one without the signed link", err)
	}
}

// faults are servers that a download survives, or not.
func TestFaults(t *testing.T) {
	count := 0 // requests for contents in this case
	first := func(n int, f func(w http.ResponseWriter, r *http.Request, data []byte)) func(http.ResponseWriter, *http.Request, []byte) bool {
		return func(w http.ResponseWriter, r *http.Request, data []byte) bool {
			if count++; count > n {
				return false
			}
			f(w, r, data)
			return true
		}
	}
	status := func(code int, header ...string) func(http.ResponseWriter, *http.Request, []byte) {
		return func(w http.ResponseWriter, r *http.Request, data []byte) {
			if len(header) > 0 {
				w.Header().Set(header[0], header[1])
			}
			w.WriteHeader(code)
		}
	}
	from := func(r *http.Request) (n int) {
		fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &n)
		return n
	}
	for _, f := range []struct {
		name  string
		fault func(w http.ResponseWriter, r *http.Request, data []byte) bool
		want  string // part of the error, "" for success
	}{
		{"500 twice", first(2, status(500)), ""},
		{"503 for ever", first(99, status(503)), "503 Service Unavailable (tried 5 times"},
		{"429 with Retry-After", first(1, status(429, "Retry-After", "0")), ""},
		{"429 for an hour", first(99, status(429, "Retry-After", "3600")), "asks to wait for 1h0m0s"},
		{"404", first(99, status(404)), "404 Not Found"},
		{"cut after 100000, again and again", func(w http.ResponseWriter, r *http.Request, data []byte) bool {
			at := from(r)
			if at+100_000 >= len(data) {
				return false
			}
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", at, len(data)-1, len(data)))
			w.Header().Set("Content-Length", fmt.Sprint(len(data)-at))
			if at > 0 {
				w.WriteHeader(206)
			}
			w.Write(data[at : at+100_000])
			cut(w)
			return true
		}, ""},
		{"cut at the same place without ranges", func(w http.ResponseWriter, r *http.Request, data []byte) bool {
			w.Header().Set("Content-Length", fmt.Sprint(len(data)))
			w.Write(data[:100_000])
			cut(w)
			return true
		}, "after 100000 of 700001 bytes"},
		{"no ranges, cut once", first(1, func(w http.ResponseWriter, r *http.Request, data []byte) {
			w.Header().Set("Content-Length", fmt.Sprint(len(data)))
			w.Write(data[:100_000])
			cut(w)
		}), ""},
		{"says it is shorter", first(99, func(w http.ResponseWriter, r *http.Request, data []byte) {
			w.Header().Set("Content-Length", "1000")
			w.Write(data[:1000])
		}), "the server ended after 1000 of 700001 bytes"},
		{"says it is longer", first(99, func(w http.ResponseWriter, r *http.Request, data []byte) {
			w.Header().Set("Content-Length", fmt.Sprint(len(data)+5))
			w.Write(data)
			w.Write([]byte("12345"))
		}), "sends 700006 bytes, its list says 700001"},
		{"is longer, unsaid", first(99, func(w http.ResponseWriter, r *http.Request, data []byte) {
			w.(http.Flusher).Flush()
			w.Write(data)
			w.Write([]byte("12345"))
		}), "sends more than the 700001 bytes"},
		{"other contents", first(99, func(w http.ResponseWriter, r *http.Request, data []byte) {
			w.Write(make([]byte, len(data)))
		}), "wrong hash"},
		{"a page for people", first(99, func(w http.ResponseWriter, r *http.Request, data []byte) {
			w.Write([]byte("<html>log in</html>"))
		}), "the server ended after 19 of 700001 bytes"},
		{"other range", func(w http.ResponseWriter, r *http.Request, data []byte) bool {
			if count++; count == 1 {
				w.Header().Set("Content-Length", fmt.Sprint(len(data)))
				w.Write(data[:100_000])
				cut(w)
			}
			if at := from(r); at > 0 {
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", at-10, len(data)-1, len(data)))
				w.WriteHeader(206)
				w.Write(data[at-10:])
				return true
			}
			return false
		}, ""},
		{"part of another file", func(w http.ResponseWriter, r *http.Request, data []byte) bool {
			if count++; count == 1 {
				w.Header().Set("Content-Length", fmt.Sprint(len(data)))
				w.Write(data[:100_000])
				cut(w)
			}
			if at := from(r); at > 0 {
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", at, 999_999, 1_000_000))
				w.WriteHeader(206)
				w.Write(make([]byte, 1_000_000-at))
				return true
			}
			return false
		}, ""},
		{"right range of wrong bytes", func(w http.ResponseWriter, r *http.Request, data []byte) bool {
			if count++; count == 1 {
				w.Header().Set("Content-Length", fmt.Sprint(len(data)))
				w.Write(data[:100_000])
				cut(w)
			}
			if at := from(r); at > 0 {
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", at, len(data)-1, len(data)))
				w.WriteHeader(206)
				w.Write(make([]byte, len(data)-at))
				return true
			}
			return false
		}, "wrong hash"},
		{"416", func(w http.ResponseWriter, r *http.Request, data []byte) bool {
			if count++; count == 1 {
				w.Header().Set("Content-Length", fmt.Sprint(len(data)))
				w.Write(data[:100_000])
				cut(w)
			}
			if from(r) > 0 {
				w.WriteHeader(416)
				return true
			}
			return false
		}, ""},
		{"a part unasked", first(99, func(w http.ResponseWriter, r *http.Request, data []byte) {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(data)-1, len(data)))
			w.WriteHeader(206)
			w.Write(data)
		}), "the whole was asked for"},
		{"silence", first(1, func(w http.ResponseWriter, r *http.Request, data []byte) {
			w.Header().Set("Content-Length", fmt.Sprint(len(data)))
			w.Write(data[:1000])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}), ""},
		{"redirects in a circle", first(99, func(w http.ResponseWriter, r *http.Request, data []byte) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}), "more than 10 redirects"},
		{"redirect to a file", first(99, func(w http.ResponseWriter, r *http.Request, data []byte) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		}), `redirected to "file", want https`},
	} {
		t.Run(f.name, func(t *testing.T) {
			h := newFakeHub(t, ggufFiles())
			h.fault = f.fault
			c := h.client(t)
			c.stall = 200 * time.Millisecond
			count = 0
			s, err := c.Pull(t.Context(), ggufName)
			whole(t, h, c.Cache)
			switch {
			case f.want == "" && err != nil:
				t.Fatal(err)
			case f.want != "" && (err == nil || !strings.Contains(err.Error(), f.want)):
				t.Fatalf("error %v, want %q", err, f.want)
			case f.want != "":
				if strings.HasPrefix(f.name, "redirect") && strings.Contains(err.Error(), "tried") {
					t.Errorf("tried again, of no use: %v", err)
				}
				if _, err := c.Find(ggufName); !isMissing(err) {
					t.Errorf("the cache has it: %v", err)
				}
				for _, p := range leftovers(t, c.Cache) {
					if st, err := os.Stat(p); err != nil || st.Size() == 0 {
						t.Errorf("left behind, though nothing came: %s", p)
					}
				}
				h.fault = nil // a server that is well again
				if s, err = c.Pull(t.Context(), ggufName); err != nil {
					t.Fatalf("afterwards: %v", err)
				}
			}
			if data, err := os.ReadFile(s.Model); err != nil || !bytes.Equal(data, h.files["model-Q4_0.gguf"]) {
				t.Errorf("%d bytes, %v", len(data), err)
			}
			if list := leftovers(t, c.Cache); len(list) > 0 {
				t.Errorf("left behind: %v", list)
			}
		})
	}
}

// What a list of files may not say.
func TestHostileList(t *testing.T) {
	sibling := func(list map[string]any) map[string]any {
		for _, s := range list["siblings"].([]map[string]any) {
			if s["rfilename"] == "model-Q4_0.gguf" {
				return s
			}
		}
		return nil
	}
	for _, f := range []struct {
		name string
		edit func(list map[string]any)
		want string
	}{
		{"commit", func(l map[string]any) { l["sha"] = "../../../x" }, "has the commit"},
		{"name up", func(l map[string]any) { sibling(l)["rfilename"] = "../../x.gguf" }, "is no name of a file"},
		{"absolute name", func(l map[string]any) { sibling(l)["rfilename"] = "/etc/x.gguf" }, "is no name of a file"},
		{"name of Windows", func(l map[string]any) { sibling(l)["rfilename"] = `..\x.gguf` }, "is no name of a file"},
		{"hash up", func(l map[string]any) { sibling(l)["lfs"].(map[string]any)["sha256"] = "../../x" }, "want a size and a SHA-256"},
		{"no size", func(l map[string]any) { delete(sibling(l), "size"); delete(sibling(l)["lfs"].(map[string]any), "size") }, "want a size and a SHA-256"},
		{"huge", func(l map[string]any) { sibling(l)["lfs"].(map[string]any)["size"] = int64(1) << 60 }, "make room"},
		{"twice", func(l map[string]any) {
			l["siblings"] = append(l["siblings"].([]map[string]any), map[string]any{"rfilename": "README.md"})
		}, "twice"},
		{"other hash", func(l map[string]any) {
			sibling(l)["lfs"].(map[string]any)["sha256"] = strings.Repeat("ab", 32)
		}, "its list says abab"},
		{"other size", func(l map[string]any) { sibling(l)["lfs"].(map[string]any)["size"] = 5 }, "the server says the size is 700001, its list says 5"},
	} {
		h := newFakeHub(t, ggufFiles())
		h.edit = f.edit
		c := h.client(t)
		_, err := c.Pull(t.Context(), ggufName)
		if err == nil || !strings.Contains(err.Error(), f.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %q", f.name, err, f.want)
		}
	}
	h := newFakeHub(t, ggufFiles())
	h.listFault = func(w http.ResponseWriter, r *http.Request) bool { w.Write([]byte("<html>")); return true }
	if _, err := h.client(t).Pull(t.Context(), ggufName); err == nil || !strings.Contains(err.Error(), "is HF_ENDPOINT a hub?") {
		t.Errorf("a page instead of a list: %v", err)
	}
	if _, err := h.client(t).Pull(t.Context(), Name{Repo: "org/model", Revision: "nosuch"}); err == nil {
		t.Error("an unknown revision")
	}
}

func TestNoSpace(t *testing.T) {
	h := newFakeHub(t, ggufFiles())
	c := h.client(t)
	c.free = func(string) (int64, bool) { return 500_000, true }
	_, err := c.Pull(t.Context(), ggufName)
	if err == nil || !strings.Contains(err.Error(), "needs 700001 bytes more") || !strings.Contains(err.Error(), "HF_HUB_CACHE") {
		t.Errorf("error %v", err)
	}
	if h.count("resolve") != 0 {
		t.Error("contents were asked for all the same")
	}
	// What is there of an earlier download counts.
	part := filepath.Join(c.Cache, "models--org--model", "blobs", digest(h.files["model-Q4_0.gguf"], false)+".incomplete")
	if err := os.WriteFile(part, h.files["model-Q4_0.gguf"][:300_000], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Pull(t.Context(), ggufName); err != nil {
		t.Error(err)
	}
}

// Two pulls of one file at once: one downloads, the other waits and uses it.
func TestTwoPulls(t *testing.T) {
	h := newFakeHub(t, ggufFiles())
	h.slow.Store(int64(10 * time.Millisecond))
	c := h.client(t)
	errs := make(chan error)
	for range 2 {
		go func() {
			_, err := c.Pull(context.Background(), ggufName)
			errs <- err
		}()
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	whole(t, h, c.Cache)
	if n := h.sent.Load(); n > 800_000 {
		t.Errorf("%d bytes were sent for a file of 700001", n)
	}
}

// A pull that is cancelled ends at once, with the context's error.
func TestCancel(t *testing.T) {
	h := newFakeHub(t, ggufFiles())
	h.slow.Store(int64(50 * time.Millisecond))
	c := h.client(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := c.Pull(ctx, ggufName); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if d := time.Since(start); d > time.Second {
		t.Errorf("it took %s", d)
	}
	h.slow.Store(0)
	if _, err := c.Pull(t.Context(), ggufName); err != nil {
		t.Error(err)
	}
	if n := h.count("bytes="); n == 0 {
		t.Error("the download did not go on where it ended")
	}
}

// Files are downloaded at once.
func TestParallel(t *testing.T) {
	files := map[string][]byte{"config.json": []byte("{}")}
	for i := range 6 {
		files[fmt.Sprintf("model-%05d-of-00006.safetensors", i+1)] = noise(1000, uint64(i))
	}
	h := newFakeHub(t, files)
	running, most := make(chan int, 1), 0
	running <- 0
	h.fault = func(w http.ResponseWriter, r *http.Request, data []byte) bool {
		n := <-running + 1
		most = max(most, n)
		running <- n
		time.Sleep(50 * time.Millisecond)
		running <- <-running - 1
		return false
	}
	c := h.client(t)
	c.Parallel = 3
	s, err := c.Pull(t.Context(), Name{Repo: "org/model"})
	if err != nil {
		t.Fatal(err)
	}
	if s.Model != s.Dir || len(s.Files) != 7 {
		t.Errorf("model %s, %d files", s.Model, len(s.Files))
	}
	if most != 3 {
		t.Errorf("%d files at once, want 3", most)
	}
	whole(t, h, c.Cache)
}
