package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// client is who sent a request, and what the log says about it.
type client struct {
	id        string // of the request
	partition string // of the prefix cache; "" without keys
	key       string // the beginning of the key's digest, for the log

	prompt, cached, output int // tokens
	first                  time.Duration

	read bool // the body was read
}

// key is an API key that is known by its digest only, so that comparing takes the
// same time for all.
type key struct {
	digest [sha256.Size]byte
}

func newKeys(list []string) []key {
	keys := make([]key, len(list))
	for i, k := range list {
		keys[i].digest = sha256.Sum256([]byte(k))
	}
	return keys
}

// newID returns a random id.
func newID(prefix string) string {
	var b [12]byte
	rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}

// endpoint is what answers a path.
type endpoint struct {
	serve func(w http.ResponseWriter, r *http.Request, who *client) error
	open  bool // needs no key
}

// statusWriter remembers what was sent.
type statusWriter struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// guard runs an endpoint behind all checks, answers its errors, and logs.
func (s *Server) guard(name string, e endpoint) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		start := time.Now()
		w := &statusWriter{ResponseWriter: rw}
		who := &client{id: newID("req_")}
		w.Header().Set("X-Request-Id", who.id)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		body := r.Body // before anything bounds it
		var err error
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler {
					panic(p)
				}
				s.log.Error("internal error", "request", who.id, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				err = &Error{Status: http.StatusInternalServerError, Code: "internal_error", Message: "internal error; the log has the request " + who.id}
				if w.status == 0 {
					writeError(w, asError(err))
				}
			}
			s.finish(name, r, w, who, start, err)
		}()
		if err = s.check(w, r, e, who); err == nil {
			err = e.serve(w, r, who)
		}
		var sent *sentError
		if err != nil && w.status == 0 && !errors.As(err, &sent) {
			unread := r.ContentLength != 0 && !who.read
			if unread {
				// Else net/http would wait for the body before it answers, and for
				// its end afterwards.
				w.Header().Set("Connection", "close")
				http.NewResponseController(w).SetReadDeadline(time.Now().Add(unreadTimeout))
			}
			writeError(w, asError(err))
			if unread {
				// A client that sends all before it reads would find the connection
				// closed, and no answer.
				http.NewResponseController(w).Flush()
				io.Copy(io.Discard, body)
			}
		}
	})
}

// check runs before an endpoint and before the body is read. Its order matters:
// a page of another site learns nothing, and what has no key costs nothing.
func (s *Server) check(w http.ResponseWriter, r *http.Request, e endpoint, who *client) error {
	if n := headerBytes(r); n > maxHeader {
		w.Header().Set("Connection", "close")
		return &Error{Status: http.StatusRequestHeaderFieldsTooLarge, Code: "header_too_large", Message: fmt.Sprintf("the header has %d bytes, want at most %d", n, maxHeader)}
	}
	if err := s.checkHost(r); err != nil {
		return err
	}
	if err := s.checkOrigin(w, r); err != nil {
		return err
	}
	if e.open {
		return nil
	}
	return s.checkKey(w, r, who)
}

// unreadTimeout is how long a body that nobody wants may go on arriving, so that
// its sender reads the answer.
const unreadTimeout = 500 * time.Millisecond

// maxHeader bounds the header of a request; net/http's own bound, which answers
// in its own words, is four times as large.
const maxHeader = 64 << 10

func headerBytes(r *http.Request) int {
	n := len(r.RequestURI)
	for k, list := range r.Header {
		for _, v := range list {
			n += len(k) + len(v) + 4
		}
	}
	return n
}

// checkHost refuses names that a page of another site could have made point
// here.
func (s *Server) checkHost(r *http.Request) error {
	if len(s.o.Hosts) == 0 && len(s.keys) > 0 {
		return nil // such a page has no key
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return nil
	}
	for _, h := range s.o.Hosts {
		if h == "*" || strings.EqualFold(h, host) {
			return nil
		}
	}
	return &Error{Status: http.StatusForbidden, Code: "host_not_allowed", Message: fmt.Sprintf("the host %q is not one of this server's names (--allow-host)", quote(r.Host))}
}

