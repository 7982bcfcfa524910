package grammar

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"graphrun/engine"
	"graphrun/loaders"
)

var _ engine.Constraint = (*Matcher)(nil)

// testVocab has specials, all bytes and some words, among them pieces that end
// one thing and begin the next, and parts of characters.
func testVocab(t testing.TB, words ...string) *Vocab {
	t.Helper()
	tok, err := loaders.NewTokenizer(testTokens(words...))
	if err != nil {
		t.Fatal(err)
	}
	return NewVocab(tok)
}

const (
	tokEOS   = 2
	tokBytes = 3
)

func testTokens(words ...string) *loaders.Vocab {
	v := &loaders.Vocab{Model: "llama", BOS: 1, EOS: tokEOS, EOT: -1, EOM: -1, UNK: 0, PAD: -1, AddBOS: true, AddSpacePrefix: true, EOG: []int32{tokEOS}}
	add := func(text string, typ loaders.TokenType) {
		v.Tokens, v.Types = append(v.Tokens, text), append(v.Types, typ)
		v.Scores = append(v.Scores, -float32(len(v.Tokens)))
	}
	add("<unk>", loaders.TokenUnknown)
	add("<s>", loaders.TokenControl)
	add("</s>", loaders.TokenControl)
	for b := range 256 {
		add(fmt.Sprintf("<0x%02X>", b), loaders.TokenByte)
	}
	for c := rune(' ' + 1); c < 127; c++ {
		add(string(c), loaders.TokenNormal)
	}
	for _, w := range words {
		add(strings.ReplaceAll(w, " ", "▁"), loaders.TokenNormal)
	}
	return v
}

var jsonWords = []string{" ", "  ", "\": \"", "\",", "\"}", "{\"", "\", \"", "\":", ": ", "}}", "]}", "}]", "]]", "[[", "[]", "{}", "true", "false", "null",
	"ab", "abc", "name", "\"name\"", "12", "123", "0.5", "e+", "-1", " {", "\n  ", "\n", "ä", "😀", "日本", ", ", " \"", "\\n", "\\u", "\\\"", "00", "the", " the", "a\"", "a\",\"", "}}}", "\"}]}"}

// words of a mask.
func maskOf(m *Matcher) []uint64 {
	mask := make([]uint64, (m.v.size+63)/64)
	for i := range mask {
		mask[i] = ^uint64(0)
	}
	m.Mask(mask)
	return mask
}

func allowed(mask []uint64) []int32 {
	var ids []int32
	for i, w := range mask {
		for b := range 64 {
			if w>>b&1 == 1 {
				ids = append(ids, int32(i*64+b))
			}
		}
	}
	return ids
}

// feed reads a text byte by byte.
func feed(m *Matcher, text string) bool {
	for i := range len(text) {
		if m.Accept(tokBytes+int32(text[i])) != nil {
			return false
		}
	}
	return true
}

func matches(g *Grammar, v *Vocab, text string) bool {
	m := g.Matcher(v)
	return feed(m, text) && m.CanEnd()
}

// checkMask compares a mask with trying every token.
func checkMask(t testing.TB, m *Matcher, after string) []int32 {
	t.Helper()
	ids := allowed(maskOf(m))
	if m.Err() != nil {
		t.Fatalf("after %q: %v", after, m.Err())
	}
	n := 0
	for id := range int32(m.v.size) {
		can := false
		if text := m.v.text[id]; text != nil {
			c := config{groups: m.at.groups}
			if m.trim && text[0] == ' ' {
				text = text[1:]
			}
			can = true
			for i := 0; i < len(text) && can; i++ {
				var to config
				m.s.m.step(&to, &c, &m.in, text[i])
				c = to
				can = len(c.groups) > 0 || c.accept
			}
		} else if id == tokEOS {
			can = m.at.accept
		}
		has := n < len(ids) && ids[n] == id
		if has {
			n++
		}
		if has != can {
			t.Fatalf("after %q: token %d (%q): the mask says %v, reading it says %v", after, id, m.v.text[id], has, can)
		}
	}
	if n != len(ids) {
		t.Fatalf("after %q: the mask has ids above the vocabulary: %v", after, ids[n:])
	}
	return ids
}

// walk writes a random text of allowed tokens and returns it; ok is false when
// it has not ended after n tokens.
func walk(t testing.TB, m *Matcher, r *rand.Rand, n int, check bool) (text string, ok bool) {
	t.Helper()
	var b strings.Builder
	trim := m.trim
	for i := range n {
		if m.Done() {
			return b.String(), true
		}
		var ids []int32
		if check {
			ids = checkMask(t, m, b.String())
		} else {
			ids = allowed(maskOf(m))
		}
		if len(ids) == 0 {
			t.Fatalf("after %q: no token is allowed (%v)", b.String(), m.Err())
		}
		id := ids[r.IntN(len(ids))]
		if m.CanEnd() && i > n/2 {
			id = tokEOS
		}
		if err := m.Accept(id); err != nil {
			t.Fatalf("after %q: %v", b.String(), err)
		}
		if id == tokEOS {
			return b.String(), true
		}
		p := string(m.v.text[id])
		if i == 0 && trim {
			p = strings.TrimPrefix(p, " ")
		}
		b.WriteString(p)
	}
	return b.String(), false
}

var grammars = map[string]string{
	"list":   "root ::= item (\",\" \" \"? item){0,3}\nitem ::= \"yes\" | \"no\" | [^a-z\\n] | word\nword ::= [a-z]+",
	"nested": "root ::= \"(\" root* \")\" | \"[\" root \"]\" | \"x\"",
	"arith":  "root ::= term ([-+*/] term)*\nterm ::= num | \"(\" root \")\"\nnum ::= [0-9]{1,3} (\".\" [0-9]+)?",
	"json": `root ::= object
value ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}`,
	"unicode":    "root ::= [ä-ü]{2} [^\\x00-\\uFFFF]? . \"日本\"",
	"palindrome": "root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"a\" | \"b\" | \"\"",
	"right":      "root ::= [a-z] root | \"\"",
	"counted":    "root ::= ([a-c] [0-9]){40,75} \".\"",
}

// Every mask along random texts holds exactly the tokens that can be read.
func TestMaskIsExact(t *testing.T) {
	v := testVocab(t, jsonWords...)
	for name, src := range grammars {
		g, err := ParseGBNF(src)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for seed := range uint64(6) {
			r := rand.New(rand.NewPCG(seed, 1))
			m := g.Matcher(v)
			if seed%2 == 1 {
				m.TrimSpace()
			}
			text, ok := walk(t, m, r, 40, true)
			if ok && !matches(g, v, text) {
				t.Errorf("%s: %q was written and does not match", name, text)
			}
			if !utf8.ValidString(text) && ok {
				t.Errorf("%s: %q is not UTF-8", name, text)
			}
		}
	}
}
