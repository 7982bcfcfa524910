package chat

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// testTemplates have what familyOf looks for.
var testTemplates = map[string]string{
	"gemma4":  "<|turn>{{messages[0].role}}<|channel>",
	"llama3":  "<|start_header_id|>",
	"think":   "<think>",
	"harmony": "<|channel|><|message|>",
	"plain":   "<start_of_turn>",
}

func testParser(t testing.TB, family, tail string, tools bool) *Parser {
	t.Helper()
	tmpl, err := ParseTemplate(family, testTemplates[family])
	if err != nil {
		t.Fatal(err)
	}
	f := familyOf(tmpl)
	if f.name != family {
		t.Fatalf("family %q, want %q", f.name, family)
	}
	texts := append([]string{"<bos>", "<eos>", "<pad>", "<|eot_id|>", "<|eom_id|>", "<|python_tag|>"}, f.marks...)
	p := newParser(f, newMarkerSet(texts), tail, tools)
	p.NewID = func() string { return "id" }
	return p
}

func join(list ...Delta) Delta {
	var sum Delta
	for _, d := range list {
		sum.Content += d.Content
		sum.Reasoning += d.Reasoning
		sum.ToolCalls = append(sum.ToolCalls, d.ToolCalls...)
	}
	return sum
}

func calls(pairs ...string) []ToolCall {
	var out []ToolCall
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, ToolCall{ID: "id", Type: "function", Function: Function{Name: pairs[i], Arguments: pairs[i+1]}})
	}
	return out
}

