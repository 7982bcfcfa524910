package loaders

import (
	"slices"
	"testing"
)

// TestLiteral: bytes that are marked literal are text, whatever they spell, and
// what is beside them is not disturbed.
func TestLiteral(t *testing.T) {
	v := &Vocab{Model: "llama", BOS: -1, EOS: -1, EOT: -1, EOM: -1, UNK: -1, PAD: -1}
	for _, s := range []string{"<s>", "[u]", "<", "s", ">", "[", "u", "]"} {
		v.Tokens, v.Types, v.Scores = append(v.Tokens, s), append(v.Types, TokenNormal), append(v.Scores, 0)
	}
	v.Types[0], v.Types[1] = TokenControl, TokenUserDefined
	tok, err := NewTokenizer(v)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text    string
		literal []int
		want    []int32
	}{
		{"<s><s>", nil, []int32{0, 0}},
		{"<s><s>", []int{0}, []int32{2, 3, 4, 0}},
		{"<s><s>", []int{5}, []int32{0, 2, 3, 4}},
		{"<s><s>", []int{1, 4}, []int32{2, 3, 4, 2, 3, 4}},
		{"[u]<s>", []int{0}, []int32{5, 6, 7, 0}},
		{"<<s>", []int{0}, []int32{2, 0}},
	} {
		if got := tok.Encode(c.text, EncodeOptions{ParseSpecial: true, Literal: c.literal}); !slices.Equal(got, c.want) {
			t.Errorf("%q, literal %v: %v, want %v", c.text, c.literal, got, c.want)
		}
	}
}
