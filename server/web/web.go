// Package web is the page that a server shows at /: a chat, the compiled graph
// and a live profile. It is a few files that are part of the program; they ask
// nothing of any other host.
package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"

	"graphrun/graph"
)

//go:embed index.html app.css app.js graph.js profile.js icon.svg
var files embed.FS

// types are the media types of the files: those of the system may be anything.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// Handler returns the handler of the page.
//
// The page may run its own scripts and that of the graph viewer, which it shows
// in a frame, and may speak to its own server only.
func Handler() (http.Handler, error) {
	hash, err := viewerScript()
	if err != nil {
		return nil, err
	}
	policy := "default-src 'none'; script-src 'self' 'sha256-" + hash + "'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; frame-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
		if name == "" {
			name = "index.html"
		}
		data, err := files.ReadFile(name)
		if err != nil {
			h := w.Header()
			h.Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"error":{"message":"there is no such page here; the page is at /, the API below /v1","type":"invalid_request_error","param":null,"code":"not_found"}}`+"\n")
			return
		}
		h := w.Header()
		h.Set("Content-Type", types[path.Ext(name)])
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(data))
	}), nil
}

// viewerScript returns the digest by which a policy names the script of the graph
// viewer.
func viewerScript() (string, error) {
	var h graph.History
	b := graph.NewBuilder("")
	b.Output("x", b.Input("x", graph.F32, graph.Rows("T", 1)))
	g, err := b.Finish()
	if err != nil {
		return "", fmt.Errorf("web: %w", err)
	}
	h.Begin(g)
	var page strings.Builder
	if err := h.WriteHTML(&page, ""); err != nil {
		return "", fmt.Errorf("web: %w", err)
	}
	_, rest, ok := strings.Cut(page.String(), "\n<script>")
	script, _, ok2 := strings.Cut(rest, "</script>")
	if !ok || !ok2 {
		return "", fmt.Errorf("web: the graph viewer has no script")
	}
	sum := sha256.Sum256([]byte(script))
	return base64.StdEncoding.EncodeToString(sum[:]), nil
}
