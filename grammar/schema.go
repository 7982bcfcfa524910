package grammar

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// FromSchema compiles a JSON Schema (drafts 6 to 2020-12): what matches is JSON
// that is valid under it. Errors are *SchemaError with the path of what is
// wrong, or cannot be enforced.
//
// Enforced are: type, enum, const, $ref and $defs inside the document,
// recursion included, anyOf, allOf, oneOf whose branches exclude each other;
// properties, required, additionalProperties, patternProperties,
// propertyNames, min- and maxProperties; items, prefixItems, min- and maxItems;
// pattern (without look-around and word boundaries), format, min- and
// maxLength; minimum, maximum, their exclusive forms, and multipleOf of whole
// numbers and powers of ten. A schema with enum or const may use all keywords.
// Titles, descriptions, defaults, examples and members that begin with x- say
// nothing about validity; any other member is an error.
//
// The JSON written is one of many forms: members come in the order of
// properties, then other ones; numbers have at most 16 digits before and after
// the point, and those with bounds no exponent; there is little blank space.
func FromSchema(schema []byte) (*Grammar, error) {
	root, err := parseNodes(schema)
	if err != nil {
		return nil, err
	}
	c := &compiler{root: root, rules: map[string]*rule{}, valid: map[*node]*jsonschema.Schema{}}
	if s := root.get("$schema"); s != nil && strings.Contains(s.text, "draft-04") {
		return nil, s.errorf("draft-04 is not supported; use a newer one")
	}
	c.lib = validator(root.value(), &c.unknown)
	if err := checkSchema(c.lib); err != nil {
		return nil, err
	}
	r, err := c.conj([]*node{root})
	if err != nil {
		return nil, err
	}
	for len(c.todo) > 0 {
		t := c.todo[0]
		c.todo = c.todo[1:]
		if err := t(); err != nil {
			return nil, err
		}
	}
	return finish(r)
}

// JSONObject returns a grammar of every JSON object.
func JSONObject() *Grammar {
	c := &compiler{rules: map[string]*rule{}}
	g, err := finish(c.anyObject())
	if err != nil {
		panic(err) // it is always the same
	}
	return g
}

func finish(r *rule) (*Grammar, error) {
	g, err := newGrammar(r, false)
	switch {
	case err == errNothing:
		return nil, &SchemaError{"", "nothing is valid under the schema"}
	case err != nil:
		return nil, &SchemaError{"", strings.TrimPrefix(err.Error(), "grammar: ")}
	}
	return g, nil
}

// compiler makes rules of the nodes of a schema. A rule is for a conjunction:
// nodes that must all be satisfied.
type compiler struct {
	root    *node
	lib     *jsonschema.Compiler
	unknown int
	valid   map[*node]*jsonschema.Schema
	rules   map[string]*rule
	todo    []func() error // bodies not yet made, so that recursion is no depth
	space   *rule
	str     *rule
	value   *rule
	object  *rule
}

// conj returns the rule of a conjunction.
func (c *compiler) conj(nodes []*node) (*rule, error) {
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n *node) bool {
		return n.kind == 't' || n.kind == '{' && len(n.keys) == 0
	})
	if len(nodes) == 0 {
		return c.anyValue(), nil
	}
	key := keyOf("conj", nodes)
	if r := c.rules[key]; r != nil {
		return r, nil
	}
	r, err := c.newRule(key, nodes[0])
	if err != nil {
		return nil, err
	}
	c.todo = append(c.todo, func() error {
		alts, err := c.split(nodes)
		if err != nil {
			return err
		}
		var list []*expr
		for _, a := range alts {
			one, err := c.merged(a)
			if err != nil {
				return err
			}
			list = append(list, ref(one))
		}
		r.body = alt(list...)
		return nil
	})
	return r, nil
}

// merged returns the rule of nodes without choices: see split.
func (c *compiler) merged(nodes []*node) (*rule, error) {
	if len(nodes) == 0 {
		return c.anyValue(), nil
	}
	key := keyOf("all", nodes)
	if r := c.rules[key]; r != nil {
		return r, nil
	}
	r, err := c.newRule(key, nodes[0])
	if err != nil {
		return nil, err
	}
	c.todo = append(c.todo, func() error {
		var err error
		r.body, err = c.build(nodes)
		return err
	})
	return r, nil
}

func (c *compiler) newRule(key string, n *node) (*rule, error) {
	if len(c.rules) >= maxRules {
		return nil, n.errorf("the schema needs more than %d rules", maxRules)
	}
	path := n.path()
	if path == "" {
		path = "/"
	}
	r := &rule{name: path, where: "schema"}
	c.rules[key] = r
	return r, nil
}

func keyOf(kind string, nodes []*node) string {
	ids := make([]int, len(nodes))
	for i, n := range nodes {
		ids[i] = n.id
	}
	slices.Sort(ids)
	var b strings.Builder
	b.WriteString(kind)
	for _, id := range slices.Compact(ids) {
		b.WriteString(" " + strconv.Itoa(id))
	}
	return b.String()
}

