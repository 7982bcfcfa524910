package loaders

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// ranks is the table of merges: which two symbols join, at which rank, to what.
// Symbols are token ids, followed by numbers for texts that merges name but
// that are no tokens; those never reach the output.
//
// It is a hash table with open addressing: half a million merges are looked up
// for every two neighbours of every piece.
type ranks struct {
	slots []rankSlot
	shift uint // 64 - log2(len(slots))
	extra map[string]int32
}

type rankSlot struct {
	pair uint64 // left<<32 | right; empty if rank is 0
	rank uint32 // 1 for the first merge
	id   int32
}

// newRanks reads the merges of a vocabulary. pieces maps text to the tokens
// that merging may make. A merge is "left right", split at the first space that
// is not the first byte; one without such a space is left out, and of two for
// the same pair the first counts.
func newRanks(merges []string, tokens int, pieces *textTable) *ranks {
	log := uint(4)
	for 1<<log < 2*len(merges) {
		log++
	}
	t := &ranks{slots: largeSlice[rankSlot](1 << log), shift: 64 - log, extra: map[string]int32{}}
	for i, f := range findMerges(merges, pieces) {
		m, at := merges[i], cutMerge(merges[i])
		if at < 0 {
			continue
		}
		if f.left < 0 {
			f.left = t.number(m[:at], tokens)
		}
		if f.right < 0 {
			f.right = t.number(m[at+1:], tokens)
		}
		if f.joined < 0 {
			f.joined = t.number(m[:at]+m[at+1:], tokens)
		}
		t.put(f.left, f.right, uint32(i+1), f.joined)
	}
	return t
}

// merge is a merge in tokens, -1 for a text that is none.
type merge struct{ left, right, joined int32 }

// findMerges looks up the texts of all merges. Almost all of the time is spent
// waiting for memory, so that several goroutines do it.
func findMerges(merges []string, pieces *textTable) []merge {
	found := largeSlice[merge](len(merges))
	const part = 1 << 13
	var next atomic.Int64
	var g sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), (len(merges)+part-1)/part) {
		g.Go(func() {
			var buf []byte
			for {
				from := int(next.Add(part)) - part
				if from >= len(merges) {
					return
				}
				guess := int32(-1)
				for i := from; i < min(from+part, len(merges)); i++ {
					m, at := merges[i], cutMerge(merges[i])
					if at < 0 {
						continue
					}
					buf = append(append(buf[:0], m[:at]...), m[at+1:]...)
					// Most vocabularies number tokens in the order of the merges that make them.
					if guess++; !pieces.is(guess, buf) {
						guess = pieces.lookup(string(buf))
					}
					found[i] = merge{pieces.lookup(m[:at]), pieces.lookup(m[at+1:]), guess}
				}
			}
		})
	}
	g.Wait()
	return found
}

// cutMerge returns where the space between the two texts of a merge is, -1 if
// there are no two.
func cutMerge(m string) int {
	if len(m) < 3 {
		return -1
	}
	at := strings.IndexByte(m[1:], ' ') + 1
	if at <= 0 || at == len(m)-1 {
		return -1
	}
	return at
}

// number returns the symbol of a text that is no token, a new one if it has none.
func (t *ranks) number(text string, tokens int) int32 {
	id, ok := t.extra[text]
	if !ok {
		id = int32(tokens + len(t.extra))
		t.extra[text] = id
	}
	return id
}

func (t *ranks) home(pair uint64) uint64 {
	return pair * 0x9e3779b97f4a7c15 >> t.shift // Fibonacci hashing, Knuth 6.4
}

func (t *ranks) put(l, r int32, rank uint32, id int32) {
	pair := uint64(uint32(l))<<32 | uint64(uint32(r))
	mask := uint64(len(t.slots) - 1)
	for i := t.home(pair); ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.rank == 0 {
			*s = rankSlot{pair, rank, id}
			return
		}
		if s.pair == pair {
			return
		}
	}
}

// join looks up a merge; see joiner.
func (t *ranks) join(m *merger, l, r int32) (rank uint32, id int32, ok bool) {
	a, b := m.id[l], m.id[r]
	if a < 0 || b < 0 {
		return 0, 0, false
	}
	pair := uint64(uint32(a))<<32 | uint64(uint32(b))
	mask := uint64(len(t.slots) - 1)
	for i := t.home(pair); ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.rank == 0 {
			return 0, 0, false
		}
		if s.pair == pair {
			return s.rank, s.id, true
		}
	}
}

// encodeBytes appends the ids of one piece of text in a byte-level vocabulary.
// A byte without a token becomes UNK, or nothing where there is no UNK.
func (t *Tokenizer) encodeBytes(dst []int32, m *merger, piece string) []int32 {
	if t.v.IgnoreMerges && len(piece) <= t.longest {
		var buf [64]byte
		if id, ok := t.pieces.find(string(appendByteChars(buf[:0], piece))); ok {
			return append(dst, id)
		}
	}
	m.reset(piece)
	for i := range len(piece) {
		m.add(i, t.bytes[piece[i]])
	}
	m.run(t.ranks)
	for i := int32(0); i >= 0 && len(m.id) > 0; i = m.next[i] {
		if id := m.id[i]; id >= 0 && int(id) < len(t.v.Tokens) {
			dst = append(dst, id)
			continue
		}
		span := m.span(i)
		for k := range len(span) {
			if id := t.bytes[span[k]]; id >= 0 && int(id) < len(t.v.Tokens) {
				dst = append(dst, id)
			} else if t.v.UNK >= 0 {
				dst = append(dst, t.v.UNK)
			}
		}
	}
	return dst
}

// encodeChars appends the ids of one piece of text in a vocabulary that merges
// characters by rank and falls back to byte tokens.
func (t *Tokenizer) encodeChars(dst []int32, m *merger, piece string) []int32 {
	m.reset(piece)
	for i := 0; i < len(piece); {
		_, n := utf8.DecodeRuneInString(piece[i:])
		m.add(i, t.charSymbol(piece[i:i+n]))
		i += n
	}
	m.run(t.ranks)
	return t.appendSymbols(dst, m)
}

// charSymbol returns the symbol of one character.
func (t *Tokenizer) charSymbol(c string) int32 {
	if c[0] < utf8.RuneSelf {
		return t.ascii[c[0]]
	}
	return t.symbol(c)
}

// appendSymbols appends the ids of what m left over. A symbol that is no token
// becomes the byte tokens of its text; where one of them is missing it becomes
// UNK, or nothing where there is no UNK.
func (t *Tokenizer) appendSymbols(dst []int32, m *merger) []int32 {
	for i := int32(0); i >= 0 && len(m.id) > 0; i = m.next[i] {
		id := m.id[i]
		if id >= 0 && int(id) < len(t.v.Tokens) {
			dst = append(dst, id)
			continue
		}
		span, from := m.span(i), len(dst)
		for k := range len(span) {
			b := t.bytes[span[k]]
			if b < 0 {
				dst = dst[:from]
				if t.v.UNK >= 0 {
					dst = append(dst, t.v.UNK)
				}
				break
			}
			dst = append(dst, b)
		}
	}
	return dst
}
