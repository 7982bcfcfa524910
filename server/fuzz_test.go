package server

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"graphrun/engine"
	"graphrun/internal/chain"
	"graphrun/server/sched"
)

// FuzzRequests sends bodies to every endpoint that takes one: the answer is
// always JSON or a stream, with a status below 500.
func FuzzRequests(f *testing.F) {
	paths := []string{"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/tokenize", "/detokenize", "/apply-template"}
	for i, path := range paths {
		for k, body := range badRequests()[path] {
			if len(body) < 400 && k%5 == 0 {
				f.Add(uint8(i), body)
			}
		}
	}
	for _, body := range []string{
		`{"messages":[{"role":"user","content":"x"}],"max_tokens":3,"temperature":0.5,"seed":1,"top_p":0.9,"stop":["a"],"logprobs":true,"top_logprobs":2,"n":2}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"max_tokens":3,"stream":true,"stream_options":{"include_usage":true},"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"tool_choice":"auto"}`,
		`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"x"}],"max_tokens":2}`,
		`{"messages":[{"role":"user","content":"x"}],"max_tokens":5,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object","properties":{"a":{"type":"string","maxLength":3}},"required":["a"]}}}}`,
	} {
		f.Add(uint8(0), body)
	}
	f.Add(uint8(1), `{"prompt":["a",""],"max_tokens":2,"echo":true,"logprobs":1,"logit_bias":{"5":-100},"best_of":1}`)
	f.Add(uint8(1), `{"prompt":[[1,2],[3]],"max_tokens":0,"echo":true,"logprobs":1}`)
	f.Add(uint8(2), `{"input":["a","b"],"encoding_format":"base64"}`)
	f.Add(uint8(3), `{"input":[{"role":"user","content":"x"},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"y"}],"max_output_tokens":3,"stream":true}`)

	c := chain.New()
	c.Template, c.Context = families["llama3"], 64
	c.Loop("a", "b")
	m := openChain(f, c, engine.Options{MaxSeqs: 4})
	sc := sched.New(m, sched.Options{CachePages: -1})
	f.Cleanup(func() { sc.Close() })
	s, err := New(Options{Name: "tiny", MaxTokens: 8})
	if err != nil {
		f.Fatal(err)
	}
	if err := s.Ready(m, Scheduled(sc), nil); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, which uint8, body string) {
		path := paths[int(which)%len(paths)]
		r := httptest.NewRequest(http.MethodPost, "http://localhost"+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		out := w.Body.String()
		if w.Code >= 500 {
			t.Fatalf("%s %q: %d %s", path, body, w.Code, out)
		}
		if strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
			for _, d := range eventData(t, out) {
				if d != "[DONE]" && !json.Valid([]byte(d)) {
					t.Fatalf("%s %q: an event that is no JSON: %q", path, body, d)
				}
			}
			return
		}
		if !json.Valid([]byte(out)) {
			t.Fatalf("%s %q: no JSON: %d %q", path, body, w.Code, out)
		}
		if w.Code != http.StatusOK {
			checkError(t, path, reply{w.Code, w.Header(), out}, w.Code, "", "*")
		}
	})
}
