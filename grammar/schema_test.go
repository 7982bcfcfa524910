package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// validate has the library judge a text under a schema.
func validate(schema, text string) error {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		return fmt.Errorf("schema: %v", err)
	}
	c := jsonschema.NewCompiler()
	c.UseRegexpEngine(func(s string) (jsonschema.Regexp, error) { return goPattern(s) })
	c.AssertFormat()
	if err := c.AddResource(docURL, doc); err != nil {
		return err
	}
	s, err := c.Compile(docURL)
	if err != nil {
		return fmt.Errorf("schema: %v", err)
	}
	if !json.Valid([]byte(text)) {
		return errors.New("not JSON")
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// finishText writes a random text of allowed tokens to its end. After a while
// it takes what ends things.
func finishText(t testing.TB, m *Matcher, r *rand.Rand, wild int) (string, bool) {
	t.Helper()
	var b strings.Builder
	closers := []int32{tokEOS, tokBytes + '}', tokBytes + ']', tokBytes + '"', tokBytes + 'n', tokBytes + '0', tokBytes + '1'}
	for i := range 3000 {
		if m.Done() {
			return b.String(), true
		}
		mask := maskOf(m)
		ids := allowed(mask)
		if len(ids) == 0 {
			t.Fatalf("after %q: no token is allowed (%v)", b.String(), m.Err())
		}
		id := ids[r.IntN(len(ids))]
		if i > wild || r.IntN(3) == 0 {
			for _, c := range closers {
				if mask[c/64]>>(c%64)&1 == 1 {
					id = c
					break
				}
			}
		}
		if err := m.Accept(id); err != nil {
			t.Fatalf("after %q: %v", b.String(), err)
		}
		if id == tokEOS {
			return b.String(), true
		}
		b.Write(m.v.text[id])
	}
	return b.String(), false
}

// checkSchemaTexts writes texts and has them validated; it returns one.
func checkSchemaTexts(t testing.TB, g *Grammar, v *Vocab, schema string, seed uint64, n int) string {
	t.Helper()
	text := ""
	for i := range n {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		s, ok := finishText(t, g.Matcher(v), r, 5+20*i)
		if !ok {
			continue
		}
		if err := validate(schema, s); err != nil {
			t.Fatalf("schema %s\nwrites %s\n%v", schema, s, err)
		}
		text = s
	}
	return text
}

var schemas = []string{
	`{}`, `true`, `{"type":"object"}`, `{"type":"array"}`, `{"type":"string"}`, `{"type":["integer","null"]}`, `{"type":"boolean"}`,
	`{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150},"tags":{"type":"array","items":{"type":"string","maxLength":5},"maxItems":3}},"required":["name","age"],"additionalProperties":false}`,
	`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"null"}}}`,
	`{"type":"object","required":["x","y"],"properties":{"y":{"const":1.50}},"additionalProperties":{"type":"boolean"}}`,
	`{"type":"object","properties":{"a":true,"b":true,"c":true,"d":true},"additionalProperties":false,"minProperties":2,"maxProperties":3}`,
	`{"type":"object","minProperties":1,"maxProperties":2}`,
	`{"type":"object","patternProperties":{"^x_":{"type":"integer"},"y$":{"type":"null"}},"additionalProperties":false}`,
	`{"type":"object","properties":{"x_1":{"minimum":3}},"required":["x_1"],"patternProperties":{"^x_":{"type":"integer"}},"additionalProperties":{"type":"string"}}`,
	`{"type":"object","propertyNames":{"pattern":"^[a-z]{2,4}$"},"additionalProperties":{"type":"integer"}}`,
	`{"type":"object","propertyNames":{"pattern":"^[00]{00}$"},"additionalProperties":{"type":"integer"}}`, `{"type":"string","pattern":"^\\s.\\S$"}`,
	`{"type":"object","propertyNames":{"enum":["a","b"]},"additionalProperties":{"type":"integer"}}`,
	`{"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":{"type":"null"},"minItems":1,"maxItems":5}`,
	`{"type":"array","prefixItems":[{"type":"integer"}],"items":false}`,
	`{"$schema":"http://json-schema.org/draft-07/schema#","type":"array","items":[{"type":"integer"},{"type":"string"}],"additionalItems":{"type":"boolean"},"minItems":3}`,
	`{"type":"array","items":{"type":"integer"},"minItems":20,"maxItems":40}`,
	`{"type":"string","minLength":3,"maxLength":70}`, `{"type":"string","maxLength":5000}`, `{"type":"string","maxLength":0}`,
	`{"type":"string","pattern":"^+a$"}`[:0] + `{"type":"string","pattern":"^a+$"}`,
	`{"type":"string","pattern":"\\S"}`, `{"type":"string","pattern":"\\/"}`, `{"type":"string","pattern":"b"}`, `{"type":"string","pattern":"^a|b$"}`, `{"type":"string","pattern":"(^x|y)z(q|w$)"}`,
	`{"type":"string","pattern":"^[\\w.]{1,9}@[a-z]{2,}\\.(com|org)$","maxLength":16}`, `{"type":"string","pattern":"^[^\"\\\\]*$","minLength":4}`, `{"type":"string","pattern":"[\\x00-\\x1f\"\\\\]{3}"}`,
	`{"type":"string","allOf":[{"pattern":"a"},{"pattern":"b"},{"maxLength":6}]}`,
	`{"enum":["a",1,null,{"k":[1,"\u0001\n"]},[],1.0e2,true]}`, `{"const":"x/\"\\y"}`, `{"enum":["aa","b","ccc"],"minLength":2}`, `{"enum":[1,5,10],"not":{"const":5}}`,
	`{"type":"integer","minimum":-17,"maximum":243}`, `{"type":"integer","exclusiveMinimum":9,"exclusiveMaximum":1001}`, `{"type":"integer","minimum":5}`, `{"type":"integer","maximum":-30}`, `{"type":"integer","minimum":0.5,"maximum":99.5}`,
	`{"type":"integer","multipleOf":7}`, `{"type":"integer","multipleOf":4,"minimum":1}`, `{"type":"integer","multipleOf":5,"minimum":-20,"maximum":33}`, `{"type":"number","multipleOf":0.01,"minimum":0,"maximum":10}`, `{"type":"number","multipleOf":0.5,"enum":[1,1.5,2.25]}`,
	`{"type":"number","minimum":-1.25,"maximum":2.5}`, `{"type":"number","exclusiveMinimum":0}`, `{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1}`, `{"type":"number","minimum":0.125,"maximum":0.126}`, `{"type":"number","maximum":0,"exclusiveMinimum":-3}`, `{"type":"number","minimum":1e3,"maximum":12345.678}`, `{"type":"number","minimum":3,"maximum":3}`, `{"type":"number","minimum":-5.5,"exclusiveMaximum":-5}`,
	`{"anyOf":[{"type":"string","maxLength":3},{"type":"integer"},{"type":"object","required":["a"]}]}`,
	`{"oneOf":[{"type":"object","properties":{"kind":{"const":"a"},"x":{"type":"integer"}},"required":["kind","x"]},{"type":"object","properties":{"kind":{"const":"b"},"y":{"type":"string"}},"required":["kind"]}]}`,
	`{"oneOf":[{"type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":false},{"type":"object","properties":{"b":{}},"required":["b"],"additionalProperties":false}]}`,
	`{"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"a":{"minimum":5},"b":{"type":"string"}},"required":["b"]}]}`,
	`{"allOf":[{"$ref":"#/$defs/base"}],"properties":{"extra":{"type":"boolean"}},"unevaluatedProperties":false,"$defs":{"base":{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}}}`,
	`{"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","properties":{"value":{"type":"integer"},"children":{"type":"array","items":{"$ref":"#/$defs/tree"}}},"required":["value"],"additionalProperties":false}}}`,
	`{"$defs":{"list":{"anyOf":[{"type":"null"},{"type":"object","properties":{"next":{"$ref":"#/$defs/list"}},"required":["next"],"additionalProperties":false}]}},"$ref":"#/$defs/list"}`,
	`{"$id":"https://example.com/s","type":"array","items":{"$ref":"https://example.com/s#/$defs/n"},"$defs":{"n":{"$anchor":"n","type":"null"}},"minItems":2}`,
	`{"properties":{"a":{"$ref":"#thing"}},"type":"object","required":["a"],"$defs":{"n":{"$anchor":"thing","type":"null"}}}`,
	`{"type":"object","properties":{"q\"uo\\te":{"type":"null"},"é":{"type":"null"}},"required":["q\"uo\\te","é"],"additionalProperties":{"type":"integer"}}`,
	`{"x-note":1,"title":"t","description":"d","default":3,"type":"integer"}`,
}

func init() {
	for f := range formats {
		schemas = append(schemas, fmt.Sprintf(`{"type":"string","format":%q}`, f), fmt.Sprintf(`{"type":"array","items":{"type":"string","format":%q,"maxLength":200},"minItems":2}`, f))
	}
}

// Everything that is written under a schema is valid under it, and the masks on
// the way are exact.
func TestSchemaTexts(t *testing.T) {
	v := testVocab(t, jsonWords...)
	for _, s := range schemas {
		g, err := FromSchema([]byte(s))
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		start := time.Now()
		text := checkSchemaTexts(t, g, v, s, 1, 6)
		walk(t, g.Matcher(v), rand.New(rand.NewPCG(1, 1)), 12, true)
		if testing.Verbose() {
			t.Logf("%v %s\n\t%s", time.Since(start), s, shorten(text))
		}
	}
}

// Texts that must be possible, and some that must not.
func TestSchemaAccepts(t *testing.T) {
	v := testVocab(t, jsonWords...)
	for _, c := range []struct {
		schema  string
		yes, no []string
	}{
		{`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"]}`,
			[]string{`{"a":1}`, `{ "a": -12, "b": "x" }`, "{\n  \"a\": 1,\n  \"b\": \"\\u00e4\\n\",\n  \"c\": [1, {\"d\": null}]\n}"},
			[]string{`{}`, `{"b":"x"}`, `{"a":1.5}`, `{"a":1,"a":"x"}`, `{"a":1,"\u0061":"x"}`, `{"a":1,}`, `{"a":01}`, `[1]`}},
		{`{"type":"string","pattern":"b"}`, []string{`"b"`, `"abc"`, `"\\b"`}, []string{`"a"`, `""`}},
		{`{"type":"string","pattern":"^a+$"}`, []string{`"a"`, `"aaa"`}, []string{`""`, `"ab"`}},
		{`{"type":"string","maxLength":2}`, []string{`""`, `"😀é"`, `"\u0041\n"`}, []string{`"abc"`, `"\ud83d\ude00"`}},
		{`{"type":"string","minLength":5000,"maxLength":5000}`, []string{`"` + strings.Repeat("ä", 5000) + `"`}, []string{`"` + strings.Repeat("ä", 4999) + `"`, `"` + strings.Repeat("ä", 5001) + `"`}},
		{`{"type":"integer","minimum":-17,"maximum":243}`, []string{"-17", "-1", "0", "9", "10", "199", "243"}, []string{"-18", "244", "00", "-0", "1.0", "1e2"}},
		{`{"type":"number","minimum":-1.25,"exclusiveMaximum":2.5}`, []string{"-1.25", "-1.2499", "0", "-0.0", "2", "2.49", "1.999999"}, []string{"-1.251", "2.5", "2.50", "3", "-2"}},
		{`{"type":"number","exclusiveMinimum":0}`, []string{"0.001", "1", "123456.5"}, []string{"0", "0.0", "-1"}},
		{`{"type":"integer","multipleOf":7}`, []string{"0", "7", "-14", "700000007"}, []string{"1", "-0", "8"}},
		{`{"type":"number","multipleOf":0.01}`, []string{"1", "0.25", "-3.1"}, []string{"0.255"}},
		{`{"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":2}`, []string{"[1]", "[1,2]", "[ 1, 2 ]"}, []string{"[]", "[1,2,3]", "[1,]"}},
		{`{"type":"string","format":"date"}`, []string{`"2024-02-29"`, `"2023-12-31"`, `"2000-02-29"`}, []string{`"2023-02-29"`, `"1900-02-29"`, `"2023-13-01"`, `"2023-04-31"`}},
		{`{"type":"string","format":"date-time"}`, []string{`"2024-02-29T23:59:59.5+01:30"`, `"2024-01-01T00:00:00Z"`}, []string{`"2024-01-01"`, `"2024-01-01T24:00:00Z"`}},
		{`{"type":"string","format":"uuid"}`, []string{`"123e4567-e89b-12d3-a456-426614174000"`}, []string{`"123e4567"`}},
		{`{"type":"string","format":"duration"}`, []string{`"P3D"`, `"PT1H30M"`, `"P1Y2M3DT4H5M6S"`, `"P2W"`}, []string{`"P"`, `"PT"`, `"1D"`}},
		{`{"type":"string","format":"email"}`, []string{`"a.b@example.com"`}, []string{`"a@b"`, `"@b.c"`}},
		{`{"enum":["a",{"k":[1,2]}]}`, []string{`"a"`, `{"k":[1,2]}`, `{"k": [1, 2]}`}, []string{`"b"`, `{"k":[2,1]}`}},
		{`{"enum":[1,5,10],"not":{"const":5}}`, []string{"1", "10"}, []string{"5"}},
		{`{"type":"object","propertyNames":{"maxLength":2},"additionalProperties":{"type":"integer"}}`, []string{`{"ab":1}`}, []string{`{"abc":1}`}},
		{`{"allOf":[{"properties":{"a":true}},{"unevaluatedProperties":false,"type":"object"}]}`, []string{`{}`}, []string{`{"a":1}`}},
		{`{"anyOf":[{"type":"integer"},false]}`, []string{"1"}, []string{"null"}},
		{`{"type":"object","properties":{"a":false},"maxProperties":0}`, []string{"{}"}, []string{`{"a":1}`, `{"b":1}`}},
	} {
		g, err := FromSchema([]byte(c.schema))
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		for _, s := range c.yes {
			if !matches(g, v, s) {
				t.Errorf("%s: %s is not possible", c.schema, shorten(s))
			}
			if !strings.Contains(c.schema, "unevaluated") && validate(c.schema, s) != nil {
				t.Errorf("%s: the test itself: %s is not valid", c.schema, s)
			}
		}
		for _, s := range c.no {
			if matches(g, v, s) {
				t.Errorf("%s: %s is possible", c.schema, shorten(s))
			}
		}
	}
}

func TestSchemaErrors(t *testing.T) {
	deep := strings.Repeat(`{"items":`, 5000) + "{}" + strings.Repeat("}", 5000)
	for schema, want := range map[string]string{
		``:                                `at /: not JSON`,
		`{"type":`:                        `at /: not JSON`,
		`{"a" 1}`:                         `at /: not JSON`,
		`{} {}`:                           `at /: something follows`,
		`{"type":"strin"}`:                `at /type: not a valid schema`,
		`{"minLength":-1}`:                `at /minLength: not a valid schema`,
		`{"properties":[]}`:               `at /properties: not a valid schema`,
		`7`:                               `at /: not a valid schema`,
		`{"type":"string","type":"null"}`: `at /: the member "type" is there twice`,
		`{"$schema":"http://json-schema.org/draft-04/schema#"}`:                                         `at /$schema: draft-04 is not supported`,
		`{"properties":{"a":{"minLenght":3}}}`:                                                          `at /properties/a/minLenght: the keyword "minLenght" is not known`,
		`{"properties":{"a/b~":{"type":"string","not":{"maxLength":2}}}}`:                               `at /properties/a~1b~0/not: the keyword "not" cannot be enforced`,
		`{"type":"array","uniqueItems":true}`:                                                           `at /uniqueItems: the keyword "uniqueItems" cannot be enforced`,
		`{"type":"array","contains":{"const":1}}`:                                                       `at /contains: the keyword`,
		`{"if":{"type":"string"},"then":{"maxLength":2}}`:                                               `at /if: the keyword`,
		`{"type":"string","format":"idn-email"}`:                                                        `at /format: the format "idn-email" cannot be enforced; known: date,`,
		`{"type":"string","pattern":"(?<=x)a"}`:                                                         `at /pattern: the pattern "(?<=x)a" cannot be enforced: at character`,
		`{"type":"string","pattern":"^+a$"}`:                                                            `at /pattern: the pattern "^+a$" cannot be enforced`,
		`{"type":"string","pattern":"a\\bc"}`:                                                           `at /pattern: the pattern "a\\bc" cannot be enforced: at character 4: the word boundary`,
		`{"type":"string","pattern":"(a)\\1"}`:                                                          `at /pattern: the pattern`,
		`{"type":"string","pattern":"a^b"}`:                                                             `at /pattern: the pattern "a^b" cannot be enforced: the anchors`,
		`{"type":"string","pattern":"` + strings.Repeat("(", 10000) + strings.Repeat(")", 10000) + `"}`: `at /pattern: the pattern`,
		`{"type":"string","pattern":"` + strings.Repeat("(", 1000) + strings.Repeat(")", 1000) + `"}`:   `at /pattern: the pattern`,
		`{"type":"string","pattern":"(a|b)*a(a|b){40}"}`:                                                `at /pattern: the pattern "(a|b)*a(a|b){40}" cannot be enforced: the pattern, format and length together need more than`,
		`{"type":"string","pattern":"((a{100}){100}){100}"}`:                                            `at /pattern: the pattern`,
		`{"type":"string","maxLength":99999999999}`:                                                     `at /maxLength: 99999999999 is too large a count`,
		`{"$ref":"#"}`: `at /: the reference leads back to itself`,
		`{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"$ref":"#/$defs/a"}}}`: `the reference leads back`,
		`{"$ref":"#/$defs/none"}`:                                            `at /: `,
		`{"$ref":"file:///etc/passwd"}`:                                      `at /: `,
		`{"$ref":"https://example.com/x.json"}`:                              `at /: `,
		`{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}`: `at /: nothing is valid under the schema`,
		`false`: `at /: nothing is valid`,
		`{"type":"string","minLength":3,"maxLength":2}`: `at /: nothing is valid`,
		`{"enum":[]}`:                    `at /`,
		`{"type":"string","enum":[1,2]}`: `at /: nothing is valid`,
		`{"type":"object","allOf":[{"$ref":"#/$defs/m"},{"anyOf":[{"$ref":"#/$defs/m"},{"properties":{"b":true}}],"unevaluatedProperties":false}],"$defs":{"m":{"properties":{"a":true}}}}`: `unevaluatedProperties beside another schema that leads to the same ones cannot be enforced`,
		`{"oneOf":[{"type":"integer"},{"type":"number"}]}`:     `at /oneOf: cannot be enforced: branches 0 and 1 may both be valid`,
		`{"type":"number","multipleOf":0.3}`:                   `at /multipleOf: multipleOf 0.3 cannot be enforced`,
		`{"type":"integer","multipleOf":3,"minimum":7}`:        `at /multipleOf: multipleOf 3 together with these bounds`,
		`{"type":"number","minimum":1e400}`:                    `at /minimum: 1e400 cannot be enforced`,
		`{"type":"object","minProperties":3}`:                  `at /: minProperties 3 cannot be enforced`,
		deep:                                                   `at /: the schema is nested more than 200 deep`,
		`{"enum":[` + strings.Repeat("1,", 60000) + `1]}`:      `at /: the schema has more than 50000 values`,
		`{"description":"` + strings.Repeat("x", 1<<20) + `"}`: `at /: the schema has 1048`,
		bomb(20): `anyOf and oneOf combine to more than 1000 cases`,
	} {
		start := time.Now()
		_, err := FromSchema([]byte(schema))
		var e *SchemaError
		if !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %s", schema, err, want)
		}
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("%.80s: the error took %v", schema, d)
		}
	}
}

