package server

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"graphrun/engine"
	"graphrun/internal/chain"
	"graphrun/profile"
)

// TestGraphAsRun: the page shows the graph that runs, without the passes that are
// off, and without any for the backend that has none.
func TestGraphAsRun(t *testing.T) {
	for _, c := range []struct {
		o     engine.Options
		fused bool
		last  string
	}{
		{engine.Options{}, true, "memplan"},
		{engine.Options{Off: []string{"fuse-gated"}}, false, "memplan"},
		{engine.Options{Backend: "ref"}, false, "build"},
	} {
		m, err := engine.Open("../testdata/models/llama-q8_0.gguf", c.o)
		if err != nil {
			t.Fatal(err)
		}
		h, err := m.History()
		if err != nil {
			t.Fatal(err)
		}
		var page strings.Builder
		if err := h.WriteHTML(&page, "x"); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(page.String(), `"gatedmatmul`); got != c.fused {
			t.Errorf("%+v: a fused gate on the page: %v, want %v", c.o, got, c.fused)
		}
		if last := page.String(); strings.Contains(last, `"memplan"`) != (c.last == "memplan") {
			t.Errorf("%+v: the last state is not %s", c.o, c.last)
		}
		m.Close()
	}
}

// TestInside gets the page of the graph and a profile of the next steps.
func TestInside(t *testing.T) {
	c := chain.New()
	key := c.Say("a", "b", "c", "</s>")
	r := start(t, c, func(o *Options) { o.Keys = []string{"a-key-of-tests"} })
	get := func(path, key string) (int, string) {
		t.Helper()
		q, err := http.NewRequest(http.MethodGet, r.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			q.Header.Set("Authorization", "Bearer "+key)
		}
		resp, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	for _, path := range []string{"/graph", "/profile"} {
		if code, _ := get(path, ""); code != http.StatusUnauthorized {
			t.Errorf("%s without a key: status %d, want 401", path, code)
		}
	}
	if code, page := get("/graph", r.key); code != http.StatusOK || !strings.HasPrefix(page, "<!doctype html>") || !strings.Contains(page, "memplan") {
		t.Errorf("/graph: status %d, page of %d bytes", code, len(page))
	}
	for _, steps := range []string{"0", "-1", "1025", "x", "1e9"} {
		if code, text := get("/profile?steps="+steps, r.key); code != http.StatusBadRequest || !strings.Contains(text, `"param":"steps"`) {
			t.Errorf("steps=%s: status %d: %s", steps, code, text)
		}
	}
	done := make(chan string)
	go func() {
		_, text := get("/profile?steps=2", r.key)
		done <- text
	}()
	var report profile.Report
	for len(report.Phases) == 0 {
		select {
		case text := <-done:
			if err := json.Unmarshal([]byte(text), &report); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			if len(report.Phases) == 0 {
				t.Fatalf("no phase: %s", text)
			}
		default:
			// Until a step comes after the watch has begun.
			r.post("/v1/completions", `{"model":"tiny","prompt":"`+key+`","max_tokens":3}`)
		}
	}
	if len(report.Phases[0].Ops) == 0 {
		t.Errorf("a profile without operations: %+v", report)
	}
}
