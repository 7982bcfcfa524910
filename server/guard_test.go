package server

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"graphrun/internal/chain"
)

// paths are all that needs a key.
var guarded = []string{"POST /v1/chat/completions", "POST /v1/completions", "POST /v1/embeddings", "POST /v1/responses", "POST /tokenize", "POST /detokenize",
	"POST /apply-template", "GET /v1/models", "GET /v1/models/tiny", "GET /metrics", "GET /debug/pprof/", "GET /nothing", "PUT /v1/completions"}

// TestKeys: every path but the health needs a key; the log has none.
func TestKeys(t *testing.T) {
	c := chain.New()
	c.Template = chain.Template
	key := c.Say("ok", "</s>")
	var log syncBuffer
	r := start(t, c, func(o *Options) {
		o.Keys, o.Profile = []string{"secret-one", "secret-two"}, true
		o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	r.key = ""
	if x := r.do("GET", "/v1/models", "", "Authorization", "bearer secret-two"); x.status != 200 {
		t.Errorf("the scheme in small letters: %d", x.status)
	}
	for _, p := range guarded {
		method, path, _ := strings.Cut(p, " ")
		for _, auth := range []string{"", "Bearer ", "Bearer wrong-key", "secret-one", "Basic secret-one", "Bearer secret-one2", "Bearer secret-on"} {
			r.key = ""
			checkError(t, p+" "+auth, r.do(method, path, `{"secret text"`, "Authorization", auth), 401, "invalid_api_key", "")
		}
		r.key = "secret-two"
		if x := r.do(method, path, `{}`); x.status == 401 {
			t.Errorf("%s: the key is refused", p)
		}
	}
	r.key = ""
	for _, p := range []string{"/health", "/health/live"} {
		if x := r.do("GET", p, ""); x.status != 200 {
			t.Errorf("%s: %d", p, x.status)
		}
	}
	r.key = "secret-one"
	r.chat(key, "")
	for _, word := range []string{"secret-one", "secret-two", key, "secret text"} {
		if strings.Contains(log.String(), word) {
			t.Errorf("the log has %q", word)
		}
	}
	if !strings.Contains(log.String(), "output_tokens=1") || !strings.Contains(log.String(), "key=") {
		t.Errorf("log: %s", log.String())
	}
}

// TestKeysOwnCache: what one key sent is not in the cache of another.
func TestKeysOwnCache(t *testing.T) {
	c := chain.New()
	c.Template = chain.Template
	key := c.Say("ok", "</s>")
	r := start(t, c, func(o *Options) { o.Keys = []string{"secret-one", "secret-two"} })
	text := strings.Repeat("z", 150) + key
	cached := func(k string) int {
		r.key = k
		return r.chat(text, "").Usage.PromptTokensDetails.CachedTokens
	}
	if a, b, c, d := cached("secret-one"), cached("secret-one"), cached("secret-two"), cached("secret-two"); a != 0 || b < 64 || c != 0 || d < 64 {
		t.Errorf("cached tokens %d, %d, then with the other key %d, %d", a, b, c, d)
	}
}

// syncBuffer is a buffer that many may write.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestLogPrompts: only who asks for prompts in the log gets them.
func TestLogPrompts(t *testing.T) {
	c := chain.New()
	c.Template = chain.Template
	key := c.Say("ok", "</s>")
	var log syncBuffer
	r := start(t, c, func(o *Options) {
		o.LogPrompts, o.Logger = true, slog.New(slog.NewTextHandler(&log, nil))
	})
	r.chat("hello"+key, "")
	if !strings.Contains(log.String(), "hello"+key) {
		t.Errorf("log: %s", log.String())
	}
}

// TestHosts is SV-12: a name that another site could have made point here is
// refused, unless it is allowed or keys protect.
func TestHosts(t *testing.T) {
	c := chain.New()
	for _, x := range []struct {
		hosts, keys []string
		host        string
		ok          bool
	}{
		{nil, nil, "evil.example", false}, {nil, nil, "evil.example:8080", false}, {nil, nil, "127.0.0.1.evil.example", false}, {nil, nil, "localhost.evil.example", false},
		{nil, nil, "localhost:1", true}, {nil, nil, "LOCALHOST", true}, {nil, nil, "127.0.0.1", true}, {nil, nil, "[::1]:80", true}, {nil, nil, "192.168.1.7:8080", true}, {nil, nil, "chat.localhost", true},
		{[]string{"llm.example"}, nil, "llm.example:443", true}, {[]string{"llm.example"}, nil, "evil.example", false}, {[]string{"*"}, nil, "evil.example", true},
		{nil, []string{"secret-one"}, "llm.default.svc", true}, {[]string{"llm.example"}, []string{"secret-one"}, "evil.example", false},
	} {
		s, err := New(Options{Name: "tiny", Hosts: x.hosts, Keys: x.keys})
		if err != nil {
			t.Fatal(err)
		}
		err = s.checkHost(&http.Request{Host: x.host})
		if (err == nil) != x.ok {
			t.Errorf("%+v: %v", x, err)
		}
	}
	r := start(t, c, nil)
	for _, path := range []string{"/health", "/v1/models", "/"} {
		checkError(t, path, r.do("GET", path, "", "Host", "evil.example"), 403, "host_not_allowed", "", "evil.example")
	}
}

// TestOrigins is SV-11 and SV-12: pages of other sites get nothing unless they
// are asked for, and then also on streams and errors, without credentials.
func TestOrigins(t *testing.T) {
	c := chain.New()
	c.Template = chain.Template
	key := c.Say("ok", "</s>")
	closed := start(t, c, nil)
	for _, p := range append(guarded, "GET /health") {
		method, path, _ := strings.Cut(p, " ")
		x := closed.do(method, path, ask(key, ""), "Origin", "https://evil.example")
		checkError(t, p, x, 403, "origin_not_allowed", "")
		if x.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", p, x.header)
		}
	}
	if x := closed.do("GET", "/v1/models", "", "Origin", closed.url); x.status != 200 {
		t.Errorf("the server's own page is refused: %s", x.body)
	}
	checkError(t, "preflight", closed.do("OPTIONS", "/v1/chat/completions", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST"), 403, "origin_not_allowed", "")
	checkError(t, "form", closed.do("POST", "/v1/chat/completions", ask(key, ""), "Content-Type", "text/plain"), 415, "unsupported_media_type", "", "application/json")

	for _, origins := range [][]string{{"https://chat.example"}, {"*"}} {
		r := start(t, c, func(o *Options) { o.Keys, o.Origins = []string{"secret-one"}, origins })
		want := origins[0]
		for _, p := range guarded {
			_, path, _ := strings.Cut(p, " ")
			r.key = ""
			x := r.do("OPTIONS", path, "", "Origin", "https://chat.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type")
			h := x.header
			if x.status != 204 || h.Get("Access-Control-Allow-Origin") != want || !strings.Contains(h.Get("Access-Control-Allow-Headers"), "Authorization") || !strings.Contains(h.Get("Access-Control-Allow-Headers"), "Content-Type") || !strings.Contains(h.Get("Access-Control-Allow-Methods"), "POST") || h.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("OPTIONS %s: %d %v", path, x.status, h)
			}
		}
		check := func(what string, x reply, status int) {
			if x.status != status || x.header.Get("Access-Control-Allow-Origin") != want || x.header.Get("Vary") != "Origin" || x.header.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%s: %d %v", what, x.status, x.header)
			}
		}
		check("without key", r.do("POST", "/v1/chat/completions", "{}", "Origin", "https://chat.example"), 401)
		r.key = "secret-one"
		check("answer", r.do("POST", "/v1/chat/completions", ask(key, ""), "Origin", "https://chat.example"), 200)
		check("stream", r.do("POST", "/v1/chat/completions", ask(key, `"stream":true`), "Origin", "https://chat.example"), 200)
		check("error", r.do("POST", "/v1/chat/completions", "{", "Origin", "https://chat.example"), 400)
		if want != "*" {
			checkError(t, "another site", r.do("GET", "/v1/models", "", "Origin", "https://evil.example"), 403, "origin_not_allowed", "")
		}
	}
}

// raw sends bytes as they are and returns what comes back until the server
// closes, or two seconds have passed.
func (r *running) raw(send string) string {
	r.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(3 * time.Second))
	go io.WriteString(c, send)
	b, _ := io.ReadAll(c)
	return string(b)
}

