package server

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"graphrun/engine"
	"graphrun/internal/chain"
	"graphrun/server/sched"
)

// TestCompletions: the forms of a prompt, and what they give.
func TestCompletions(t *testing.T) {
	c := chain.New()
	key := c.Say("a", "b", "c", "</s>")
	other := c.Say("x", "<0xEA>", "<0xB9>", "<0xB0>", "</s>")
	r := start(t, c, nil)
	ids := func(text string) string {
		b, _ := json.Marshal(r.m.Encode(text))
		return string(b)
	}
	say := func(prompt, more string) (texts []string) {
		t.Helper()
		x := decode[completion](t, r.post("/v1/completions", `{"temperature":0,"prompt":`+prompt+more+`}`).body)
		for i, c := range x.Choices {
			if c.Index != i || c.FinishReason == nil || *c.FinishReason != "stop" {
				t.Errorf("%s: choice %d %+v", prompt, i, c)
			}
			texts = append(texts, c.Text)
		}
		if x.Object != "text_completion" || !strings.HasPrefix(x.ID, "cmpl-") || x.Usage == nil {
			t.Errorf("%+v", x)
		}
		return texts
	}
	for _, c := range []struct {
		prompt, more string
		want         []string
	}{
		{`"` + key + `"`, "", []string{"abc"}},
		{`"` + key + `"`, `,"echo":true`, []string{key + "abc"}},
		{`["` + key + `"]`, "", []string{"abc"}},
		{`["` + key + `","` + other + `"]`, "", []string{"abc", "x\uae70"}},
		{`["` + key + `","` + other + `"]`, `,"n":2`, []string{"abc", "abc", "x\uae70", "x\uae70"}},
		{ids(key), "", []string{"abc"}},
		{`[` + ids(other) + `,` + ids(key) + `]`, "", []string{"x\uae70", "abc"}},
		{`"` + key + `"`, `,"best_of":1,"suffix":null,"logprobs":null,"stop":[]`, []string{"abc"}},
	} {
		if got := say(c.prompt, c.more); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s%s: %q, want %q", c.prompt, c.more, got, c.want)
		}
		var streamed []string
		for _, d := range r.stream("/v1/completions", `{"temperature":0,"stream":true,"prompt":`+c.prompt+c.more+`}`) {
			if d == "[DONE]" {
				continue
			}
			for _, x := range decode[completion](t, d).Choices {
				for len(streamed) <= x.Index {
					streamed = append(streamed, "")
				}
				streamed[x.Index] += x.Text
			}
		}
		if fmt.Sprint(streamed) != fmt.Sprint(c.want) {
			t.Errorf("%s%s streamed: %q, want %q", c.prompt, c.more, streamed, c.want)
		}
	}
}

// TestEmptyPrompts is SV-09: each is answered or refused, and the next request
// works.
func TestEmptyPrompts(t *testing.T) {
	c := chain.New()
	c.Template = chain.Template
	key := c.Say("ok", "</s>")
	r := start(t, c, nil)
	for prompt, code := range map[string]string{
		`""`: "", `" "`: "", `[""]`: "", `[]`: "empty_prompt", `[[]]`: "empty_prompt", `null`: "missing_field", `[""," "]`: "", `[1]`: "",
		fmt.Sprintf("[%d]", c.Vocab()): "out_of_range", `[-1]`: "out_of_range", `[1.5]`: "invalid_type", `[1,"a"]`: "invalid_type", `["a",1]`: "invalid_type",
		`[[1],"a"]`: "invalid_type", `{}`: "invalid_type", `[null]`: "invalid_type", `[9223372036854775808]`: "out_of_range", `[[1],[1e3]]`: "invalid_type", `true`: "invalid_type",
	} {
		body := `{"max_tokens":1,"temperature":0,"prompt":` + prompt + `}`
		if code == "" {
			r.post("/v1/completions", body)
		} else {
			r.refused("/v1/completions", body, 400, code, "*")
		}
		if got := text(r.chat(key, "").Choices[0].Message.Content); got != "ok" {
			t.Errorf("after %s: %q", prompt, got)
		}
	}
	r.refused("/v1/chat/completions", `{"messages":[]}`, 400, "invalid_messages", "messages", "no messages")
	r.post("/v1/chat/completions", `{"max_tokens":1,"messages":[{"role":"user","content":""}]}`)
}

