package hub

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const testCommit = "0123456789abcdef0123456789abcdef01234567"

// fakeHub is a server of one repository, org/model, whose large files lie on a
// second server. Its fields make it misbehave.
type fakeHub struct {
	api, storage *httptest.Server
	files        map[string][]byte
	small        map[string]bool // stored by Git: SHA-1, no redirect

	mu       sync.Mutex
	requests []string // method-less: path, Range, whether a token came
	sent     atomic.Int64
	// fault is asked for every request for contents; true means that it has
	// answered.
	fault func(w http.ResponseWriter, r *http.Request, data []byte) bool
	// listFault is the same for the list of files.
	listFault func(w http.ResponseWriter, r *http.Request) bool
	edit      func(list map[string]any) // changes the list
	token     string                    // that is wanted
	slow      atomic.Int64              // nanoseconds             // between pieces of 64 KiB
}

func newFakeHub(t testing.TB, files map[string][]byte) *fakeHub {
	t.Helper()
	h := &fakeHub{files: files, small: map[string]bool{}}
	for name := range files {
		h.small[name] = strings.HasSuffix(name, ".json") || strings.HasSuffix(name, ".txt")
	}
	h.api = httptest.NewServer(http.HandlerFunc(h.serveAPI))
	h.storage = httptest.NewServer(http.HandlerFunc(h.serveStorage))
	t.Cleanup(h.api.Close)
	t.Cleanup(h.storage.Close)
	return h
}

func digest(data []byte, small bool) string {
	if small {
		sum := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(data)), data...))
		return hex.EncodeToString(sum[:])
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (h *fakeHub) note(r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := r.Host + r.URL.Path
	if v := r.Header.Get("Range"); v != "" {
		s += " " + v
	}
	if v := r.Header.Get("Authorization"); v != "" {
		s += " token"
	}
	h.requests = append(h.requests, s)
}

// count returns the number of requests whose note has all parts.
func (h *fakeHub) count(parts ...string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, r := range h.requests {
		ok := true
		for _, p := range parts {
			ok = ok && strings.Contains(r, p)
		}
		if ok {
			n++
		}
	}
	return n
}

func (h *fakeHub) serveAPI(w http.ResponseWriter, r *http.Request) {
	h.note(r)
	if h.token != "" && r.Header.Get("Authorization") != "Bearer "+h.token {
		w.Header().Set("X-Error-Code", "GatedRepo")
		w.Header().Set("X-Error-Message", "Access to model org/model is restricted.")
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if rev, ok := strings.CutPrefix(r.URL.EscapedPath(), "/api/models/org/model/revision/"); ok {
		if h.listFault != nil && h.listFault(w, r) {
			return
		}
		if rev, _ = url.PathUnescape(rev); rev != "main" && rev != testCommit && rev != "refs/pr/1" {
			http.Error(w, "Revision Not Found", http.StatusNotFound)
			return
		}
		var siblings []map[string]any
		for name, data := range h.files {
			s := map[string]any{"rfilename": name, "size": len(data), "blobId": digest(data, true)}
			if !h.small[name] {
				s["lfs"] = map[string]any{"sha256": digest(data, false), "size": len(data), "pointerSize": 130}
			}
			siblings = append(siblings, s)
		}
		list := map[string]any{"sha": testCommit, "siblings": siblings, "private": false}
		if h.edit != nil {
			h.edit(list)
		}
		json.NewEncoder(w).Encode(list)
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, "/org/model/resolve/"+testCommit+"/")
	data, have := h.files[name]
	if !ok || !have {
		http.Error(w, "Entry not found", http.StatusNotFound)
		return
	}
	w.Header().Set("X-Repo-Commit", testCommit)
	if h.small[name] {
		h.contents(w, r, data)
		return
	}
	w.Header().Set("X-Linked-Etag", `"`+digest(data, false)+`"`)
	w.Header().Set("X-Linked-Size", fmt.Sprint(len(data)))
	http.Redirect(w, r, h.storage.URL+"/"+name+"?signature=secret", http.StatusFound)
}

func (h *fakeHub) serveStorage(w http.ResponseWriter, r *http.Request) {
	h.note(r)
	data, ok := h.files[strings.TrimPrefix(r.URL.Path, "/")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h.contents(w, r, data)
}

func (h *fakeHub) contents(w http.ResponseWriter, r *http.Request, data []byte) {
	h.mu.Lock()
	fault := h.fault
	h.mu.Unlock()
	if fault != nil && fault(w, r, data) {
		return
	}
	from := 0
	if v := r.Header.Get("Range"); v != "" {
		fmt.Sscanf(v, "bytes=%d-", &from)
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(data)-1, len(data)))
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(data)-from))
	if from > 0 {
		w.WriteHeader(http.StatusPartialContent)
	}
	h.send(w, data[from:])
}

// send writes data in pieces.
func (h *fakeHub) send(w http.ResponseWriter, data []byte) {
	for len(data) > 0 {
		n := min(len(data), 64<<10)
		h.sent.Add(int64(n)) // before the client can be done with them
		if _, err := w.Write(data[:n]); err != nil {
			return
		}
		if slow := time.Duration(h.slow.Load()); slow > 0 {
			w.(http.Flusher).Flush()
			time.Sleep(slow)
		}
		data = data[n:]
	}
}

// cut ends the connection without the rest of the answer.
func cut(w http.ResponseWriter) {
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func (h *fakeHub) client(t testing.TB) *Client {
	return &Client{Endpoint: h.api.URL, Cache: filepath.Join(t.TempDir(), "hub"), pause: time.Millisecond, stall: 2 * time.Second}
}

// noise returns n bytes that do not repeat.
func noise(n int, seed uint64) []byte {
	var key [32]byte
	key[0] = byte(seed)
	b := make([]byte, n)
	rand.NewChaCha8(key).Read(b)
	return b
}
