package loaders

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func pieces(pre, text string) []string {
	p := preTokenizers[pre]
	var out []string
	p.split(text, func(piece string) { out = append(out, piece) })
	return out
}

// The expected pieces, separated by |, were made with the patterns themselves.
func TestPreTokenizers(t *testing.T) {
	for _, c := range []struct{ pre, pieces string }{
		{"gpt-2", "Hello| world|'s| DON|'|T|  | 12345|!?| ..."},
		{"gpt-2", "a|\n|\n|b|   "},
		{"gpt-2", "x|\t|y|\u00a0|z"},
		{"gpt-2", "e|\u0301| ½²|好"},
		{"smollm", "a| |1|2| b|  |3"},
		{"smollm", "x|  |4|\n\n"},

		{"llama-bpe", "It|'s| DON|'T| we|'Ll"},
		{"llama-bpe", " |3| |33| |333| |333|3| |333|33"},
		{"llama-bpe", "a|\n\n|b| \n| c|     \n\n|\td|  | e"},
		{"llama-bpe", "(hello|)\n\n|x| ...\r\n|y"},
		{"llama-bpe", "don|'x|\u00a0nbsp|\u3000word|  "},
		{"llama-bpe", "\xff\xfe|a|😀好|😀"},
		{"qwen2", "a| |1|2|3| b|!!\n"},
		{"qwen2", "e|\u0301| नमस|\u094dत"},
		{"qwen35", "e\u0301| नमस\u094dत|!\u0301"},

		{"gpt-4o", "camel|Case|HTMLParser's| X's|!path|//\n|a"},
		{"gpt-4o", "A好|BABC|123|4| é"},
		{"gpt-4o", "\u0301|AB"},
		{"tekken", "it|'s| Mc|Donald|1|2"},
	} {
		want := strings.Split(c.pieces, "|")
		if got := pieces(c.pre, strings.Join(want, "")); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", c.pre, got, want)
		}
	}
}

func TestPiecesJoin(t *testing.T) {
	for _, pre := range PreTokenizers() {
		rapid.Check(t, func(t *rapid.T) {
			s := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"a", "B", "é", "ǅ", "好", "\u0301", "1", "½", " ", "\n", "\r", "\t", "\u00a0", "'", "'s", "/", "!", "\xff", "😀"})).Draw(t, "s"), "")
			got := pieces(pre, s)
			if strings.Join(got, "") != s || slices.Contains(got, "") {
				t.Fatalf("%s: pieces of %q are %q", pre, s, got)
			}
		})
	}
}
