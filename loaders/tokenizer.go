package loaders

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/text/unicode/norm"
)

// Tokenizer turns text into token ids and back. It does not change after
// NewTokenizer and may be used by any number of goroutines.
//
// Rules that hold in all families:
//
//   - user text is text: control tokens are recognised only with
//     EncodeOptions.ParseSpecial, user-defined tokens always. Where several
//     could match, the leftmost counts, then the longest;
//   - merging never makes a control, unknown or byte token, whatever the text
//     spells: "<0x40>" is six characters;
//   - bytes that are not valid UTF-8 are kept: each is encoded by itself, as
//     its byte token or byte character, and comes back from AppendDecode.
type Tokenizer struct {
	v        *Vocab
	pre      *preTokenizer // byte-level only
	prepare  func()        // makes what only encoding needs, once: all fields down to joins
	pieces   *textTable    // texts that merging may make
	longest  int           // bytes of the longest of them
	bytes    [256]int32    // symbol of a byte, noSymbol if it has none
	ascii    [128]int32    // symbol of a character, encodeChars only
	ranks    *ranks        // nil if merging goes by score
	scores   *scores       // nil if merging goes by rank
	always   *matcher      // user-defined tokens
	special  *matcher      // user-defined, control and unknown tokens
	alwaysN  *matcher      // the same two for tokens matched after NFC, nil if none
	specialN *matcher
	joins    [256]bool // last bytes of characters that a spaceMark can follow inside a token
	eog      map[int32]bool
	pool     sync.Pool // *merger
}

// EncodeOptions says what Encode does besides splitting text. The zero value
// is right for text that a user wrote and that continues a prompt.
type EncodeOptions struct {
	AddSpecial   bool // add BOS and EOS as the vocabulary says
	ParseSpecial bool // recognise control tokens that are spelled in the text
	OneBOS       bool // AddSpecial adds no BOS where the text begins with one
	// Literal lists bytes of the text, ascending, that no whole token may cover:
	// what is spelled there stays text, with ParseSpecial too. A chat prompt
	// marks so what users wrote.
	Literal []int
}

// refuse returns a function that tells whether a whole token may not stand for
// text[from:to], nil if it may anywhere.
func (o *EncodeOptions) refuse() func(from, to int) bool {
	if len(o.Literal) == 0 {
		return nil
	}
	return func(from, to int) bool {
		i, _ := slices.BinarySearch(o.Literal, from)
		return i < len(o.Literal) && o.Literal[i] < to
	}
}

// NewTokenizer prepares a vocabulary for use. v must not be changed afterwards.
func NewTokenizer(v *Vocab) (*Tokenizer, error) {
	if len(v.Tokens) == 0 {
		return nil, errors.New("tokenizer: the vocabulary has no tokens")
	}
	if len(v.Types) != len(v.Tokens) {
		return nil, fmt.Errorf("tokenizer: found %d token types, expected one for each of %d tokens", len(v.Types), len(v.Tokens))
	}
	t := &Tokenizer{v: v, eog: map[int32]bool{}}
	t.pool.New = func() any { return new(merger) }
	for _, id := range v.EOG {
		t.eog[id] = true
	}
	switch {
	case v.Model == "gpt2":
		pre, ok := preTokenizers[v.Pre]
		if !ok {
			return nil, &UnsupportedError{What: "pre-tokenizer", Name: quoteText(v.Pre), Known: PreTokenizers()}
		}
		t.pre = &pre
		t.checkMerges()
	case v.Model == "gemma4" || v.Model == "llama" && len(v.Merges) > 0:
		t.checkMerges()
	case v.Model == "llama":
		if len(v.Scores) != len(v.Tokens) {
			return nil, fmt.Errorf("tokenizer: found %d scores, expected one for each of %d tokens", len(v.Scores), len(v.Tokens))
		}
	default:
		return nil, &UnsupportedError{What: "tokenizer", Name: quoteText(v.Model), Known: vocabModels}
	}
	t.makeMatchers()
	t.prepare = sync.OnceFunc(t.makeTables)
	return t, nil
}

// Prepare makes the tables for encoding, which take most of the time, if the
// first use has not made them yet. A caller that has something else to do first
// calls it in a goroutine of its own.
func (t *Tokenizer) Prepare() { t.prepare() }

// checkMerges counts the merges that cannot be used.
func (t *Tokenizer) checkMerges() {
	skipped := 0
	for _, m := range t.v.Merges {
		if cutMerge(m) < 0 {
			skipped++
		}
	}
	if skipped > 0 {
		t.v.warn("%d merges are not two texts with a space between; left out", skipped)
	}
}