// TestEcho is SV-06: log-probabilities of the prompt, those that the engine gives
// by itself.
func TestEcho(t *testing.T) {
	m, err := engine.Open(filepath.Join("..", "testdata", "models", "llama-q8_0.gguf"), engine.Options{Threads: 1, MaxSeqs: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	r := startModel(t, m, sched.Options{CachePages: -1}, nil)
	ids := []int32{1, 20, 33, 7, 52, 9}
	s := m.NewSession()
	defer s.Close()
	want, err := s.Score(t.Context(), ids, 1)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := json.Marshal(ids)
	for _, max := range []int{0, 1} {
		for range 2 { // the second time the cache has it
			x := decode[struct {
				Choices []struct {
					Text     string
					Finish   string `json:"finish_reason"`
					Logprobs textLogprobs
				}
				Usage tokenUsage
			}](t, r.post("/v1/completions", fmt.Sprintf(`{"prompt":%s,"echo":true,"logprobs":1,"max_tokens":%d,"temperature":0}`, b, max)).body)
			l := x.Choices[0].Logprobs
			if n := 6 + max; len(l.Tokens) != n || len(l.Values) != n || len(l.Top) != n || len(l.Offsets) != n {
				t.Fatalf("max_tokens %d: %d tokens, %d values, %d tops, %d offsets, want %d", max, len(l.Tokens), len(l.Values), len(l.Top), len(l.Offsets), n)
			}
			if l.Values[0] != nil || l.Top[0] != nil {
				t.Errorf("the first token has %v, %v", l.Values[0], l.Top[0])
			}
			sum, direct := 0.0, 0.0
			for i := 1; i < 6; i++ {
				sum, direct = sum+*l.Values[i], direct+want[i].Logprob
				if len(l.Top[i]) != 1 {
					t.Errorf("token %d: %v", i, l.Top[i])
				}
			}
			if math.Abs(sum-direct) > 1e-4 {
				t.Errorf("max_tokens %d: sum %g, want %g", max, sum, direct)
			}
			if x.Usage.Completion != max || x.Choices[0].Finish != "length" {
				t.Errorf("max_tokens %d: %+v, ended by %s", max, x.Usage, x.Choices[0].Finish)
			}
		}
	}
}

// TestTextLogprobs is SV-05 for completions.
func TestTextLogprobs(t *testing.T) {
	c := chain.New()
	key := c.Say("ab", "<0xEA>", "<0xB9>", "<0xB0>", "c", "</s>")
	r := start(t, c, nil)
	for _, stream := range []bool{false, true} {
		body := fmt.Sprintf(`{"prompt":"%s","logprobs":2,"temperature":0,"stream":%v}`, key, stream)
		sum := newTextLogprobs()
		bodies := []string{}
		if stream {
			bodies = r.stream("/v1/completions", body)
		} else {
			bodies = append(bodies, r.post("/v1/completions", body).body)
		}
		for _, b := range bodies {
			if b == "[DONE]" {
				continue
			}
			for _, x := range decode[struct {
				Choices []struct{ Logprobs *textLogprobs }
			}](t, b).Choices {
				if l := x.Logprobs; l != nil {
					sum.Tokens, sum.Values, sum.Top, sum.Offsets = append(sum.Tokens, l.Tokens...), append(sum.Values, l.Values...), append(sum.Top, l.Top...), append(sum.Offsets, l.Offsets...)
				}
			}
		}
		if got := fmt.Sprint(sum.Tokens, sum.Offsets, len(sum.Values), len(sum.Top)); got != `[ab bytes:\xea bytes:\xb9 bytes:\xb0 c] [0 2 2 2 3] 5 5` {
			t.Errorf("%s", got)
		}
		for i, v := range sum.Values {
			if v == nil || *v < -1e-3 || len(sum.Top[i]) != 2 {
				t.Errorf("token %d: %v %v", i, v, sum.Top[i])
			}
		}
	}
	r.refused("/v1/completions", `{"prompt":"x","logprobs":21}`, 400, "out_of_range", "logprobs")
	r.refused("/v1/completions", `{"prompt":"x","logprobs":true}`, 400, "invalid_type", "logprobs")
}

// TestEmbeddings: one vector for each text, the engine's own.
func TestEmbeddings(t *testing.T) {
	m, err := engine.Open(filepath.Join("..", "testdata", "models", "llama-q8_0.gguf"), engine.Options{Threads: 1, MaxSeqs: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	r := startModel(t, m, sched.Options{CachePages: -1}, nil)
	type answer struct {
		Data []struct {
			Index     int
			Embedding json.RawMessage
		}
		Usage tokenUsage
		Model string
	}
	want := map[string][]float32{}
	for _, text := range []string{"[5,6,7]", "[9]"} {
		var ids []int32
		json.Unmarshal([]byte(text), &ids)
		v, err := m.Embed(t.Context(), ids, engine.EmbedOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want[text] = v
	}
	x := decode[answer](t, r.post("/v1/embeddings", `{"model":"tiny","input":[[5,6,7],[9]],"user":"u"}`).body)
	if len(x.Data) != 2 || x.Usage.Prompt != 4 || x.Usage.Total != 4 || x.Model != "tiny" {
		t.Fatalf("%+v", x)
	}
	b := decode[answer](t, r.post("/v1/embeddings", `{"input":[[5,6,7],[9]],"encoding_format":"base64"}`).body)
	for i, text := range []string{"[5,6,7]", "[9]"} {
		var v []float32
		if err := json.Unmarshal(x.Data[i].Embedding, &v); err != nil || x.Data[i].Index != i {
			t.Fatal(err)
		}
		var s string
		json.Unmarshal(b.Data[i].Embedding, &s)
		raw, err := base64.StdEncoding.DecodeString(s)
		if err != nil || len(raw) != 4*len(v) {
			t.Fatalf("%v, %d bytes", err, len(raw))
		}
		for k := range v {
			if v[k] != want[text][k] || math.Float32frombits(binary.LittleEndian.Uint32(raw[4*k:])) != v[k] {
				t.Fatalf("%s: number %d is %g, want %g", text, k, v[k], want[text][k])
			}
		}
	}
	if y := decode[answer](t, r.post("/v1/embeddings", fmt.Sprintf(`{"input":"hello","dimensions":%d}`, m.Arch.D)).body); len(y.Data) != 1 {
		t.Errorf("%+v", y)
	}
	r.refused("/v1/embeddings", `{"input":"x","dimensions":3}`, 400, "unsupported_parameter", "dimensions")
	r.refused("/v1/embeddings", `{"input":[]}`, 400, "empty_prompt", "input")
	r.refused("/v1/embeddings", `{"input":"x","encoding_format":"float16"}`, 400, "unknown_value", "encoding_format", "base64")
	r.refused("/v1/embeddings", `{"input":[`+strings.TrimSuffix(strings.Repeat("5,", m.Limits().Context+1), ",")+`]}`, 400, "context_length_exceeded", "input")
}

// TestTexts: the endpoints that only look at texts.
func TestTexts(t *testing.T) {
	c := chain.New()
	c.Template = chain.Template
	key := c.Say("▁ok", "</s>")
	r := start(t, c, func(o *Options) { o.Aliases = []string{"other"} })
	for _, body := range []string{`{"content":"` + key + `é","add_special":true}`, `{"prompt":"` + key + `é","add_special_tokens":true}`} {
		x := decode[struct {
			Tokens []int32
			Count  int
		}](t, r.post("/tokenize", body).body)
		if x.Count != len(x.Tokens) || x.Tokens[0] != chain.BOS {
			t.Errorf("%s: %+v", body, x)
		}
		b, _ := json.Marshal(x.Tokens)
		y := decode[struct{ Content string }](t, r.post("/detokenize", `{"tokens":`+string(b)+`}`).body)
		if y.Content != key+"é" {
			t.Errorf("back: %q", y.Content)
		}
	}
	if x := r.post("/tokenize", `{"content":"é","with_pieces":true}`).body; !strings.Contains(x, `"piece":[195]`) || !strings.Contains(x, `"piece":" "`) {
		t.Errorf("%s", x)
	}
	if x := r.post("/tokenize", `{"content":""}`).body; !strings.HasPrefix(x, `{"tokens":[],"count":0`) {
		t.Errorf("%s", x)
	}
	if x := r.post("/tokenize", `{"content":"</s>","parse_special":true}`).body; !strings.Contains(x, `[2]`) {
		t.Errorf("%s", x)
	}
	if x := r.post("/apply-template", `{"messages":[{"role":"user","content":"hi"}]}`).body; !strings.HasPrefix(x, `{"prompt":"<|user|>hi","tokens":[1,`) {
		t.Errorf("%s", x)
	}
	x := r.do("GET", "/v1/models", "")
	if x.status != 200 || !strings.Contains(x.body, `"id":"tiny"`) || !strings.Contains(x.body, `"id":"other"`) {
		t.Errorf("%+v", x)
	}
	if got := r.chat(key, `"model":"other"`); got.Model != "tiny" {
		t.Errorf("%+v", got)
	}
	if x := r.do("GET", "/v1/models/tiny", ""); x.status != 200 || !strings.Contains(x.body, `"max_model_len":256`) {
		t.Errorf("%+v", x)
	}
	checkError(t, "model", r.do("GET", "/v1/models/no/such", ""), 404, "model_not_found", "model", "no/such", "tiny")
	r.refused("/v1/chat/completions", ask("x", `"model":"gpt-4"`), 404, "model_not_found", "model", "gpt-4", "tiny")
	r.refused("/detokenize", `{"tokens":[1,-1]}`, 400, "out_of_range", "tokens[1]")
	checkError(t, "path", r.do("GET", "/v1/nothing", ""), 404, "not_found", "")
	checkError(t, "method", r.do("GET", "/v1/chat/completions", ""), 405, "method_not_allowed", "")
	if x := r.do("DELETE", "/v1/models", ""); x.status != 405 || x.header.Get("Allow") != "GET, OPTIONS" {
		t.Errorf("%+v", x)
	}
}

// TestContext: what does not fit is refused with numbers, before anything is
// computed.
func TestContext(t *testing.T) {
	c := chain.New()
	c.Template, c.Context = chain.Template, 64
	key := c.Loop("a", "b")
	r := start(t, c, nil)
	long := strings.Repeat("x", 200)
	r.refused("/v1/chat/completions", ask(long, ""), 400, "context_length_exceeded", "", "203 tokens", "64")
	r.refused("/v1/completions", `{"prompt":"`+long+`"}`, 400, "context_length_exceeded", "", "64")
	got := r.chat(key, "")
	if *got.Choices[0].FinishReason != "length" || got.Usage.TotalTokens != 64 {
		t.Errorf("%+v", got.Usage)
	}
	small := start(t, c, func(o *Options) { o.MaxTokens = 5 })
	for _, more := range []string{"", `"max_tokens":50`} {
		if got := small.chat(key, more); got.Usage.CompletionTokens != 5 || *got.Choices[0].FinishReason != "length" {
			t.Errorf("%s: %+v", more, got.Usage)
		}
	}
}

// TestSpecial: control tokens in a raw prompt are text, unless the server was
// told otherwise.
func TestSpecial(t *testing.T) {
	c := chain.New()
	r := start(t, c, nil)
	count := func(r *running) int {
		return decode[completion](t, r.post("/v1/completions", `{"prompt":"</s>","max_tokens":1,"temperature":0}`).body).Usage.PromptTokens
	}
	if n := count(r); n != 6 { // BOS, the space, four letters
		t.Errorf("%d tokens", n)
	}
	r.refused("/v1/completions", `{"prompt":"</s>","parse_special":true}`, 400, "not_allowed", "parse_special", "--parse-special")
	if n := count(start(t, c, func(o *Options) { o.ParseSpecial = true })); n != 2 {
		t.Errorf("with special tokens: %d", n)
	}
}

// TestTooManyAnswers: a request that can never fit the queue is not told to try
// again; one that could is.
func TestTooManyAnswers(t *testing.T) {
	m := openChain(t, chain.New(), engine.Options{MaxSeqs: 1})
	r := startModel(t, m, sched.Options{MaxQueue: 3}, nil)
	list := strings.Repeat(`"x",`, 40) + `"x"`
	r.refused("/v1/completions", `{"prompt":[`+list+`]}`, 400, "too_many", "", "41 answers", "--queue")
	r.refused("/v1/completions", `{"prompt":["x","y"],"n":20}`, 400, "too_many", "", "40 answers")
	if x := r.post("/v1/completions", `{"prompt":["x","y"],"max_tokens":1}`); x.status != 200 {
		t.Errorf("two answers: %d %s", x.status, x.body)
	}
}

// TestTextOffsets: offsets are places in the text that is returned, where the token
// that begins a text and the space before it are none.
func TestTextOffsets(t *testing.T) {
	m, err := engine.Open(filepath.Join("..", "testdata", "stories.gguf"), engine.Options{Threads: 1, MaxSeqs: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	r := startModel(t, m, sched.Options{CachePages: -1}, nil)
	for _, echo := range []bool{true, false} {
		body := fmt.Sprintf(`{"prompt":"Once upon","max_tokens":6,"temperature":0,"logprobs":0,"echo":%v`, echo)
		type answer struct {
			Choices []struct {
				Text     string
				Logprobs *textLogprobs
			}
		}
		whole := decode[answer](t, r.post("/v1/completions", body+"}").body).Choices[0]
		l := whole.Logprobs
		for i, tok := range l.Tokens {
			if tok == "<s>" || i < 2 && echo {
				if l.Offsets[i] != 0 {
					t.Errorf("echo %v: token %d, %q, is at %d of the text", echo, i, tok, l.Offsets[i])
				}
			} else if !strings.HasPrefix(whole.Text[l.Offsets[i]:], tok) {
				t.Errorf("echo %v: token %q is not at %d of %q", echo, tok, l.Offsets[i], whole.Text)
			}
		}
		var offsets []int
		for _, data := range r.stream("/v1/completions", body+`,"stream":true}`) {
			if data != "[DONE]" {
				if l := decode[answer](t, data).Choices[0].Logprobs; l != nil {
					offsets = append(offsets, l.Offsets...)
				}
			}
		}
		if !slices.Equal(offsets, l.Offsets) {
			t.Errorf("echo %v: %v streamed, %v whole", echo, offsets, l.Offsets)
		}
	}
}

// TestSameAsSession is PF-15: the server gives what the engine gives by itself.
func TestSameAsSession(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "testdata", "stories.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := engine.OpenBytes("stories", data, engine.Options{Threads: 1, MaxSeqs: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	r := startModel(t, m, sched.Options{CachePages: -1}, nil)
	for seed := range uint64(3) {
		o := engine.GenerateOptions{MaxTokens: 40, SampleOptions: engine.SampleOptions{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, Seed: seed}}
		s := m.NewSession()
		if err := s.Append(t.Context(), m.Encode("Once upon a time")...); err != nil {
			t.Fatal(err)
		}
		want := ""
		for tok, err := range s.Generate(t.Context(), o) {
			if err != nil {
				t.Fatal(err)
			}
			want += tok.Text
		}
		s.Close()
		x := decode[completion](t, r.post("/v1/completions", fmt.Sprintf(`{"prompt":"Once upon a time","max_tokens":40,"temperature":0.8,"top_k":40,"top_p":0.95,"min_p":0.05,"seed":%d}`, seed)).body)
		if x.Choices[0].Text != want {
			t.Errorf("seed %d:\n got %q\nwant %q", seed, x.Choices[0].Text, want)
		}
	}
}
