package web

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// TestHandler gets every file, with a policy that lets the page speak to its own
// server only.
func TestHandler(t *testing.T) {
	h, err := Handler()
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	list, err := fs.ReadDir(files, ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		w := get("/" + f.Name())
		if w.Code != http.StatusOK || w.Body.Len() == 0 || w.Header().Get("Content-Type") == "" {
			t.Errorf("%s: status %d, %d bytes, type %q", f.Name(), w.Code, w.Body.Len(), w.Header().Get("Content-Type"))
		}
		if p := w.Header().Get("Content-Security-Policy"); !strings.Contains(p, "connect-src 'self'") || strings.Contains(p, "script-src 'self' 'unsafe") {
			t.Errorf("%s: policy %q", f.Name(), p)
		}
		if m := regexp.MustCompile(`(?:https?:)?//[a-z]`).FindString(strings.ReplaceAll(w.Body.String(), "http://www.w3.org/2000/svg", "")); m != "" && strings.HasPrefix(m, "http") {
			t.Errorf("%s names another host: %q", f.Name(), m)
		}
	}
	if get("/").Body.String() != get("/index.html").Body.String() {
		t.Error("/ is not the page")
	}
	for _, path := range []string{"/nix", "/../web.go", "/web.go", "/%2e%2e/web.go"} {
		if w := get(path); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), `"code":"not_found"`) {
			t.Errorf("%s: status %d: %s", path, w.Code, w.Body)
		}
	}
}
