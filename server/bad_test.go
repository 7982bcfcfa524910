package server

import (
	"fmt"
	"strings"
	"testing"

	"graphrun/internal/chain"
)

// badRequests are requests that have to be refused, by path. Each is refused with
// a status of 4xx and an error in JSON, and the server answers the next.
func badRequests() map[string][]string {
	msg := `"messages":[{"role":"user","content":"x"}]`
	with := func(base string, more ...string) (out []string) {
		for _, m := range more {
			out = append(out, "{"+base+","+m+"}")
		}
		return out
	}
	// Fields of the sampler, wrong in every way, on all endpoints that have them.
	fields := []string{
		`"temperature":"1"`, `"temperature":-1`, `"temperature":1e999`, `"temperature":NaN`, `"temperature":Infinity`, `"temperature":[1]`, `"temperature":{}`, `"temperature":101`, `"temperature":true`,
		`"top_p":-0.1`, `"top_p":1.1`, `"top_p":"0.5"`, `"min_p":2`, `"min_p":-1`, `"top_k":-2`, `"top_k":1.5`, `"top_k":99999999999999999999`, `"top_k":"40"`,
		`"seed":1.5`, `"seed":"1"`, `"seed":99999999999999999999999`, `"stop":[1]`, `"stop":1`, `"stop":""`, `"stop":[""]`, `"stop":{}`, `"stop":["a","b",null]`,
		`"stop":[` + strings.TrimSuffix(strings.Repeat(`"a",`, 17), ",") + `]`,
		`"logit_bias":[]`, `"logit_bias":{"x":1}`, `"logit_bias":{"-1":1}`, `"logit_bias":{"99999999":1}`, `"logit_bias":{"1":"a"}`, `"logit_bias":{"1":1000}`, `"logit_bias":{"1":1,"1":2}`, `"logit_bias":{"99999999999999999999":1}`, `"logit_bias":{"1":NaN}`,
		`"frequency_penalty":3`, `"presence_penalty":-3`, `"frequency_penalty":"a"`, `"repetition_penalty":0`, `"repetition_penalty":1e9`, `"repeat_penalty":-1`,
		`"stream":"yes"`, `"stream":1`, `"stream_options":[]`, `"stream_options":{"include_usage":1},"stream":true`, `"stream_options":{"x":1},"stream":true`,
		`"unknown_field":1`, `"Temperature":1`, `"":1`, `"ignore_eos":1`, `"model":5`, `"model":[]`, `"model":"gpt-4o"`, `"grammar":"root ::= ("`, `"grammar":5`,
		`"temperature":1,"temperature":2`,
	}
	n := []string{`"n":0`, `"n":-1`, `"n":65`, `"n":1.5`, `"n":"2"`, `"n":1e3`, `"max_tokens":"5"`, `"max_tokens":-1`, `"max_tokens":1.5`, `"max_tokens":99999999999999999999`, `"max_tokens":2147483648`, `"max_tokens":5,"max_completion_tokens":6`}
	format := []string{
		`"response_format":"json"`, `"response_format":{}`, `"response_format":{"type":"xml"}`, `"response_format":{"type":"json_schema"}`, `"response_format":{"type":"json_schema","json_schema":{}}`,
		`"response_format":{"type":"json_schema","json_schema":{"schema":5}}`, `"response_format":{"type":"json_schema","json_schema":{"schema":"x"}}`, `"response_format":{"type":"json_object","x":1}`,
		`"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"nothing"}}}`,
		`"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"string","pattern":"(?<=x)a"}}}`,
		`"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"string","pattern":"` + strings.Repeat("(", 10000) + strings.Repeat(")", 10000) + `"}}}`,
		`"response_format":{"type":"json_schema","json_schema":{"schema":{"$ref":"#/nothing"}}}`, `"response_format":{"type":"json_schema","json_schema":{"schema":{"$ref":"#"}}}`,
		`"response_format":{"type":"json_schema","json_schema":{"schema":{"not":{"type":"string"}}}}`,
		`"response_format":{"type":"json_schema","json_schema":{"schema":{"enum":[]}}}`, `"response_format":{"type":"json_schema","json_schema":{"schema":{"$ref":"http://example.org/x"}}}`,
		`"response_format":{"type":"json_schema","json_schema":{"schema":{"enum":[` + strings.TrimSuffix(strings.Repeat(`"aaaaaaaaaaaaaaaaaaaa",`, 20000), ",") + `]}}}`,
		`"response_format":{"type":"json_schema","json_schema":{"schema":` + nest(`{"type":"array","items":`, `{"type":"string"}`, "}", 90) + `}},"temperature":-1`,
	}
	tools := []string{
		`"tools":{}`, `"tools":[1]`, `"tools":[{}]`, `"tools":[{"type":"code"}]`, `"tools":[{"type":"function"}]`, `"tools":[{"type":"function","function":{}}]`, `"tools":[{"type":"function","function":{"name":""}}]`,
		`"tools":[{"type":"function","function":{"name":"a b"}}]`, `"tools":[{"type":"function","function":{"name":"f","parameters":5}}]`, `"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}}]`,
		`"tools":[{"type":"function","function":{"name":"f","x":1}}]`, `"tool_choice":"required"`, `"tool_choice":"always"`, `"tool_choice":{"type":"function","function":{"name":"f"}}`, `"tool_choice":5`,
		`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"g"}}`, `"tools":[{"type":"function","function":{"name":"` + strings.Repeat("a", 200) + `"}}]`,
		`"tools":[` + strings.TrimSuffix(strings.Repeat(`{"type":"function","function":{"name":"f"}},`, 129), ",") + `]`, `"parallel_tool_calls":"no"`,
	}
	// Whole bodies that are no request.
	bodies := []string{
		"", " ", "{", "}", "[]", "null", "5", `"x"`, "true", "{]", `{"a"}`, `{"a":}`, `{"a":1,}`, `{a:1}`, `{'a':1}`, "{}{}", "{} x", "\x00", "\xff\xfe", "{\"prompt\":\"\xc4\xe3\xba\xc3\"}", "{\"\xff\":1}", "\ufeff{}",
		`{"prompt":"\ud800"`, `{"prompt":"\x41"}`, `{"prompt":"` + "\n" + `"}`, strings.Repeat("[", 1<<16), strings.Repeat(`{"a":`, 1<<14), strings.Repeat("9", 1<<16), "<xml/>", "prompt=x&n=1", `{"prompt":01}`, `{"prompt":+1}`, `{"prompt":.5}`, `{"prompt":0x10}`,
	}
	bad := map[string][]string{
		"/v1/chat/completions": append(bodies,
			`{}`, `{"messages":null}`, `{"messages":{}}`, `{"messages":"x"}`, `{"messages":[]}`, `{"messages":[1]}`, `{"messages":[null]}`, `{"messages":["x"]}`, `{"messages":[[]]}`, `{"messages":[{}]}`,
			`{"messages":[{"role":"user"},{"role":5}]}`, `{"messages":[{"role":"wizard","content":"x"}]}`, `{"messages":[{"role":"user","content":5}]}`, `{"messages":[{"role":"user","content":{}}]}`, `{"messages":[{"role":"user","content":[5]}]}`,
			`{"messages":[{"role":"user","content":[{}]}]}`, `{"messages":[{"role":"user","content":[{"type":"text"}]}]}`, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}`, `{"messages":[{"role":"user","content":[{"type":"input_audio"}]}]}`,
			`{"messages":[{"role":"assistant","tool_calls":5}]}`, `{"messages":[{"role":"assistant","tool_calls":[{}]}]}`, `{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":5}}]}]}`,
			`{"messages":[`+strings.TrimSuffix(strings.Repeat(`{"role":"user","content":""},`, 1000), ",")+`]}`, `{"messages":[`+strings.TrimSuffix(strings.Repeat("{},", 200000), ",")+`]}`,
			`{"messages":[{"role":"user","content":"`+strings.Repeat("long ", 100000)+`"}]}`,
			`{"prompt":"x"}`,
		),
		"/v1/completions": append(bodies,
			`{}`, `{"prompt":null}`, `{"prompt":{}}`, `{"prompt":5}`, `{"prompt":true}`, `{"prompt":[]}`, `{"prompt":[[]]}`, `{"prompt":[-1]}`, `{"prompt":[1,-1]}`, `{"prompt":[999999]}`, `{"prompt":[1.5]}`, `{"prompt":[1e400]}`, `{"prompt":["a",1]}`, `{"prompt":[[1],["a"]]}`, `{"prompt":[{}]}`,
			`{"prompt":[`+strings.TrimSuffix(strings.Repeat("1,", 1<<20), ",")+`]}`, `{"prompt":"`+strings.Repeat("y", 1<<20)+`"}`, `{"prompt":[`+strings.TrimSuffix(strings.Repeat(`"a",`, 3000), ",")+`]}`,
			`{"prompt":"x","best_of":3}`, `{"prompt":"x","suffix":"y"}`, `{"prompt":"x","echo":1}`, `{"prompt":"x","logprobs":-1}`, `{"prompt":"x","logprobs":21}`, `{"prompt":"x","parse_special":true}`,
		),
		"/v1/embeddings":  append(bodies, `{}`, `{"input":null}`, `{"input":[]}`, `{"input":[[]]}`, `{"input":5}`, `{"input":"x","dimensions":0}`, `{"input":"x","dimensions":-5}`, `{"input":"x","dimensions":7}`, `{"input":"x","encoding_format":5}`, `{"input":"x","encoding_format":"int8"}`, `{"input":"x","x":1}`, `{"input":[999999]}`),
		"/v1/responses":   append(bodies, `{}`, `{"input":null}`, `{"input":5}`, `{"input":{}}`, `{"input":[5]}`, `{"input":[{}]}`, `{"input":[{"type":"image"}]}`, `{"input":[{"type":"message","role":"user","content":[{"type":"input_image"}]}]}`, `{"input":[{"type":"message","role":"user"}]}`, `{"input":"x","n":2}`, `{"input":"x","max_output_tokens":0}`, `{"input":"x","previous_response_id":"resp_1"}`, `{"input":"x","background":true}`, `{"input":"x","truncation":"auto"}`, `{"input":"x","tools":[{"type":"web_search"}]}`, `{"input":"x","text":{"format":{"type":"json_schema"}}}`, `{"input":"x","include":["message.output_text.logprobs"]}`, `{"input":[]}`, `{"input":"x","reasoning":{"effort":"enormous"}}`),
		"/tokenize":       append(bodies, `{}`, `{"content":5}`, `{"content":"a","prompt":"b"}`, `{"content":"a","x":1}`, `{"content":"a","add_special":1}`, `{"content":"`+strings.Repeat("a", 5<<20)+`"}`),
		"/detokenize":     append(bodies, `{}`, `{"tokens":5}`, `{"tokens":["a"]}`, `{"tokens":[-1]}`, `{"tokens":[99999999]}`, `{"tokens":[1.5]}`, `{"tokens":[null]}`, `{"tokens":[1e2]}`),
		"/apply-template": append(bodies, `{}`, `{"messages":[]}`, `{"messages":[{"role":"x"}]}`, `{"messages":[{"role":"user","content":"x"}],"x":1}`, `{"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"messages":[]}}`, `{"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":5}`),
	}
	bad["/v1/chat/completions"] = append(bad["/v1/chat/completions"], with(msg, append(append(append(fields, n...), format...), tools...)...)...)
	bad["/v1/chat/completions"] = append(bad["/v1/chat/completions"], with(msg, `"max_tokens":0`, `"logprobs":1`, `"top_logprobs":5`, `"logprobs":true,"top_logprobs":21`, `"audio":{"voice":"x"}`, `"modalities":["audio"]`, `"web_search_options":{"x":1}`, `"functions":[{"name":"f"}]`, `"function_call":"auto"`, `"continue_final_message":true`, `"chat_template":"x"`, `"reasoning_effort":5`, `"verbosity":"high"`)...)
	bad["/v1/completions"] = append(bad["/v1/completions"], with(`"prompt":"x"`, append(append(fields, n...), format...)...)...)
	bad["/v1/responses"] = append(bad["/v1/responses"], with(`"input":"x"`, fields...)...)
	return bad
}

