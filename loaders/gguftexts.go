package loaders

import (
	"encoding/binary"
	"sync"
)

// ggufTexts is an array of strings as a GGUF file has it, not yet split: each
// text behind its length, 8 bytes. A vocabulary has some hundred thousand, and
// most of what opens a file never looks at them.
type ggufTexts struct {
	raw   string
	n     int
	split func() []string // once
}

// newGGUFTexts copies raw, which holds n texts, proved to lie inside it.
func newGGUFTexts(raw []byte, n int) *ggufTexts {
	l := &ggufTexts{raw: largeString(raw), n: n}
	l.split = sync.OnceValue(l.strings)
	return l
}

func (l *ggufTexts) strings() []string {
	out := largeSlice[string](l.n)
	for i, text := 0, l.raw; i < len(out); i++ {
		end := 8 + binary.LittleEndian.Uint64([]byte(text[:8]))
		out[i], text = text[8:end], text[end:]
	}
	return out
}

// first returns the first n texts.
func (l *ggufTexts) first(n int) []string {
	return (&ggufTexts{raw: l.raw, n: min(n, l.n)}).strings()
}

// intact reports whether the texts fill raw exactly. Raw was copied from a file
// that another program may have changed meanwhile.
func (l *ggufTexts) intact() bool {
	text := l.raw
	for range l.n {
		if len(text) < 8 || binary.LittleEndian.Uint64([]byte(text[:8])) > uint64(len(text)-8) {
			return false
		}
		text = text[8+binary.LittleEndian.Uint64([]byte(text[:8])):]
	}
	return text == ""
}