var parseCases = []struct {
	family, name, tail, text string
	tools                    bool
	want                     Delta
}{
	{family: "gemma4", name: "plain", text: "answer<turn|>", want: Delta{Content: "answer"}},
	{family: "gemma4", name: "thought", text: "<|channel>thought\nplan<channel|>answer<turn|>", want: Delta{Content: "answer", Reasoning: "plan"}},
	{family: "gemma4", name: "spaces", text: "<|channel> thought \n plan <channel|> answer<turn|>", want: Delta{Content: "answer", Reasoning: "plan"}},
	{family: "gemma4", name: "inner space", text: "<|channel>thought\na\n\n b\n<channel|>\n\nx y ", want: Delta{Content: "x y ", Reasoning: "a\n\n b"}},
	{family: "gemma4", name: "opened by the prompt", tail: "<|turn>user\nq<turn|>\n<|turn>model\n<|channel>thought\n", text: "plan<channel|>answer<turn|>", want: Delta{Content: "answer", Reasoning: "plan"}},
	{family: "gemma4", name: "opened, name to come", tail: "<tool_response|><|channel>", text: "thought\nplan<channel|>answer", want: Delta{Content: "answer", Reasoning: "plan"}},
	{family: "gemma4", name: "closed by the prompt", tail: "<|turn>model\n<|channel>thought\n<channel|>", text: "answer<turn|>", want: Delta{Content: "answer"}},
	{family: "gemma4", name: "never closed", text: "<|channel>thought\nplan and more<turn|>", want: Delta{Reasoning: "plan and more"}},
	{family: "gemma4", name: "no name", text: "<|channel>plan<channel|>answer", want: Delta{Content: "answer", Reasoning: "plan"}},
	{family: "gemma4", name: "only a name", text: "<|channel>thought", want: Delta{}},
	{family: "gemma4", name: "other channel", text: "<|channel>final\nhello<channel|> there", want: Delta{Content: "hello there"}},
	{family: "gemma4", name: "stray end", text: "a<channel|>b", want: Delta{Content: "ab"}},
	{family: "gemma4", name: "empty thought", text: "<|channel>thought\n<channel|>answer", want: Delta{Content: "answer"}},
	{family: "gemma4", name: "after the turn", text: "a<turn|>\n<|turn>user\nb", want: Delta{Content: "a"}},
	{family: "gemma4", name: "call", text: `<|tool_call>call:get{city:<|"|>Oslo, "N" {x}<|"|>,n:1,deep:{a:[1,true,null,<|"|>s<|"|>]}}<tool_call|><|tool_response>`,
		want: Delta{ToolCalls: calls("get", `{"city":"Oslo, \"N\" {x}","n":1,"deep":{"a":[1,true,null,"s"]}}`)}},
	{family: "gemma4", name: "two calls and reasoning", text: "<|channel>thought\nuse it\n<channel|><|tool_call>call:f{}<tool_call|><|tool_call>call:g{x:1.5}<tool_call|>",
		want: Delta{Reasoning: "use it", ToolCalls: calls("f", "{}", "g", `{"x":1.5}`)}},
	{family: "gemma4", name: "call in thought", text: "<|channel>thought\nuse it<|tool_call>call:f{}<tool_call|>done", want: Delta{Content: "done", Reasoning: "use it", ToolCalls: calls("f", "{}")}},
	{family: "gemma4", name: "call never closed", text: `<|tool_call>call:f{x:<|"|>a`, want: Delta{Content: `<|tool_call>call:f{x:<|"|>a`}},
	{family: "gemma4", name: "call without end marker", text: `<|tool_call>call:f{x:2}`, want: Delta{ToolCalls: calls("f", `{"x":2}`)}},
	{family: "gemma4", name: "control tokens", text: "a<pad>b<bos>c", want: Delta{Content: "abc"}},
	{family: "gemma4", name: "begun markers", text: "a <|chan <turn <|", want: Delta{Content: "a <|chan <turn <|"}},

	{family: "llama3", name: "content", text: "Hello<|eot_id|>", want: Delta{Content: "Hello"}},
	{family: "llama3", name: "json without tools", text: `{"name": "f", "parameters": {}}<|eot_id|>`, want: Delta{Content: `{"name": "f", "parameters": {}}`}},
	{family: "llama3", name: "call", tools: true, text: `{"name": "f", "parameters": {"a": "x } \" {"}}<|eot_id|>`, want: Delta{ToolCalls: calls("f", `{"a": "x } \" {"}`)}},
	{family: "llama3", name: "calls", tools: true, text: "\n{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"arguments\": {\"a\": 1}}\n", want: Delta{ToolCalls: calls("f", `{}`, "g", `{"a": 1}`)}},
	{family: "llama3", name: "other json", tools: true, text: `{"answer": 4} is it`, want: Delta{Content: `{"answer": 4} is it`}},
	{family: "llama3", name: "cut json", tools: true, text: `{"name": "f", "param`, want: Delta{Content: `{"name": "f", "param`}},
	{family: "llama3", name: "text with tools", tools: true, text: " No {}", want: Delta{Content: " No {}"}},
	{family: "llama3", name: "call, then text", tools: true, text: `{"name": "f", "parameters": {}} and more`, want: Delta{Content: "and more", ToolCalls: calls("f", `{}`)}},
	{family: "llama3", name: "tag and built-in", tools: true, text: `<|python_tag|>brave_search.call(query="a, \"b\"", n=3)<|eom_id|>`, want: Delta{ToolCalls: calls("brave_search", `{"query": "a, \"b\"", "n": 3}`)}},
	{family: "llama3", name: "tag and json", tools: true, text: `<|python_tag|>{"name": "f", "parameters": {"x": 1}}<|eom_id|>`, want: Delta{ToolCalls: calls("f", `{"x": 1}`)}},
	{family: "llama3", name: "tag and code", tools: true, text: "<|python_tag|>print(\"<b>\")\nx = 1\n<|eom_id|>", want: Delta{ToolCalls: calls("code_interpreter", `{"code":"print(\"<b>\")\nx = 1"}`)}},
	{family: "llama3", name: "text, then tag", tools: true, text: "I look. <|python_tag|>f.call(a=1)", want: Delta{Content: "I look. ", ToolCalls: calls("f", `{"a": 1}`)}},

	{family: "think", name: "thought", text: "<think>\nplan\n</think>\n\nanswer<|im_end|>", want: Delta{Content: "answer", Reasoning: "plan"}},
	{family: "think", name: "opened by the prompt", tail: "<|im_start|>assistant\n<think>\n", text: "plan</think>\nanswer", want: Delta{Content: "answer", Reasoning: "plan"}},
	{family: "think", name: "about markers", text: "Write <think> and </think>.", want: Delta{Content: "Write <think> and </think>."}},
	{family: "think", name: "call", text: "I call.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": [1]}}\n</tool_call>", want: Delta{Content: "I call.\n", ToolCalls: calls("f", `{"x": [1]}`)}},
	{family: "think", name: "bad call", text: "<tool_call>\nnonsense\n</tool_call>", want: Delta{Content: "<tool_call>\nnonsense\n"}},
	{family: "think", name: "never closed", text: "<think>plan", want: Delta{Reasoning: "plan"}},

	{family: "harmony", name: "two messages", tail: "<|end|><|start|>assistant", text: "<|channel|>analysis<|message|>plan<|end|><|start|>assistant<|channel|>final<|message|>answer<|return|>", want: Delta{Content: "answer", Reasoning: "plan"}},
	{family: "harmony", name: "call", tail: "<|start|>assistant", text: "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\":1}<|call|>", want: Delta{ToolCalls: calls("f", `{"a":1}`)}},
	{family: "harmony", name: "bare", text: "answer", want: Delta{Content: "answer"}},

	{family: "plain", name: "end", text: "answer ü<end_of_turn>\n<start_of_turn>user", want: Delta{Content: "answer ü"}},
	{family: "plain", name: "nothing", text: "", want: Delta{}},
}

