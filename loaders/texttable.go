package loaders

import "hash/maphash"

// textTable finds the place of a text in a list. It is a hash table with open
// addressing that holds numbers and no strings: filling it with the hundred
// thousand tokens of a vocabulary takes a fifth of the time a map takes, and the
// garbage collector has nothing to look at.
type textTable struct {
	texts []string
	slots []textSlot
	added []uint64 // a bit for each of texts that was added first of its like
	seed  maphash.Seed
}

// textSlot is empty if at is 0.
type textSlot struct {
	hash uint32
	at   uint32 // place in texts, plus 1
}

// newTextTable returns an empty table over texts.
func newTextTable(texts []string) *textTable {
	size := 16
	for size < 2*len(texts) {
		size *= 2
	}
	return &textTable{texts: texts, slots: largeSlice[textSlot](size), added: make([]uint64, (len(texts)+63)/64), seed: maphash.MakeSeed()}
}

// add puts texts[i] into the table. It returns the place of an equal text that
// is there already, or i.
func (t *textTable) add(i int32) int32 {
	text := t.texts[i]
	h := maphash.String(t.seed, text)
	mask := uint64(len(t.slots) - 1)
	for p := h & mask; ; p = (p + 1) & mask {
		s := &t.slots[p]
		if s.at == 0 {
			*s = textSlot{uint32(h >> 32), uint32(i) + 1}
			t.added[i/64] |= 1 << (i % 64)
			return i
		}
		if s.hash == uint32(h>>32) && t.texts[s.at-1] == text {
			return int32(s.at - 1)
		}
	}
}

// find returns the place of text.
func (t *textTable) find(text string) (i int32, ok bool) {
	h := maphash.String(t.seed, text)
	mask := uint64(len(t.slots) - 1)
	for p := h & mask; ; p = (p + 1) & mask {
		s := t.slots[p]
		if s.at == 0 {
			return 0, false
		}
		if s.hash == uint32(h>>32) && t.texts[s.at-1] == text {
			return int32(s.at - 1), true
		}
	}
}

// is reports whether lookup of text would return i.
func (t *textTable) is(i int32, text []byte) bool {
	return i >= 0 && int(i) < len(t.texts) && t.added[i/64]&(1<<(i%64)) != 0 && t.texts[i] == string(text)
}

// lookup returns the place of text, -1 if it has none.
func (t *textTable) lookup(text string) int32 {
	if i, ok := t.find(text); ok {
		return i
	}
	return -1
}
