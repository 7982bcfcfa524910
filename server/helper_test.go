package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"graphrun/chat"
	"graphrun/engine"
	"graphrun/internal/chain"
	"graphrun/server/sched"
)

// running is a server on a port of its own with a model.
type running struct {
	t     testing.TB
	s     *Server
	m     *engine.Model
	sched *sched.Scheduler
	url   string
	key   string
	stop  func() error // ends it and returns what Serve did
}

// families are templates that make chat choose a form of answers; all end with
// the text of the last message.
var families = map[string]string{
	"plain":   chain.Template,
	"gemma4":  `{% if false %}<|turn><|channel>{% endif %}{% if tools %}{{ tools | tojson }}{% endif %}` + chain.Template,
	"llama3":  `{% if false %}<|start_header_id|>{% endif %}{% if tools %}{{ tools | tojson }}{% endif %}` + chain.Template,
	"think":   `{% if false %}<think><tool_call>{% endif %}{% if tools %}{{ tools | tojson }}{% endif %}` + chain.Template,
	"harmony": `{% if false %}<|channel|><|message|>{% endif %}{% if tools %}{{ tools | tojson }}{% endif %}<|start|>assistant` + chain.Template,
}

// openChain opens a scripted model.
func openChain(t testing.TB, c *chain.Model, o engine.Options) *engine.Model {
	t.Helper()
	data, err := c.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	o.Threads = 1
	m, err := engine.OpenBytes("chain", data, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// start serves a scripted model until the test ends.
func start(t testing.TB, c *chain.Model, change func(*Options)) *running {
	t.Helper()
	return startModel(t, openChain(t, c, engine.Options{MaxSeqs: 4}), sched.Options{CachePages: -1}, change)
}

func startModel(t testing.TB, m *engine.Model, so sched.Options, change func(*Options)) *running {
	t.Helper()
	r := &running{t: t, m: m, sched: sched.New(m, so)}
	o := Options{Name: "tiny"}
	if change != nil {
		change(&o)
	}
	if len(o.Keys) > 0 {
		r.key = o.Keys[0]
	}
	var err error
	if r.s, err = New(o); err != nil {
		t.Fatal(err)
	}
	if err := r.s.Ready(m, Scheduled(r.sched), nil); err != nil {
		t.Fatal(err)
	}
	r.url, r.stop = listen(t, r.s)
	t.Cleanup(func() { r.sched.Close() })
	return r
}

// listen serves s on a free port of this machine.
func listen(t testing.TB, s *Server) (url string, stop func() error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	ended := false
	stop = func() error {
		if ended {
			return nil
		}
		ended = true
		cancel()
		select {
		case err := <-served:
			return err
		case <-time.After(20 * time.Second):
			t.Error("the server does not end")
			return nil
		}
	}
	t.Cleanup(func() { stop() })
	return "http://" + ln.Addr().String(), stop
}

// reply is an answer that was read whole.
type reply struct {
	status int
	header http.Header
	body   string
}

// do sends a request.
func (r *running) do(method, path, body string, header ...string) reply {
	r.t.Helper()
	req, err := http.NewRequest(method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.key != "" {
		req.Header.Set("Authorization", "Bearer "+r.key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(b)}
}

// post sends JSON and wants the status 200.
func (r *running) post(path, body string) reply {
	r.t.Helper()
	x := r.do("POST", path, body)
	if x.status != http.StatusOK {
		r.t.Fatalf("POST %s %s: status %d: %s", path, body, x.status, x.body)
	}
	return x
}

// refused sends JSON that has to be refused.
func (r *running) refused(path, body string, status int, code, param string, parts ...string) {
	r.t.Helper()
	x := r.do("POST", path, body)
	checkError(r.t, path+" "+body, x, status, code, param, parts...)
}

// checkError checks an error's status, shape, code, field and words.
func checkError(t testing.TB, what string, x reply, status int, code, param string, parts ...string) {
	t.Helper()
	if len(what) > 200 {
		what = what[:200]
	}
	var e struct {
		Error struct {
			Message, Type, Code string
			Param               *string
		}
	}
	if err := json.Unmarshal([]byte(x.body), &e); err != nil || e.Error.Message == "" || e.Error.Type == "" || e.Error.Code == "" {
		t.Errorf("%s: status %d, no error in JSON (%v): %q", what, x.status, err, x.body)
		return
	}
	if x.header.Get("Content-Type") != "application/json" {
		t.Errorf("%s: content type %q", what, x.header.Get("Content-Type"))
	}
	got := ""
	if e.Error.Param != nil {
		got = *e.Error.Param
	}
	if x.status != status || code != "" && e.Error.Code != code || param != "*" && got != param {
		t.Errorf("%s:\n got %d %s in %q: %s\nwant %d %s in %q", what, x.status, e.Error.Code, got, e.Error.Message, status, code, param)
	}
	for _, p := range parts {
		if !strings.Contains(e.Error.Message, p) {
			t.Errorf("%s: %q does not speak of %q", what, e.Error.Message, p)
		}
	}
}

// completion is what tests look at in a chat completion, whole or a chunk.
type completion struct {
	ID, Object, Model string
	Created           int64
	Choices           []struct {
		Index        int
		Text         string
		Message      *message
		Delta        *message
		FinishReason *string `json:"finish_reason"`
		Logprobs     *struct {
			Content []struct {
				Token       string
				Logprob     float64
				Bytes       []int
				TopLogprobs []struct {
					Token   string
					Logprob float64
				} `json:"top_logprobs"`
			}
			Tokens     []string
			Values     []*float64           `json:"token_logprobs"`
			Top        []map[string]float64 `json:"top_logprobs_text"`
			TextOffset []int                `json:"text_offset"`
		}
	}
	Usage *struct {
		PromptTokens        int `json:"prompt_tokens"`
		CompletionTokens    int `json:"completion_tokens"`
		TotalTokens         int `json:"total_tokens"`
		PromptTokensDetails struct {
			CachedTokens int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
}

type message struct {
	Role      string
	Content   *string
	Reasoning string          `json:"reasoning_content"`
	ToolCalls []chat.ToolCall `json:"tool_calls"`
}

func decode[T any](t testing.TB, body string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	return v
}

// chat asks with one user message and returns the answer.
func (r *running) chat(text, more string) completion {
	r.t.Helper()
	return decode[completion](r.t, r.post("/v1/chat/completions", ask(text, more)).body)
}

// ask is the body of a chat with one user message and further fields.
func ask(text, more string) string {
	b, _ := json.Marshal(text)
	if more != "" {
		more = "," + more
	}
	return `{"temperature":0,"messages":[{"role":"user","content":` + string(b) + `}]` + more + `}`
}

// stream sends JSON and returns the data of the events.
func (r *running) stream(path, body string) []string {
	r.t.Helper()
	x := r.post(path, body)
	if !strings.HasPrefix(x.header.Get("Content-Type"), "text/event-stream") {
		r.t.Fatalf("%s: content type %q: %s", body, x.header.Get("Content-Type"), x.body)
	}
	return eventData(r.t, x.body)
}

func eventData(t testing.TB, body string) []string {
	t.Helper()
	var data []string
	for sc := bufio.NewScanner(bytes.NewReader([]byte(body))); sc.Scan(); {
		line := sc.Text()
		if d, ok := strings.CutPrefix(line, "data: "); ok {
			data = append(data, d)
		} else if line != "" && !strings.HasPrefix(line, ":") && !strings.HasPrefix(line, "event: ") {
			t.Fatalf("line %q in a stream", line)
		}
	}
	return data
}

// streamChat reads a streamed chat and checks the protocol: role in the first
// chunk only, finish_reason null until the last, one id, [DONE] at the end.
func (r *running) streamChat(body string) (all message, finish string, chunks []completion) {
	r.t.Helper()
	data := r.stream("/v1/chat/completions", body)
	if len(data) < 2 || data[len(data)-1] != "[DONE]" {
		r.t.Fatalf("the stream ends with %q", data)
	}
	text, some := "", false
	for i, d := range data[:len(data)-1] {
		c := decode[completion](r.t, d)
		chunks = append(chunks, c)
		if c.ID != chunks[0].ID || c.Created != chunks[0].Created || c.Object != "chat.completion.chunk" {
			r.t.Errorf("chunk %d: %+v", i, c)
		}
		for _, x := range c.Choices {
			if (x.Delta.Role != "") != (i == 0) {
				r.t.Errorf("chunk %d: role %q", i, x.Delta.Role)
			}
			if finish != "" {
				r.t.Errorf("chunk %d comes after the end", i)
			}
			if x.FinishReason != nil {
				finish = *x.FinishReason
			}
			if x.Delta.Content != nil {
				text += *x.Delta.Content
				some = some || *x.Delta.Content != ""
			}
			all.Reasoning += x.Delta.Reasoning
			all.ToolCalls = append(all.ToolCalls, x.Delta.ToolCalls...)
		}
	}
	if some || len(all.ToolCalls) == 0 {
		all.Content = &text
	}
	return all, finish, chunks
}

func text(s *string) string {
	if s == nil {
		return "(null)"
	}
	return *s
}
