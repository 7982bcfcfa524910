package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"slices"
	"sync"
	"time"

	"graphrun/chat"
	"graphrun/engine"
	"graphrun/grammar"
)

// Server answers the API for one model. It begins without: until Ready it says
// that it is loading.
type Server struct {
	o       Options
	keys    []key
	log     *slog.Logger
	metrics *metrics
	handler http.Handler

	mu       sync.Mutex
	model    *model // nil while it loads
	loaded   float64
	stage    string
	draining bool
	active   int           // requests in work
	idle     chan struct{} // closed when draining and none is
}

// model is a model that is ready, with what the endpoints need of it.
type model struct {
	m           *engine.Model
	sched       Scheduler
	limits      engine.Limits
	prompter    *chat.Prompter // nil without a chat template
	noChat      error          // why
	vocab       func() *grammar.Vocab
	created     int64
	fingerprint string
	longest     int // bytes of the longest token
}

// New returns a server that is loading.
func New(o Options) (*Server, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	s := &Server{o: o, keys: newKeys(o.Keys), log: o.Logger, idle: make(chan struct{})}
	s.metrics = newMetrics(s)
	s.handler = s.routes()
	return s, nil
}

// Loading says how far loading is: a part from 0 to 1, and a word for what is
// being done.
func (s *Server) Loading(part float64, stage string) {
	s.mu.Lock()
	s.loaded, s.stage = min(max(part, 0), 1), stage
	s.mu.Unlock()
}

// Ready gives the server its model. t is the template to use instead of the
// model's own, if it is not nil.
func (s *Server) Ready(m *engine.Model, sc Scheduler, t *chat.Template) error {
	x := &model{m: m, sched: sc, limits: m.Limits(), created: time.Now().Unix()}
	x.vocab = sync.OnceValue(func() *grammar.Vocab { return grammar.NewVocab(m.Tokenizer) })
	for id := range int32(m.Tokenizer.Size()) {
		x.longest = max(x.longest, len(tokenBytes(m.Tokenizer, id)))
	}
	var err error
	if t == nil {
		t, err = chat.ModelTemplate(m.File.Meta, m.File.Path, "")
	}
	switch {
	case errors.Is(err, chat.ErrNoTemplate):
		x.noChat = errors.New("this model has no chat template, it only continues texts")
	case err != nil:
		// A template that cannot be used is no reason not to continue texts.
		x.noChat = err
		s.log.Warn("the chat template cannot be used; chats are refused", "error", err)
	default:
		x.prompter = chat.NewPrompter(t, m.Tokenizer)
	}
	// Same model and options, same answers: a change of either shows here.
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %v %v", s.o.Name, m.Limits(), m.Memory().KV))
	x.fingerprint = "fp_" + hex.EncodeToString(sum[:5])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.model, s.loaded, s.stage = x, 1, "ready"
	return nil
}

// ready returns the model, or why there is none.
func (s *Server) ready() (*model, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining:
		return nil, draining()
	case s.model == nil:
		return nil, &Error{Status: http.StatusServiceUnavailable, Code: "loading", RetryAfter: 1, Message: fmt.Sprintf("the model is loading (%s, %.0f %%); see /health", s.stage, 100*s.loaded)}
	}
	return s.model, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.RequestURI == "*" || r.Method == http.MethodConnect {
		writeError(w, badRequest("", "bad_request", "%s %s is not offered", quote(r.Method), quote(r.RequestURI)))
		return
	}
	s.handler.ServeHTTP(w, r)
}

