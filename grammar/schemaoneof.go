package grammar

import "slices"

// exclusive refuses a oneOf of which two branches may be valid at once: that
// could not be seen before the value is complete.
func (c *compiler) exclusive(l *node) error {
	for i, a := range l.vals {
		for j := i + 1; j < len(l.vals); j++ {
			apart, err := c.apart(a, l.vals[j])
			if err != nil {
				return err
			}
			if !apart {
				return l.errorf("cannot be enforced: branches %d and %d may both be valid for one value; use anyOf, or give them different types or a property with different constants", i, j)
			}
		}
	}
	return nil
}

// flat follows $ref and allOf.
func (c *compiler) flat(n *node) ([]*node, error) {
	var out []*node
	queue := []*node{n}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		if n.kind != '{' || slices.Contains(out, n) {
			continue
		}
		out = append(out, n)
		if r := n.get("$ref"); r != nil {
			to, err := c.resolve(r)
			if err != nil {
				return nil, err
			}
			queue = append(queue, to)
		}
		if l := n.get("allOf"); l != nil {
			queue = append(queue, l.vals...)
		}
	}
	return out, nil
}

// apart reports whether it is certain that no value is valid under both.
func (c *compiler) apart(a, b *node) (bool, error) {
	if a.kind == 'f' || b.kind == 'f' {
		return true, nil
	}
	fa, err := c.flat(a)
	if err != nil {
		return false, err
	}
	fb, err := c.flat(b)
	if err != nil {
		return false, err
	}
	kinds := func(nodes []*node) types {
		t := tAny
		for _, n := range nodes {
			t &= typesOf(n)
		}
		return t
	}
	ta, tb := kinds(fa), kinds(fb)
	if ta&tb == 0 {
		return true, nil
	}
	// The values of one side, tried on the other.
	for _, x := range []struct {
		nodes []*node
		other *node
	}{{fa, b}, {fb, a}} {
		for _, n := range x.nodes {
			list := []*node(nil)
			if e := n.get("enum"); e != nil {
				list = e.vals
			}
			if e := n.get("const"); e != nil {
				list = []*node{e}
			}
			if list == nil {
				continue
			}
			both := false
			for _, v := range list {
				ok, err := c.accepts(x.other, v.value())
				if err != nil {
					return false, err
				}
				both = both || ok
			}
			if !both {
				return true, nil
			}
		}
	}
	if ta&tb != tObject {
		return false, nil
	}
	required := func(nodes []*node) []string {
		var list []string
		for _, n := range nodes {
			if r := n.get("required"); r != nil {
				for _, v := range r.vals {
					list = append(list, v.text)
				}
			}
		}
		return list
	}
	property := func(nodes []*node, name string) (schemas []*node, forbidden bool) {
		for _, n := range nodes {
			props := n.get("properties")
			if props != nil && props.get(name) != nil {
				schemas = append(schemas, props.get(name))
			} else if x := n.get("additionalProperties"); x != nil && x.kind == 'f' && n.get("patternProperties") == nil {
				forbidden = true
			}
		}
		return schemas, forbidden
	}
	ra, rb := required(fa), required(fb)
	for _, name := range append(slices.Clone(ra), rb...) {
		pa, noA := property(fa, name)
		pb, noB := property(fb, name)
		inA, inB := slices.Contains(ra, name), slices.Contains(rb, name)
		if inA && noB || inB && noA {
			return true, nil
		}
		for _, x := range pa {
			for _, y := range pb {
				// One object has one value of that name, if it must be there in
				// one of them and is then looked at by both.
				if deeper := x.get("properties") != nil && y.get("properties") != nil; deeper {
					continue
				}
				apart, err := c.apart(x, y)
				if err != nil || apart {
					return apart, err
				}
			}
		}
	}
	return false, nil
}