// TestParse: every answer, whole, split in two at each byte, and in pieces of
// one byte, gives the same.
func TestParse(t *testing.T) {
	for _, c := range parseCases {
		t.Run(c.family+"/"+c.name, func(t *testing.T) {
			check := func(how string, pieces ...string) {
				p := testParser(t, c.family, c.tail, c.tools)
				var got []Delta
				for _, s := range pieces {
					got = append(got, p.Push(s))
				}
				got = append(got, p.Flush())
				if sum := join(got...); !reflect.DeepEqual(sum, c.want) {
					t.Fatalf("%s:\n got %+v\nwant %+v", how, sum, c.want)
				}
			}
			check("whole", c.text)
			for i := range len(c.text) {
				check(fmt.Sprintf("split at %d", i), c.text[:i], c.text[i:])
			}
			check("bytes", strings.Split(c.text, "")...)
			var single []string
			for i := range len(c.text) {
				single = append(single, c.text[i:i+1])
			}
			check("single bytes", single...)
		})
	}
}

// TestParseRandom: random strings of markers and text, split at random, give
// the same as whole, and lose no letter outside of markers.
func TestParseRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for family := range testTemplates {
		parts := append([]string{"a", " ", "\n", "{", "}", `"`, "thought", "call:f", "ü", "<", "|", `{"name":"f","parameters":{}}`}, testParser(t, family, "", false).marks.all()...)
		for range 400 {
			var b strings.Builder
			for range r.IntN(12) {
				b.WriteString(parts[r.IntN(len(parts))])
			}
			text := b.String()
			tools := r.IntN(2) == 0
			p := testParser(t, family, "", tools)
			want := join(p.Push(text), p.Flush())
			q := testParser(t, family, "", tools)
			var got []Delta
			for rest := text; rest != ""; {
				n := 1 + r.IntN(len(rest))
				got = append(got, q.Push(rest[:n]))
				rest = rest[n:]
			}
			got = append(got, q.Flush())
			if sum := join(got...); !reflect.DeepEqual(sum, want) {
				t.Fatalf("%s %q:\n got %+v\nwant %+v", family, text, sum, want)
			}
		}
	}
}

// all returns the markers.
func (m *markerSet) all() []string {
	var out []string
	for _, l := range m.first {
		out = append(out, l...)
	}
	return out
}
