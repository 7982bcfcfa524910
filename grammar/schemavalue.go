package grammar

import (
	"slices"
)

// ws is the rule of blank space between the parts of a value: none, a blank, or
// a line's end and an indentation.
func (c *compiler) ws() *rule {
	if c.space == nil {
		c.space = &rule{name: "blank space", where: "schema", body: alt(empty, lit(" "), seq(lit("\n"), repeat(chars('\t', '\t', ' ', ' '), 0, 32)))}
	}
	return c.space
}

// strChar is one character of a JSON string, however written, but for escaped
// pairs of surrogates, which would be two.
func strChar() *expr {
	hex := chars('0', '9', 'a', 'f', 'A', 'F')
	low := seq(chars('0', '9', 'a', 'c', 'A', 'C', 'e', 'f', 'E', 'F'), hex)
	surrogate := seq(chars('d', 'd', 'D', 'D'), chars('0', '7'))
	return alt(class(plainSet), seq(lit(`\`), alt(chars('"', '"', '\\', '\\', '/', '/', 'b', 'b', 'f', 'f', 'n', 'n', 'r', 'r', 't', 't'),
		seq(lit("u"), alt(low, surrogate), hex, hex))))
}

// anyString is the rule of every JSON string.
func (c *compiler) anyString() *rule {
	if c.str == nil {
		c.str = &rule{name: "string", where: "schema", body: seq(lit(`"`), repeat(strChar(), 0, -1), lit(`"`))}
	}
	return c.str
}

// anyValue is the rule of every JSON value.
func (c *compiler) anyValue() *rule {
	if c.value == nil {
		c.value = &rule{name: "value", where: "schema"}
		list := func(open, item, end string, e *expr) *expr {
			return seq(lit(open), ref(c.ws()), opt(seq(e, repeat(seq(lit(","), ref(c.ws()), e), 0, -1), ref(c.ws()))), lit(end))
		}
		v := ref(c.value)
		c.object = &rule{name: "object", where: "schema", body: list("{", "", "}", seq(ref(c.anyString()), lit(":"), ref(c.ws()), v))}
		c.value.body = alt(lit("null"), lit("true"), lit("false"), ref(c.anyString()), anyNumber(false), list("[", "", "]", v), ref(c.object))
	}
	return c.value
}

func (c *compiler) anyObject() *rule {
	c.anyValue()
	return c.object
}

// strings makes strings of a pattern, format and length.
func (c *compiler) strings(nodes []*node) (*expr, error) {
	d, least, most, err := c.stringLimits(nodes)
	if err != nil {
		return nil, err
	}
	switch {
	case most >= 0 && most < least:
		return none, nil
	case d == nil && least == 0 && most < 0:
		return ref(c.anyString()), nil
	case d == nil:
		return seq(lit(`"`), repeat(strChar(), least, most), lit(`"`)), nil
	}
	free := !slices.ContainsFunc(nodes, func(n *node) bool { return n.get("pattern") != nil })
	if d, err = withLength(d, least, most, free); err != nil {
		return nil, nodes[0].errorf("%v", err)
	}
	return seq(lit(`"`), d.body(), lit(`"`)), nil
}

// withLength limits the length of d's texts. Where that needs too many states
// and shorter is allowed, the texts become shorter than they could be.
func withLength(d *dfa, least, most int, shorter bool) (*dfa, error) {
	a, z := d.lengths()
	if a >= least && (most < 0 || z >= 0 && z <= most) {
		return d, nil
	}
	for {
		l, err := lengthDFA(least, most)
		if err == nil {
			l, err = d.and(l)
		}
		if err != nil && shorter && most > least+20 && most > a+20 {
			most = max(most/2, least+20, a+20)
			continue
		}
		return l, err
	}
}

// stringLimits returns what must match, nil for anything, and the length.
func (c *compiler) stringLimits(nodes []*node) (d *dfa, least, most int, err error) {
	most = -1
	add := func(n *node, src string) error {
		e, err := parsePattern(src)
		if err != nil {
			return n.errorf("the pattern %q cannot be enforced: %v", shorten(src), err)
		}
		one, err := newDFA(e)
		if err == nil && d != nil {
			one, err = d.and(one)
		}
		if err != nil {
			return n.errorf("the pattern %q cannot be enforced: %v", shorten(src), err)
		}
		d = one
		return nil
	}
	for _, n := range nodes {
		x, err := n.count("minLength", 0)
		if err != nil {
			return nil, 0, 0, err
		}
		least = max(least, x)
		if x, err = n.count("maxLength", -1); err != nil {
			return nil, 0, 0, err
		}
		if x >= 0 && (most < 0 || x < most) {
			most = x
		}
		if p := n.get("pattern"); p != nil {
			if err := add(p, p.text); err != nil {
				return nil, 0, 0, err
			}
		}
		if f := n.get("format"); f != nil {
			src, ok := formats[f.text]
			if !ok {
				return nil, 0, 0, f.errorf("the format %q cannot be enforced; known: %s", f.text, knownFormats())
			}
			if err := add(f, src); err != nil {
				return nil, 0, 0, err
			}
		}
	}
	return d, least, most, nil
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}

// arrays makes arrays of items, prefixItems and counts.
func (c *compiler) arrays(nodes []*node) (*expr, error) {
	least, most, prefix := 0, -1, 0
	for _, n := range nodes {
		x, err := n.count("minItems", 0)
		if err != nil {
			return nil, err
		}
		least = max(least, x)
		if x, err = n.count("maxItems", -1); err != nil {
			return nil, err
		}
		if x >= 0 && (most < 0 || x < most) {
			most = x
		}
		p, _ := tuple(n)
		prefix = max(prefix, len(p))
		if prefix > maxChoices {
			return nil, n.errorf("more than %d items have schemas of their own", maxChoices)
		}
	}
	if most >= 0 && most < least {
		return none, nil
	}
	item := func(i int) (*expr, error) {
		var all []*node
		for _, n := range nodes {
			p, rest := tuple(n)
			if i < len(p) {
				all = append(all, p[i])
			} else if rest != nil {
				all = append(all, rest)
			}
			if u := n.get("unevaluatedItems"); u != nil && u.kind != 't' {
				if len(nodes) > 1 {
					return nil, u.errorf("unevaluatedItems beside other schemas of the same value cannot be enforced")
				}
				if i >= len(p) && rest == nil {
					all = append(all, u)
				}
			}
		}
		r, err := c.conj(all)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(n *node) bool { return n.kind == 'f' }) {
			return none, nil
		}
		return ref(r), nil
	}
	comma := func(e *expr) *expr { return seq(lit(","), ref(c.ws()), e) }
	rest, err := item(prefix)
	if err != nil {
		return nil, err
	}
	if most >= 0 {
		prefix = min(prefix, most)
	}
	// From the last item to the first: what may follow the items before it.
	left := -1
	if most >= 0 {
		left = most - prefix
	}
	var tail *expr
	if need := max(least-prefix, 0); prefix > 0 {
		tail = repeat(comma(rest), need, left)
	} else if need > 0 {
		tail = seq(rest, repeat(comma(rest), need-1, less(left)))
	} else if left == 0 {
		tail = empty
	} else {
		tail = opt(seq(rest, repeat(comma(rest), 0, less(left))))
	}
	for i := prefix - 1; i >= 0; i-- {
		e, err := item(i)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			e = comma(e)
		}
		if tail = seq(e, tail); i >= least {
			tail = opt(tail)
		}
	}
	return seq(lit("["), ref(c.ws()), tail, ref(c.ws()), lit("]")), nil
}

func less(n int) int {
	if n < 0 {
		return n
	}
	return n - 1
}

// tuple returns the schemas of the first items, and that of the others, nil if
// there is none, in the words of any draft.
func tuple(n *node) (prefix []*node, rest *node) {
	items := n.get("items")
	if p := n.get("prefixItems"); p != nil {
		return p.vals, items
	}
	if items != nil && items.kind == '[' {
		return items.vals, n.get("additionalItems")
	}
	return nil, items
}