func nest(open, inner, close string, n int) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(close, n)
}

// TestBadRequests: wrong types, huge numbers, NaN, deep nesting, invalid UTF-8,
// unknown fields, negative tokens, schema bombs: a 4xx with an error in JSON, and
// the server lives.
func TestBadRequests(t *testing.T) {
	c := chain.New()
	c.Template = families["llama3"]
	key := c.Say("ok", "</s>")
	r := start(t, c, nil)
	count := 0
	for path, list := range badRequests() {
		for i, body := range list {
			count++
			x := r.do("POST", path, body)
			what := fmt.Sprintf("%s %d %.150s", path, i, body)
			if x.status < 400 || x.status > 499 {
				t.Errorf("%s: status %d: %.300s", what, x.status, x.body)
				continue
			}
			checkError(t, what, x, x.status, "", "*")
			if strings.Contains(x.body, "goroutine ") || strings.Contains(x.body, "runtime error") || len(x.body) > 4096 {
				t.Errorf("%s: %.300s", what, x.body)
			}
		}
		if got := text(r.chat(key, "").Choices[0].Message.Content); got != "ok" {
			t.Errorf("after %s: %q", path, got)
		}
	}
	if count < 200 {
		t.Errorf("only %d requests", count)
	}
	if st := r.sched.Stats(); st.Queued+st.Running != 0 {
		t.Errorf("afterwards %+v", st)
	}
	t.Logf("%d requests", count)
}

