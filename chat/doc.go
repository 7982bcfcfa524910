// Package chat turns conversations into prompts and answers into messages.
//
// A Template is a model's own Jinja text. A Prompter renders messages with it
// and encodes the result so that control tokens come from the template only,
// whatever users write. A Parser splits the text a model writes, at any byte,
// into content, reasoning and tool calls. A Session keeps one conversation with
// a model and computes only what is new.
//
//	m, err := engine.Open("model.gguf", engine.Options{})
//	if err != nil {
//		return err
//	}
//	defer m.Close()
//	s, err := chat.NewSession(m, chat.Options{})
//	if err != nil {
//		return err
//	}
//	defer s.Close()
//	for d, err := range s.Send(ctx, chat.UserMessage("Hello"), engine.GenerateOptions{}) {
//		if err != nil {
//			return err
//		}
//		fmt.Print(d.Content)
//	}
//
// The files, from below: json.go (values whose keys keep their order); jinja.go,
// jinjacode.go and filters.go (what the template library needs to agree with
// the reference implementation); template.go, message.go, marks.go and prompt.go
// (the way to token ids); parse.go and one file for each family of answers;
// session.go.
package chat
