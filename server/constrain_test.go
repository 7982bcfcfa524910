package server

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"graphrun/internal/chain"
)

// TestResponseFormat: the answer is what the format says, whatever the model would
// have said, in every family; JSON that the model says anyway stays as it is.
func TestResponseFormat(t *testing.T) {
	schema := `"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"object","properties":{"color":{"enum":["red","blue"]},"n":{"const":7}},"required":["color","n"],"additionalProperties":false}}}`
	for family := range families {
		if testing.Short() && family != "llama3" { // the race detector
			continue
		}
		t.Run(family, func(t *testing.T) {
			c := chain.New()
			c.Template = families[family]
			free := c.Say("Sure,", "▁here", "▁it", "▁is", "</s>")
			fits := c.Say(`{"color": "bl`, `ue", "n":`, `▁7}`, "▁and", "▁more", "</s>")
			r := start(t, c, nil)
			for key, want := range map[string]string{free: "", fits: "blue"} {
				check := func(how, content, finish string) {
					var v struct {
						Color string
						N     int
					}
					d := json.NewDecoder(strings.NewReader(content))
					d.DisallowUnknownFields()
					if err := d.Decode(&v); err != nil || v.Color != "red" && v.Color != "blue" || v.N != 7 || want != "" && v.Color != want || finish != "stop" || d.More() {
						t.Errorf("%s: %q ended by %s (%v)", how, content, finish, err)
					}
				}
				got := r.chat(key, schema)
				check("whole", text(got.Choices[0].Message.Content), *got.Choices[0].FinishReason)
				all, finish, _ := r.streamChat(ask(key, schema+`,"stream":true`))
				check("streamed", text(all.Content), finish)
			}
			got := r.chat(free, `"max_tokens":200,"response_format":{"type":"json_object"}`)
			if s := text(got.Choices[0].Message.Content); *got.Choices[0].FinishReason == "stop" && !json.Valid([]byte(s)) || !strings.HasPrefix(strings.TrimSpace(s), "{") {
				t.Errorf("json_object: %q ended by %s", s, *got.Choices[0].FinishReason)
			}
			if got := r.chat(free, `"grammar":"root ::= \"yes\" | \"no\""`); text(got.Choices[0].Message.Content) != "yes" && text(got.Choices[0].Message.Content) != "no" {
				t.Errorf("grammar: %q", text(got.Choices[0].Message.Content))
			}
		})
	}
}

// TestAmbiguousGrammar: a grammar that proves to be too much only while the answer
// is written is the request's fault, not the server's.
func TestAmbiguousGrammar(t *testing.T) {
	c := chain.New()
	c.Template = chain.Template
	key := c.Say(slices.Repeat([]string{"a"}, 60)...)
	r := start(t, c, nil)
	const g = `"max_tokens":200,"grammar":"root ::= (\"a\"{1,1000}){1,1000}"`
	r.refused("/v1/chat/completions", ask(key, g), 400, "ambiguous_grammar", "")
	data := r.stream("/v1/completions", `{"prompt":"`+key+`","temperature":0,"stream":true,`+g+`}`)
	if last := data[len(data)-1]; !strings.Contains(last, `"code":"ambiguous_grammar"`) || !strings.Contains(last, "invalid_request_error") {
		t.Errorf("the stream ends by %s", last)
	}
}

// TestReasoningAndFormat: where the template opens a thought, a format closes it:
// the answer is content.
func TestReasoningAndFormat(t *testing.T) {
	for family, template := range map[string]string{
		"think":  chain.Template + `<think>` + "\n",
		"gemma4": `{% if false %}<|turn>{% endif %}` + chain.Template + "<|channel>thought\n",
	} {
		c := chain.New()
		c.Template = template
		r := start(t, c, nil)
		got := r.chat("x", `"response_format":{"type":"json_schema","json_schema":{"schema":{"enum":["yes","no"]}}}`)
		if m := got.Choices[0].Message; text(m.Content) != `"yes"` && text(m.Content) != `"no"` || m.Reasoning != "" {
			t.Errorf("%s: %q, reasoning %q", family, text(m.Content), m.Reasoning)
		}
	}
}

// TestSchemaErrors is SV-14: what cannot be enforced is refused with its path.
func TestSchemaErrors(t *testing.T) {
	c := chain.New()
	c.Template = families["plain"]
	r := start(t, c, nil)
	const at = "response_format.json_schema.schema"
	for schema, param := range map[string]string{
		`{"type":"object","properties":{"a":{"type":"string","pattern":"(?<=x)a"}}}`: at + "/properties/a/pattern",
		`{"type":"object","properties":{"a":{"not":{"type":"string"}}}}`:             at + "/properties/a/not",
		`{"$ref":"http://example.org/x"}`:                                            "*",
		`{"type":"nothing"}`:                                                         "*",
	} {
		r.refused("/v1/chat/completions", ask("x", `"response_format":{"type":"json_schema","json_schema":{"schema":`+schema+`}}`), 400, "unsupported_schema", param)
	}
	for _, schema := range []string{`{"type":"string","pattern":"^+a$"}`, `{"type":"string","pattern":"` + strings.Repeat("(", 10000) + strings.Repeat(")", 10000) + `"}`} {
		r.refused("/v1/chat/completions", ask("x", `"response_format":{"type":"json_schema","json_schema":{"schema":`+schema+`}}`), 400, "unsupported_schema", "*")
	}
	for _, schema := range []string{`{"type":"string","pattern":"^\\S+$","maxLength":3}`, `{"type":"string","pattern":"\\/","maxLength":5}`, `{"type":"array","items":{"type":"string","pattern":"^a+$","maxLength":4},"maxItems":2}`, `{"type":"string","maxLength":50}`} {
		x := r.do("POST", "/v1/chat/completions", ask("x", `"max_tokens":30,"response_format":{"type":"json_schema","json_schema":{"schema":`+schema+`}}`))
		switch {
		case x.status == 200:
			got := decode[completion](t, x.body).Choices[0]
			if s := text(got.Message.Content); *got.FinishReason == "stop" && !json.Valid([]byte(s)) {
				t.Errorf("%s: %q", schema, s)
			}
		case x.status != 400:
			t.Errorf("%s: %d %s", schema, x.status, x.body)
		}
	}
	r.refused("/v1/chat/completions", ask("x", `"grammar":"root ::= nothing"`), 400, "invalid_grammar", "grammar")
}

