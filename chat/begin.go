package chat

import (
	"errors"
	"fmt"
	"strings"
)

// Begin returns the prompt with the beginning of the answer written already, as
// if the model had: markers in it count. What the parser of the new prompt
// returns comes after it.
func (p *Prompter) Begin(pr Prompt, answer string) Prompt {
	if answer == "" {
		return pr
	}
	pr.Text += answer
	pr.begun += answer
	pr.IDs = p.encode(pr.Text, pr.at)
	return pr
}

// ContentStart returns how an answer to the prompt has to begin so that content
// follows at once: the end of reasoning that the template has opened, the header
// of a message. An answer that must be JSON from its first letter begins so.
func (p *Prompter) ContentStart(pr Prompt) string {
	tail := pr.tail + pr.begun
	switch p.family {
	case gemma4:
		if opened(tail, gemmaChannel, gemmaChannelEnd) >= 0 {
			return gemmaChannelEnd
		}
	case thinking:
		if opened(tail, thinkOpen, thinkClose) >= 0 {
			return "\n" + thinkClose + "\n\n"
		}
	case harmony:
		return "<|channel|>final<|message|>"
	}
	return ""
}

// ErrNoCall says that a model's form of tool calls cannot be asked for by
// grammar.
var ErrNoCall = errors.New("chat: the model's tool calls are no JSON, so that they cannot be enforced")

// Call is how a tool call is written.
type Call struct {
	// Begin is what comes before its JSON.
	Begin string
	// Arguments is the key of the arguments in an object with the key "name"
	// beside it; "" means that the JSON is the arguments alone.
	Arguments string
}

// CallStart returns how an answer that is a call of one of the named tools is
// written: Begin of it leads to the JSON. ErrNoCall, wrapped, says that there is
// no such form.
func (p *Prompter) CallStart(pr Prompt, names []string) (Call, error) {
	switch p.family {
	case llama3:
		return Call{Arguments: "parameters"}, nil
	case thinking:
		if !p.t.prints(callOpen) {
			break
		}
		return Call{Begin: p.ContentStart(pr) + callOpen + "\n", Arguments: "arguments"}, nil
	case harmony:
		if len(names) > 1 {
			return Call{}, fmt.Errorf("%w: the form of this model names the tool before the JSON, so one tool has to be chosen", ErrNoCall)
		}
		return Call{Begin: "<|channel|>commentary to=functions." + names[0] + " <|constrain|>json<|message|>"}, nil
	}
	return Call{}, fmt.Errorf("%w (family %s)", ErrNoCall, p.family.name)
}

// HasTools reports whether the template shows tools to the model.
func (t *Template) HasTools() bool { return strings.Contains(t.source, "tools") }
