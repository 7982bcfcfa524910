package grammar

import (
	"bytes"
	"slices"

	"graphrun/loaders"
)

// Vocab is a vocabulary as a trie of the bytes its tokens stand for. It does
// not change, and is made once per model.
//
// Only tokens that are text are in it: not control, unknown and unused tokens,
// nor those that end a generation.
type Vocab struct {
	size  int
	text  [][]byte // by token id; nil is not text
	eog   []int32
	space bool // a space at the very start of a text is left out
	// The nodes in the order of a walk that visits parents first. Node 0 is the
	// root. Node i's subtree is i to end[i]-1, the tokens that end in it are
	// tokens[first[i]:first[i+1]].
	byte   []byte
	depth  []uint16
	end    []int32
	first  []int32
	tokens []int32
}

// maxToken is the longest token in bytes; a longer one is never allowed.
const maxToken = 1<<16 - 2

// NewVocab prepares the vocabulary of a tokenizer.
func NewVocab(t *loaders.Tokenizer) *Vocab {
	v := &Vocab{size: t.Size(), text: make([][]byte, t.Size()), space: t.Vocab().AddSpacePrefix}
	for id := range int32(v.size) {
		if t.IsEOG(id) {
			v.eog = append(v.eog, id)
			continue
		}
		switch t.Type(id) {
		case loaders.TokenNormal, loaders.TokenUserDefined, loaders.TokenByte:
			if p := t.Piece(id); len(p) > 0 && len(p) <= maxToken {
				v.text[id] = p
			}
		}
	}
	v.build()
	return v
}

func (v *Vocab) build() {
	for id, p := range v.text {
		if p != nil {
			v.tokens = append(v.tokens, int32(id))
		}
	}
	slices.SortFunc(v.tokens, func(a, b int32) int {
		if c := bytes.Compare(v.text[a], v.text[b]); c != 0 {
			return c
		}
		return int(a - b)
	})
	var path []int32 // nodes of the text before, root first
	push := func(c byte) {
		path = append(path, int32(len(v.byte)))
		v.byte = append(v.byte, c)
		v.depth = append(v.depth, uint16(len(path)-1))
		v.end = append(v.end, 0)
	}
	pop := func(depth int) {
		for len(path) > depth {
			v.end[path[len(path)-1]] = int32(len(v.byte))
			path = path[:len(path)-1]
		}
	}
	push(0)
	v.first = append(v.first, 0)
	var before []byte
	for i, id := range v.tokens {
		p := v.text[id]
		n := 0
		for n < len(p) && n < len(before) && p[n] == before[n] {
			n++
		}
		pop(n + 1)
		for _, c := range p[n:] {
			push(c)
			v.first = append(v.first, int32(i))
		}
		before = p
	}
	pop(0)
	v.first = append(v.first, int32(len(v.tokens)))
	// first[i] is where node i's own tokens begin: nodes pushed for one token
	// all begin at it, and those above the last have none of their own.
}

// Size returns the number of tokens.
func (v *Vocab) Size() int { return v.size }

// child returns the node below n with the given byte, -1 if there is none.
func (v *Vocab) child(n int32, c byte) int32 {
	for i := n + 1; i < v.end[n]; i = v.end[i] {
		if v.byte[i] == c {
			return i
		}
	}
	return -1
}