// TestToolChoice: a call that has to come does, with arguments that fit their
// schema, whatever the model would have said.
func TestToolChoice(t *testing.T) {
	tools := `"tools":[{"type":"function","function":{"name":"get_color","strict":true,"parameters":{"type":"object","properties":{"color":{"$ref":"#/$defs/c"}},"required":["color"],"additionalProperties":false,"$defs":{"c":{"enum":["red","blue"]}}}}},{"type":"function","function":{"name":"wait","parameters":{"properties":{},"additionalProperties":false}}}]`
	one := `"tools":[{"type":"function","function":{"name":"get_color","parameters":{"type":"object","properties":{"color":{"enum":["red","blue"]}},"required":["color"],"additionalProperties":false}}}]`
	for family := range families {
		if testing.Short() && family != "llama3" { // the race detector
			continue
		}
		t.Run(family, func(t *testing.T) {
			c := chain.New()
			c.Template, c.Context = families[family], 1024
			key := c.Say("Sure,", "▁here", "▁it", "▁is", "</s>")
			r := start(t, c, nil)
			if family == "plain" {
				r.refused("/v1/chat/completions", ask(key, tools+`,"tool_choice":"auto"`), 400, "no_tools", "tools")
				return
			}
			named := `,"tool_choice":{"type":"function","function":{"name":"get_color"}}`
			if family == "gemma4" {
				r.refused("/v1/chat/completions", ask(key, tools+named), 400, "unsupported_tool_choice", "tool_choice", "cannot be enforced")
				return
			}
			check := func(how string, m message, finish string, names ...string) {
				t.Helper()
				if len(m.ToolCalls) != 1 || finish != "tool_calls" || m.Content != nil {
					t.Fatalf("%s: %+v %s ended by %s", how, m, text(m.Content), finish)
				}
				f := m.ToolCalls[0].Function
				var a struct{ Color string }
				if err := json.Unmarshal([]byte(f.Arguments), &a); err != nil || f.Name == "get_color" && a.Color != "red" && a.Color != "blue" || !strings.Contains(strings.Join(names, " "), f.Name) {
					t.Errorf("%s: %+v (%v)", how, f, err)
				}
			}
			got := r.chat(key, tools+named)
			check("named", *got.Choices[0].Message, *got.Choices[0].FinishReason, "get_color")
			all, finish, _ := r.streamChat(ask(key, tools+named+`,"stream":true`))
			check("named, streamed", all, finish, "get_color")
			got = r.chat(key, one+`,"tool_choice":"required"`)
			check("required, one", *got.Choices[0].Message, *got.Choices[0].FinishReason, "get_color")
			if family == "harmony" {
				r.refused("/v1/chat/completions", ask(key, tools+`,"tool_choice":"required"`), 400, "unsupported_tool_choice", "tool_choice")
				return
			}
			got = r.chat(key, tools+`,"tool_choice":"required"`)
			check("required", *got.Choices[0].Message, *got.Choices[0].FinishReason, "get_color", "wait")
			// auto and none leave the model free.
			for _, choice := range []string{`"auto"`, `"none"`} {
				got := r.chat(key, one+`,"tool_choice":`+choice)
				if text(got.Choices[0].Message.Content) != "Sure, here it is" || *got.Choices[0].FinishReason != "stop" {
					t.Errorf("%s: %+v", choice, got.Choices[0].Message)
				}
			}
			r.refused("/v1/chat/completions", ask(key, tools), 400, "unsupported_parameter", "tools[0].function.strict", "tool_choice")
			r.refused("/v1/chat/completions", ask(key, one+`,"response_format":{"type":"json_object"}`), 400, "conflict", "response_format")
		})
	}
}

// TestOneCall: parallel_tool_calls false ends the answer after the first call.
func TestOneCall(t *testing.T) {
	c := chain.New()
	c.Template = families["llama3"]
	key := c.Say(`{"name": "f", "parameters": {}}`, "; ", `{"name": "g", "parameters": {}}`, "</s>")
	r := start(t, c, nil)
	tools := `"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}]`
	for more, want := range map[string]int{"": 2, `,"parallel_tool_calls":true`: 2, `,"parallel_tool_calls":false`: 1} {
		got := r.chat(key, tools+more)
		if calls := got.Choices[0].Message.ToolCalls; len(calls) != want || calls[0].Function.Name != "f" || *got.Choices[0].FinishReason != "tool_calls" {
			t.Errorf("%s: %+v", more, calls)
		}
		all, _, _ := r.streamChat(ask(key, tools+more+`,"stream":true`))
		if len(all.ToolCalls) != want {
			t.Errorf("%s streamed: %+v", more, all.ToolCalls)
		}
	}
}
