package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"graphrun/chat"
	"graphrun/engine"
	"graphrun/server"
	"graphrun/server/sched"
	"graphrun/server/web"
)

// serveFlags are the flags of graphrun serve.
type serveFlags struct {
	modelFlags
	listen     string
	keyFile    string
	noKeys     bool
	name       string
	aliases    []string
	cors       []string
	hosts      []string
	parallel   int
	queue      int
	chunk      int
	cache      int
	maxBody    int64
	maxAnswer  int
	read       time.Duration
	write      time.Duration
	drain      time.Duration
	stall      time.Duration
	temp       float64
	topK       int
	topP       float64
	minP       float64
	penalty    float64
	template   string
	vars       string
	pool       string
	special    bool
	preload    bool
	pprof      bool
	page       bool
	logFormat  string
	logLevel   string
	logPrompts bool

	// started is called when the server listens; for tests.
	started func(addr net.Addr)
}

func serveCmd() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve [MODEL]",
		Short: "Answer OpenAI's API over HTTP",
		Long: `serve answers OpenAI's API for one model: /v1/chat/completions, /v1/completions,
/v1/embeddings, /v1/responses and /v1/models, and beside them /tokenize,
/detokenize, /apply-template, /health and /metrics. Many requests are answered at
once, in the same steps of the model; what prompts have in common is computed once.
At / is a page to talk to the model, with its compiled graph and a live profile.

It listens on this machine only, unless --listen says otherwise, and then wants API
keys: one a line in --api-key-file, or separated by commas in GRAPHRUN_API_KEYS.
Every flag can be given by the environment, too: --max-body is GRAPHRUN_MAX_BODY.

SIGTERM or Ctrl-C ends it: readiness turns false, new requests are refused, and
running answers may go on for --drain. The exit code is 1 if they did not end.`,
		Example: `  graphrun serve model.gguf --listen 127.0.0.1:8080
  GRAPHRUN_API_KEYS=secret-one,secret-two graphrun serve model.gguf --listen :8080`,
		Args: args(0, 1),
		RunE: f.run,
	}
	f.modelFlags.register(cmd)
	fs := cmd.Flags()
	fs.StringVar(&f.listen, "listen", "127.0.0.1:8080", "address to listen on; port 0 takes a free one")
	fs.StringVar(&f.keyFile, "api-key-file", "", "file with API keys, one a line; GRAPHRUN_API_KEYS has them themselves")
	fs.BoolVar(&f.noKeys, "no-keys", false, "let everybody in who reaches an address that is not of this machine alone")
	fs.StringVar(&f.name, "name", "", "id of the model (default: the name of the file)")
	fs.StringArrayVar(&f.aliases, "alias", nil, "another id that requests may use; may be given several times")
	fs.StringArrayVar(&f.cors, "cors", nil, "site whose pages may use the server, such as https://chat.example.org, or *; may be given several times")
	fs.StringArrayVar(&f.hosts, "allow-host", nil, "name by which the server may be reached beside localhost and addresses; may be given several times")
	fs.IntVar(&f.parallel, "parallel", 8, "answers written at once; each has room for a whole context in the KV cache")
	fs.IntVar(&f.queue, "queue", 256, "requests that may wait")
	fs.IntVar(&f.chunk, "chunk", 0, "tokens of prompts in a step while answers are being written; 0 is 128")
	fs.IntVar(&f.cache, "prefix-cache", -1, "pages of 64 tokens that the cache of prompts may keep; -1 is all that nobody needs, 0 none")
	fs.Int64Var(&f.maxBody, "max-body", 16<<20, "largest request in bytes")
	fs.IntVarP(&f.maxAnswer, "max-tokens", "n", 0, "tokens of an answer at most; 0 is what the context holds")
	fs.DurationVar(&f.read, "read-timeout", 30*time.Second, "how long a request may take to arrive")
	fs.DurationVar(&f.write, "write-timeout", 30*time.Second, "how long a write to a client may wait")
	fs.DurationVar(&f.drain, "drain", 30*time.Second, "how long running answers may go on at the end")
	fs.DurationVar(&f.stall, "stall", time.Minute, "health turns red when work waits for so long without progress")
	fs.Float64Var(&f.temp, "temp", 0.8, "temperature of requests that name none")
	fs.IntVar(&f.topK, "top-k", 40, "top_k of requests that name none; 0 is all")
	fs.Float64Var(&f.topP, "top-p", 0.95, "top_p of requests that name none; 1 is all")
	fs.Float64Var(&f.minP, "min-p", 0.05, "min_p of requests that name none")
	fs.Float64Var(&f.penalty, "repeat-penalty", 1, "repetition_penalty of requests that name none; 1 is off")
	fs.StringVar(&f.template, "template", "", "use the chat template in this .jinja file")
	fs.StringVar(&f.vars, "template-vars", "", `variables of the chat template for all requests, as JSON: {"enable_thinking": false}`)
	fs.StringVar(&f.pool, "pool", "mean", "embeddings: mean of all tokens, or last: the state of the last one")
	fs.BoolVar(&f.special, "parse-special", false, "/v1/completions: make control tokens of what spells them in a prompt")
	fs.BoolVar(&f.preload, "preload", true, "read the whole model before the server is ready")
	fs.BoolVar(&f.page, "page", true, "serve the page at /: a chat, the compiled graph and a live profile")
	fs.BoolVar(&f.pprof, "pprof", false, "serve profiles of the program at /debug/pprof/")
	fs.StringVar(&f.logFormat, "log-format", "text", "text or json")
	fs.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	fs.BoolVar(&f.logPrompts, "log-prompts", false, "write prompts to the log")
	return cmd
}

