package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Serve answers on ln until ctx ends, and then shuts down: readiness turns false
// and new work is refused at once, running answers may go on for Options.Drain,
// what is left is cancelled. It returns nil when all answers ended by themselves.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	srv := &http.Server{
		Handler:           s,
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: min(s.o.ReadTimeout, 10*time.Second),
		IdleTimeout:       s.o.IdleTimeout,
		MaxHeaderBytes:    4 * maxHeader,

		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(&listener{ln}) }()
	select {
	case err := <-served:
		return fmt.Errorf("server: listening on %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	s.log.Info("shutting down: running answers are finished", "at_most", s.o.Drain)
	wait, stop := context.WithTimeout(base, max(s.o.Drain, 0))
	defer stop()
	err := s.drain(wait)
	s.mu.Lock()
	m := s.model
	s.mu.Unlock()
	if err != nil {
		s.log.Warn("answers were still running and are cancelled", "after", s.o.Drain)
		err = fmt.Errorf("server: answers were still running after %s and were cancelled (--drain)", s.o.Drain)
	}
	cancel(cutShort()) // what is left ends with an error event
	if m != nil {
		if cerr := m.sched.Close(); cerr != nil && err == nil {
			err = cerr
		}
	}
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer stop()
	if serr := srv.Shutdown(last); serr != nil {
		srv.Close()
	}
	if serr := <-served; serr != nil && !errors.Is(serr, http.ErrServerClosed) && err == nil {
		err = serr
	}
	return err
}

// listener makes net/http's own refusals, of what is no HTTP and of headers
// beyond its bound, errors in JSON like all others.
type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

type conn struct{ net.Conn }

// refusal is how net/http writes the answers that it makes without a handler.
var refusal = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if len(p) < 1024 && bytes.HasPrefix(p, []byte("HTTP/1.1 ")) {
		if head, text, ok := bytes.Cut(p, refusal); ok && !bytes.Contains(head, []byte("\n")) {
			status := 0
			fmt.Sscanf(string(head), "HTTP/1.1 %d", &status)
			code := "bad_request"
			if status >= 500 { // a transfer encoding that nobody knows
				status, head = http.StatusBadRequest, []byte("HTTP/1.1 400 Bad Request")
			}
			if status == http.StatusRequestHeaderFieldsTooLarge {
				code = "header_too_large"
			}
			body, err := marshal(&Error{Status: status, Code: code, Message: string(text)})
			if err == nil {
				_, err = fmt.Fprintf(c.Conn, "%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n", head, len(body)+1, body)
			}
			if err != nil {
				return 0, err
			}
			return len(p), nil
		}
	}
	return c.Conn.Write(p)
}

// CloseWrite lets net/http end a connection so that its last answer arrives.
func (c *conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}
