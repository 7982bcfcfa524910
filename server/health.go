package server

import (
	"math"
	"net/http"
	"time"
)

// Status is what GET /health says.
type Status struct {
	// Status is "ok", "loading", "draining", "stalled", or "changed": the model's
	// file is no longer the one that was opened, so that every request fails
	// until the server is started again. Only the first comes with the status
	// 200; the others are 503.
	Status string `json:"status"`
	// Loaded is the part of the model that is loaded, and Stage what is being
	// done.
	Loaded float64 `json:"loaded"`
	Stage  string  `json:"stage,omitempty"`
	// Idle is how long nothing has moved while work was there, in seconds.
	Idle    float64 `json:"seconds_without_progress,omitempty"`
	Queued  int     `json:"requests_queued"`
	Running int     `json:"requests_running"`
}

// Status returns the health at this moment. It takes no lock that a step holds.
func (s *Server) Status() Status {
	s.mu.Lock()
	m, ending := s.model, s.draining
	st := Status{Status: "loading", Loaded: math.Round(1000*s.loaded) / 1000, Stage: s.stage}
	s.mu.Unlock()
	if m != nil {
		t := m.sched.Stats()
		st.Queued, st.Running = t.Queued, t.Running
		st.Status, st.Stage = "ok", ""
		if m.m != nil && m.m.Check() != nil {
			st.Status = "changed"
		}
		if now := time.Now(); t.Queued+t.Running > 0 {
			st.Idle = math.Round(1000*now.Sub(t.LastProgress).Seconds()) / 1000
			if t.Stuck(now, s.o.Stall) {
				st.Status = "stalled"
			}
		}
	}
	if ending && (st.Status == "ok" || st.Status == "loading") {
		st.Status = "draining"
	}
	return st
}

// health answers GET /health: whether requests should be sent here.
func (s *Server) health(w http.ResponseWriter, _ *http.Request, _ *client) error {
	st := s.Status()
	code := http.StatusOK
	if st.Status != "ok" {
		code = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, code, st)
	return nil
}

// live answers GET /health/live: whether the process should be left alone. It is
// red only where starting it again helps: work waits and nothing moves, or the
// model's file has changed.
func (s *Server) live(w http.ResponseWriter, _ *http.Request, _ *client) error {
	st := s.Status()
	code := http.StatusOK
	if st.Status == "stalled" || st.Status == "changed" {
		code = http.StatusServiceUnavailable
	}
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, code, st)
	return nil
}
