package grammar

import (
	"slices"
)

// member is a declared member of an object.
type member struct {
	name     string
	value    *expr
	required bool
}

// extra are members with other names.
type extra struct {
	key   *expr
	value *expr
}

// maxMembers bounds the states of one object: members times the counts that
// minProperties and maxProperties need.
const maxMembers = 50_000

// objects makes objects: the declared members in the order of the schema, then
// others.
func (c *compiler) objects(nodes []*node) (*expr, error) {
	names, required := memberNames(nodes)
	least, most := len(required), -1
	for _, n := range nodes {
		x, err := n.count("minProperties", 0)
		if err != nil {
			return nil, err
		}
		least = max(least, x)
		if x, err = n.count("maxProperties", -1); err != nil {
			return nil, err
		}
		if x >= 0 && (most < 0 || x < most) {
			most = x
		}
	}
	if most >= 0 && most < least {
		return none, nil
	}
	patterns, err := keyPatterns(nodes)
	if err != nil {
		return nil, err
	}
	keys, err := c.keyLimits(nodes)
	if err != nil {
		return nil, err
	}
	var members []member
	for _, name := range names {
		value, err := c.memberValue(nodes, name, patterns)
		if err != nil {
			return nil, err
		}
		if keys != nil && !keys.match(name) {
			value = none
		}
		must := slices.Contains(required, name)
		if value.op == opNone {
			if must {
				return none, nil
			}
			continue
		}
		members = append(members, member{name, value, must})
	}
	extras, err := c.extraMembers(nodes, names, patterns, keys)
	if err != nil {
		return nil, err
	}
	if len(extras) > 0 && least > len(members)+1 {
		return nil, nodes[0].errorf("minProperties %d cannot be enforced: other names than the %d declared ones may come twice", least, len(members))
	}
	if len(extras) > 0 && most >= 0 && least > len(required)+1 {
		return nil, nodes[0].errorf("minProperties %d together with maxProperties and other names cannot be enforced", least)
	}
	return c.memberGraph(nodes[0], members, extras, least, most)
}

// memberNames returns the declared names in order, and those required.
func memberNames(nodes []*node) (names, required []string) {
	seen, must := map[string]bool{}, map[string]bool{}
	for _, n := range nodes {
		if p := n.get("properties"); p != nil {
			for _, k := range p.keys {
				if !seen[k] {
					seen[k] = true
					names = append(names, k)
				}
			}
		}
	}
	for _, n := range nodes {
		if r := n.get("required"); r != nil {
			for _, v := range r.vals {
				if !must[v.text] {
					must[v.text] = true
					required = append(required, v.text)
				}
				if !seen[v.text] {
					seen[v.text] = true
					names = append(names, v.text)
				}
			}
		}
	}
	return names, required
}

// keyPattern is a member of patternProperties.
type keyPattern struct {
	of     *node // the schema it stands in
	d      *dfa
	schema *node
}

func keyPatterns(nodes []*node) ([]keyPattern, error) {
	var list []keyPattern
	for _, n := range nodes {
		p := n.get("patternProperties")
		for i := 0; p != nil && i < len(p.keys); i++ {
			e, err := parsePattern(p.keys[i])
			var d *dfa
			if err == nil {
				d, err = newDFA(e)
			}
			if err != nil {
				return nil, p.vals[i].errorf("the pattern %q cannot be enforced: %v", shorten(p.keys[i]), err)
			}
			list = append(list, keyPattern{n, d, p.vals[i]})
			if len(list) > 20 {
				return nil, p.errorf("more than 20 patterns for names in one place")
			}
		}
	}
	return list, nil
}

// keyLimits returns what propertyNames allows, nil for everything.
func (c *compiler) keyLimits(nodes []*node) (*dfa, error) {
	var all *dfa
	for _, n := range nodes {
		p := n.get("propertyNames")
		if p == nil || p.kind == 't' {
			continue
		}
		one, err := wordsDFA(nil)
		if err != nil {
			return nil, p.errorf("%v", err)
		}
		if p.kind != 'f' {
			alts, err := c.split([]*node{p})
			if err != nil {
				return nil, err
			}
			if len(alts) != 1 {
				return nil, p.errorf("propertyNames with choices cannot be enforced")
			}
			if one, err = c.keyNames(p, alts[0]); err != nil {
				return nil, err
			}
		}
		if one != nil && all != nil {
			if one, err = all.and(one); err != nil {
				return nil, p.errorf("%v", err)
			}
		}
		if one != nil {
			all = one
		}
	}
	return all, nil
}

