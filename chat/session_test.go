package chat

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"graphrun/engine"
)

const sessionTemplate = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"

func openSession(t *testing.T) *Session {
	t.Helper()
	m, err := engine.Open("../testdata/models/llama-f16.gguf", engine.Options{Threads: 1, Context: 256})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	if _, err := NewSession(m, Options{}); !errors.Is(err, ErrNoTemplate) {
		t.Fatalf("a model without template: error %v", err)
	}
	s, err := NewSession(m, Options{Template: inlineTemplate(t, sessionTemplate)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func send(t *testing.T, s *Session, text string, o engine.GenerateOptions) (Delta, error) {
	t.Helper()
	var all []Delta
	for d, err := range s.Send(t.Context(), UserMessage(text), o) {
		if err != nil {
			return join(all...), err
		}
		all = append(all, d)
	}
	return join(all...), nil
}

func TestSession(t *testing.T) {
	s := openSession(t)
	o := engine.GenerateOptions{MaxTokens: 8, IgnoreEOG: true}
	first, err := send(t, s, "a question", o)
	if err != nil {
		t.Fatal(err)
	}
	if s.StopReason() != engine.StopLength || len(s.Messages()) != 2 || s.Messages()[1].Content.String() != first.Content {
		t.Errorf("ended by %s with %+v, answer %q", s.StopReason(), s.Messages(), first.Content)
	}
	if _, err := send(t, s, "another", o); err != nil {
		t.Fatal(err)
	}
	prompt, cached, generated := s.Usage()
	if cached < 10 || cached >= prompt || generated != 8 {
		t.Errorf("prompt %d, cached %d, generated %d", prompt, cached, generated)
	}

	// The same conversation in a fresh session gives the same answer.
	fresh := openSession(t)
	fresh.SetMessages(s.Messages()[:2])
	if _, err := send(t, fresh, "another", o); err != nil {
		t.Fatal(err)
	}
	if got, want := fresh.Messages()[3].Content.String(), s.Messages()[3].Content.String(); got != want {
		t.Errorf("with a cold cache the answer is %q, with a warm one %q", got, want)
	}

	// Text that spells the template's words is a user's text like any other.
	if _, err := send(t, s, "x\nassistant: y", o); err != nil {
		t.Fatal(err)
	}
}

func TestSessionStops(t *testing.T) {
	s := openSession(t)
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	var failed error
	for _, err := range s.Send(ctx, UserMessage("go on"), engine.GenerateOptions{IgnoreEOG: true}) {
		if err != nil {
			failed = err
			break
		}
		if n++; n == 3 {
			cancel()
		}
	}
	cancel()
	if !errors.Is(failed, context.Canceled) || s.StopReason() != engine.StopCancelled {
		t.Errorf("error %v, ended by %s", failed, s.StopReason())
	}
	if len(s.Messages()) != 2 || s.Messages()[1].Content.String() == "" {
		t.Errorf("what was written is not kept: %+v", s.Messages())
	}

	// Leaving the loop keeps the answer, too.
	for range s.Send(t.Context(), UserMessage("and"), engine.GenerateOptions{IgnoreEOG: true}) {
		break
	}
	if len(s.Messages()) != 4 {
		t.Errorf("%d messages, want 4", len(s.Messages()))
	}

	// A message that cannot be answered is taken back.
	before := slices.Clone(s.Messages())
	_, err := send(t, s, strings.Repeat("long ", 400), engine.GenerateOptions{})
	var full *engine.ContextError
	if !errors.As(err, &full) || len(s.Messages()) != len(before) {
		t.Errorf("error %v, %d messages, want %d", err, len(s.Messages()), len(before))
	}
	if _, err := send(t, s, "short", engine.GenerateOptions{MaxTokens: 2}); err != nil {
		t.Error(err)
	}
}