// environment sets the flags that the command line does not give from variables
// of their names.
func environment(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var failed error
	fs.VisitAll(func(fl *pflag.Flag) {
		name := "GRAPHRUN_" + strings.ToUpper(strings.ReplaceAll(fl.Name, "-", "_"))
		v, ok := lookup(name)
		if !ok || fl.Changed || fl.Name == "help" || failed != nil {
			return
		}
		values := []string{v}
		if fl.Value.Type() == "stringArray" {
			values = strings.Split(v, ",")
		}
		for _, v := range values {
			if err := fs.Set(fl.Name, v); err != nil {
				failed = usagef("%s is %q: %v", name, v, err)
			}
		}
	})
	return failed
}

// keys reads the API keys of the file and the environment.
func (f *serveFlags) keys() ([]string, error) {
	text := os.Getenv("GRAPHRUN_API_KEYS")
	if f.keyFile != "" {
		b, err := os.ReadFile(f.keyFile)
		if err != nil {
			return nil, err
		}
		text += "\n" + string(b)
		if len(server.ParseKeys(string(b))) == 0 {
			return nil, fmt.Errorf("%s has no API key", f.keyFile)
		}
	}
	return server.ParseKeys(text), nil
}

// options checks the flags and makes the server's options of them.
func (f *serveFlags) options(model string, log io.Writer) (server.Options, error) {
	o := server.Options{Name: f.name, Aliases: f.aliases, Origins: f.cors, Hosts: f.hosts, MaxBody: f.maxBody, MaxTokens: f.maxAnswer,
		ReadTimeout: f.read, WriteTimeout: f.write, Drain: f.drain, Stall: f.stall, ParseSpecial: f.special, Profile: f.pprof, LogPrompts: f.logPrompts,
		Sampling: engine.SampleOptions{Temperature: f.temp, TopK: f.topK, TopP: f.topP, MinP: f.minP, RepeatPenalty: f.penalty}}
	if _, err := engine.NewSampler(1, o.Sampling); err != nil {
		return o, usagef("%w", err)
	}
	if f.drain == 0 {
		o.Drain = -1
	}
	if o.Name == "" {
		o.Name = "stories"
		if model != "" {
			o.Name = strings.TrimSuffix(filepath.Base(model), ".gguf")
		}
	}
	for _, c := range []struct {
		flag string
		bad  bool
		want string
	}{
		{"--parallel", f.parallel < 1 || f.parallel > 1024, "1 to 1024"}, {"--queue", f.queue < 1 || f.queue > 1<<20, "1 to 1048576"},
		{"--chunk", f.chunk < 0, "0 or more"}, {"--prefix-cache", f.cache < -1, "-1 or more"}, {"--max-body", f.maxBody < 1, "1 or more"},
		{"--max-tokens", f.maxAnswer < 0, "0 or more"}, {"--read-timeout", f.read <= 0, "more than 0"}, {"--write-timeout", f.write <= 0, "more than 0"},
		{"--drain", f.drain < 0, "0 or more"}, {"--stall", f.stall <= 0, "more than 0"},
	} {
		if c.bad {
			return o, usagef("%s is out of range, want %s", c.flag, c.want)
		}
	}
	switch f.pool {
	case "mean":
	case "last":
		o.Pool = engine.PoolLast
	default:
		return o, usagef("--pool is %q, want mean or last", f.pool)
	}
	if f.vars != "" {
		if err := json.Unmarshal([]byte(f.vars), &o.TemplateVars); err != nil {
			return o, usagef("--template-vars is no JSON object: %v", err)
		}
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return o, usagef("--log-level is %q, want debug, info, warn or error", f.logLevel)
	}
	switch ho := (&slog.HandlerOptions{Level: level}); f.logFormat {
	case "text":
		o.Logger = slog.New(slog.NewTextHandler(log, ho))
	case "json":
		o.Logger = slog.New(slog.NewJSONHandler(log, ho))
	default:
		return o, usagef("--log-format is %q, want text or json", f.logFormat)
	}
	var err error
	if o.Keys, err = f.keys(); err != nil {
		return o, err
	}
	if err := o.CheckListen(f.listen, f.noKeys); err != nil {
		return o, &usageError{err}
	}
	return o, nil
}

