package server

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"graphrun/engine"
	"graphrun/loaders"
)

// leastLogprob stands for minus infinity, which JSON cannot write. The number is
// the API's own.
const leastLogprob = -9999

func finiteLogprob(v float64) float64 {
	if math.IsNaN(v) || v < leastLogprob {
		return leastLogprob
	}
	return v
}

// tokenBytes returns what a token stands for; control tokens are spelled out.
func tokenBytes(t *loaders.Tokenizer, id int32) []byte {
	if b := t.Piece(id); len(b) > 0 {
		return b
	}
	return []byte(t.TokenText(id))
}

// tokenText returns a token as a string. Bytes that are no character are written
// as \xNN, after a prefix that tells them from text.
func tokenText(b []byte, prefix string) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var s strings.Builder
	s.WriteString(prefix)
	for _, c := range b {
		fmt.Fprintf(&s, `\x%02x`, c)
	}
	return s.String()
}

// chatLogprob is a token in an answer to a chat.
type chatLogprob struct {
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

type chatLogprobs struct {
	chatLogprob
	Top []chatLogprob `json:"top_logprobs"`
}

// chatContent is the field logprobs of a choice.
type chatContent struct {
	Content []chatLogprobs `json:"content"`
	Refusal *string        `json:"refusal"`
}

func newChatLogprob(t *loaders.Tokenizer, id int32, v float64) chatLogprob {
	b := tokenBytes(t, id)
	bytes := make([]int, len(b))
	for i, c := range b {
		bytes[i] = int(c)
	}
	return chatLogprob{tokenText(b, ""), finiteLogprob(v), bytes}
}

func chatLogprobsOf(t *loaders.Tokenizer, list []logprob) *chatContent {
	c := &chatContent{Content: []chatLogprobs{}}
	for _, l := range list {
		x := chatLogprobs{newChatLogprob(t, l.ID, l.Logprob), []chatLogprob{}}
		for _, top := range l.Top {
			x.Top = append(x.Top, newChatLogprob(t, top.ID, top.Logprob))
		}
		c.Content = append(c.Content, x)
	}
	return c
}

// textLogprobs is the field logprobs of a completion: lists of the same length.
type textLogprobs struct {
	Tokens  []string             `json:"tokens"`
	Values  []*float64           `json:"token_logprobs"`
	Top     []map[string]float64 `json:"top_logprobs"`
	Offsets []int                `json:"text_offset"` // in characters of the text that is returned
}

// textWriter makes textLogprobs of tokens; the offsets go on from call to call.
type textWriter struct {
	t    *loaders.Tokenizer
	text *loaders.Stream
	at   int // characters so far
}

// textWriter returns a writer for a text that begins with the tokens of prompt, or
// that goes on after them.
func (m *model) textWriter(prompt []int32, echo bool) *textWriter {
	t := m.m.Tokenizer
	after := !echo && slices.ContainsFunc(prompt, func(id int32) bool { return !t.IsControl(id) })
	return &textWriter{t: t, text: t.Stream(loaders.DecodeOptions{KeepPrefix: after})}
}

func newTextLogprobs() *textLogprobs {
	return &textLogprobs{Tokens: []string{}, Values: []*float64{}, Top: []map[string]float64{}, Offsets: []int{}}
}

// add appends a token. A token that is not known, the first of a text, has null
// for its numbers.
func (w *textWriter) add(l *textLogprobs, s engine.Score) {
	b := tokenBytes(w.t, s.ID)
	l.Tokens = append(l.Tokens, tokenText(b, "bytes:"))
	l.Offsets = append(l.Offsets, w.at)
	// Control tokens have no text in a completion, nor has the space that some
	// vocabularies put before one.
	w.at += utf8.RuneCountInString(w.text.Push(s.ID))
	if !s.Known {
		l.Values, l.Top = append(l.Values, nil), append(l.Top, nil)
		return
	}
	v := finiteLogprob(s.Logprob)
	l.Values = append(l.Values, &v)
	if s.Top == nil {
		l.Top = append(l.Top, nil)
		return
	}
	top := map[string]float64{}
	for _, x := range s.Top {
		text := tokenText(tokenBytes(w.t, x.ID), "bytes:")
		if _, ok := top[text]; !ok { // two tokens may be spelled alike: the likelier counts
			top[text] = finiteLogprob(x.Logprob)
		}
	}
	l.Top = append(l.Top, top)
}