// keyNames returns the strings of a conjunction, nil for all.
func (c *compiler) keyNames(at *node, nodes []*node) (*dfa, error) {
	for _, n := range nodes {
		for i, k := range n.keys {
			if slices.Contains(filters, k) || k == "enum" || k == "const" {
				if k == "enum" && len(nodes) == 1 {
					var words []string
					for _, v := range n.vals[i].vals {
						if ok, err := c.accepts(n, v.value()); err != nil {
							return nil, err
						} else if ok && v.kind == '"' {
							words = append(words, v.text)
						}
					}
					return wordsDFA(words)
				}
				return nil, n.vals[i].errorf("the keyword %q cannot be enforced for the names of members", k)
			}
		}
		if typesOf(n)&tString == 0 {
			return wordsDFA(nil)
		}
	}
	d, least, most, err := c.stringLimits(nodes)
	if err != nil {
		return nil, err
	}
	if d == nil && least == 0 && most < 0 {
		return nil, nil
	}
	if d == nil {
		d, err = lengthDFA(least, most)
	} else {
		d, err = withLength(d, least, most, false)
	}
	if err != nil {
		return nil, at.errorf("%v", err)
	}
	return d, nil
}

// others returns the schema of one node for names it does not know.
func others(n *node) []*node {
	var list []*node
	for _, k := range []string{"additionalProperties", "unevaluatedProperties"} {
		if x := n.get(k); x != nil {
			list = append(list, x)
		}
	}
	return list
}

// memberValue makes the value of a declared member.
func (c *compiler) memberValue(nodes []*node, name string, patterns []keyPattern) (*expr, error) {
	var all []*node
	for _, n := range nodes {
		known := false
		if p := n.get("properties"); p != nil && p.get(name) != nil {
			all = append(all, p.get(name))
			known = true
		}
		for _, p := range patterns {
			if p.of == n && p.d.match(name) {
				all = append(all, p.schema)
				known = true
			}
		}
		if x := n.get("additionalProperties"); x != nil && !known {
			all = append(all, x)
		}
		if x := n.get("unevaluatedProperties"); x != nil && !known {
			// It looks at what schemas inside of it know as well.
			inside, err := c.inside(n, true)
			if err != nil {
				return nil, err
			}
			always, err := c.inside(n, false)
			if err != nil {
				return nil, err
			}
			for _, m := range nodes {
				if p := m.get("properties"); inside[m] && p != nil && p.get(name) != nil {
					known = true
				}
				if inside[m] && !always[m] {
					if err := c.onlyInside(x, m, nodes, inside); err != nil {
						return nil, err
					}
				}
			}
			for _, p := range patterns {
				known = known || inside[p.of] && p.d.match(name)
			}
			if !known {
				all = append(all, x)
			}
		}
	}
	return c.ref(all)
}

// onlyInside refuses the schema x of unevaluatedProperties where m, which counts
// for it if a choice inside took it, is there because of a schema outside: then
// it cannot be told whether the choice took it.
func (c *compiler) onlyInside(x, m *node, nodes []*node, inside map[*node]bool) error {
	for _, q := range nodes {
		if inside[q] {
			continue
		}
		other, err := c.inside(q, false)
		if err != nil {
			return err
		}
		if other[m] {
			return x.errorf("unevaluatedProperties beside another schema that leads to the same ones cannot be enforced")
		}
	}
	return nil
}

// inside returns the schemas that apply in place because n does, with choices also
// those that may.
func (c *compiler) inside(n *node, choices bool) (map[*node]bool, error) {
	seen := map[*node]bool{}
	work := []*node{n}
	for len(work) > 0 {
		n := work[len(work)-1]
		work = work[:len(work)-1]
		if seen[n] || n.kind != '{' {
			continue
		}
		seen[n] = true
		if r := n.get("$ref"); r != nil {
			to, err := c.resolve(r)
			if err != nil {
				return nil, err
			}
			work = append(work, to)
		}
		for _, k := range []string{"allOf", "anyOf", "oneOf"} {
			if l := n.get(k); l != nil && (choices || k == "allOf") {
				work = append(work, l.vals...)
			}
		}
	}
	return seen, nil
}