func (f *serveFlags) run(cmd *cobra.Command, list []string) error {
	if err := environment(cmd.Flags(), os.LookupEnv); err != nil {
		return err
	}
	path, err := modelArg(cmd, list)
	if err != nil {
		return err
	}
	named := path
	if len(list) > 0 {
		named = list[0] // not the place of a downloaded model
	}
	o, err := f.options(named, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if _, err := f.modelFlags.options(); err != nil {
		return err
	}
	var t *chat.Template
	if f.template != "" {
		if t, err = chat.ReadTemplate(f.template); err != nil {
			return err
		}
	}
	if f.page {
		if o.Page, err = web.Handler(); err != nil {
			return err
		}
	}
	s, err := server.New(o)
	if err != nil {
		return &usageError{err}
	}
	ln, err := net.Listen("tcp", f.listen)
	if err != nil {
		return err
	}
	o.Logger.Info("listening", "url", "http://"+ln.Addr().String(), "model", o.Name, "keys", len(o.Keys))
	if f.started != nil {
		f.started(ln.Addr())
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	served := make(chan error, 1)
	go func() {
		served <- s.Serve(ctx, ln)
		cancel() // a server that cannot listen any more ends the loading, too
	}()
	m, err := f.load(ctx, cmd, s, path)
	if err != nil {
		cancel()
		return errors.Join(err, <-served)
	}
	defer m.Close()
	sc := sched.New(m, sched.Options{MaxQueue: f.queue, MaxRunning: f.parallel, Chunk: f.chunk, CachePages: f.cache, Logger: o.Logger})
	defer sc.Close()
	if err := s.Ready(m, server.Scheduled(sc), t); err != nil {
		cancel()
		return errors.Join(err, <-served)
	}
	l, mem := m.Limits(), m.Memory()
	o.Logger.Info("ready", "context", l.Context, "parallel", l.Seqs, "memory_mib", mem.Total>>20, "kv_mib", mem.KVBytes()>>20)
	return <-served
}

// load opens the model and reads it once, so that the first answers do not wait
// for the disk.
func (f *serveFlags) load(ctx context.Context, cmd *cobra.Command, s *server.Server, path string) (*engine.Model, error) {
	s.Loading(0, "opening")
	m, err := f.open(cmd, path, func(o *engine.Options) { o.MaxSeqs = f.parallel })
	if err != nil {
		return nil, err
	}
	const opened = 0.05 // of the whole, by guess; the rest is counted
	s.Loading(opened, "reading")
	total, done, sum := 0, 0, byte(0)
	for _, t := range m.File.Tensors {
		total += len(t.Data)
	}
	const step, page = 4 << 20, 4096
	for _, t := range m.File.Tensors {
		if !f.preload || path == "" {
			break
		}
		for at := 0; at < len(t.Data); at += step {
			if err := ctx.Err(); err != nil {
				m.Close()
				return nil, err
			}
			part := t.Data[at:min(at+step, len(t.Data))]
			for i := 0; i < len(part); i += page {
				sum += part[i]
			}
			done += len(part)
			s.Loading(opened+(1-opened)*float64(done)/float64(total), "reading")
		}
	}
	runtime.KeepAlive(sum) // or the reading might be left out
	return m, nil
}