// makeTables makes the tables for encoding.
func (t *Tokenizer) makeTables() {
	v := t.v
	t.pieces = newTextTable(v.Tokens)
	for i, text := range v.Tokens {
		if text != "" && v.isPiece(int32(i)) && t.pieces.add(int32(i)) == int32(i) {
			t.longest = max(t.longest, len(text))
		}
	}
	if v.Model == "llama" && len(v.Merges) == 0 {
		t.scores = newScores(v, t.pieces, t.longest)
	} else {
		t.ranks = newRanks(v.Merges, len(v.Tokens), t.pieces)
		for c := range t.ascii {
			t.ascii[c] = t.symbol(string(rune(c)))
		}
	}
	t.findBytes()
	t.findJoins()
}

// symbol returns the symbol of a text in a vocabulary with ranks, noSymbol if it
// has none.
func (t *Tokenizer) symbol(text string) int32 {
	if id, ok := t.pieces.find(text); ok {
		return id
	}
	if id, ok := t.ranks.extra[text]; ok {
		return id
	}
	return noSymbol
}

// findBytes fills the table from bytes to symbols.
func (t *Tokenizer) findBytes() {
	for b := range t.bytes {
		t.bytes[b] = noSymbol
		if t.v.Model != "gpt2" {
			continue
		}
		t.bytes[b] = t.symbol(string(byteChars[b]))
	}
	if t.v.Model == "gpt2" {
		return
	}
	for i, typ := range t.v.Types {
		if typ != TokenByte {
			continue
		}
		if b, ok := byteToken(t.v.Tokens[i]); ok && t.bytes[b] == noSymbol {
			t.bytes[b] = int32(i)
		}
	}
}

// findJoins notes after which characters some token goes on with a spaceMark.
// After all others text can be cut before a spaceMark without changing what is
// merged, because a join makes a text that occurs in a token.
func (t *Tokenizer) findJoins() {
	if t.v.Model == "gpt2" {
		return
	}
	note := func(text string) {
		for i := strings.Index(text, spaceMark); i >= 0; {
			if i > 0 {
				t.joins[text[i-1]] = true
			}
			n := strings.Index(text[i+len(spaceMark):], spaceMark)
			if n < 0 {
				break
			}
			i += len(spaceMark) + n
		}
	}
	for i, text := range t.v.Tokens {
		if t.v.isPiece(int32(i)) {
			note(text)
		}
	}
	if t.ranks != nil {
		for text := range t.ranks.extra {
			note(text)
		}
	}
}

// Encode returns the token ids of text.
func (t *Tokenizer) Encode(text string, opt EncodeOptions) []int32 {
	return t.AppendEncode(nil, text, opt)
}

// AppendEncode appends the token ids of text to dst.
func (t *Tokenizer) AppendEncode(dst []int32, text string, opt EncodeOptions) []int32 {
	t.prepare()
	from := len(dst)
	bos := opt.AddSpecial && t.v.AddBOS && t.v.BOS >= 0
	if bos {
		dst = append(dst, t.v.BOS)
	}
	m := t.pool.Get().(*merger)
	e := encoder{t: t, m: m, dst: dst}
	raw, after := t.always, t.alwaysN
	if opt.ParseSpecial {
		raw, after = t.special, t.specialN
	}
	if len(opt.Literal) > 0 {
		after = t.alwaysN // bytes have no fixed place after NFC
	}
	raw.split(text, opt.refuse(), func(s string, id int32) {
		switch {
		case id >= 0:
			e.token(id)
		case t.v.NFC:
			after.split(norm.NFC.String(s), nil, e.part)
		default:
			e.text(s)
		}
	})
	m.text = ""
	if cap(m.id) <= keepLimit {
		t.pool.Put(m)
	}
	dst = e.dst
	if bos && opt.OneBOS && len(dst) > from+1 && dst[from+1] == t.v.BOS {
		dst = slices.Delete(dst, from, from+1)
	}
	if opt.AddSpecial && t.v.AddEOS && t.v.EOS >= 0 {
		dst = append(dst, t.v.EOS)
	}
	return dst
}

// encoder appends the ids of one text, part by part.
type encoder struct {
	t       *Tokenizer
	m       *merger
	dst     []int32
	started bool // something precedes in the text
	inText  bool // what precedes is text, not a whole token
	buf     []byte
}

// part takes a stretch of text, or a whole token if id is not negative.
func (e *encoder) part(s string, id int32) {
	if id >= 0 {
		e.token(id)
		return
	}
	e.text(s)
}

func (e *encoder) token(id int32) {
	e.dst = append(e.dst, id)
	e.started, e.inText = true, false
}