// bomb has 2^n combinations of choices.
func bomb(n int) string {
	one := `{"anyOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}`
	return `{"allOf":[` + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + `]}`
}

// Schemas that look large and are small: references are rules, not copies.
func TestSchemaReferencesDoNotMultiply(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/r00","$defs":{`)
	for i := range 40 {
		fmt.Fprintf(&b, `"r%02d":{"type":"object","properties":{"a":{"$ref":"#/$defs/r%02d"},"b":{"$ref":"#/$defs/r%02d"}},"required":["a","b"],"additionalProperties":false},`, i, i+1, i+1)
	}
	b.WriteString(`"r40":{"type":"null"}}}`)
	start := time.Now()
	g, err := FromSchema([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	m := g.Matcher(testVocab(t, jsonWords...))
	maskOf(m)
	if d := time.Since(start); d > time.Second || len(g.nfa.states) > 20000 || !feed(m, `{"a":{"a":{"a":`) {
		t.Errorf("%d states, %v", len(g.nfa.states), d)
	}
}

func TestJSONObject(t *testing.T) {
	v := testVocab(t, jsonWords...)
	g := JSONObject()
	checkSchemaTexts(t, g, v, `{"type":"object"}`, 3, 10)
	if !matches(g, v, benchText) || matches(g, v, "[]") || matches(g, v, `{"a":1}}`) {
		t.Error("objects are not told from other texts")
	}
}

// genSchema draws a schema.
func genSchema(t *rapid.T, depth int) any {
	obj := func(kv ...any) map[string]any {
		m := map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i].(string)] = kv[i+1]
		}
		return m
	}
	flip := func(name string) bool { return rapid.Bool().Draw(t, name) }
	n := func(lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, "n") }
	kinds := 7
	if depth > 0 {
		kinds = 12
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]any{obj(), true, obj("type", "null"), obj("type", "boolean"), obj("type", []any{"string", "null"})}).Draw(t, "simple")
	case 1:
		s := obj("type", "string")
		if flip("length") {
			lo := n(0, 20)
			s["minLength"], s["maxLength"] = lo, lo+n(0, 40)
		}
		if flip("pattern") {
			s["pattern"] = rapid.SampledFrom([]string{"^a", "b$", "[0-9]+", "^[a-z]*$", "x|y", "^(ab|c){2,}$", "\\d", "[^a-z\"]", "ä", "^$", "."}).Draw(t, "pattern")
		}
		return s
	case 2:
		s := obj("type", "string", "format", rapid.SampledFrom([]string{"date", "time", "date-time", "uuid", "ipv4", "email", "hostname", "uri", "duration"}).Draw(t, "format"))
		return s
	case 3:
		s := obj("type", "integer")
		lo := n(-2000, 2000)
		if flip("lo") {
			s[rapid.SampledFrom([]string{"minimum", "exclusiveMinimum"}).Draw(t, "k")] = lo
		}
		if flip("hi") {
			s[rapid.SampledFrom([]string{"maximum", "exclusiveMaximum"}).Draw(t, "k")] = lo + n(0, 3000)
		}
		return s
	case 4:
		s := obj("type", "number")
		lo := n(-20000, 20000)
		scale := []float64{1, 10, 100, 1000}[n(0, 3)]
		if flip("lo") {
			s[rapid.SampledFrom([]string{"minimum", "exclusiveMinimum"}).Draw(t, "k")] = float64(lo) / scale
		}
		if flip("hi") {
			s[rapid.SampledFrom([]string{"maximum", "exclusiveMaximum"}).Draw(t, "k")] = float64(lo+n(0, 30000)) / scale
		}
		return s
	case 5:
		return obj("enum", rapid.SliceOfN(rapid.SampledFrom([]any{"a", "b\"", 1, 2.5, nil, true, []any{1}, obj("k", "v"), "äöü\n", -3, ""}), 1, 5).Draw(t, "enum"))
	case 6:
		return obj("type", "integer", "multipleOf", n(1, 30))
	case 7, 8:
		props := obj()
		var required []any
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "ab", "name", "x y", "é", "\"", "a\\"}), 0, 5, rapid.ID).Draw(t, "names") {
			props[name] = genSchema(t, depth-1)
			if flip("required") {
				required = append(required, name)
			}
		}
		s := obj("type", "object", "properties", props)
		if required != nil {
			s["required"] = required
		}
		if flip("additional") {
			s["additionalProperties"] = rapid.SampledFrom([]any{false, obj("type", "integer")}).Draw(t, "more")
		}
		if flip("counts") {
			s["maxProperties"] = len(required) + n(0, 3)
		}
		return s
	case 9:
		s := obj("type", "array", "items", genSchema(t, depth-1))
		lo := n(0, 3)
		if flip("min") {
			s["minItems"] = lo
		}
		if flip("max") {
			s["maxItems"] = lo + n(0, 3)
		}
		if flip("prefix") {
			s["prefixItems"] = []any{genSchema(t, depth-1), genSchema(t, depth-1)}
		}
		return s
	case 10:
		return obj(rapid.SampledFrom([]string{"anyOf", "oneOf", "allOf"}).Draw(t, "of"), []any{genSchema(t, depth-1), genSchema(t, depth-1)})
	default:
		return obj("$ref", "#/$defs/d")
	}
}

