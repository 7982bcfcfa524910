package clienttest

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"graphrun/engine"
	"graphrun/internal/chain"
	"graphrun/server"
	"graphrun/server/sched"
)

// template shows tools and is of the family whose calls are bare JSON.
const template = `{% if false %}<|start_header_id|>{% endif %}{% if tools %}{{ tools | tojson }}{% endif %}` + chain.Template

const apiKey = "secret-of-the-test"

// serve starts the server with a scripted model and returns the client.
func serve(t *testing.T, c *chain.Model) openai.Client {
	t.Helper()
	c.Context = 1024
	data, err := c.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	m, err := engine.OpenBytes("chain", data, engine.Options{Threads: 1, MaxSeqs: 4})
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Options{Name: "tiny", Keys: []string{apiKey}})
	if err != nil {
		t.Fatal(err)
	}
	sc := sched.New(m, sched.Options{CachePages: -1})
	if err := s.Ready(m, server.Scheduled(sc), nil); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		sc.Close()
		m.Close()
	})
	return openai.NewClient(option.WithBaseURL("http://"+ln.Addr().String()+"/v1"), option.WithAPIKey(apiKey), option.WithMaxRetries(0))
}

func ask(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: "tiny", Temperature: openai.Float(0), Seed: openai.Int(7),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
}

var weather = openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
	Name: "get_weather", Description: openai.String("the weather of a city"),
	Parameters: shared.FunctionParameters{"type": "object", "properties": map[string]any{"city": map[string]any{"enum": []string{"Oslo", "Rome"}}}, "required": []string{"city"}, "additionalProperties": false},
})

func TestChat(t *testing.T) {
	c := chain.New()
	c.Template = template
	key := c.Say("▁hel", "lo", "▁<0x41>", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "</s>")
	client := serve(t, c)
	p := ask(key)
	p.MaxCompletionTokens, p.N, p.User, p.Store = openai.Int(50), openai.Int(2), openai.String("u"), openai.Bool(false)
	p.Logprobs, p.TopLogprobs = openai.Bool(true), openai.Int(2)
	x, err := client.Chat.Completions.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if len(x.Choices) != 2 || x.Model != "tiny" || x.Usage.CompletionTokens != 14 || x.SystemFingerprint == "" || x.Created == 0 {
		t.Errorf("%+v", x)
	}
	for _, ch := range x.Choices {
		if ch.Message.Content != " hello <0x41>\U0001F600" || ch.FinishReason != "stop" || string(ch.Message.Role) != "assistant" || ch.Message.Refusal != "" {
			t.Errorf("%+v", ch)
		}
		l := ch.Logprobs.Content
		if len(l) != 7 || l[0].Token != " hel" || len(l[0].TopLogprobs) != 2 || l[3].Bytes[0] != 0xf0 || l[0].Logprob > 0 || l[0].Logprob < -0.01 {
			t.Errorf("log-probabilities %+v", l)
		}
	}
}