func (e *encoder) text(s string) {
	v := e.t.v
	prefix := v.AddSpacePrefix && !e.inText && !(v.PrefixFirstOnly && e.started)
	if v.PrefixUnlessSpace && (strings.HasPrefix(s, " ") || v.Model != "gpt2" && strings.HasPrefix(s, spaceMark)) {
		prefix = false
	}
	e.started, e.inText = true, true
	if v.Model == "gpt2" {
		if prefix {
			s = " " + s
		}
		e.t.pre.split(s, func(piece string) { e.dst = e.t.encodeBytes(e.dst, e.m, piece) })
		return
	}
	e.buf = e.buf[:0]
	if prefix {
		e.buf = append(e.buf, spaceMark...)
	}
	for i := range len(s) {
		if s[i] == ' ' {
			e.buf = append(e.buf, spaceMark...)
		} else {
			e.buf = append(e.buf, s[i])
		}
	}
	s = string(e.buf)
	if v.Model != "gemma4" {
		e.words(s)
		return
	}
	for len(s) > 0 {
		n := newlineRun(s)
		if id, ok := e.t.pieces.find(s[:n]); ok && s[0] == '\n' {
			e.dst = append(e.dst, id)
		} else {
			e.words(s[:n])
		}
		s = s[n:]
	}
}

// newlineRun returns the length of the first run of newlines of s, or of what
// precedes it.
func newlineRun(s string) int {
	n := 0
	for n < len(s) && (s[n] == '\n') == (s[0] == '\n') {
		n++
	}
	return n
}

// words encodes text whose spaces are spaceMark, word by word where words
// cannot merge.
func (e *encoder) words(s string) {
	for len(s) > 0 {
		end := len(s)
		for i := 1; i+len(spaceMark) <= len(s); i++ {
			if s[i] != spaceMark[0] || s[i:i+len(spaceMark)] != spaceMark {
				continue
			}
			if e.t.v.Pre == preEachWord || !e.t.joins[s[i-1]] {
				end = i
				break
			}
		}
		if e.t.scores != nil {
			e.dst = e.t.encodeScores(e.dst, e.m, s[:end])
		} else {
			e.dst = e.t.encodeChars(e.dst, e.m, s[:end])
		}
		s = s[end:]
	}
}

// preEachWord in Vocab.Pre of a "llama" vocabulary cuts text before every
// space, as the Metaspace splitter of tokenizer.json files does.
const preEachWord = "metaspace"

// Vocab returns the vocabulary, which must not be changed.
func (t *Tokenizer) Vocab() *Vocab { return t.v }

// Size returns the number of tokens.
func (t *Tokenizer) Size() int { return len(t.v.Tokens) }

// Warnings returns what the reader and the tokenizer found wrong or missing.
func (t *Tokenizer) Warnings() []string { return t.v.Warnings }

// valid reports whether id is a token.
func (t *Tokenizer) valid(id int32) bool { return id >= 0 && int(id) < len(t.v.Tokens) }

// TokenText returns a token as the file spells it, "" if there is no such id.
func (t *Tokenizer) TokenText(id int32) string {
	if !t.valid(id) {
		return ""
	}
	return t.v.Tokens[id]
}

// TokenID returns the id of the token that is spelled text, -1 if there is
// none. Of several it is the lowest that encoding can use.
func (t *Tokenizer) TokenID(text string) int32 {
	t.prepare()
	if id, ok := t.pieces.find(text); ok {
		return id
	}
	if id := t.special.find(text); id >= 0 {
		return id
	}
	if id := t.specialN.find(text); id >= 0 {
		return id
	}
	if b, ok := byteToken(text); ok && t.v.Model != "gpt2" {
		return t.bytes[b]
	}
	return -1
}

// Type returns the type of a token, TokenUndefined if there is no such id.
func (t *Tokenizer) Type(id int32) TokenType {
	if !t.valid(id) {
		return TokenUndefined
	}
	return t.v.Types[id]
}

// IsControl reports whether the token is never text: control or unknown.
func (t *Tokenizer) IsControl(id int32) bool {
	typ := t.Type(id)
	return typ == TokenControl || typ == TokenUnknown
}

// IsEOG reports whether the token ends a generation.
func (t *Tokenizer) IsEOG(id int32) bool { return t.eog[id] }

// BOS returns the token that begins a text, -1 if there is none.
func (t *Tokenizer) BOS() int32 { return t.v.BOS }

// EOS returns the token that ends a text, -1 if there is none.
func (t *Tokenizer) EOS() int32 { return t.v.EOS }

// EOT returns the token that ends a turn, -1 if the vocabulary names none.
func (t *Tokenizer) EOT() int32 { return t.v.EOT }

// PAD returns the token that fills batches, -1 if there is none.
func (t *Tokenizer) PAD() int32 { return t.v.PAD }

// UNK returns the token for text without tokens, -1 if there is none.
func (t *Tokenizer) UNK() int32 { return t.v.UNK }