// TestErrorsName: an error says which field is at fault, what was found and what
// is wanted.
func TestErrorsName(t *testing.T) {
	c := chain.New()
	c.Template = families["llama3"]
	r := start(t, c, nil)
	msg := `"messages":[{"role":"user","content":"x"}]`
	for _, x := range []struct{ body, code, param, words string }{
		{`{` + msg + `,"temperature":"hot"}`, "invalid_type", "temperature", "a string|a number from 0 to 100"},
		{`{` + msg + `,"temperature":-1}`, "out_of_range", "temperature", "-1|0 to 100"},
		{`{` + msg + `,"n":1.5}`, "invalid_type", "n", "1.5|whole number"},
		{`{` + msg + `,"stop":["a",5]}`, "invalid_type", "stop[1]", "the number 5|a string"},
		{`{` + msg + `,"logit_bias":{"12x":1}}`, "invalid_token", "logit_bias", "12x"},
		{`{` + msg + `,"nonsense":1}`, "unknown_parameter", "nonsense", "nonsense"},
		{`{` + msg + `,"audio":{"voice":"a"}}`, "unsupported_parameter", "audio", "text only"},
		{`{"messages":[{"role":"user","content":"x"},{"role":"user","content":5}]}`, "invalid_message", "messages[1]", "want a string"},
		{`{` + msg + `,"tools":[{"type":"function","function":{"name":"a b"}}]}`, "invalid_value", "tools[0].function.name", "a b"},
		{`{` + msg + `,"max_tokens":5,"max_completion_tokens":6}`, "conflict", "max_tokens", "5|6"},
		{`{` + msg + `,"stream_options":{"x":true},"stream":true}`, "unknown_parameter", "stream_options.x", ""},
		{`{"messages":[{"role":"user","content":"x"}`, "invalid_json", "", "at byte"},
		{"{\"messages\":\"\xff\"}", "invalid_utf8", "", "byte 13|0xFF"},
	} {
		r.refused("/v1/chat/completions", x.body, 400, x.code, x.param, strings.Split(x.words, "|")...)
	}
}