// ref calls the rule of a conjunction.
func (c *compiler) ref(nodes []*node) (*expr, error) {
	if slices.ContainsFunc(nodes, func(n *node) bool { return n.kind == 'f' }) {
		return none, nil
	}
	r, err := c.conj(nodes)
	if err != nil {
		return nil, err
	}
	return ref(r), nil
}

// extraMembers makes the members of other names: those that no pattern knows,
// and for each pattern those that it alone knows.
func (c *compiler) extraMembers(nodes []*node, names []string, patterns []keyPattern, keys *dfa) ([]extra, error) {
	var list []extra
	for only := -1; only < len(patterns); only++ {
		var all []*node
		for _, n := range nodes {
			if only >= 0 && patterns[only].of == n {
				all = append(all, patterns[only].schema)
			} else {
				all = append(all, others(n)...)
			}
		}
		value, err := c.ref(all)
		if err != nil {
			return nil, err
		}
		if value.op == opNone {
			continue
		}
		if len(names)+len(patterns) == 0 && keys == nil {
			list = append(list, extra{ref(c.anyString()), value})
			continue
		}
		words, err := wordsDFA(names)
		if err != nil {
			return nil, nodes[0].errorf("%v", err)
		}
		d := words.not()
		both := func(o *dfa) {
			if err == nil {
				d, err = d.and(o)
			}
		}
		for i, p := range patterns {
			if i == only {
				both(p.d)
			} else {
				both(p.d.not())
			}
		}
		if keys != nil {
			both(keys)
		}
		if err != nil {
			return nil, nodes[0].errorf("the names of members: %v", err)
		}
		key := &rule{name: "other name", where: "schema", body: seq(lit(`"`), d.body(), lit(`"`))}
		list = append(list, extra{ref(key), value})
	}
	return list, nil
}

// memberGraph makes the automaton of an object. Its states are how far the declared
// members have come and how many members there are, as far as that matters.
func (c *compiler) memberGraph(at *node, members []member, extras []extra, least, most int) (*expr, error) {
	required := 0
	for _, m := range members {
		if m.required {
			required++
		}
	}
	top := 1 // counts from here on are alike
	if most >= 0 {
		top = max(most, 1)
	} else if least > required {
		top = max(least, 1)
	}
	if least <= required {
		least = 0 // comes by itself
	}
	if (len(members)+2)*(top+1) > maxMembers {
		return nil, at.errorf("%d members and counts up to %d are more than can be enforced", len(members), top)
	}
	ws := ref(c.ws())
	size := 20
	for _, m := range members {
		size += len(m.name) + 12
	}
	for _, x := range extras {
		size += x.key.size + 12
	}
	build := func(b *builder, from int32) int32 {
		n := len(members)
		// at[i][k]: before member i, k members written; row n: before others of
		// which none came yet, row n+1: after the first of them.
		at := make([][]int32, n+2)
		for i := range at {
			at[i] = make([]int32, top+1)
			for k := range at[i] {
				at[i][k] = b.state()
			}
		}
		if b.large {
			return from
		}
		b.epsilon(b.gen(ws, b.gen(lit("{"), from)), at[0][0])
		end := b.state()
		closing := b.state()
		b.epsilon(b.gen(lit("}"), b.gen(ws, closing)), end)
		// move writes one member from row i to row j.
		move := func(i, j, k, next int, write func(from int32) int32) {
			in := at[i][k]
			if k > 0 {
				in = b.gen(seq(lit(","), ws), in)
			}
			b.epsilon(write(in), at[j][next])
		}
		for i := range n + 2 {
			for k := range top + 1 {
				next := k + 1
				if next > top {
					if most >= 0 {
						next = -1
					} else {
						next = top
					}
				}
				if most == 0 {
					next = -1
				}
				if i < n {
					if next >= 0 {
						move(i, i+1, k, next, func(from int32) int32 {
							return b.gen(seq(lit(quote(members[i].name)+":"), ws, members[i].value), from)
						})
					}
					if !members[i].required {
						b.epsilon(at[i][k], at[i+1][k])
					}
					continue
				}
				if k >= least {
					b.epsilon(at[i][k], closing)
				}
				if most < 0 && i == n+1 && k > 0 {
					next = k // another one may have the same name
				}
				for _, x := range extras {
					if next >= 0 {
						move(i, n+1, k, next, func(from int32) int32 {
							return b.gen(seq(x.key, lit(":"), ws, x.value), from)
						})
					}
				}
			}
		}
		return end
	}
	return &expr{op: opGraph, size: size * (top + 1), build: build}, nil
}
