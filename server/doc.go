// Package server answers OpenAI's API for one model.
//
//	s, err := server.New(server.Options{Name: "model"})
//	if err != nil {
//		return err
//	}
//	go s.Serve(ctx, ln)            // says that it is loading
//	m, err := engine.Open("model.gguf", engine.Options{MaxSeqs: 8})
//	if err != nil {
//		return err
//	}
//	defer m.Close()
//	err = s.Ready(m, server.Scheduled(sched.New(m, sched.Options{CachePages: -1})), nil)
//
// The way of a request, and the files: guard.go checks header, host, origin and
// key and answers errors (errors.go); decode.go reads the body, bounded in size,
// depth and time, field by field; params.go, constrain.go, chat.go, completions.go
// and responses.go make a plan of it; answer.go runs the plan; chatanswer.go,
// response.go and sse.go write what comes back. What a request asks for is done or
// refused, never left out: unknown fields are errors.
//
// Static pages are no part of this package: Options.Page takes them.
package server
