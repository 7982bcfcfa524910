package loaders

import (
	"slices"
	"strings"
	"testing"

	"graphrun/internal/shared"
)

// streamed returns what a stream gives for each id, and at the end.
func streamed(tok *Tokenizer, opt DecodeOptions, ids ...int32) []string {
	s := tok.Stream(opt)
	var out []string
	for _, id := range ids {
		out = append(out, s.Push(id))
	}
	return append(out, s.Flush())
}

func TestStream(t *testing.T) {
	tok := newTokenizer(t, spmMeta("a", spaceMark, spaceMark+"a", "é"))
	at := func(b byte) int32 { return 3 + int32(b) }
	const a, space, spaceA = 259, 260, 261
	for _, c := range []struct {
		ids  []int32
		want []string
	}{
		{[]int32{at(0xEA), at(0xB9), at(0xB0)}, []string{"", "", "\uAE70", ""}},
		{[]int32{a, at(0xB0), a}, []string{"a", "\uFFFD", "a", ""}},
		{[]int32{at(0xF0), at(0x9F), at(0x98), at(0x80), a}, []string{"", "", "", "😀", "a", ""}},
		{[]int32{at(0xF0), at(0x9F)}, []string{"", "", "\uFFFD\uFFFD"}},
		{[]int32{at(0xF0), a}, []string{"", "\uFFFDa", ""}},
		{[]int32{at(0xEA), at(0xEA), at(0xB9), at(0xB0)}, []string{"", "\uFFFD", "", "\uAE70", ""}},
		{[]int32{at(0xED), at(0xA0), at(0x80)}, []string{"", "\uFFFD\uFFFD", "\uFFFD", ""}}, // a surrogate
		{[]int32{1, spaceA, spaceA, 2}, []string{"", "a", " a", "", ""}},                    // <s> leaves no trace
		{[]int32{space, a}, []string{"", "a", ""}},
		{[]int32{space, space, a}, []string{"", " ", "a", ""}},
		{[]int32{-1, 1 << 30, a}, []string{"", "", "a", ""}},
	} {
		if got := streamed(tok, DecodeOptions{}, c.ids...); !slices.Equal(got, c.want) {
			t.Errorf("%v: got %q, want %q", c.ids, got, c.want)
		}
		if got := tok.Decode(c.ids, DecodeOptions{}); got != strings.Join(c.want, "") {
			t.Errorf("%v: Decode gives %q, the stream %q", c.ids, got, c.want)
		}
	}
	if got := streamed(tok, DecodeOptions{KeepPrefix: true}, spaceA); got[0] != " a" {
		t.Errorf("KeepPrefix: got %q", got)
	}
	if got := streamed(tok, DecodeOptions{Special: true}, 1, spaceA); got[0] != "<s>" || got[1] != " a" {
		t.Errorf("Special: got %q", got)
	}

	s := tok.Stream(DecodeOptions{})
	s.Push(at(0xEA))
	fork := s.Clone()
	if s.Push(at(0xB9)); !s.Pending() || !fork.Pending() {
		t.Error("bytes of a character are not pending")
	}
	if got := fork.Push(a); got != "\uFFFDa" {
		t.Errorf("clone: got %q", got)
	}
	if got := s.Push(at(0xB0)); got != "\uAE70" {
		t.Errorf("after the clone: got %q", got)
	}
}

func TestCleanSpaces(t *testing.T) {
	tok := newTokenizer(t, byteMeta("gpt-2", nil))
	const text = "He said : it 's , well , done . Is n't it ? F# .NET"
	ids := tok.Encode(text, EncodeOptions{})
	if got, want := tok.Decode(ids, DecodeOptions{CleanSpaces: true}), "He said : it's, well, done. Isn't it? F#.NET"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := tok.Decode(ids, DecodeOptions{}); got != text {
		t.Errorf("got %q, want %q", got, text)
	}
}

// TestPublishedIDs holds ids that reports of faults in other programs give for
// the vocabularies of published models.
func TestPublishedIDs(t *testing.T) {
	for _, c := range []struct {
		file, text string
		want       []int32
	}{
		{"llama3.tokenizer.json.gz", " 3 33 333 3333 33333 333333", []int32{220, 18, 220, 1644, 220, 8765, 220, 8765, 18, 220, 8765, 1644, 220, 8765, 8765}},
		{"llama3.tokenizer.json.gz", "\n", []int32{198}},
		{"llama3.tokenizer.json.gz", "\n\n", []int32{271}},
		{"llama3.tokenizer.json.gz", "\n\n\n", []int32{1432}},
		{"llama3.tokenizer.json.gz", "\n\n\n\n", []int32{1038}},
		{"llama3.tokenizer.json.gz", " \n", []int32{720}},
		{"llama3.tokenizer.json.gz", "example\nexample", []int32{8858, 198, 8858}},
		{"llama3.tokenizer.json.gz", "\xe6\xad\xaa", []int32{15722, 103}},
		{"gemma3.tokenizer.json.gz", "Hello world! Caf\u00e9 d\u00e9j\u00e0 vu \u2014 123 \U0001F60A",
			[]int32{9259, 1902, 236888, 62367, 29234, 11042, 2192, 236743, 236770, 236778, 236800, 103453}},
	} {
		tok := published(t, c.file)
		if got := tok.Encode(c.text, EncodeOptions{}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q\n got %v\nwant %v", c.file, c.text, got, c.want)
		}
	}
	var words []string
	gpt2 := published(t, "gpt-2.vocab.gguf")
	for _, id := range gpt2.Encode("brutalist", EncodeOptions{}) {
		words = append(words, gpt2.TokenText(id))
	}
	if want := []string{"br", "ut", "alist"}; !slices.Equal(words, want) {
		t.Errorf("brutalist is %q, want %q", words, want)
	}
	gemma := published(t, "gemma3.tokenizer.json.gz")
	if nfc, nfd := gemma.Encode("caf\u00e9", EncodeOptions{}), gemma.Encode("cafe\u0301", EncodeOptions{}); slices.Equal(nfc, nfd) {
		t.Error("NFC and NFD have the same ids: text was normalized")
	}
	if !gemma.IsEOG(1) || !gemma.IsEOG(106) {
		t.Errorf("Gemma 3 ends at %v, expected 1 and 106", gemma.Vocab().EOG)
	}
}

var publishedTokenizers = map[string]*Tokenizer{}

// published opens a tokenizer of the shared folder, once for all tests.
func published(t testing.TB, file string) *Tokenizer {
	t.Helper()
	path := shared.Path(t, "tokenizers", file)
	if publishedTokenizers[file] == nil {
		publishedTokenizers[file] = openTokenizer(t, path)
	}
	return publishedTokenizers[file]
}
