package server

import (
	"net/http"
	"unicode/utf8"

	"graphrun/chat"
	"graphrun/loaders"
)

// modelCard is a model as /v1/models shows it.
type modelCard struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Owner   string `json:"owned_by"`
	// Context is how many tokens prompt and answer may have together.
	Context int `json:"max_model_len"`
	Vocab   int `json:"vocab_size"`
	Width   int `json:"embedding_length"`
}

func (s *Server) card(m *model, name string) modelCard {
	return modelCard{ID: name, Object: "model", Created: m.created, Owner: "graphrun", Context: m.limits.Context, Vocab: m.limits.Vocab, Width: m.m.Arch.D}
}

// models answers GET /v1/models.
func (s *Server) models(w http.ResponseWriter, r *http.Request, _ *client) error {
	m, err := s.ready()
	if err != nil {
		return err
	}
	list := []modelCard{s.card(m, s.o.Name)}
	for _, a := range s.o.Aliases {
		list = append(list, s.card(m, a))
	}
	writeJSON(w, http.StatusOK, struct {
		Object string      `json:"object"`
		Data   []modelCard `json:"data"`
	}{"list", list})
	return nil
}

// model answers GET /v1/models/NAME.
func (s *Server) modelByName(w http.ResponseWriter, r *http.Request, _ *client) error {
	m, err := s.ready()
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	if !s.isName(name) {
		return s.noModel(name)
	}
	writeJSON(w, http.StatusOK, s.card(m, name))
	return nil
}

// maxTokenize bounds the text of /tokenize, in bytes: a second of work.
const maxTokenize = 4 << 20

// tokenize answers POST /tokenize: {"content": text} or {"prompt": text}.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request, who *client) error {
	m, o, err := s.open(w, r, who)
	if err != nil {
		return err
	}
	text, given := o.text("content")
	if prompt, ok := o.text("prompt"); ok {
		if given {
			o.fail("prompt", "conflict", "and content are both given; want one of them")
		}
		text, given = prompt, true
	}
	if !given {
		o.fail("content", "missing_field", "is missing, want a string")
	}
	special := s.o.ParseSpecial
	if v, ok := o.boolean("parse_special"); ok {
		special = v // nothing is generated from it
	}
	add := false
	for _, name := range []string{"add_special", "add_special_tokens"} {
		if v, ok := o.boolean(name); ok {
			add = v
		}
	}
	pieces, _ := o.boolean("with_pieces")
	if len(text) > maxTokenize {
		o.fail("content", "too_long", "has %d bytes, want at most %d", len(text), maxTokenize)
	}
	if err := o.done(); err != nil {
		return err
	}
	ids := m.m.Tokenizer.Encode(text, loaders.EncodeOptions{AddSpecial: add, OneBOS: true, ParseSpecial: special})
	type piece struct {
		ID    int32  `json:"id"`
		Piece any    `json:"piece"` // a string, or bytes where they are no text
		Text  string `json:"text"`
	}
	out := struct {
		Tokens any `json:"tokens"`
		Count  int `json:"count"`
		Max    int `json:"max_model_len"`
	}{ids, len(ids), m.limits.Context}
	if ids == nil {
		out.Tokens = []int32{}
	}
	if pieces {
		list := make([]piece, len(ids))
		for i, id := range ids {
			b := tokenBytes(m.m.Tokenizer, id)
			list[i] = piece{ID: id, Piece: string(b), Text: m.m.Tokenizer.TokenText(id)}
			if !utf8.Valid(b) {
				n := make([]int, len(b))
				for k, c := range b {
					n[k] = int(c)
				}
				list[i].Piece = n
			}
		}
		out.Tokens = list
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

// detokenize answers POST /detokenize: {"tokens": [ids]}.
func (s *Server) detokenize(w http.ResponseWriter, r *http.Request, who *client) error {
	m, o, err := s.open(w, r, who)
	if err != nil {
		return err
	}
	list, ok := o.list("tokens", 1<<20)
	if !ok && !o.has("tokens") {
		o.fail("tokens", "missing_field", "is missing, want a list of token ids")
	}
	ids := m.readTokens(o, "tokens", list)
	special, _ := o.boolean("special")
	if err := o.done(); err != nil {
		return err
	}
	text := m.m.Tokenizer.Decode(ids, loaders.DecodeOptions{Special: special})
	writeJSON(w, http.StatusOK, struct {
		Content string `json:"content"`
		Prompt  string `json:"prompt"` // vLLM's name
	}{text, text})
	return nil
}

// applyTemplate answers POST /apply-template: the prompt that a chat would have.
func (s *Server) applyTemplate(w http.ResponseWriter, r *http.Request, who *client) error {
	m, o, err := s.open(w, r, who)
	if err != nil {
		return err
	}
	if m.prompter == nil {
		return badRequest("model", "no_chat_template", "%v", m.noChat)
	}
	req := chat.Request{Messages: readMessages(o, m), Vars: s.templateVars(o)}
	for _, t := range readTools(o, false) {
		req.Tools = append(req.Tools, t.raw)
	}
	if v, ok := o.boolean("add_generation_prompt"); ok {
		req.Closed = !v
	}
	if err := o.done(); err != nil {
		return err
	}
	pr, err := m.render(req)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, struct {
		Prompt string  `json:"prompt"`
		Tokens []int32 `json:"tokens"`
		Count  int     `json:"count"`
	}{pr.Text, pr.IDs, len(pr.IDs)})
	return nil
}
