package loaders

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// token is an entry of a vocabulary made for a test.
type token struct {
	text  string
	score float32
	typ   TokenType
}

// vocabMeta returns the metadata of a GGUF file with this vocabulary.
func vocabMeta(model, pre string, tokens []token, merges []string) *Metadata {
	var texts []string
	var scores []float32
	var types []int32
	for _, tok := range tokens {
		texts, scores, types = append(texts, tok.text), append(scores, tok.score), append(types, int32(tok.typ))
	}
	meta := NewMetadata()
	meta.Set("tokenizer.ggml.model", model)
	if pre != "" {
		meta.Set("tokenizer.ggml.pre", pre)
	}
	meta.Set("tokenizer.ggml.tokens", texts)
	meta.Set("tokenizer.ggml.token_type", types)
	if model != "gpt2" {
		meta.Set("tokenizer.ggml.scores", scores)
	}
	if len(merges) > 0 {
		meta.Set("tokenizer.ggml.merges", merges)
	}
	return meta
}

func newTokenizer(t testing.TB, meta *Metadata) *Tokenizer {
	t.Helper()
	v, err := VocabFromGGUF(meta, "test.gguf")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := NewTokenizer(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// byteMeta is a byte-level vocabulary: ids 0 to 255 are the bytes in order,
// then what the merges make, then the special tokens.
func byteMeta(pre string, merges []string, special ...token) *Metadata {
	var tokens []token
	for _, r := range byteChars {
		tokens = append(tokens, token{text: string(r), typ: TokenNormal})
	}
	for _, m := range merges {
		l, r, _ := strings.Cut(m, " ")
		tokens = append(tokens, token{text: l + r, typ: TokenNormal})
	}
	return vocabMeta("gpt2", pre, append(tokens, special...), merges)
}

// spmMeta is a SentencePiece vocabulary: <unk>, <s>, </s>, ids 3 to 258 the
// bytes, then the pieces, each scoring less than the one before.
func spmMeta(pieces ...string) *Metadata {
	return vocabMeta("llama", "default", charTokens("<unk>", "<s>", "</s>", pieces), nil)
}

func charTokens(unk, bos, eos string, pieces []string) []token {
	tokens := []token{{unk, 0, TokenUnknown}, {bos, 0, TokenControl}, {eos, 0, TokenControl}}
	for b := range 256 {
		tokens = append(tokens, token{fmt.Sprintf("<0x%02X>", b), 0, TokenByte})
	}
	for i, p := range pieces {
		tokens = append(tokens, token{p, float32(-i), TokenNormal})
	}
	return tokens
}

// gemmaMeta is a "gemma4" vocabulary: <unk>, <bos>, <eos>, the bytes from 3 on,
// the characters, what the merges make, the special tokens.
func gemmaMeta(chars string, merges []string, special ...token) *Metadata {
	var pieces []string
	for _, r := range chars {
		pieces = append(pieces, string(r))
	}
	for _, m := range merges {
		at := strings.IndexByte(m[1:], ' ') + 1
		pieces = append(pieces, m[:at]+m[at+1:])
	}
	meta := vocabMeta("gemma4", "", append(charTokens("<unk>", "<bos>", "<eos>", pieces), special...), merges)
	meta.Set("tokenizer.ggml.bos_token_id", uint32(1))
	meta.Set("tokenizer.ggml.eos_token_id", uint32(2))
	return meta
}

// texts returns the tokens of text as they are spelled.
func texts(tok *Tokenizer, text string, opt EncodeOptions) []string {
	var out []string
	for _, id := range tok.Encode(text, opt) {
		out = append(out, tok.TokenText(id))
	}
	return out
}

func wantTexts(t *testing.T, tok *Tokenizer, text string, opt EncodeOptions, want ...string) {
	t.Helper()
	if got := texts(tok, text, opt); !slices.Equal(got, want) {
		t.Errorf("tokens of %q with %+v: got %q, want %q", text, opt, got, want)
	}
}

// A template may write BOS that the tokenizer adds too.
func TestOneBOS(t *testing.T) {
	meta := byteMeta("gpt-2", nil, token{"<|bos|>", 0, TokenControl})
	meta.Set("tokenizer.ggml.bos_token_id", uint32(256))
	meta.Set("tokenizer.ggml.add_bos_token", true)
	tok := newTokenizer(t, meta)
	prompt := EncodeOptions{AddSpecial: true, ParseSpecial: true, OneBOS: true}
	wantTexts(t, tok, "hi", prompt, "<|bos|>", "h", "i")
	wantTexts(t, tok, "<|bos|>hi", prompt, "<|bos|>", "h", "i")
	wantTexts(t, tok, "<|bos|>", prompt, "<|bos|>")
	prompt.OneBOS = false
	wantTexts(t, tok, "<|bos|>h", prompt, "<|bos|>", "<|bos|>", "h")
	got := tok.AppendEncode([]int32{7}, "<|bos|>h", EncodeOptions{AddSpecial: true, ParseSpecial: true, OneBOS: true})
	if want := []int32{7, 256, 'h'}; len(got) != 3 || got[0] != 7 || got[1] != 256 {
		t.Errorf("AppendEncode after 7: got %v, want like %v", got, want)
	}

	meta.Set("tokenizer.ggml.add_bos_token", false)
	wantTexts(t, newTokenizer(t, meta), "hi", EncodeOptions{AddSpecial: true}, "h", "i")
}

func TestGemma4(t *testing.T) {
	mark := spaceMark
	merges := []string{"\n \n", mark + " " + mark, "a b", mark + " x", "\n\n \n\n"}
	meta := gemmaMeta("abxy;{}\n\t"+mark, merges,
		token{"<turn|>", 0, TokenControl}, token{"<|tool_response>", 0, TokenUserDefined}, token{"<|channel>", 0, TokenUserDefined})
	meta.Set("tokenizer.ggml.add_bos_token", false)
	tok := newTokenizer(t, meta)
	plain := EncodeOptions{}
	wantTexts(t, tok, "", EncodeOptions{AddSpecial: true}, "<bos>") // whatever the file says
	wantTexts(t, tok, "a\n\n\nb", plain, "a", "\n\n", "\n", "b")
	wantTexts(t, tok, "a\n\n\n\nb", plain, "a", "\n\n\n\n", "b")
	wantTexts(t, tok, "x   y", plain, "x", mark+mark, mark, "y")
	wantTexts(t, tok, "x xab", plain, "x", mark+"x", "ab")
	wantTexts(t, tok, "{\n\tab;\n}", plain, "{", "\n", "\t", "ab", ";", "\n", "}")
	wantTexts(t, tok, "é", plain, "<0xC3>", "<0xA9>")
	wantTexts(t, tok, "a<|channel>b", plain, "a", "<|channel>", "b")
	if got := texts(tok, "<turn|>", plain); len(got) == 1 {
		t.Errorf("plain text made the control token %q", got)
	}
	if got := texts(tok, "<|tool_response>", plain); len(got) == 1 {
		t.Errorf("plain text made the token %q, which ends a generation", got)
	}
	for _, name := range []string{"<eos>", "<turn|>", "<|tool_response>"} {
		if id := tok.TokenID(name); !tok.IsEOG(id) {
			t.Errorf("%s, id %d, does not end a generation: %v", name, id, tok.Vocab().EOG)
		}
	}
	if got := tok.Decode(tok.Encode("<|channel>x", plain), DecodeOptions{}); got != "<|channel>x" {
		t.Errorf("user-defined token is written %q", got)
	}

	// The spelling of early files.
	meta.Set("tokenizer.ggml.model", "llama")
	meta.Set("tokenizer.ggml.pre", "gemma4")
	early := newTokenizer(t, meta)
	if got, want := early.Encode("ab x\n\n\nx", plain), tok.Encode("ab x\n\n\nx", plain); !slices.Equal(got, want) {
		t.Errorf("model llama with pre gemma4: got %v, want %v", got, want)
	}
}

func TestUserDefined(t *testing.T) {
	meta := vocabMeta("llama", "", append(charTokens("<unk>", "<s>", "</s>", []string{"x", "y", " ", spaceMark, "a", "aa"}),
		token{"[tag=0]", 0, TokenUserDefined}, token{"[tag=0][tag", 0, TokenUserDefined},
		token{"  ", 0, TokenUserDefined}, token{"<|c|>", 0, TokenControl}), nil)
	meta.Set("tokenizer.ggml.add_space_prefix", false)
	tok := newTokenizer(t, meta)
	for _, opt := range []EncodeOptions{{}, {ParseSpecial: true}} {
		wantTexts(t, tok, "x[tag=0]y", opt, "x", "[tag=0]", "y")
		wantTexts(t, tok, "[tag=0][tag", opt, "[tag=0][tag") // leftmost, then longest
		wantTexts(t, tok, "x   y", opt, "x", "  ", spaceMark, "y")
	}
	wantTexts(t, tok, "a<|c|>a", EncodeOptions{ParseSpecial: true}, "a", "<|c|>", "a")
	if n := len(tok.Encode("a<|c|>a", EncodeOptions{})); n < 5 {
		t.Errorf("control token recognised in plain text: %d tokens", n)
	}
}

func TestLeadingSpace(t *testing.T) {
	pieces := []string{spaceMark + "x", spaceMark + "text", "text", "te", "xt", spaceMark, "x", "t", "e", "a", spaceMark + "a", spaceMark + spaceMark}
	for i, c := range []string{"t", "te", "tex", spaceMark + "t", spaceMark + "te", spaceMark + "tex"} {
		if !slices.Contains(pieces, c) {
			pieces = append(pieces, c)
		}
		_ = i
	}
	build := func(prefix bool) *Tokenizer {
		meta := vocabMeta("llama", "", append(charTokens("<unk>", "<s>", "</s>", pieces), token{"<|s|>", 0, TokenControl}), nil)
		meta.Set("tokenizer.ggml.bos_token_id", uint32(1))
		meta.Set("tokenizer.ggml.add_space_prefix", prefix)
		return newTokenizer(t, meta)
	}
	special := EncodeOptions{ParseSpecial: true}
	with, without := build(true), build(false)
	wantTexts(t, without, "<s>text</s>", special, "<s>", "text", "</s>")
	wantTexts(t, with, "text", EncodeOptions{}, spaceMark+"text")
	// A space after each whole token, in front of what the text has.
	wantTexts(t, with, "<|s|>x", special, "<|s|>", spaceMark+"x")
	wantTexts(t, with, "<|s|> x", special, "<|s|>", spaceMark, spaceMark+"x")
	wantTexts(t, with, "a<|s|> x", special, spaceMark+"a", "<|s|>", spaceMark, spaceMark+"x")

	for _, tok := range []*Tokenizer{with, without} {
		for _, s := range []string{"text", " text", "  text", "", " ", "   ", "x ", "é", " \n"} {
			for _, opt := range []EncodeOptions{{}, {AddSpecial: true}} {
				ids := tok.Encode(s, opt)
				if got := tok.Decode(ids, DecodeOptions{}); got != s {
					t.Errorf("prefix %v: %q becomes %v and comes back as %q", tok.v.AddSpacePrefix, s, ids, got)
				}
			}
		}
	}
	if got := with.Decode(with.Encode("x", EncodeOptions{}), DecodeOptions{KeepPrefix: true}); got != " x" {
		t.Errorf("KeepPrefix: got %q, want %q", got, " x")
	}
	if got := with.Decode(with.Encode("<s>x", special), DecodeOptions{Special: true}); got != "<s> x" {
		t.Errorf("Special: got %q, want %q", got, "<s> x")
	}
}

// Merges decide where a file has them, even beside scores.
func TestScoresAndMerges(t *testing.T) {
	meta := spmMeta("a", "b", "c", spaceMark, "bc", "ab")
	meta.Set("tokenizer.ggml.add_space_prefix", false)
	wantTexts(t, newTokenizer(t, meta), "abc", EncodeOptions{}, "a", "bc")
	meta.Set("tokenizer.ggml.merges", []string{"a b", "b c"})
	wantTexts(t, newTokenizer(t, meta), "abc", EncodeOptions{}, "ab", "c")
}

func TestScoreTies(t *testing.T) {
	tokens := charTokens("<unk>", "<s>", "</s>", []string{"a", "aa"})
	meta := vocabMeta("llama", "", tokens, nil)
	meta.Set("tokenizer.ggml.add_space_prefix", false)
	wantTexts(t, newTokenizer(t, meta), "aaaaa", EncodeOptions{}, "aa", "aa", "a") // leftmost first
}

func TestMergeOrder(t *testing.T) {
	tok := newTokenizer(t, byteMeta("gpt-2", []string{"b c", "a b", "bc d"}))
	wantTexts(t, tok, "abc", EncodeOptions{}, "a", "bc")
	wantTexts(t, tok, "abcd ab", EncodeOptions{}, "a", "bcd", "Ġ", "ab")
}

// Llama 3 takes a piece that is a token as it stands, although merging would
// not get there.
func TestIgnoreMerges(t *testing.T) {
	merges := []string{"b c", "a bc"}
	meta := byteMeta("llama-bpe", merges, token{"abcd", 0, TokenNormal})
	wantTexts(t, newTokenizer(t, meta), "abcd abcd", EncodeOptions{}, "abcd", "Ġ", "abc", "d")
	meta.Set("tokenizer.ggml.pre", "qwen2")
	wantTexts(t, newTokenizer(t, meta), "abcd", EncodeOptions{}, "abc", "d")
}

func TestInvalidUTF8(t *testing.T) {
	byteLevel := newTokenizer(t, byteMeta("llama-bpe", []string{"a b"}))
	spm := newTokenizer(t, spmMeta("a", "b", "é", spaceMark))
	gemma := newTokenizer(t, gemmaMeta("ab"+spaceMark, []string{"a b"}))
	for name, tok := range map[string]*Tokenizer{"bytes": byteLevel, "spm": spm, "gemma4": gemma} {
		for _, bad := range []string{"\xe6\xad", "\xe2\x80", "\xff\xfe", "\xc0\x80", "\xf4\x90\x80\x80", "\xed\xa0\x80", "\x80"} {
			for _, s := range []string{bad, "a" + bad + "b", bad + bad} {
				ids := tok.Encode(s, EncodeOptions{})
				if got := tok.AppendDecode(nil, ids, DecodeOptions{}); string(got) != s {
					t.Errorf("%s: bytes %x come back as %x", name, s, got)
				}
				if got, want := tok.Decode(ids, DecodeOptions{}), string([]rune(s)); got != want {
					t.Errorf("%s: %x is written %q, want %q", name, s, got, want)
				}
			}
		}
	}
	ids := byteLevel.Encode("a\xe6\xadb", EncodeOptions{})
	if want := []int32{'a', 0xe6, 0xad, 'b'}; !slices.Equal(ids, want) {
		t.Errorf("ids of cut character: got %v, want %v", ids, want)
	}
}

func TestLiteralByteToken(t *testing.T) {
	meta := spmMeta("@", "<", "0", "x", "4", ">", "<0", "<0x", "<0x4", "<0x40", spaceMark)
	meta.Set("tokenizer.ggml.add_space_prefix", false)
	tok := newTokenizer(t, meta)
	wantTexts(t, tok, "<0x40>", EncodeOptions{ParseSpecial: true}, "<0x40", ">")
	wantTexts(t, tok, "@", EncodeOptions{}, "@")
	if got := tok.Decode(tok.Encode("<0x40>", EncodeOptions{}), DecodeOptions{}); got != "<0x40>" {
		t.Errorf("decoded %q", got)
	}
	wantTexts(t, tok, "<unk><s>", EncodeOptions{ParseSpecial: true}, "<unk>", "<s>")
}

func TestUnknown(t *testing.T) {
	tokens := []token{{"<unk>", 0, TokenUnknown}, {"a", -1, TokenNormal}, {"</s>", 0, TokenControl}}
	meta := vocabMeta("llama", "", tokens, nil)
	meta.Set("tokenizer.ggml.add_space_prefix", false)
	wantTexts(t, newTokenizer(t, meta), "aéa", EncodeOptions{}, "a", "<unk>", "a")
	tokens[0].typ = TokenNormal
	meta = vocabMeta("llama", "", tokens, nil)
	meta.Set("tokenizer.ggml.add_space_prefix", false)
	wantTexts(t, newTokenizer(t, meta), "aéa", EncodeOptions{}, "a", "a")
}

func TestStripRules(t *testing.T) {
	v := &Vocab{Model: "gpt2", Pre: "gpt-2", BOS: -1, EOS: -1, EOT: -1, EOM: -1, UNK: -1, PAD: -1}
	for _, r := range byteChars {
		v.Tokens, v.Types = append(v.Tokens, string(r)), append(v.Types, TokenNormal)
	}
	for i, a := range []AddedToken{{LStrip: true}, {RStrip: true}, {SingleWord: true}} {
		a.ID = int32(256 + i)
		v.Added = append(v.Added, a)
		v.Tokens, v.Types = append(v.Tokens, []string{"<l>", "<r>", "one"}[i]), append(v.Types, TokenUserDefined)
	}
	v.finish()
	tok, err := NewTokenizer(v)
	if err != nil {
		t.Fatal(err)
	}
	wantTexts(t, tok, "a  <l> b", EncodeOptions{}, "a", "<l>", "Ġ", "b")
	wantTexts(t, tok, "a <r> \n b", EncodeOptions{}, "a", "Ġ", "<r>", "b")
	wantTexts(t, tok, "one", EncodeOptions{}, "one")
	wantTexts(t, tok, "x one", EncodeOptions{}, "x", "Ġ", "one")
	wantTexts(t, tok, "ones", EncodeOptions{}, "o", "n", "e", "s")
}

func TestRoundTripBytes(t *testing.T) {
	merges := []string{"t h", "th e", "Ġ the", "Ġ Ġ", "ĠĠ ĠĠ", "Ã ©", "Ċ Ċ"}
	for _, pre := range PreTokenizers() {
		tok := newTokenizer(t, byteMeta(pre, merges, token{"<|c|>", 0, TokenControl}, token{"[u]", 0, TokenUserDefined}))
		rapid.Check(t, func(t *rapid.T) {
			var s string
			if rapid.Bool().Draw(t, "bytes") {
				s = string(rapid.SliceOf(rapid.Byte()).Draw(t, "s"))
			} else {
				s = strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"the", " ", "  ", "é", "\n", "'s", "12345", "[u]", "<|c|>", "好", "\u0301", "A", "b", "."})).Draw(t, "s"), "")
			}
			ids := tok.Encode(s, EncodeOptions{})
			if got := tok.AppendDecode(nil, ids, DecodeOptions{}); string(got) != s {
				t.Fatalf("%q comes back as %q, ids %v", s, got, ids)
			}
			special := tok.Encode(s, EncodeOptions{ParseSpecial: true})
			if got := tok.AppendDecode(nil, special, DecodeOptions{Special: true}); string(got) != s {
				t.Fatalf("%q with special comes back as %q, ids %v", s, got, special)
			}
		})
	}
}