// TestSchemaProperty: whatever is written under a schema that is accepted is
// valid JSON and valid under it.
func TestSchemaProperty(t *testing.T) {
	v := testVocab(t, jsonWords...)
	accepted, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s := genSchema(t, 3)
		if m, ok := s.(map[string]any); ok {
			m["$defs"] = map[string]any{"d": map[string]any{"type": "object", "properties": map[string]any{"in": map[string]any{"$ref": "#/$defs/d"}, "v": genSchema(t, 0)}, "additionalProperties": false}}
		}
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(s); err != nil {
			t.Fatal(err)
		}
		schema := b.String()
		g, err := FromSchema(b.Bytes())
		if err != nil {
			var bad *SchemaError
			if !errors.As(err, &bad) {
				t.Fatalf("%s: %v", schema, err)
			}
			refused++
			return
		}
		accepted++
		seed := rapid.Uint64().Draw(t, "seed")
		for i := range 3 {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			m := g.Matcher(v)
			text, ok := rapidText(t, m, r, 15+40*i)
			if !ok {
				continue
			}
			if err := validate(schema, text); err != nil {
				t.Fatalf("schema %s\nwrites %s\n%v", schema, text, err)
			}
		}
	})
	t.Logf("%d schemas accepted, %d refused", accepted, refused)
	if accepted < refused {
		t.Errorf("only %d of %d schemas were accepted", accepted, accepted+refused)
	}
}

