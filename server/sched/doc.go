// Package sched runs the requests of many clients in one model at once.
//
//	s := sched.New(m, sched.Options{CachePages: -1})
//	defer s.Close()
//	st, err := s.Submit(ctx, sched.Request{Prompt: ids, Options: engine.GenerateOptions{MaxTokens: 100}})
//	if err != nil {
//		return err
//	}
//	for {
//		tok, err := st.Next(ctx)
//		if err == io.EOF {
//			break
//		}
//		if err != nil {
//			return err
//		}
//		fmt.Print(tok.Text)
//	}
//
// # Steps
//
// One goroutine plans a step, runs it and hands out what came of it. A step has
// a token for each answer that is being written, and fills up with prompts: to
// the model's step when nobody is being written for, else with Options.Chunk
// tokens at most. So weights are read once for all, and a long prompt delays an
// answer by one chunk a token, never more. Half of the prompt tokens go to the
// oldest prompt, the rest to the shortest ones. Embeddings take turns with
// prompts. After the step the tokens are chosen, on several goroutines when the
// vocabulary is large.
//
// An answer does not depend on what else is in its steps, on how its prompt was
// cut, on what came from the cache, or on whether it was preempted: bit for bit
// for models with quantized matrices, and for others that were opened with
// engine.Options.Deterministic.
//
// Without work the goroutine sleeps, and the model's batch is free for others.
//
// # Queue
//
// At most Options.MaxQueue requests wait. The next is the first of the partition
// for which least was computed, where a token of an answer counts as two of a
// prompt; a partition that had nothing to do does not save up turns. When the
// queue is full a request is refused with *QueueFullError, unless its partition
// has fewer in it than another: then the newest of the largest partition has to
// leave with that error.
//
// A request that can never be answered is refused by Submit, with numbers. When
// a client's context ends its request ends at once, wherever it is: in the queue
// it is taken out, in a step it is dropped after the step, and a step is
// abandoned when nobody in it is left.
//
// # Pages
//
// Keys and values lie in pages of engine.PageSize positions, of which there are
// a fixed number: engine.Options.Positions is the ceiling. A request starts when
// there are pages for its prompt and for what the running ones are about to
// need; else it waits, and nobody of its kind passes it. Nothing is reserved for
// the length an answer may reach, because most end long before. When pages run
// out all the same, the prefix cache gives up what nobody uses, and then the
// request that came last is preempted: it goes back to the head of the queue
// with its answer so far, and its text is computed again when there is room. The
// oldest is never preempted and any request fits alone, so every answer ends.
//
// # Prefix cache
//
// For each partition there is a tree whose nodes are pages of tokens, and hold
// the pages in which their keys and values lie. A prompt begins in the longest
// known text it starts with, to the token: a page it shares only in part is
// copied. Its last token is always computed, for its logits. What a request
// computes enters the tree page by page, so that others can begin in it while it
// is at work; a prompt that is about to be computed by another request waits for
// it. Pages that only the tree holds are free for whoever needs them, the least
// recently used leaves first. Options.CachePages is the ceiling.
//
// Layers with a sliding window keep only the last positions of a text, so a text
// can be entered only where its window is still there. The tree keeps windows
// where prompts and texts end, where texts part, and where one was entered; those
// that a text has left behind go first when pages run out. If no window is left
// on the way the prompt is computed from the last place that has one, or from
// its beginning: Result.CachedTokens tells. engine.Options.Windows adds pages
// for windows beyond those the running requests need.
package sched
