package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"graphrun/engine"
	"graphrun/internal/chain"
	"graphrun/server/sched"
)

// fakeScheduler does what a test wants.
type fakeScheduler struct {
	mu     sync.Mutex
	stats  sched.Stats
	submit func(ctx context.Context, r sched.Request) (Stream, error)
}

func (f *fakeScheduler) Submit(ctx context.Context, r sched.Request) (Stream, error) {
	return f.submit(ctx, r)
}

func (f *fakeScheduler) Embed(context.Context, string, []int32, engine.EmbedOptions) ([]float32, error) {
	return nil, engine.ErrNoHidden
}

func (f *fakeScheduler) Stats() sched.Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats
}

func (f *fakeScheduler) Close() error { return nil }

// fakeStream gives tokens, then an error.
type fakeStream struct {
	tokens []engine.Token
	err    error
	wait   chan struct{} // before the error, if not nil
}

func (f *fakeStream) Next(ctx context.Context) (engine.Token, error) {
	if len(f.tokens) > 0 {
		t := f.tokens[0]
		f.tokens = f.tokens[1:]
		return t, nil
	}
	if f.wait != nil {
		select {
		case <-f.wait:
		case <-ctx.Done():
			return engine.Token{}, ctx.Err()
		}
	}
	return engine.Token{ID: engine.NoToken}, f.err
}

func (f *fakeStream) Result() sched.Result { return sched.Result{Reason: engine.StopEOG} }
func (f *fakeStream) Close()               {}

// fake serves a model with a fake scheduler.
func fake(t *testing.T, f *fakeScheduler, change func(*Options)) *running {
	t.Helper()
	c := chain.New()
	c.Template = chain.Template
	m := openChain(t, c, engine.Options{})
	o := Options{Name: "tiny"}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Ready(m, f, nil); err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, s: s, m: m}
	r.url, r.stop = listen(t, s)
	return r
}

// TestLoading is SV-15: until the model is there, everything says so.
func TestLoading(t *testing.T) {
	s, err := New(Options{Name: "tiny"})
	if err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, s: s}
	r.url, r.stop = listen(t, s)
	s.Loading(0.25, "reading")
	x := r.do("GET", "/health", "")
	if x.status != 503 || !strings.Contains(x.body, `"status":"loading","loaded":0.25,"stage":"reading"`) {
		t.Errorf("%d %s", x.status, x.body)
	}
	if x := r.do("GET", "/health/live", ""); x.status != 200 {
		t.Errorf("live: %d %s", x.status, x.body)
	}
	for _, p := range []string{"POST /v1/chat/completions", "POST /v1/completions", "POST /v1/embeddings", "POST /tokenize", "GET /v1/models"} {
		method, path, _ := strings.Cut(p, " ")
		x := r.do(method, path, `{"prompt":"x"}`)
		checkError(t, p, x, 503, "loading", "", "reading, 25 %")
		if x.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", p)
		}
	}
	if x := r.do("GET", "/metrics", ""); x.status != 200 || !strings.Contains(x.body, `graphrun_status{status="loading"} 1`) || !strings.Contains(x.body, "graphrun_loaded_ratio 0.25") {
		t.Errorf("%d %.300s", x.status, x.body)
	}
}

// TestStalled is SV-10: work that waits without progress turns the health red,
// and only that.
func TestStalled(t *testing.T) {
	f := &fakeScheduler{}
	r := fake(t, f, func(o *Options) { o.Stall = time.Minute })
	for _, c := range []struct {
		name            string
		queued, running int
		idle            time.Duration
		status          int
		want            string
	}{
		{"idle for long", 0, 0, time.Hour, 200, `"status":"ok"`},
		{"busy", 3, 4, time.Second, 200, `"requests_queued":3,"requests_running":4`},
		{"queued, nothing moves", 1, 0, 2 * time.Minute, 503, `"status":"stalled"`},
		{"running, nothing moves", 0, 1, 2 * time.Minute, 503, `"status":"stalled"`},
	} {
		f.mu.Lock()
		f.stats = sched.Stats{Queued: c.queued, Running: c.running, LastProgress: time.Now().Add(-c.idle)}
		f.mu.Unlock()
		for _, path := range []string{"/health", "/health/live"} {
			if x := r.do("GET", path, ""); x.status != c.status || !strings.Contains(x.body, c.want) {
				t.Errorf("%s: %s is %d %s", c.name, path, x.status, x.body)
			}
		}
	}
}