// TestNoHTTP: what net/http refuses by itself is an error in JSON, too.
func TestNoHTTP(t *testing.T) {
	r := start(t, chain.New(), nil)
	for name, x := range map[string]struct {
		send   string
		status int
	}{
		"no HTTP":             {"hello\r\n\r\n", 400},
		"no host":             {"GET /health HTTP/1.1\r\n\r\n", 400},
		"two hosts":           {"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
		"bad header":          {"GET /health HTTP/1.1\r\nHost: localhost\r\nbad header\r\n\r\n", 400},
		"bad length":          {"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n", 400},
		"two lengths":         {"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400},
		"bad encoding":        {"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: zip\r\n\r\n", 400},
		"bad version":         {"GET /health HTTP/9.1\r\nHost: localhost\r\n\r\n", 505},
		"asterisk":            {"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 400},
		"long line":           {"GET /" + strings.Repeat("a", 100<<10) + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 431},
		"a large header":      {"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("a", 100<<10) + "\r\nConnection: close\r\n\r\n", 431},
		"many headers":        {"GET /health HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("X: a\r\n", 20000) + "\r\n", 431},
		"a header of a MB":    {"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("a", 1<<20) + "\r\n\r\n", 431},
		"bad chunks":          {"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\nzz\r\n", 400},
		"a body that ends":    {"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n", 400},
		"method of no use":    {"BREW /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 405},
		"connect":             {"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 400},
		"bytes that are none": {"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404},
	} {
		got := r.raw(x.send)
		if x.status == 505 { // of HTTP itself, and no fault of a server
			continue
		}
		if !strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", x.status)) || !strings.Contains(got, `{"error":{"message":`) || !strings.Contains(got, "application/json") {
			t.Errorf("%s: %.300q, want %d in JSON", name, got, x.status)
		}
	}
	if x := r.do("GET", "/health", ""); x.status != 200 {
		t.Errorf("health afterwards: %d", x.status)
	}
}

// TestBodies is SV-13: bodies are bounded in size, depth and time, and the key
// comes first.
func TestBodies(t *testing.T) {
	c := chain.New()
	r := start(t, c, func(o *Options) {
		o.MaxBody, o.ReadTimeout, o.Keys = 1<<20, 300*time.Millisecond, []string{"secret-one"}
	})
	big := `{"prompt":"` + strings.Repeat("a", 2<<20) + `"}`
	r.refused("/v1/completions", big, 413, "body_too_large", "", "1048576")
	r.refused("/v1/completions", `{"prompt":"`+strings.Repeat("a", 1<<20-13)+`"}`, 400, "context_length_exceeded", "")
	// Who sends all of it before reading gets the answer, too, with the key and
	// without, with a length and in chunks.
	large := strings.Repeat("a", 8<<20)
	for _, x := range []struct {
		head   string
		status int
	}{{"Authorization: Bearer secret-one\r\n", 413}, {"", 401}} {
		head := "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + x.head
		for _, send := range []string{
			fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(large), large),
			fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", head, len(large), large),
		} {
			conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			conn.SetDeadline(time.Now().Add(3 * time.Second))
			_, err = io.WriteString(conn, send)
			got, _ := io.ReadAll(conn)
			conn.Close()
			if err != nil || !strings.HasPrefix(string(got), fmt.Sprintf("HTTP/1.1 %d ", x.status)) {
				t.Errorf("a body of %d bytes: %.60q (%v), want %d", len(large), got, err, x.status)
			}
		}
	}
	// Without a length: cut while it is read.
	req, _ := http.NewRequest("POST", r.url+"/v1/completions", io.MultiReader(strings.NewReader(big)))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer secret-one")
	if resp, err := http.DefaultClient.Do(req); err == nil {
		if resp.StatusCode != 413 {
			t.Errorf("a chunked body: %d", resp.StatusCode)
		}
		resp.Body.Close()
	}
	r.refused("/v1/completions", `{"prompt":`+strings.Repeat("[", 100000)+strings.Repeat("]", 100000)+`}`, 400, "nested_too_deep", "")
	r.refused("/v1/completions", `{"":`+strings.Repeat(`{"":`, 1000)+`1`+strings.Repeat("}", 1001), 400, "nested_too_deep", "")
	head := "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
	start := time.Now()
	if got := r.raw(head + "Authorization: Bearer secret-one\r\n\r\n{"); !strings.HasPrefix(got, "HTTP/1.1 408 ") || !strings.Contains(got, "body_too_slow") || time.Since(start) > 2*time.Second {
		t.Errorf("a slow body: %.200q after %s", got, time.Since(start))
	}
	start = time.Now()
	if got := r.raw(head + "\r\n{"); !strings.HasPrefix(got, "HTTP/1.1 401 ") {
		t.Errorf("a slow body without key: %.200q after %s", got, time.Since(start))
	}
	if x := r.do("GET", "/health", ""); x.status != 200 {
		t.Errorf("health afterwards: %d", x.status)
	}
}

// TestListen: who opens the server to others needs keys, or has to say so.
func TestListen(t *testing.T) {
	for _, c := range []struct {
		addr string
		keys int
		open bool
		ok   bool
	}{
		{"127.0.0.1:8080", 0, false, true}, {"localhost:1", 0, false, true}, {"[::1]:1", 0, false, true}, {"0.0.0.0:1", 0, false, false}, {":8080", 0, false, false},
		{"[::]:1", 0, false, false}, {"192.168.1.1:1", 0, false, false}, {"example.org:1", 0, false, false}, {":8080", 1, false, true}, {":8080", 0, true, true}, {"nonsense", 1, true, false},
	} {
		o := Options{Keys: []string{"secret-one"}[:c.keys]}
		if err := o.CheckListen(c.addr, c.open); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if got := fmt.Sprint(ParseKeys("# mine\n a-key , b-key\n\nc-key\na-key")); got != "[a-key b-key c-key]" {
		t.Errorf("%s", got)
	}
	for _, o := range []Options{{}, {Name: "x", Keys: []string{"short"}}, {Name: "x", Keys: []string{"with a space"}}, {Name: "x", Origins: []string{"example.org"}}, {Name: "x", Origins: []string{"https://example.org/"}}, {Name: "x", ReadTimeout: -1}, {Name: "x", MaxBody: -1}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
