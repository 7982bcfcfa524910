package grammar

import (
	"math/rand/v2"
	"strings"
	"testing"

	"graphrun/loaders"
)

// largeTokens makes a vocabulary of n tokens that looks like those of large
// models: bytes, then pieces of words of several scripts with and without a
// space before them, numbers, runs of blanks and punctuation.
func largeTokens(n int) *loaders.Vocab {
	r := rand.New(rand.NewPCG(7, 7))
	v := testTokens()
	known := map[string]bool{}
	for _, w := range v.Tokens {
		known[w] = true
	}
	syllables := strings.Fields("a e i o u an en in on un er re st th tion ing ment ab con de dis ex pre pro sub ver lo mi na po ra si ta vi z k ж и ка про ст 日 本 の 中 国 ка é ü ñ α β")
	marks := []string{"\"", "\",", "\":", "\"}", "{\"", "[{", "}]", "),", "();", "==", "->", "...", "\\n", "\\\"", ", ", ": ", "\n", "\n\n", "\n  ", "</", "/>", "://"}
	for len(v.Tokens) < n {
		var b strings.Builder
		switch r.IntN(20) {
		case 0:
			b.WriteString(marks[r.IntN(len(marks))])
			if r.IntN(2) == 0 {
				b.WriteString(marks[r.IntN(len(marks))])
			}
			if r.IntN(2) == 0 {
				b.WriteString(syllables[r.IntN(len(syllables))])
			}
		case 1:
			for range 1 + r.IntN(6) {
				b.WriteByte(byte('0' + r.IntN(10)))
			}
		default:
			if r.IntN(2) == 0 {
				b.WriteString("▁")
			}
			for range 1 + r.IntN(5) {
				b.WriteString(syllables[r.IntN(len(syllables))])
			}
			if r.IntN(40) == 0 {
				b.WriteString(marks[r.IntN(len(marks))])
			}
		}
		if w := b.String(); !known[w] {
			known[w] = true
			v.Tokens, v.Types = append(v.Tokens, w), append(v.Types, loaders.TokenNormal)
			v.Scores = append(v.Scores, -float32(len(v.Tokens)))
		}
	}
	return v
}

func largeVocab(b testing.TB, n int) *Vocab {
	b.Helper()
	tok, err := loaders.NewTokenizer(largeTokens(n))
	if err != nil {
		b.Fatal(err)
	}
	return NewVocab(tok)
}

// script tokenizes a text by the longest token each time.
func script(v *Vocab, text string) []int32 {
	var ids []int32
	for text != "" {
		best, n := int32(-1), 0
		node := int32(0)
		for i := 0; i < len(text); i++ {
			if node = v.child(node, text[i]); node < 0 {
				break
			}
			if v.first[node] < v.first[node+1] {
				best, n = v.tokens[v.first[node]], i+1
			}
		}
		ids = append(ids, best)
		text = text[n:]
	}
	return ids
}

const benchText = `{"name": "stingment про 日本の", "list": [1, 2, {"pre": [true, null, [[{"verloment": "anz \n kan"}]]]}], "n": -12.5e3, "text": "ing tion the end of a longer text that says nothing"}`

// BenchmarkMask is the cost of one token, mask and accept, when everything has
// been met before.
func BenchmarkMask(b *testing.B) {
	for _, size := range []struct {
		name string
		n    int
	}{{"49152", 49152}, {"262144", 262144}} {
		v := largeVocab(b, size.n)
		g, err := ParseGBNF(grammars["json"])
		if err != nil {
			b.Fatal(err)
		}
		ids := script(v, benchText)
		run := func(m *Matcher, mask []uint64) {
			for _, id := range ids {
				m.Mask(mask)
				if err := m.Accept(id); err != nil {
					b.Fatal(err)
				}
			}
		}
		mask := make([]uint64, (size.n+63)/64)
		b.Run(size.name+"/cold", func(b *testing.B) {
			for b.Loop() {
				g.machines = map[*Vocab]*shared{}
				run(g.Matcher(v), mask)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(ids)), "µs/token")
		})
		b.Run(size.name+"/warm", func(b *testing.B) {
			m := g.Matcher(v)
			run(m, mask)
			b.ReportAllocs()
			for b.Loop() {
				m.Reset()
				run(m, mask)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(ids)), "µs/token")
		})
	}
}

// BenchmarkSchemaMask is BenchmarkMask under a schema, and compiling it.
func BenchmarkSchemaMask(b *testing.B) {
	const schema = `{"type":"object","properties":{"name":{"type":"string","maxLength":200},"age":{"type":"integer","minimum":0,"maximum":150},"email":{"type":"string","format":"email"},
"tags":{"type":"array","items":{"type":"string","pattern":"^[a-z -]+$"},"maxItems":10},"next":{"$ref":"#"}},"required":["name","age","email","tags"],"additionalProperties":false}`
	const text = `{"name": "stingment про the 日本の end", "age": 42, "email": "an.verlo@example.com", "tags": ["pre", "sub - ment", "tion"], "next": {"name": "k", "age": 7, "email": "a@b.co", "tags": []}}`
	v := largeVocab(b, 262144)
	ids := script(v, text)
	mask := make([]uint64, 262144/64)
	b.Run("compile", func(b *testing.B) {
		for b.Loop() {
			if _, err := FromSchema([]byte(schema)); err != nil {
				b.Fatal(err)
			}
		}
	})
	g, err := FromSchema([]byte(schema))
	if err != nil {
		b.Fatal(err)
	}
	run := func(b *testing.B, m *Matcher) {
		for _, id := range ids {
			m.Mask(mask)
			if err := m.Accept(id); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			g.machines = map[*Vocab]*shared{}
			run(b, g.Matcher(v))
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(ids)), "µs/token")
	})
	b.Run("warm", func(b *testing.B) {
		m := g.Matcher(v)
		run(b, m)
		b.ReportAllocs()
		for b.Loop() {
			m.Reset()
			run(b, m)
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(ids)), "µs/token")
	})
	b.Run("vocabulary", func(b *testing.B) {
		tok, err := loaders.NewTokenizer(largeTokens(262144))
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			NewVocab(tok)
		}
	})
}
