package server

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"graphrun/profile"
	"graphrun/server/sched"
)

// graphPage answers GET /graph: the page that shows the graph of the model after
// every pass, as graphrun --dump=html writes it.
func (s *Server) graphPage(w http.ResponseWriter, _ *http.Request, _ *client) error {
	m, err := s.ready()
	if err != nil {
		return err
	}
	h, err := m.m.History()
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := h.WriteHTML(&page, filepath.Base(m.m.File.Path)); err != nil {
		return err
	}
	head := w.Header()
	head.Set("Content-Type", "text/html; charset=utf-8")
	head.Set("Cache-Control", "no-cache")
	_, err = w.Write(page.Bytes())
	return err
}

// profiler is a scheduler that can say what its steps spend their time on.
type profiler interface {
	Profile(ctx context.Context, steps, threads int) (*profile.Report, error)
}

const (
	// profileWait is how long /profile waits for steps.
	profileWait  = 10 * time.Second
	mostProfiled = 1024
)

// liveProfile answers GET /profile?steps=N: what the next N steps spend their
// time on, or as many as come within profileWait.
func (s *Server) liveProfile(w http.ResponseWriter, r *http.Request, _ *client) error {
	m, err := s.ready()
	if err != nil {
		return err
	}
	steps := 16
	if text := r.URL.Query().Get("steps"); text != "" {
		if steps, err = strconv.Atoi(text); err != nil || steps < 1 || steps > mostProfiled {
			return badRequest("steps", "invalid_value", "is %s, want a number from 1 to %d", quote(text), mostProfiled)
		}
	}
	p, ok := m.sched.(profiler)
	if !ok {
		return s.notFound(r)
	}
	ctx, cancel := context.WithTimeout(r.Context(), profileWait)
	defer cancel()
	report, err := p.Profile(ctx, steps, m.m.Threads())
	if errors.Is(err, sched.ErrWatched) {
		return &Error{Status: http.StatusConflict, Code: "profile_running", RetryAfter: 1, Message: "the steps are being profiled for somebody else; try again"}
	}
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, http.StatusOK, report)
	return nil
}
