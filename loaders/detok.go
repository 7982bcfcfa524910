package loaders

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// DecodeOptions says how Decode and Stream write tokens. The zero value is
// right for the answer to a prompt.
type DecodeOptions struct {
	// Special writes control and unknown tokens as they are spelled. Without it
	// they leave no trace.
	Special bool
	// KeepPrefix keeps the space that the vocabulary puts before a text. Set it
	// for tokens that continue a text, whose first space is the text's own.
	KeepPrefix bool
	// CleanSpaces leaves out spaces before . ? ! , and before 's and the like,
	// as some programs do for vocabularies made from English. Only Decode and
	// AppendDecode do it. It does not give back what was encoded.
	CleanSpaces bool
}

// AppendPiece appends the bytes that a token stands for: the text of an
// ordinary or user-defined token with spaces for U+2581, the byte of a byte
// token, the spelling of a control or unknown token. An id outside the
// vocabulary stands for nothing.
func (t *Tokenizer) AppendPiece(dst []byte, id int32) []byte {
	if !t.valid(id) {
		return dst
	}
	text := t.v.Tokens[id]
	switch t.v.Types[id] {
	case TokenControl, TokenUnknown:
		return append(dst, text...)
	case TokenByte:
		if b, ok := byteToken(text); ok {
			return append(dst, b)
		}
	}
	if t.v.Model == "gpt2" {
		if t.v.Types[id] == TokenUserDefined {
			return append(dst, text...)
		}
		return appendCharBytes(dst, text)
	}
	for {
		i := strings.Index(text, spaceMark)
		if i < 0 {
			return append(dst, text...)
		}
		dst = append(append(dst, text[:i]...), ' ')
		text = text[i+len(spaceMark):]
	}
}

// Piece returns the bytes that a token stands for; see AppendPiece.
func (t *Tokenizer) Piece(id int32) []byte { return t.AppendPiece(nil, id) }

// Decode returns the text of ids. Bytes that are not valid UTF-8 become U+FFFD,
// one for each byte; AppendDecode keeps them.
//
// Where the vocabulary puts a space before a text, that space is left out
// again: one space at the start of the first token that leaves a trace, unless
// that is a control token. So Decode gives back what was encoded, with BOS or
// without. Spaces that encoding put after whole tokens inside the text stay,
// because a model writes them itself.
func (t *Tokenizer) Decode(ids []int32, opt DecodeOptions) string {
	return validUTF8(string(t.AppendDecode(nil, ids, opt)))
}

// AppendDecode appends the bytes of ids to dst; see Decode.
func (t *Tokenizer) AppendDecode(dst []byte, ids []int32, opt DecodeOptions) []byte {
	from := len(dst)
	w := pieceWriter{t: t, opt: opt}
	for _, id := range ids {
		dst = w.append(dst, id)
	}
	if opt.CleanSpaces {
		dst = append(dst[:from], cleanSpaces.Replace(string(dst[from:]))...)
	}
	return dst
}

// cleanSpaces is what Hugging Face calls clean_up_tokenization_spaces.
var cleanSpaces = strings.NewReplacer(
	" .", ".", " ?", "?", " !", "!", " ,", ",", " ' ", "'",
	" n't", "n't", " 'm", "'m", " 's", "'s", " 've", "'ve", " 're", "'re",
)

// pieceWriter appends tokens, leaving out what the options leave out.
type pieceWriter struct {
	t       *Tokenizer
	opt     DecodeOptions
	started bool // a token left a trace
}

func (w *pieceWriter) append(dst []byte, id int32) []byte {
	control := w.t.IsControl(id)
	if control && !w.opt.Special {
		return dst
	}
	from := len(dst)
	dst = w.t.AppendPiece(dst, id)
	if len(dst) == from {
		return dst
	}
	if !w.started && !w.opt.KeepPrefix && !control && w.t.v.AddSpacePrefix && dst[from] == ' ' {
		dst = append(dst[:from], dst[from+1:]...)
	}
	w.started = true
	return dst
}

// validUTF8 returns s with U+FFFD for each byte that is not part of valid UTF-8.
func validUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		b.WriteRune(r)
	}
	return b.String()
}

// Stream decodes tokens one at a time. What Push and Flush return, joined, is
// what Decode returns for the same tokens and options. A Stream belongs to one
// goroutine.
type Stream struct {
	w    pieceWriter
	held []byte // the beginning of a character that is not complete
}

// Stream returns a decoder for tokens that are still to come.
func (t *Tokenizer) Stream(opt DecodeOptions) *Stream {
	return &Stream{w: pieceWriter{t: t, opt: opt}}
}

// Push takes a token and returns the text that is complete with it, which may
// be empty. A character whose bytes come in several tokens is returned with the
// last of them. A byte that can no longer become part of a character is
// returned as U+FFFD.
func (s *Stream) Push(id int32) string {
	s.held = s.w.append(s.held, id)
	n := completeUTF8(s.held)
	text := validUTF8(string(s.held[:n]))
	s.held = append(s.held[:0], s.held[n:]...)
	return text
}

// Flush returns what is left at the end, U+FFFD for each byte of a character
// that was never completed. The stream goes on as if it were not at its start.
func (s *Stream) Flush() string {
	text := validUTF8(string(s.held))
	s.held = s.held[:0]
	return text
}

// Pending reports whether bytes of a character wait for the next token.
func (s *Stream) Pending() bool { return len(s.held) > 0 }

// Clone returns a stream in the same state, for trying out tokens.
func (s *Stream) Clone() *Stream {
	return &Stream{w: s.w, held: bytes.Clone(s.held)}
}

// completeUTF8 returns the length of b without a character at its end that
// further bytes could complete.
func completeUTF8(b []byte) int {
	for i := 1; i <= len(b) && i < utf8.UTFMax; i++ {
		if at := len(b) - i; utf8.RuneStart(b[at]) {
			if b[at] >= utf8.RuneSelf && !utf8.FullRune(b[at:]) {
				return at
			}
			break
		}
	}
	return len(b)
}
