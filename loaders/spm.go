package loaders

import (
	"math"
	"unicode/utf8"
)

// spaceMark is U+2581, which stands for a space in the tokens of families other
// than byte-level BPE.
const spaceMark = "\u2581"

// scores is the rule of a SentencePiece vocabulary: neighbours join if their
// joined text is a token, the one with the highest score first.
// Source: Kudo and Richardson, 2018; SentencePiece, bpe_model.cc.
type scores struct {
	pieces  *textTable
	order   []uint32 // per token, lower for a higher score
	longest int      // bytes of the longest token
}

// newScores turns scores, a higher one being joined earlier, into orders. NaN
// counts as the lowest score.
func newScores(v *Vocab, pieces *textTable, longest int) *scores {
	s := &scores{pieces: pieces, longest: longest, order: make([]uint32, len(v.Tokens))}
	for i, x := range v.Scores {
		if x != x {
			x = float32(math.Inf(-1))
		}
		bits := math.Float32bits(x + 0) // -0 becomes 0
		if bits>>31 != 0 {
			bits = ^bits
		} else {
			bits |= 1 << 31
		}
		s.order[i] = min(^bits, noJoin-1)
	}
	return s
}

// join looks up the joined text; see joiner.
func (s *scores) join(m *merger, l, r int32) (order uint32, id int32, ok bool) {
	text := m.text[m.start[l]:m.end(r)]
	if len(text) > s.longest {
		return 0, 0, false
	}
	id, ok = s.pieces.find(text)
	if !ok {
		return 0, 0, false
	}
	return s.order[id], id, true
}

// encodeScores appends the ids of one piece of text, whose spaces are
// spaceMark, in a SentencePiece vocabulary.
func (t *Tokenizer) encodeScores(dst []int32, m *merger, piece string) []int32 {
	m.reset(piece)
	for i := 0; i < len(piece); {
		_, n := utf8.DecodeRuneInString(piece[i:])
		id, ok := t.pieces.find(piece[i : i+n])
		if !ok {
			id = noSymbol
		}
		m.add(i, id)
		i += n
	}
	m.run(t.scores)
	return t.appendSymbols(dst, m)
}