// maxChoices bounds the combinations of anyOf and oneOf in one place.
const maxChoices = 1000

// split follows $ref and allOf, and takes one branch of each anyOf and oneOf,
// in all ways: whatever is valid is valid under one of the results. Nodes that
// say nothing are left out; no result means that nothing is valid.
func (c *compiler) split(nodes []*node) ([][]*node, error) {
	var out [][]*node
	steps := 0
	var walk func(queue, done, choices []*node) error
	walk = func(queue, done, choices []*node) error {
		if steps++; steps > 20*maxChoices {
			return nodes[0].errorf("anyOf and oneOf combine to more than %d cases", maxChoices)
		}
		for len(queue) > 0 {
			n := queue[0]
			queue = queue[1:]
			switch {
			case n.kind == 't' || slices.Contains(done, n):
				continue
			case n.kind == 'f':
				return nil
			}
			done = append(slices.Clip(done), n)
			if len(done) > maxChoices {
				return n.errorf("more than %d schemas apply in one place", maxChoices)
			}
			if err := c.checkKeys(n); err != nil {
				return err
			}
			if r := n.get("$ref"); r != nil {
				to, err := c.resolve(r)
				if err != nil {
					return err
				}
				if err := c.loops(n, to); err != nil {
					return err
				}
				queue = append(slices.Clip(queue), to)
			}
			if l := n.get("allOf"); l != nil {
				queue = append(slices.Clip(queue), l.vals...)
			}
			for _, k := range []string{"anyOf", "oneOf"} {
				if l := n.get(k); l != nil {
					choices = append(slices.Clip(choices), l)
				}
			}
		}
		if len(choices) == 0 {
			out = append(out, done)
			if len(out) > maxChoices {
				return nodes[0].errorf("anyOf and oneOf combine to more than %d cases", maxChoices)
			}
			return nil
		}
		l := choices[0]
		if l.token == "oneOf" {
			if err := c.exclusive(l); err != nil {
				return err
			}
		}
		for _, branch := range l.vals {
			if err := walk([]*node{branch}, done, choices[1:]); err != nil {
				return err
			}
		}
		return nil
	}
	return out, walk(nodes, nil, nil)
}

// loops refuses references that lead back to where they stand without going
// into a value.
func (c *compiler) loops(from, to *node) error {
	seen, err := c.inside(to, true)
	if err == nil && seen[from] {
		err = from.errorf("the reference leads back to itself")
	}
	return err
}

// resolve finds what a $ref means: a JSON pointer or an anchor.
func (c *compiler) resolve(r *node) (*node, error) {
	text := r.text
	if id := c.root.get("$id"); id != nil {
		text = strings.TrimPrefix(text, id.text)
	}
	frag, ok := strings.CutPrefix(text, "#")
	if !ok && text != "" {
		return nil, r.errorf("the reference %q leads out of the schema; put what it means under $defs", r.text)
	}
	frag, err := url.PathUnescape(frag)
	if err != nil {
		return nil, r.errorf("the reference %q: %v", r.text, err)
	}
	if frag == "" {
		return c.root, nil
	}
	if !strings.HasPrefix(frag, "/") {
		if n := c.anchor(c.root, frag); n != nil {
			return n, nil
		}
		return nil, r.errorf("the reference %q: there is no such $anchor", r.text)
	}
	n := c.root
	for _, t := range strings.Split(frag[1:], "/") {
		t = strings.NewReplacer("~1", "/", "~0", "~").Replace(t)
		var next *node
		switch i, err := strconv.Atoi(t); {
		case n.kind == '[' && err == nil && i >= 0 && i < len(n.vals):
			next = n.vals[i]
		case n.kind == '{':
			next = n.get(t)
		}
		if next == nil {
			return nil, r.errorf("the reference %q leads to nothing", r.text)
		}
		n = next
	}
	if n.kind != '{' && n.kind != 't' && n.kind != 'f' {
		return nil, r.errorf("the reference %q does not lead to a schema", r.text)
	}
	return n, nil
}

func (c *compiler) anchor(n *node, name string) *node {
	if a := n.get("$anchor"); a != nil && a.text == name {
		return n
	}
	for _, v := range n.vals {
		if f := c.anchor(v, name); f != nil {
			return f
		}
	}
	return nil
}

