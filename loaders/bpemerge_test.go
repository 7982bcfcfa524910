package loaders

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// slowMerge joins by looking at all neighbours each time: the definition.
func slowMerge(symbols []string, order func(joined string) (int, bool)) []string {
	symbols = slices.Clone(symbols)
	for {
		best, at := 0, -1
		for i := 0; i+1 < len(symbols); i++ {
			if o, ok := order(symbols[i] + " " + symbols[i+1]); ok && (at < 0 || o < best) {
				best, at = o, i
			}
		}
		if at < 0 {
			return symbols
		}
		symbols[at] += symbols[at+1]
		symbols = slices.Delete(symbols, at+1, at+2)
	}
}

func TestMergeMatchesDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Random merges whose parts are letters or made by earlier merges.
		parts := []string{"a", "b", "c"}
		var merges []string
		for range rapid.IntRange(1, 14).Draw(t, "merges") {
			l := rapid.SampledFrom(parts).Draw(t, "left")
			r := rapid.SampledFrom(parts).Draw(t, "right")
			if m := l + " " + r; len(l+r) < 12 && !slices.Contains(merges, m) {
				merges = append(merges, m)
				parts = append(parts, l+r)
			}
		}
		merges = rapid.Permutation(merges).Draw(t, "order")
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 120).Draw(t, "text"), "")
		want := slowMerge(strings.Split(text, ""), func(pair string) (int, bool) {
			i := slices.Index(merges, pair)
			return i, i >= 0
		})
		v, err := VocabFromGGUF(byteMeta("gpt-2", merges), "test.gguf")
		if err != nil {
			t.Fatal(err)
		}
		tok, err := NewTokenizer(v)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, id := range tok.Encode(text, EncodeOptions{}) {
			got = append(got, tok.TokenText(id))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("merges %q on %q:\n got %q\nwant %q", merges, text, got, want)
		}
	})
}

func TestScoresMatchDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := []string{"a", "b", spaceMark}
		for range rapid.IntRange(1, 14).Draw(t, "pieces") {
			p := rapid.SampledFrom(pieces).Draw(t, "left") + rapid.SampledFrom(pieces).Draw(t, "right")
			if len(p) < 16 && !slices.Contains(pieces, p) {
				pieces = append(pieces, p)
			}
		}
		pieces = rapid.Permutation(pieces).Draw(t, "order")
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", " "}), 1, 120).Draw(t, "text"), "")
		want := slowMerge(strings.Split(strings.ReplaceAll(" "+text, " ", spaceMark), ""), func(pair string) (int, bool) {
			i := slices.Index(pieces, strings.Replace(pair, " ", "", 1))
			return i, i >= 0
		})
		v, err := VocabFromGGUF(spmMeta(pieces...), "test.gguf")
		if err != nil {
			t.Fatal(err)
		}
		tok, err := NewTokenizer(v)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, id := range tok.Encode(text, EncodeOptions{}) {
			got = append(got, tok.TokenText(id))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("pieces %q on %q:\n got %q\nwant %q", pieces, text, got, want)
		}
	})
}

// Long texts without a place to split cost a constant number of look-ups per
// character, in all families.
func TestMergeSteps(t *testing.T) {
	run := func(n int) string { return strings.Repeat("a", n) }
	var merges, pieces []string
	for n := 1; n <= 8; n *= 2 {
		merges = append(merges, run(n)+" "+run(n))
	}
	for n := 16; n > 0; n-- {
		pieces = append(pieces, run(n))
	}
	tokenizers := map[string]*Tokenizer{
		"bytes":  newTokenizer(t, byteMeta("gpt-2", append(merges, "Ġ Ġ", "Ċ Ċ", "ĠĠ ĠĠ"))),
		"spm":    newTokenizer(t, spmMeta(append(pieces, spaceMark, spaceMark+spaceMark, "\n\n", "\n", "😀", "ab", "b")...)),
		"gemma4": newTokenizer(t, gemmaMeta("ab😀\n"+spaceMark, append(merges, spaceMark+" "+spaceMark, "\n \n", "a b"))),
	}
	for name, tok := range tokenizers {
		for _, unit := range []string{"a", " ", "\n", "😀", "ab", "é", "\xff", "<"} {
			const n = 50000
			text := strings.Repeat(unit, n)
			m := new(merger)
			e := encoder{t: tok, m: m}
			tok.prepare()
			e.text(text)
			if limit := 8 * len(text); m.steps > limit {
				t.Errorf("%s: %d times %q took %d look-ups, expected at most %d", name, n, unit, m.steps, limit)
			}
			if len(m.heap) != 0 || cap(m.heap) > 4*len(text)+64 {
				t.Errorf("%s: %d times %q left %d of %d entries in the heap", name, n, unit, len(m.heap), cap(m.heap))
			}
			if got := tok.AppendDecode(nil, e.dst, DecodeOptions{}); string(got) != text {
				t.Errorf("%s: %d times %q does not come back", name, n, unit)
			}
		}
	}
}

// Words are encoded one by one where no token spans them, so that the pieces
// stay short.
func TestWordsApart(t *testing.T) {
	text := strings.Repeat("aab b ", 2000)
	for name, tok := range map[string]*Tokenizer{
		"spm":    newTokenizer(t, spmMeta(spaceMark+"b", "a", "b", spaceMark)),
		"gemma4": newTokenizer(t, gemmaMeta("ab"+spaceMark, []string{"a b", spaceMark + " b"})),
	} {
		m := new(merger)
		e := encoder{t: tok, m: m}
		tok.prepare()
		e.text(text)
		if cap(m.id) > 64 {
			t.Errorf("%s: room for %d symbols, expected one word", name, cap(m.id))
		}
	}
	// A token that goes on with a space after b forbids the cut there.
	tok := newTokenizer(t, spmMeta("b"+spaceMark, "a", "b", spaceMark))
	wantTexts(t, tok, "b b", EncodeOptions{}, spaceMark, "b"+spaceMark, "b")
}

func TestEncodeAllocs(t *testing.T) {
	tok := newTokenizer(t, byteMeta("llama-bpe", []string{"t h", "th e", "Ġ the"}))
	text := strings.Repeat("the cat, the dog ", 40)
	dst := make([]int32, 0, 2*len(text))
	if n := testing.AllocsPerRun(50, func() { dst = tok.AppendEncode(dst[:0], text, EncodeOptions{}) }); n > 12 {
		t.Errorf("%v allocations for %d bytes, expected a few for the whole text", n, len(text))
	}
}