// TestChanged: when the model's file is no longer the one that was opened,
// requests fail and the health says so.
func TestChanged(t *testing.T) {
	c := chain.New()
	key := c.Say("ok", "</s>")
	data, err := c.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := engine.Open(path, engine.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	r := startModel(t, m, sched.Options{CachePages: -1}, nil)
	if x := r.do("GET", "/health", ""); x.status != 200 {
		t.Errorf("before: %d %s", x.status, x.body)
	}
	if err := os.Truncate(path, int64(len(data)-1)); err != nil {
		t.Fatal(err)
	}
	if x := r.do("POST", "/v1/completions", `{"prompt":"`+key+`","max_tokens":2}`); x.status != 500 || !strings.Contains(x.body, "file shrank") {
		t.Errorf("completion: %d %s", x.status, x.body)
	}
	for _, p := range []string{"/health", "/health/live"} {
		if x := r.do("GET", p, ""); x.status != 503 || !strings.Contains(x.body, `"status":"changed"`) {
			t.Errorf("%s: %d %s", p, x.status, x.body)
		}
	}
	if x := r.do("GET", "/metrics", ""); !strings.Contains(x.body, `graphrun_status{status="changed"} 1`) {
		t.Errorf("%.300s", x.body)
	}
}

// TestSchedulerErrors: each has a status and a code.
func TestSchedulerErrors(t *testing.T) {
	var err error
	f := &fakeScheduler{submit: func(context.Context, sched.Request) (Stream, error) { return nil, err }}
	r := fake(t, f, nil)
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{&sched.QueueFullError{Queued: 5, Max: 5}, 429, "queue_full"}, {sched.ErrDraining, 503, "draining"}, {&engine.PagesError{}, 503, "kv_cache_full"},
		{&engine.ContextError{Have: 5, Want: 6}, 400, "context_length_exceeded"}, {errors.New("odd option"), 400, "invalid_option"}, {sched.ErrClosed, 503, "closed"},
		{&sched.PanicError{Value: "x"}, 500, "internal_error"},
	} {
		err = c.err
		x := r.do("POST", "/v1/completions", `{"prompt":"x"}`)
		checkError(t, c.err.Error(), x, c.status, c.code, "")
		if (x.header.Get("Retry-After") != "") != (c.code == "queue_full" || c.code == "draining" || c.code == "kv_cache_full") {
			t.Errorf("%v: Retry-After %q", c.err, x.header.Get("Retry-After"))
		}
	}
	// An error after the first word is an event of the stream.
	f.submit = func(context.Context, sched.Request) (Stream, error) {
		return &fakeStream{tokens: []engine.Token{{ID: 5, Text: "a"}}, err: &engine.NonFiniteError{What: "logits"}}, nil
	}
	for _, c := range []struct{ path, body, want string }{
		{"/v1/completions", `{"prompt":"x","stream":true}`, `data: {"error":{"message":"engine: non-finite logits`},
		{"/v1/chat/completions", ask("x", `"stream":true`), `data: {"error":{"message":"engine: non-finite logits`},
		{"/v1/responses", `{"input":"x","stream":true}`, `event: response.failed`},
	} {
		x := r.post(c.path, c.body)
		if !strings.Contains(x.body, c.want) || strings.Contains(x.body, "[DONE]") || strings.Contains(x.body, "response.completed") {
			t.Errorf("%s: %s", c.path, x.body)
		}
		x = r.do("POST", c.path, strings.Replace(c.body, `"stream":true`, `"stream":false`, 1))
		checkError(t, c.path, x, 500, "internal_error", "", "non-finite")
	}
	// A panic is an answer, and the next request works.
	f.submit = func(context.Context, sched.Request) (Stream, error) { panic("boom") }
	checkError(t, "panic", r.do("POST", "/v1/completions", `{"prompt":"x"}`), 500, "internal_error", "")
	if x := r.do("GET", "/health", ""); x.status != 200 {
		t.Errorf("health after a panic: %d", x.status)
	}
}

