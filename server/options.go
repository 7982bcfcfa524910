package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"graphrun/engine"
)

// Options say how a Server works. The zero value of a field is its default; Name
// must be given.
type Options struct {
	// Name is the id of the model, and Aliases are further ids that requests may
	// use.
	Name    string
	Aliases []string
	// Keys are the API keys. Without one, everybody who reaches the server may
	// use it. A key is also a partition of the prefix cache: nothing that one
	// key sent can be noticed by another.
	Keys []string
	// Origins are sites whose pages may use the server from a browser; "*" is
	// all. None is the default.
	Origins []string
	// Hosts are names by which the server may be reached, beside localhost and
	// addresses; "*" is all. Where there are keys and no Hosts, all names pass.
	Hosts []string
	// MaxBody is the largest body in bytes, 16 MiB by default.
	MaxBody int64
	// MaxTokens bounds the tokens of every answer; 0 is what the context holds.
	MaxTokens int
	// ReadTimeout is how long a body may take to arrive, WriteTimeout how long
	// a write to a client may wait, IdleTimeout how long a connection may be
	// silent between requests. 30 s, 30 s and 2 min by default.
	ReadTimeout, WriteTimeout, IdleTimeout time.Duration
	// Drain is how long running answers may go on when the server ends: 30 s by
	// default; negative is not at all.
	Drain time.Duration
	// Stall is how long work may wait without progress before the health turns
	// red: 1 min by default.
	Stall time.Duration
	// Sampling has the values of options that a request does not give.
	Sampling engine.SampleOptions
	// Pool is how embeddings are made unless a request says it.
	Pool engine.Pool
	// TemplateVars are variables of the chat template for every request.
	TemplateVars map[string]json.RawMessage
	// ParseSpecial makes control tokens of what spells them in the prompts of
	// completions. Those of chats never become any.
	ParseSpecial bool
	// Profile serves /debug/pprof.
	Profile bool
	// LogPrompts writes prompts to the log. Without it no text of a request gets
	// there.
	LogPrompts bool
	// Logger gets a record of each request; nil is none.
	Logger *slog.Logger
	// Page answers GET / and what is below it that nothing else answers, without
	// a key; nil is a JSON error.
	Page http.Handler
}

func (o *Options) defaults() error {
	if o.Name == "" {
		return errors.New("server: the model has no name")
	}
	for _, k := range o.Keys {
		if len(k) < 8 || strings.ContainsFunc(k, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return fmt.Errorf("server: an API key of %d characters: want at least 8, all printable ASCII without spaces", len(k))
		}
	}
	for _, or := range o.Origins {
		if or != "*" && !strings.HasPrefix(or, "http://") && !strings.HasPrefix(or, "https://") || strings.HasSuffix(or, "/") {
			return fmt.Errorf("server: the origin %q: want * or one like https://chat.example.org, without a slash at its end", or)
		}
	}
	for _, d := range []struct {
		name string
		v    *time.Duration
		def  time.Duration
	}{
		{"read timeout", &o.ReadTimeout, 30 * time.Second}, {"write timeout", &o.WriteTimeout, 30 * time.Second},
		{"idle timeout", &o.IdleTimeout, 2 * time.Minute}, {"stall time", &o.Stall, time.Minute},
	} {
		if *d.v < 0 {
			return fmt.Errorf("server: the %s is %s, want more than 0", d.name, *d.v)
		}
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if o.Drain == 0 {
		o.Drain = 30 * time.Second
	}
	if o.MaxBody < 0 || o.MaxTokens < 0 {
		return fmt.Errorf("server: bodies of %d bytes and answers of %d tokens at most; want 0 or more", o.MaxBody, o.MaxTokens)
	}
	if o.MaxBody == 0 {
		o.MaxBody = 16 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// CheckListen refuses an address that others than this machine reach, unless
// there are keys or open says that everybody may come.
func (o *Options) CheckListen(addr string, open bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("server: the address %q: %v; want HOST:PORT, such as 127.0.0.1:8080", addr, err)
	}
	if len(o.Keys) > 0 || open || host == "localhost" {
		return nil
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("server: %s can be reached from other machines, and there are no API keys: give some (GRAPHRUN_API_KEYS, --api-keys FILE), or say --no-keys if everybody may use it", addr)
}

// ParseKeys reads API keys, one a line or separated by commas. Empty lines and
// those that begin with # are left out.
func ParseKeys(text string) []string {
	var keys []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		for k := range strings.SplitSeq(line, ",") {
			if k = strings.TrimSpace(k); k != "" && !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	return keys
}
