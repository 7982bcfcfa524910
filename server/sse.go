package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// pingAfter is how long a stream is silent before a comment is sent, so that
// proxies do not close it and a client that left is noticed.
const pingAfter = 10 * time.Second

// events writes server-sent events. The status is sent with the first of them:
// until then an error can still be answered as one.
type events struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	limit time.Duration // for a write
	begun bool
}

func (s *Server) events(w http.ResponseWriter) *events {
	return &events{w: w, rc: http.NewResponseController(w), limit: s.o.WriteTimeout}
}

// write sends bytes as they are.
func (e *events) write(parts ...string) error {
	if !e.begun {
		e.begun = true
		h := e.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // nginx would collect the stream
		e.w.WriteHeader(http.StatusOK)
	}
	e.rc.SetWriteDeadline(time.Now().Add(e.limit))
	for _, p := range parts {
		if _, err := io.WriteString(e.w, p); err != nil {
			return err
		}
	}
	return e.rc.Flush()
}

// data sends one event; name "" leaves out the line event:.
func (e *events) data(name string, v any) error {
	b, err := marshal(v)
	if err != nil {
		return err
	}
	if name != "" {
		return e.write("event: ", name, "\ndata: ", string(b), "\n\n")
	}
	return e.write("data: ", string(b), "\n\n")
}

func (e *events) ping() error { return e.write(": waiting\n\n") }

func (e *events) done() error { return e.write("data: [DONE]\n\n") }

// part is a piece of one of several choices, or the end of it.
type part struct {
	c   *choice
	p   piece
	err error // io.EOF at the end
}

// merge calls f with the pieces of all choices as they come, and with idle when
// nothing came for a while. It returns when all have ended, when f or idle fails,
// or when ctx ends; the choices have ended by then.
func merge(ctx context.Context, list []*choice, f func(part) error, idle func() error) error {
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	parts := make(chan part)
	left := make(chan struct{})
	for _, c := range list {
		go func() {
			defer func() { left <- struct{}{} }()
			for {
				p, err := c.next(ctx)
				select {
				case parts <- part{c, p, err}:
				case <-ctx.Done():
					return
				}
				if err != nil {
					return
				}
			}
		}()
	}
	running := len(list)
	defer func() {
		cancel()
		for _, c := range list {
			c.st.Close()
		}
		for ; running > 0; running-- {
			<-left
		}
	}()
	tick := time.NewTimer(pingAfter)
	defer tick.Stop()
	for running > 0 {
		select {
		case x := <-parts:
			if x.err != nil && !errors.Is(x.err, io.EOF) {
				return why(outer, x.err)
			}
			if err := f(x); err != nil {
				return err
			}
		case <-left:
			running--
		case <-tick.C:
			if err := idle(); err != nil {
				return err
			}
		case <-ctx.Done():
			return why(outer, ctx.Err())
		}
		tick.Reset(pingAfter)
	}
	return nil
}

// closeAll cancels what has not ended.
func closeAll(list []*choice) {
	for _, c := range list {
		c.st.Close()
	}
}

// collectAll reads all choices to their ends.
func collectAll(ctx context.Context, list []*choice) error {
	defer closeAll(list)
	for _, c := range list {
		if err := c.collect(ctx); err != nil {
			return why(ctx, err)
		}
	}
	return nil
}