func rapidText(t *rapid.T, m *Matcher, r *rand.Rand, wild int) (string, bool) {
	var f fataler = fataler{t: t}
	return finishText(&f, m, r, wild)
}

// fataler lets rapid see failures of helpers written for testing.TB.
type fataler struct {
	testing.TB
	t *rapid.T
}

func (f *fataler) Helper()                           {}
func (f *fataler) Fatalf(format string, args ...any) { f.t.Fatalf(format, args...) }

// FuzzSchema: any text gives a grammar or an error with a path, and what a
// grammar writes is valid.
func FuzzSchema(f *testing.F) {
	for _, s := range schemas {
		f.Add(s, uint64(1))
	}
	v := testVocab(f, jsonWords...)
	f.Fuzz(func(t *testing.T, schema string, seed uint64) {
		g, err := FromSchema([]byte(schema))
		if err != nil {
			var e *SchemaError
			if !errors.As(err, &e) {
				t.Fatalf("error %v", err)
			}
			return
		}
		m := g.Matcher(v)
		text, ok := finishText(t, m, rand.New(rand.NewPCG(seed, 1)), 20)
		if !ok {
			return
		}
		if !json.Valid([]byte(text)) {
			t.Fatalf("%q is not JSON", text)
		}
		if err := validate(schema, text); err != nil && !strings.HasPrefix(err.Error(), "schema: ") {
			t.Fatalf("%s\n%v", text, err)
		}
	})
}