// routes makes the table of paths.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	add := func(method, path, name string, e endpoint) {
		mux.Handle(method+" "+path, s.guard(name, e))
		// Another method is an error in JSON, OPTIONS the question of a browser.
		mux.Handle(path, s.guard(name, endpoint{open: true, serve: func(w http.ResponseWriter, r *http.Request, who *client) error {
			if r.Method == http.MethodOptions {
				return s.preflight(w, r, who)
			}
			if err := s.checkKey(w, r, who); err != nil && !e.open {
				return err
			}
			w.Header().Set("Allow", method+", OPTIONS")
			return &Error{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Message: fmt.Sprintf("%s %s is not offered; use %s", r.Method, path, method)}
		}}))
	}
	get := func(path string, f func(http.ResponseWriter, *http.Request, *client) error) {
		add("GET", path, path, endpoint{serve: f})
	}
	post := func(path string, f func(http.ResponseWriter, *http.Request, *client) error) {
		add("POST", path, path, endpoint{serve: s.work(f)})
	}
	post("/v1/chat/completions", s.chatCompletions)
	post("/v1/completions", s.completions)
	post("/v1/embeddings", s.embeddings)
	post("/v1/responses", s.responses)
	post("/tokenize", s.tokenize)
	post("/detokenize", s.detokenize)
	post("/apply-template", s.applyTemplate)
	get("/v1/models", s.models)
	add("GET", "/v1/models/{name...}", "/v1/models/", endpoint{serve: s.modelByName})
	get("/metrics", s.metrics.serve)
	get("/graph", s.graphPage)
	get("/profile", s.liveProfile)
	add("GET", "/health", "/health", endpoint{serve: s.health, open: true})
	add("GET", "/health/live", "/health/live", endpoint{serve: s.live, open: true})
	if s.o.Profile {
		get("/debug/pprof/", s.profile)
	}
	mux.Handle("/", s.guard("/", endpoint{open: true, serve: s.other}))
	return mux
}

// profile serves Go's profiles.
func (s *Server) profile(w http.ResponseWriter, r *http.Request, _ *client) error {
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(10 * time.Minute))
	switch r.URL.Path {
	case "/debug/pprof/profile":
		pprof.Profile(w, r)
	case "/debug/pprof/trace":
		pprof.Trace(w, r)
	case "/debug/pprof/cmdline":
		// The command line may hold what is nobody's business.
		return s.notFound(r)
	case "/debug/pprof/symbol":
		pprof.Symbol(w, r)
	default:
		pprof.Index(w, r)
	}
	return nil
}

// other answers what has no path of its own.
func (s *Server) other(w http.ResponseWriter, r *http.Request, who *client) error {
	if r.Method == http.MethodOptions {
		return s.preflight(w, r, who)
	}
	if s.o.Page != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		s.o.Page.ServeHTTP(w, r)
		return nil
	}
	if err := s.checkKey(w, r, who); err != nil {
		return err
	}
	return s.notFound(r)
}

func (s *Server) notFound(r *http.Request) error {
	return &Error{Status: http.StatusNotFound, Code: "not_found", Message: fmt.Sprintf("there is no %s %s here; known: /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/responses, /v1/models, /tokenize, /detokenize, /apply-template, /health, /metrics, /graph, /profile", quote(r.Method), quote(r.URL.Path))}
}

// work counts a request that a shutdown waits for.
func (s *Server) work(f func(http.ResponseWriter, *http.Request, *client) error) func(http.ResponseWriter, *http.Request, *client) error {
	return func(w http.ResponseWriter, r *http.Request, who *client) error {
		s.mu.Lock()
		if s.draining {
			s.mu.Unlock()
			w.Header().Set("Connection", "close")
			return draining()
		}
		s.active++
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			if s.active--; s.active == 0 && s.draining {
				close(s.idle)
			}
			s.mu.Unlock()
		}()
		return f(w, r, who)
	}
}

// open reads a request: the model must be ready, and the one that is named.
func (s *Server) open(w http.ResponseWriter, r *http.Request, who *client) (*model, *object, error) {
	m, err := s.ready()
	if err != nil {
		return nil, nil, err
	}
	data, err := s.readBody(w, r, who)
	if err != nil {
		return nil, nil, err
	}
	o, err := parseObject(data)
	if err != nil {
		return nil, nil, err
	}
	name, given := o.text("model")
	if o.first.err != nil {
		return nil, nil, o.first.err
	}
	if given && name != "" && !s.isName(name) {
		return nil, nil, s.noModel(name)
	}
	return m, o, nil
}

func (s *Server) isName(name string) bool {
	return name == s.o.Name || slices.Contains(s.o.Aliases, name)
}

func (s *Server) noModel(name string) error {
	return &Error{Status: http.StatusNotFound, Code: "model_not_found", Param: "model", Message: fmt.Sprintf("the model %q is not here; known: %s", quote(name), s.o.Name)}
}

// Draining reports whether the server is ending.
func (s *Server) Draining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// drain turns readiness off, takes no more work, and waits until what runs has
// ended or ctx has.
func (s *Server) drain(ctx context.Context) error {
	s.mu.Lock()
	if !s.draining {
		s.draining = true
		if s.active == 0 {
			close(s.idle)
		}
	}
	s.mu.Unlock()
	select {
	case <-s.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
