package grammar

import (
	"errors"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Grammars beside regular expressions of the same language.
func TestGBNFAgainstRegexp(t *testing.T) {
	v := testVocab(t, jsonWords...)
	for _, c := range []struct{ gbnf, re, alphabet string }{
		{`root ::= "ab"* | [c-e]+ "f"?`, `(ab)*|[c-e]+f?`, "abcdef"},
		{`root ::= ("a" | "b" | "")` + "\n" + ` # comment`, `(a|b|)`, "abc"},
		{`root ::= [^ab]{2,4}`, `[^ab]{2,4}`, "abcdä😀"},
		{`root ::= "a"{3} "b"{2,} "c"{0,1}`, `a{3}b{2,}c?`, "abc"},
		{`root ::= "a"{17,40}`, `a{17,40}`, "a"},
		{`root ::= ("a" | "bc"){20,33}`, `(a|bc){20,33}`, "abc"},
		{`root ::= "a"{0,300} "b"`, `a{0,300}b`, "aaaaaaaaaaaaaaaaaaaaaaaaaaab"},
		{`root ::= .{1,2} "\n"`, `(?s).{1,2}` + "\n", "aä\n"},
		{`root ::= [\x61-\u0063\U00000064\]\-\^"] "\"\\\t"`, `[a-d\]\-\^"]"\\` + "\t", "abcd]^-\"\\\t"},
		{`root ::= x | y` + "\nx ::= \"x\" |\n \"z\"\ny   ::=\n \"y\" (\n y\n | x # deep\n )", `x|z|y+[xz]`, "xyz"},
		{`root ::= [a-]` + `[-b]`, `[a-][-b]`, "ab-"},
	} {
		g, err := ParseGBNF(c.gbnf)
		if err != nil {
			t.Errorf("%s: %v", c.gbnf, err)
			continue
		}
		re := regexp.MustCompile(`^(?:` + c.re + `)$`)
		r := rand.New(rand.NewPCG(1, 2))
		alphabet, yes := []rune(c.alphabet), 0
		for i := range 1500 {
			n := r.IntN(6)
			if i%3 == 0 {
				n = r.IntN(60)
			}
			var b strings.Builder
			for range n {
				b.WriteRune(alphabet[r.IntN(len(alphabet))])
			}
			got, want := matches(g, v, b.String()), re.MatchString(b.String())
			if got != want {
				t.Errorf("%s: %q: %v, want %v", c.gbnf, b.String(), got, want)
				break
			}
			if got {
				yes++
			}
		}
		for sample := range map[string]bool{strings.Repeat("abc", 15): true, "]\"\\\t": true} {
			if re.MatchString(sample) && matches(g, v, sample) {
				yes++
			}
		}
		if yes == 0 {
			t.Errorf("%s: no text of the test matches", c.gbnf)
		}
	}
}

// A repetition allows exactly the counts it says, however many blocks it has.
func TestRepetitionCounts(t *testing.T) {
	v := testVocab(t)
	for _, c := range [][2]int{{0, 0}, {0, 1}, {1, 1}, {15, 16}, {16, 17}, {0, 16}, {0, 17}, {0, 31}, {0, 32}, {31, 33}, {0, 255}, {0, 257}, {250, 300}, {289, 289}, {3, 700}} {
		rule := &rule{name: "root", body: seq(repeat(lit("a"), c[0], c[1]), lit("."))}
		g, err := newGrammar(rule, true)
		if err != nil {
			t.Fatal(err)
		}
		m := g.Matcher(v)
		for n := 0; n <= c[1]+1; n++ {
			mask := maskOf(m)
			end, more := mask[(tokBytes+'.')/64]>>((tokBytes+'.')%64)&1 == 1, mask[(tokBytes+'a')/64]>>((tokBytes+'a')%64)&1 == 1
			if end != (n >= c[0] && n <= c[1]) || more != (n < c[1]) {
				t.Errorf("{%d,%d}: after %d the end is %v, one more %v", c[0], c[1], n, end, more)
			}
			if !more {
				break
			}
			if err := m.Accept(tokBytes + 'a'); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestGBNFErrors(t *testing.T) {
	for src, want := range map[string]string{
		"":                                     `1:1: there is no rule "root"`,
		"a ::= \"x\"":                          `1:10: there is no rule "root"`,
		"root ::= a\nb ::= \"x\"":              `1:10: rule "a" is used here and not defined`,
		"root ::= \"x\"\nroot ::= \"y\"":       `2:1: rule "root" is defined twice, first at 1:1`,
		"root = \"x\"":                         `1:6: found '=' after the name of a rule, want ::=`,
		"root ::= \"x":                         `1:10: a literal has no closing "`,
		"root ::= [a-":                         `1:10: a class has no closing ]`,
		"root ::= [z-a]":                       `1:13: a range from 'z' to 'a' is empty`,
		"root ::= []":                          `1:10: a class that no character is in`,
		"root ::= (\"x\"":                      `1:14: found the end of the grammar inside a group, want )`,
		"root ::= \"x\" )":                     `1:14: found ')', want a literal`,
		"root ::= * \"x\"":                     `1:10: '*' repeats nothing`,
		"root ::= \"x\"{3,1}":                  `1:13: a repetition of {3,1}: the second count is below the first`,
		"root ::= \"x\"{,3}":                   `1:14: found ',' in a repetition, want a count`,
		"root ::= \"x\"{9999999}":              `1:14: a repetition of 9999999, at most 1000000 is possible`,
		"root ::= \"x\"{99999999999999999999}": `1:14: a repetition of`,
		"root ::= \"x\"{1":                     `1:15: found the end of the grammar in a repetition, want }`,
		"root ::= \"\\q\"":                     `1:11: an unknown escape`,
		"root ::= \"\\u12\"":                   `1:11: \u needs 4 hexadecimal digits`,
		"root ::= \"\\uD800\"":                 `1:11: U+D800 is not a character`,
		"root ::= \"\\U00110000\"":             `1:11: U+00110000 is not a character`,
		"root ::= \"\xff\"":                    `1:1: the grammar is not valid UTF-8`,
		"root ::= <think>":                     `1:10: tokens ('<') are not supported`,
		"root ::= root \"x\" | \"y\"":          `1:1: rule "root" is left-recursive (root -> root)`,
		"root ::= a\na ::= n b\nb ::= a | \"x\"\nn ::= \"n\"?":                    `2:1: rule "a" is left-recursive (a -> b -> a)`,
		"root ::= (\"\" root)* \"x\"":                                             `1:1: rule "root" is left-recursive`,
		"root ::= \"x\" loop | \"y\"\nloop ::= \"l\" loop":                        `2:1: rule "loop" has no end`,
		"root ::= " + strings.Repeat("(", 10000):                                  `1:210: groups are nested more than 200 deep`,
		"root ::= ((((\"abcdefghij\" [a-z]{16}){16}){16}){16} | \"z\"){9} \"\xff": `1:1: the grammar is not valid UTF-8`,
		strings.Repeat("#", 1<<20+1):                                              `1:1: the grammar has 1048577 bytes, at most 1048576 are read`,
	} {
		_, err := ParseGBNF(src)
		var e *GrammarError
		if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), "grammar: "+want) {
			t.Errorf("%.60q: %v, want %s", src, err, want)
		}
	}
}

// Bombs are refused or harmless.
func TestGBNFBombs(t *testing.T) {
	v := testVocab(t)
	deep := "\"x\""
	for range 100 {
		deep = "(" + deep + "){1000000}"
	}
	chain := "root ::= r00\n"
	for i := range 40 { // 2^40 ways to begin
		chain += strings.ReplaceAll(strings.ReplaceAll("rA ::= rB \"x\" | rB \"y\"\n", "A", itoa(i)), "B", itoa(i+1))
	}
	chain += "r40 ::= \"z\"\n"
	for name, src := range map[string]string{
		"nested counts": "root ::= " + deep,
		"ways":          chain,
		"ambiguous":     "root ::= \"a\" root \"b\" root | \"a\" root | \"a\" root \"c\" | \"\"",
		"states":        "root ::= " + strings.Repeat("([a-z]{16} | ", 190) + "\"x\"" + strings.Repeat("){1000}", 190),
	} {
		start := time.Now()
		g, err := ParseGBNF(src)
		if err != nil {
			t.Logf("%s: %v", name, err)
			continue
		}
		m := g.Matcher(v)
		for range 300 {
			if len(allowed(maskOf(m))) == 0 || m.Accept(tokBytes+'a') != nil {
				break
			}
		}
		t.Logf("%s: %d groups, %v, %v", name, len(m.at.groups), m.Err(), time.Since(start))
	}
}

func itoa(i int) string { return string(rune('0'+i/10)) + string(rune('0'+i%10)) }

// FuzzGBNF: any text gives a grammar or an error, and the masks of a grammar
// are exact.
func FuzzGBNF(f *testing.F) {
	for _, src := range grammars {
		f.Add(src, uint64(1))
	}
	f.Add("root ::= \"a\"{2,9} [^b] (x | \"\")\nx ::= . x?", uint64(3))
	v := testVocab(f, jsonWords...)
	f.Fuzz(func(t *testing.T, src string, seed uint64) {
		g, err := ParseGBNF(src)
		if err != nil {
			var e *GrammarError
			if !errors.As(err, &e) || e.Line < 1 || e.Col < 1 || e.Line > strings.Count(src, "\n")+1 {
				t.Fatalf("error %v", err)
			}
			return
		}
		r := rand.New(rand.NewPCG(seed, 1))
		m := g.Matcher(v)
		for range 12 {
			if m.Done() {
				return
			}
			mask := maskOf(m)
			if m.Err() != nil {
				return // too ambiguous
			}
			ids := allowed(mask)
			if len(ids) == 0 {
				t.Fatalf("no token is allowed")
			}
			id := ids[r.IntN(len(ids))]
			if err := m.Accept(id); err != nil && m.Err() == nil {
				t.Fatalf("token %d was allowed: %v", id, err)
			} else if err != nil {
				return
			}
		}
	})
}