// Keywords by what they are to a conjunction.
var (
	annotations = []string{"title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "$comment", "$schema", "$defs", "definitions",
		"$anchor", "$vocabulary", "contentEncoding", "contentMediaType", "contentSchema"}
	enforced = []string{"$ref", "allOf", "anyOf", "oneOf", "type", "enum", "const",
		"properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties", "maxProperties", "unevaluatedProperties",
		"items", "prefixItems", "additionalItems", "minItems", "maxItems", "unevaluatedItems",
		"pattern", "format", "minLength", "maxLength",
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
	// Enforced for enum and const only, by trying each value.
	filters = []string{"not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies", "uniqueItems", "contains", "minContains", "maxContains"}
)

func (c *compiler) checkKeys(n *node) error {
	for i, k := range n.keys {
		switch {
		case k == "$id" || k == "id":
			if n != c.root {
				return n.vals[i].errorf("%s inside a schema is not supported", k)
			}
		case strings.HasPrefix(k, "x-") || slices.Contains(annotations, k) || slices.Contains(enforced, k) || slices.Contains(filters, k):
		default:
			return n.vals[i].errorf("the keyword %q is not known or cannot be enforced", k)
		}
	}
	return nil
}

// types of JSON values.
type types uint8

const (
	tNull types = 1 << iota
	tBool
	tObject
	tArray
	tString
	tInteger // whole numbers
	tFraction
	tNumber = tInteger | tFraction
	tAny    = tNull | tBool | tObject | tArray | tString | tNumber
)

var typeNames = map[string]types{"null": tNull, "boolean": tBool, "object": tObject, "array": tArray, "string": tString, "integer": tInteger, "number": tNumber}

// typesOf returns what the keyword type of one node allows.
func typesOf(n *node) types {
	t := n.get("type")
	if t == nil {
		return tAny
	}
	if t.kind == '"' {
		return typeNames[t.text]
	}
	all := types(0)
	for _, v := range t.vals {
		all |= typeNames[v.text]
	}
	return all
}

// build makes the body of a conjunction without choices.
func (c *compiler) build(nodes []*node) (*expr, error) {
	for _, n := range nodes {
		for _, k := range []string{"enum", "const"} {
			if n.get(k) != nil {
				return c.values(nodes, n.get(k))
			}
		}
	}
	t := tAny
	for _, n := range nodes {
		t &= typesOf(n)
	}
	for _, n := range nodes {
		for i, k := range n.keys {
			if slices.Contains(filters, k) {
				if k == "uniqueItems" && n.vals[i].kind == 'f' || k == "uniqueItems" && t&tArray == 0 {
					continue
				}
				return nil, n.vals[i].errorf("the keyword %q cannot be enforced", k)
			}
		}
	}
	var list []*expr
	if t&tNull != 0 {
		list = append(list, lit("null"))
	}
	if t&tBool != 0 {
		list = append(list, lit("true"), lit("false"))
	}
	for _, k := range []struct {
		t     types
		build func([]*node) (*expr, error)
	}{{tObject, c.objects}, {tArray, c.arrays}, {tString, c.strings}} {
		if t&k.t == 0 {
			continue
		}
		e, err := k.build(nodes)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	if t&tNumber != 0 {
		e, err := c.numbers(nodes, t&tFraction == 0)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return alt(list...), nil
}

// accepts has the library validate a value under one node.
func (c *compiler) accepts(n *node, v any) (bool, error) {
	s := c.valid[n]
	if s == nil {
		var parts []string
		for _, t := range strings.Split(n.path(), "/") {
			parts = append(parts, url.PathEscape(t))
		}
		var err error
		if s, err = c.lib.Compile(docURL + "#" + strings.Join(parts, "/")); err != nil {
			return false, n.errorf("%v", err)
		}
		c.valid[n] = s
	}
	c.unknown = 0
	err := s.Validate(v)
	if c.unknown > 0 {
		return false, n.errorf("a pattern in here cannot be tried: it goes beyond regular expressions")
	}
	return err == nil, nil
}

// values makes the values of an enum or const that satisfy all nodes.
func (c *compiler) values(nodes []*node, of *node) (*expr, error) {
	list := []*node{of}
	if of.token == "enum" {
		list = of.vals
	}
	var out []*expr
	for _, v := range list {
		ok := true
		for _, n := range nodes {
			good, err := c.accepts(n, v.value())
			if err != nil {
				return nil, err
			}
			ok = ok && good
		}
		if ok {
			out = append(out, c.literal(v))
		}
	}
	return alt(out...), nil
}

// literal is a value as JSON writes it, with blank space where it may be.
func (c *compiler) literal(n *node) *expr {
	switch n.kind {
	case '{', '[':
		list := []*expr{lit(string(n.kind))}
		for i, v := range n.vals {
			if i > 0 {
				list = append(list, lit(","))
			}
			list = append(list, ref(c.ws()))
			if n.kind == '{' {
				list = append(list, lit(quote(n.keys[i])+":"), ref(c.ws()))
			}
			list = append(list, c.literal(v))
		}
		return seq(append(list, ref(c.ws()), lit(string(n.kind+2)))...) // { + 2 is }, [ + 2 is ]
	case '"':
		return lit(quote(n.text))
	case '0':
		return lit(n.text)
	case 't':
		return lit("true")
	case 'f':
		return lit("false")
	}
	return lit("null")
}

// quote writes a JSON string, each character in one way only.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch e, ok := shortEscapes[r]; {
		case ok:
			b.WriteByte('\\')
			b.WriteByte(e)
		case r < ' ':
			fmt.Fprintf(&b, "\\u%04x", r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