func TestConcurrent(t *testing.T) {
	tok := newTokenizer(t, spmMeta("a", "b", "ab", spaceMark, spaceMark+"a"))
	text := strings.Repeat("ab a b é ", 50)
	want := tok.Encode(text, EncodeOptions{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				if got := tok.Encode(text, EncodeOptions{}); !slices.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzTokenizer(f *testing.F) {
	byteLevel := newTokenizer(f, byteMeta("llama-bpe", []string{"t h", "th e", "Ġ Ġ"}, token{"<|c|>", 0, TokenControl}))
	byCase := newTokenizer(f, byteMeta("gpt-4o", []string{"t h", "th e", "Ġ Ġ"}))
	spm := newTokenizer(f, spmMeta("t", "h", "e", "th", "the", spaceMark, spaceMark+"the", "é"))
	gemma := newTokenizer(f, gemmaMeta("the\n"+spaceMark, []string{"t h", "th e", "\n \n"}, token{"[u]", 0, TokenUserDefined}))
	for _, s := range []string{"", " the the", "\xe6\xad", "a\n\n\nb", "<|c|>[u]<0x40>", "\u2581\u2581", "it's 12345", strings.Repeat("the ", 40)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for name, tok := range map[string]*Tokenizer{"bytes": byteLevel, "case": byCase, "spm": spm, "gemma4": gemma} {
			want := s
			if name == "spm" || name == "gemma4" {
				want = strings.ReplaceAll(s, spaceMark, " ") // U+2581 is how they spell a space
			}
			for _, opt := range []EncodeOptions{{}, {AddSpecial: true}, {AddSpecial: true, ParseSpecial: true, OneBOS: true}} {
				ids := tok.Encode(s, opt)
				stream := tok.Stream(DecodeOptions{})
				var streamed strings.Builder
				for _, id := range ids {
					if id < 0 || int(id) >= tok.Size() {
						t.Fatalf("%s: id %d of %d", name, id, tok.Size())
					}
					piece := stream.Push(id)
					if !utf8.ValidString(piece) {
						t.Fatalf("%s: stream gave %q", name, piece)
					}
					streamed.WriteString(piece)
				}
				streamed.WriteString(stream.Flush())
				if got := tok.Decode(ids, DecodeOptions{}); got != streamed.String() {
					t.Fatalf("%s: stream gave %q, Decode %q", name, streamed.String(), got)
				}
				if opt.ParseSpecial {
					continue
				}
				if got := tok.AppendDecode(nil, ids, DecodeOptions{}); string(got) != want {
					t.Fatalf("%s: %q comes back as %q, ids %v", name, s, got, ids)
				}
			}
		}
	})
}
