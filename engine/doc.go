// Package engine runs language models: it opens a model file, keeps texts with
// their KV caches, and turns logits into text.
//
//	m, err := engine.Open("model.gguf", engine.Options{})
//	if err != nil {
//		return err
//	}
//	defer m.Close()
//	s := m.NewSession()
//	defer s.Close()
//	if err := s.Append(ctx, m.Encode("Once upon a time")...); err != nil {
//		return err
//	}
//	for tok, err := range s.Generate(ctx, engine.GenerateOptions{MaxTokens: 100}) {
//		if err != nil {
//			return err
//		}
//		fmt.Print(tok.Text)
//	}
//
// The layers, from below:
//
//   - Cache and Sequence hand out the pages of the KV storage (kvcache.go);
//   - Batch runs one step: any mix of tokens of any sequences (batch.go);
//   - Session is one text: prompt in chunks, append, rewind (session.go);
//   - Sampler chooses tokens, Answer makes text of them, Generate loops
//     (sample.go, answer.go, generate.go);
//   - Score, Perplexity, Compare and Embed measure texts (score.go,
//     perplexity.go, embed.go).
//
// A server that batches many texts uses Sequence, Batch and Answer and leaves
// Session aside.
package engine
