package server

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"graphrun/internal/chain"
)

// responseBody is what tests look at in a response.
type responseBody struct {
	ID, Object, Status, Model string
	Output                    []struct {
		ID, Type, Status, Role string
		Content                []struct{ Type, Text string }
		CallID                 string `json:"call_id"`
		Name, Arguments        string
	}
	Incomplete *struct{ Reason string } `json:"incomplete_details"`
	Usage      *struct {
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"`
		Total  int `json:"total_tokens"`
	}
}

// sum writes the output as one line.
func (b *responseBody) sum() string {
	var parts []string
	for _, it := range b.Output {
		s := it.Type
		for _, c := range it.Content {
			s += " " + c.Type + "=" + c.Text
		}
		if it.Name != "" {
			s += " " + it.Name + it.Arguments
		}
		if it.Status != "completed" {
			s += " (" + it.Status + ")"
		}
		parts = append(parts, s)
	}
	return b.Status + ": " + strings.Join(parts, "; ")
}

// TestResponses: the items of an answer, whole and streamed; the events of a
// stream, put together, are the answer.
func TestResponses(t *testing.T) {
	c := chain.New()
	c.Template = families["gemma4"]
	plain := c.Say("▁hel", "lo", "</s>")
	thought := c.Say("<|channel>", "thought", "\n", "plan", "<channel|>", "ans", "wer", "<turn|>")
	called := c.Say("I look. ", "<|tool_call>", "call:get{n:", "1}", "<tool_call|>", "</s>")
	none := c.Say("</s>")
	r := start(t, c, nil)
	tools := `,"tools":[{"type":"function","name":"get","description":"d","parameters":{"type":"object"},"strict":false}]`
	for _, x := range []struct{ input, more, want string }{
		{`"` + plain + `"`, "", "completed: message output_text= hello"},
		{`[{"role":"user","content":"` + plain + `"}]`, `,"instructions":"be brief","store":true,"metadata":{"a":"b"}`, "completed: message output_text= hello"},
		{`[{"type":"message","role":"user","content":[{"type":"input_text","text":"` + plain + `"}]}]`, `,"max_output_tokens":1`, "incomplete: message output_text= hel (incomplete)"},
		{`"` + thought + `"`, "", "completed: reasoning reasoning_text=plan; message output_text=answer"},
		{`"` + called + `"`, tools, `completed: message output_text=I look. ; function_call get{"n":1}`},
		{`"` + none + `"`, "", "completed: message output_text="},
		{`[{"role":"user","content":"a"},{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"b"}]},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"` + plain + `"}]`, "", "completed: message output_text= hello"},
	} {
		body := `{"temperature":0,"input":` + x.input + x.more
		got := decode[responseBody](t, r.post("/v1/responses", body+"}").body)
		if got.sum() != x.want || got.Object != "response" || got.Model != "tiny" || got.Usage.Total != got.Usage.Input+got.Usage.Output {
			t.Errorf("%s:\n got %s\nwant %s (%+v)", body, got.sum(), x.want, got)
		}
		if (got.Incomplete != nil) != (got.Status == "incomplete") {
			t.Errorf("%s: %+v", body, got.Incomplete)
		}
		checkEvents(t, r.post("/v1/responses", body+`,"stream":true}`).body, x.want)
	}
	// A schema, in this endpoint's own place.
	got := decode[responseBody](t, r.post("/v1/responses", `{"temperature":0,"input":"`+plain+`","text":{"format":{"type":"json_schema","name":"x","schema":{"enum":["yes"]}}}}`).body)
	if got.sum() != `completed: message output_text="yes"` {
		t.Errorf("%s", got.sum())
	}
}

// checkEvents checks a stream of events: numbered, each item and part begun before it
// grows and ended once, and the last event has what the deltas say.
func checkEvents(t *testing.T, body, want string) {
	t.Helper()
	var kinds []string
	deltas := map[int]string{}
	open := map[int]bool{}
	name := ""
	for sc, n := bufio.NewScanner(strings.NewReader(body)), 0; sc.Scan(); {
		if v, ok := strings.CutPrefix(sc.Text(), "event: "); ok {
			name = v
		}
		data, ok := strings.CutPrefix(sc.Text(), "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type     string
			Sequence int `json:"sequence_number"`
			Index    int `json:"output_index"`
			Delta    string
			Text     *string
			Arg      *string `json:"arguments"`
			Response responseBody
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatal(err)
		}
		if e.Type != name || e.Sequence != n {
			t.Errorf("event %d is %s, number %d, in the line %s", n, e.Type, e.Sequence, name)
		}
		n++
		kinds = append(kinds, e.Type)
		switch e.Type {
		case "response.output_item.added":
			open[e.Index] = true
		case "response.output_text.delta", "response.reasoning_text.delta", "response.function_call_arguments.delta":
			if !open[e.Index] {
				t.Errorf("%s before its item", e.Type)
			}
			deltas[e.Index] += e.Delta
		case "response.output_text.done", "response.reasoning_text.done":
			if *e.Text != deltas[e.Index] {
				t.Errorf("%s has %q, the deltas %q", e.Type, *e.Text, deltas[e.Index])
			}
		case "response.function_call_arguments.done":
			if *e.Arg != deltas[e.Index] {
				t.Errorf("%s has %q, the deltas %q", e.Type, *e.Arg, deltas[e.Index])
			}
		case "response.output_item.done":
			open[e.Index] = false
		case "response.completed", "response.incomplete":
			if e.Response.sum() != want {
				t.Errorf("streamed:\n got %s\nwant %s", e.Response.sum(), want)
			}
		}
	}
	if len(kinds) < 4 || kinds[0] != "response.created" || kinds[1] != "response.in_progress" || !strings.HasPrefix(want, strings.TrimPrefix(kinds[len(kinds)-1], "response.")) {
		t.Errorf("events %v", kinds)
	}
	if s := fmt.Sprint(open); strings.Contains(s, "true") {
		t.Errorf("items that do not end: %s", s)
	}
}