// TestDrain: readiness turns false first, running answers are finished, new ones
// refused; what does not end in time is cut.
func TestDrain(t *testing.T) {
	for _, c := range []struct {
		name  string
		drain time.Duration
		ends  bool
	}{{"the answer ends", 10 * time.Second, true}, {"the answer does not end", 300 * time.Millisecond, false}} {
		t.Run(c.name, func(t *testing.T) {
			wait := make(chan struct{})
			f := &fakeScheduler{submit: func(ctx context.Context, _ sched.Request) (Stream, error) {
				return &fakeStream{tokens: []engine.Token{{ID: 5, Text: "first"}}, err: io.EOF, wait: wait}, nil
			}}
			r := fake(t, f, func(o *Options) { o.Drain = c.drain })
			resp, err := http.Post(r.url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"x","stream":true}`))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			stopped := make(chan error, 1)
			go func() { stopped <- r.stop() }()
			for !r.s.Draining() {
				runtime.Gosched()
			}
			if x := r.do("GET", "/health", ""); x.status != 503 || !strings.Contains(x.body, `"status":"draining"`) {
				t.Errorf("health: %d %s", x.status, x.body)
			}
			if x := r.do("GET", "/health/live", ""); x.status != 200 {
				t.Errorf("live: %d", x.status)
			}
			x := r.do("POST", "/v1/completions", `{"prompt":"x"}`)
			checkError(t, "a new request", x, 503, "draining", "")
			if c.ends {
				close(wait)
			}
			b, _ := io.ReadAll(resp.Body)
			if c.ends != strings.Contains(string(b), "[DONE]") || !strings.Contains(string(b), "first") {
				t.Errorf("%s", b)
			}
			if cut := strings.Contains(string(b), `"code":"draining"`); cut == c.ends {
				t.Errorf("the stream ends with an error: %v\n%s", cut, b)
			}
			if err := <-stopped; (err == nil) != c.ends {
				t.Errorf("%v", err)
			}
			if _, err := http.Get(r.url + "/health"); err == nil {
				t.Error("it listens still")
			}
		})
	}
}

// TestLeave: a client that leaves frees its place, streamed or not.
func TestLeave(t *testing.T) {
	c := chain.New()
	c.Context = 4096
	key := c.Loop("a", "b")
	r := startModel(t, openChain(t, c, engine.Options{MaxSeqs: 2}), sched.Options{}, nil)
	for _, body := range []string{`{"prompt":"` + key + `","max_tokens":4000}`, `{"prompt":"` + key + `","max_tokens":4000,"stream":true}`} {
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			req, _ := http.NewRequestWithContext(ctx, "POST", r.url+"/v1/completions", strings.NewReader(body))
			req.Header.Set("Content-Type", "application/json")
			if resp, err := http.DefaultClient.Do(req); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			cancel()
		}
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		st := r.sched.Stats()
		if st.Queued+st.Running == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("still %d queued, %d running", st.Queued, st.Running)
		}
	}
	if st := r.sched.Stats(); st.Cancelled == 0 {
		t.Errorf("%+v", st)
	}
}

// TestMetrics: the numbers of what happened.
func TestMetrics(t *testing.T) {
	c := chain.New()
	c.Template = chain.Template
	key := c.Say("a", "b", "</s>")
	r := start(t, c, func(o *Options) { o.Profile = true })
	r.chat(strings.Repeat("z", 150)+key, "")
	r.chat(strings.Repeat("z", 150)+key, "")
	r.do("POST", "/v1/chat/completions", "{")
	x := r.do("GET", "/metrics", "")
	for _, want := range []string{
		"graphrun_generated_tokens_total 4\n", "graphrun_requests_queued 0\n", "graphrun_requests_running 0\n", "graphrun_prefix_cache_hits_total 1\n",
		`graphrun_http_requests_total{path="/v1/chat/completions",status="200"} 2`, `graphrun_http_requests_total{path="/v1/chat/completions",status="400"} 1`,
		"graphrun_time_to_first_token_seconds_count 2\n", "graphrun_time_per_token_seconds_count 2\n", `graphrun_status{status="ok"} 1`, "graphrun_prompt_tokens_total 3",
		`graphrun_kv_pages{layers="full"} 16`, `graphrun_kv_pages_used{layers="full"} `, "go_goroutines ",
	} {
		if !strings.Contains(x.body, want) {
			t.Errorf("no %q in\n%s", want, x.body)
		}
	}
	if x := r.do("GET", "/debug/pprof/goroutine?debug=1", ""); x.status != 200 || !strings.Contains(x.body, "goroutine profile") {
		t.Errorf("pprof: %d %.100s", x.status, x.body)
	}
	checkError(t, "pprof without being asked for", start(t, c, nil).do("GET", "/debug/pprof/", ""), 404, "not_found", "")
}