func TestStream(t *testing.T) {
	c := chain.New()
	c.Template = template
	key := c.Say("▁hel", "lo", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "▁world", "</s>")
	client := serve(t, c)
	p := ask(key)
	p.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	stream := client.Chat.Completions.NewStreaming(t.Context(), p)
	acc := openai.ChatCompletionAccumulator{}
	text, finished := "", ""
	for stream.Next() {
		chunk := stream.Current()
		if !acc.AddChunk(chunk) {
			t.Fatalf("the accumulator refuses %+v", chunk)
		}
		if s, ok := acc.JustFinishedContent(); ok {
			finished = s
		}
		if len(chunk.Choices) > 0 {
			text += chunk.Choices[0].Delta.Content
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	const want = " hello\U0001F600 world"
	if text != want || finished != want || acc.Choices[0].Message.Content != want || acc.Choices[0].FinishReason != "stop" || acc.Usage.CompletionTokens != 7 {
		t.Errorf("%q, %q, %+v", text, finished, acc.ChatCompletion)
	}
}

func TestTools(t *testing.T) {
	c := chain.New()
	c.Template = template
	key := c.Say(`{"name": "get_weather", "par`, `ameters": {"city": "Os`, `lo"}}`, "</s>")
	after := c.Say("It", "▁rains.", "</s>")
	client := serve(t, c)
	p := ask(key)
	p.Tools = []openai.ChatCompletionToolUnionParam{weather}
	x, err := client.Chat.Completions.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	calls := x.Choices[0].Message.ToolCalls
	if len(calls) != 1 || calls[0].Function.Name != "get_weather" || x.Choices[0].FinishReason != "tool_calls" || calls[0].ID == "" {
		t.Fatalf("%+v", x.Choices[0])
	}
	// The second turn, as the client writes it.
	p.Messages = append(p.Messages, x.Choices[0].Message.ToParam(), openai.ToolMessage("rain "+after, calls[0].ID))
	if x, err = client.Chat.Completions.New(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if x.Choices[0].Message.Content != "It rains." {
		t.Errorf("%+v", x.Choices[0])
	}
	stream := client.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{Model: "tiny", Temperature: openai.Float(0), Messages: ask(key).Messages, Tools: p.Tools})
	acc, calledName, calledArgs := openai.ChatCompletionAccumulator{}, "", ""
	for stream.Next() {
		acc.AddChunk(stream.Current())
		if call, ok := acc.JustFinishedToolCall(); ok {
			calledName, calledArgs = call.Name, call.Arguments
		}
	}
	if stream.Err() != nil || calledName != "get_weather" || calledArgs != `{"city": "Oslo"}` || acc.Choices[0].FinishReason != "tool_calls" {
		t.Errorf("streamed: %s %s %v %+v", calledName, calledArgs, stream.Err(), acc.Choices)
	}
	// A call that has to come, whatever the model would have said.
	for _, choice := range []openai.ChatCompletionToolChoiceOptionUnionParam{
		{OfAuto: openai.String("required")}, openai.ToolChoiceOptionFunctionToolChoice(openai.ChatCompletionNamedToolChoiceFunctionParam{Name: "get_weather"}),
	} {
		p := ask(after)
		p.Tools, p.ToolChoice = []openai.ChatCompletionToolUnionParam{weather}, choice
		x, err := client.Chat.Completions.New(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		var args struct{ City string }
		calls := x.Choices[0].Message.ToolCalls
		if len(calls) != 1 || json.Unmarshal([]byte(calls[0].Function.Arguments), &args) != nil || args.City != "Oslo" && args.City != "Rome" {
			t.Errorf("%+v", x.Choices[0])
		}
	}
}

func TestJSONSchema(t *testing.T) {
	c := chain.New()
	c.Template = template
	key := c.Say("Sure,", "▁here", "</s>")
	client := serve(t, c)
	p := ask(key)
	p.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
		Name: "answer", Strict: openai.Bool(true), Schema: map[string]any{"type": "object", "properties": map[string]any{"ok": map[string]any{"type": "boolean"}, "kind": map[string]any{"enum": []string{"a", "b"}}},
			"required": []string{"ok", "kind"}, "additionalProperties": false}}}}
	x, err := client.Chat.Completions.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		OK   *bool
		Kind string
	}
	if err := json.Unmarshal([]byte(x.Choices[0].Message.Content), &v); err != nil || v.OK == nil || v.Kind != "a" && v.Kind != "b" {
		t.Errorf("%q (%v)", x.Choices[0].Message.Content, err)
	}
	p.ResponseFormat.OfJSONSchema.JSONSchema.Schema = map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"not": map[string]any{"type": "string"}}}}
	_, err = client.Chat.Completions.New(t.Context(), p)
	var e *openai.Error
	if !errors.As(err, &e) || e.StatusCode != 400 || e.Code != "unsupported_schema" || !strings.HasSuffix(e.Param, "/properties/a/not") || e.Type != "invalid_request_error" {
		t.Errorf("%+v", err)
	}
}