// checkOrigin answers browsers: pages of other sites are let in only where they
// are asked for, and never with credentials.
func (s *Server) checkOrigin(w http.ResponseWriter, r *http.Request) error {
	origin := r.Header.Get("Origin")
	if len(s.o.Origins) > 0 {
		w.Header().Add("Vary", "Origin")
	}
	if origin == "" {
		return nil
	}
	switch {
	case slices.Contains(s.o.Origins, "*"):
		w.Header().Set("Access-Control-Allow-Origin", "*")
	case slices.Contains(s.o.Origins, origin):
		w.Header().Set("Access-Control-Allow-Origin", origin)
	default:
		if u, err := url.Parse(origin); err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) {
			return nil
		}
		return &Error{Status: http.StatusForbidden, Code: "origin_not_allowed", Message: fmt.Sprintf("pages of %q may not use this server (--cors)", quote(origin))}
	}
	w.Header().Set("Access-Control-Expose-Headers", "X-Request-Id, Retry-After")
	return nil
}

// preflight answers OPTIONS: without a key, for a browser sends none.
func (s *Server) preflight(w http.ResponseWriter, r *http.Request, _ *client) error {
	h := w.Header()
	if h.Get("Access-Control-Allow-Origin") != "" {
		h.Set("Access-Control-Allow-Methods", "GET, POST, OPTIONS")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, OpenAI-Beta, OpenAI-Organization, OpenAI-Project, X-Stainless-Arch, X-Stainless-Helper-Method, X-Stainless-Lang, X-Stainless-OS, X-Stainless-Package-Version, X-Stainless-Retry-Count, X-Stainless-Runtime, X-Stainless-Runtime-Version, X-Stainless-Timeout")
		h.Set("Access-Control-Max-Age", "600")
	}
	h.Set("Allow", "GET, POST, OPTIONS")
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// checkKey looks for the key of a request among all keys, in the same time
// whichever it is.
func (s *Server) checkKey(w http.ResponseWriter, r *http.Request, who *client) error {
	if len(s.keys) == 0 {
		return nil
	}
	scheme, given, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		given, ok = "", false
	}
	digest := sha256.Sum256([]byte(strings.TrimSpace(given)))
	found := 0
	for i := range s.keys {
		found |= subtle.ConstantTimeCompare(digest[:], s.keys[i].digest[:])
	}
	if !ok || found == 0 {
		w.Header().Set("WWW-Authenticate", "Bearer")
		msg := "the API key is not one of this server's"
		if given == "" {
			msg = "an API key is needed: send the header Authorization: Bearer KEY"
		}
		return &Error{Status: http.StatusUnauthorized, Code: "invalid_api_key", Message: msg}
	}
	who.partition = string(digest[:])
	who.key = hex.EncodeToString(digest[:4])
	return nil
}

// finish logs a request and counts it.
func (s *Server) finish(name string, r *http.Request, w *statusWriter, who *client, start time.Time, err error) {
	status := w.status
	if status == 0 {
		status = http.StatusOK
	}
	took := time.Since(start)
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		status = statusClosed
	}
	s.metrics.request(name, status, took)
	level := slog.LevelInfo
	if name == "/health" || name == "/metrics" || name == "/health/live" {
		level = slog.LevelDebug
	}
	attrs := []slog.Attr{slog.String("request", who.id), slog.String("method", r.Method), slog.String("path", name),
		slog.Int("status", status), slog.Duration("took", took)}
	if who.key != "" {
		attrs = append(attrs, slog.String("key", who.key))
	}
	if who.prompt > 0 {
		attrs = append(attrs, slog.Int("prompt_tokens", who.prompt), slog.Int("cached_tokens", who.cached), slog.Int("output_tokens", who.output), slog.Duration("first_token", who.first))
	}
	if err != nil {
		e := asError(err)
		attrs = append(attrs, slog.String("code", e.Code))
		if e.Status >= 500 && e.Code == "internal_error" {
			// Messages of other errors may quote what was sent.
			level = slog.LevelError
			attrs = append(attrs, slog.String("error", e.Message))
		}
	}
	s.log.LogAttrs(context.WithoutCancel(r.Context()), level, "request", attrs...)
}

// logPrompt writes what a model is asked, only where the server was told to.
func (s *Server) logPrompt(who *client, text string) {
	if s.o.LogPrompts {
		s.log.Info("prompt", "request", who.id, "text", text)
	}
}