func TestEmbeddings(t *testing.T) {
	c := chain.New()
	client := serve(t, c)
	for _, format := range []openai.EmbeddingNewParamsEncodingFormat{"", openai.EmbeddingNewParamsEncodingFormatFloat} {
		x, err := client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{Model: "tiny", EncodingFormat: format, Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"one", "two", "three"}}})
		if err != nil {
			t.Fatal(err)
		}
		if len(x.Data) != 3 || len(x.Data[2].Embedding) != c.Width() || x.Data[2].Index != 2 || x.Usage.PromptTokens == 0 {
			t.Errorf("%d vectors of %d", len(x.Data), len(x.Data[0].Embedding))
		}
		sum := 0.0
		for _, v := range x.Data[0].Embedding {
			sum += v * v
		}
		if sum < 0.999 || sum > 1.001 {
			t.Errorf("a vector of length %g", sum)
		}
	}
}

func TestModels(t *testing.T) {
	client := serve(t, chain.New())
	page, err := client.Models.List(t.Context())
	if err != nil || len(page.Data) != 1 || page.Data[0].ID != "tiny" || page.Data[0].OwnedBy != "graphrun" {
		t.Errorf("%+v, %v", page, err)
	}
	if m, err := client.Models.Get(t.Context(), "tiny"); err != nil || m.ID != "tiny" {
		t.Errorf("%+v, %v", m, err)
	}
	var e *openai.Error
	if _, err := client.Models.Get(t.Context(), "gpt-4o"); !errors.As(err, &e) || e.StatusCode != 404 || e.Code != "model_not_found" {
		t.Errorf("%v", err)
	}
	wrong := openai.NewClient(append(client.Options, option.WithAPIKey("another key"))...)
	if _, err := wrong.Models.List(t.Context()); !errors.As(err, &e) || e.StatusCode != 401 || e.Code != "invalid_api_key" {
		t.Errorf("%v", err)
	}
}

func TestCompletions(t *testing.T) {
	c := chain.New()
	key := c.Say("a", "b", "c", "</s>")
	client := serve(t, c)
	p := openai.CompletionNewParams{Model: "tiny", Temperature: openai.Float(0), Echo: openai.Bool(true), Logprobs: openai.Int(1), Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String(key)}}
	x, err := client.Completions.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if ch := x.Choices[0]; ch.Text != key+"abc" || ch.FinishReason != "stop" || len(ch.Logprobs.Tokens) != int(x.Usage.TotalTokens) || len(ch.Logprobs.TextOffset) != len(ch.Logprobs.Tokens) {
		t.Errorf("%+v", x)
	}
	text := ""
	stream := client.Completions.NewStreaming(t.Context(), p)
	for stream.Next() {
		for _, ch := range stream.Current().Choices {
			text += ch.Text
		}
	}
	if stream.Err() != nil || text != key+"abc" {
		t.Errorf("%q, %v", text, stream.Err())
	}
}

func TestResponses(t *testing.T) {
	c := chain.New()
	c.Template = template
	key := c.Say("▁hel", "lo", "</s>")
	called := c.Say(`{"name": "f", "parameters": {"n": 1}}`, "</s>")
	client := serve(t, c)
	p := responses.ResponseNewParams{Model: "tiny", Temperature: openai.Float(0), Instructions: openai.String("be brief"), Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(key)}}
	x, err := client.Responses.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if x.OutputText() != " hello" || x.Status != "completed" || x.Usage.OutputTokens != 2 {
		t.Errorf("%+v", x)
	}
	stream := client.Responses.NewStreaming(t.Context(), p)
	text, last := "", ""
	for stream.Next() {
		e := stream.Current()
		if e.Type == "response.output_text.delta" {
			text += e.Delta
		}
		if e.Type == "response.completed" {
			last = e.Response.OutputText()
		}
	}
	if stream.Err() != nil || text != " hello" || last != " hello" {
		t.Errorf("%q, %q, %v", text, last, stream.Err())
	}
	p.Input = responses.ResponseNewParamsInputUnion{OfString: openai.String(called)}
	p.Tools = []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{Name: "f", Strict: openai.Bool(false), Parameters: map[string]any{"type": "object"}}}}
	if x, err = client.Responses.New(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if call := x.Output[0].AsFunctionCall(); call.Name != "f" || call.Arguments != `{"n": 1}` || call.CallID == "" {
		t.Errorf("%+v", x.Output)
	}
}
