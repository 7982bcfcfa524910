package graph

import (
	"errors"
	"fmt"
)

// ErrInvariant is the class of errors that Verify returns.
var ErrInvariant = errors.New("graph invariant broken")

// InvariantError names the rule of doc.go that a graph breaks and the value
// that breaks it.
type InvariantError struct {
	Graph string
	Rule  string // a name from the list of invariants, e.g. "order"
	Value *Value // nil when the graph as a whole is at fault
	Text  string
}

// Error prints one line: graph, rule, value with its operation and origin, and
// what is wrong.
func (e *InvariantError) Error() string {
	at := ""
	if v := e.Value; v != nil {
		at = v.String() + ": "
		if v.Op != nil {
			at = v.String() + " = " + v.Op.Name + ": "
		}
		if v.Origin != "" {
			at = at[:len(at)-2] + " at " + v.Origin + ": "
		}
	}
	return fmt.Sprintf("graph: %s: rule %s: %s%s", e.Graph, e.Rule, at, e.Text)
}

// Unwrap returns ErrInvariant, for errors.Is.
func (e *InvariantError) Unwrap() error { return ErrInvariant }

// Verify checks the invariants listed in the package documentation and returns
// the first that is broken, as an *InvariantError. It trusts nothing: any Graph
// can be given.
func Verify(g *Graph) error {
	c := &checker{g: g, pos: make(map[*Value]int, len(g.Values))}
	for _, rule := range []func() error{c.order, c.ids, c.ops, c.attrs, c.types, c.leaves, c.layers, c.views, c.states, c.outputs, c.plan} {
		if err := rule(); err != nil {
			return err
		}
	}
	return nil
}

type checker struct {
	g   *Graph
	pos map[*Value]int
}

func (c *checker) fail(rule string, v *Value, format string, args ...any) error {
	return &InvariantError{Graph: c.g.Name, Rule: rule, Value: v, Text: fmt.Sprintf(format, args...)}
}

// order: every value is there once, after its arguments.
func (c *checker) order() error {
	for i, v := range c.g.Values {
		if v == nil || v.Op == nil {
			return c.fail("order", nil, "position %d holds no value or one without an operation", i)
		}
		if _, dup := c.pos[v]; dup {
			return c.fail("order", v, "listed twice")
		}
		c.pos[v] = i
	}
	for i, v := range c.g.Values {
		for k, a := range v.Args {
			p, ok := c.pos[a]
			switch {
			case a == nil:
				return c.fail("order", v, "argument %d is nil", k)
			case !ok:
				return c.fail("order", v, "argument %d, %s, is not in the graph", k, a)
			case p >= i:
				return c.fail("order", v, "argument %d, %s, comes later", k, a)
			}
		}
	}
	return nil
}

// ids: unique, from 0 up to the next id.
func (c *checker) ids() error {
	seen := make(map[int]bool, len(c.g.Values))
	for _, v := range c.g.Values {
		if v.ID < 0 || v.ID >= c.g.nextID {
			return c.fail("id", v, "id outside 0 to %d; use Graph.Add", c.g.nextID-1)
		}
		if seen[v.ID] {
			return c.fail("id", v, "id is taken by another value")
		}
		seen[v.ID] = true
	}
	return nil
}

// ops: registered, with a number of arguments the operation takes.
func (c *checker) ops() error {
	for _, v := range c.g.Values {
		if LookupOp(v.Op.Name) != v.Op {
			return c.fail("op", v, "the operation is not registered")
		}
		if err := v.Op.checkArity(len(v.Args)); err != nil {
			return c.fail("op", v, "%v", err)
		}
	}
	return nil
}

// attrs: known, complete, of the declared types, in key order.
func (c *checker) attrs() error {
	for _, v := range c.g.Values {
		full, err := v.Op.checkAttrs(v.Attrs)
		if err != nil {
			return c.fail("attrs", v, "%v", err)
		}
		if len(full) != len(v.Attrs) {
			return c.fail("attrs", v, "attributes are missing: has %d, want %d", len(v.Attrs), len(full))
		}
		for i := 1; i < len(full); i++ {
			if v.Attrs[i-1].Key >= v.Attrs[i].Key {
				return c.fail("attrs", v, "%s comes before %s", v.Attrs[i-1].Key, v.Attrs[i].Key)
			}
		}
	}
	return nil
}

// types: what Infer says; a const holds the numbers its type asks for.
func (c *checker) types() error {
	var types []Type
	for _, v := range c.g.Values {
		if v.Op == OpConst {
			if n, ok := constElems(v.Type); !ok || n != len(v.Data) {
				return c.fail("type", v, "%d numbers do not fill %s", len(v.Data), v.Type)
			}
		} else if v.Data != nil {
			return c.fail("type", v, "has data but is no const")
		}
		if v.Op.Is(Leaf) {
			if v.Type.DType == Invalid || v.Type.DType >= numDTypes {
				return c.fail("type", v, "%s is no type", v.Type.DType)
			}
			continue
		}
		types = types[:0]
		for _, a := range v.Args {
			types = append(types, a.Type)
		}
		t, err := v.Op.Infer(types, v.Attrs)
		if err != nil {
			return c.fail("type", v, "%v", err)
		}
		if !t.Equal(v.Type) {
			return c.fail("type", v, "type is %s, its arguments give %s", v.Type, t)
		}
	}
	return nil
}

// leaves: inputs, weights and caches have names, inputs one each, and caches
// one each per layer.
func (c *checker) leaves() error {
	type key struct {
		op    *Op
		name  string
		layer int
	}
	seen := map[key]*Value{}
	for _, v := range c.g.Values {
		if v.Op != OpInput && v.Op != OpWeight && v.Op != OpCache {
			continue
		}
		if v.Name == "" {
			return c.fail("leaf", v, "has no name to be found by")
		}
		k := key{v.Op, v.Name, 0}
		switch v.Op {
		case OpWeight:
			continue
		case OpCache:
			k.layer = v.Layer
		}
		if o := seen[k]; o != nil {
			return c.fail("leaf", v, "%q is %s already", v.Name, o)
		}
		seen[k] = v
	}
	return nil
}

// layers: -1 for none, else a block number.
func (c *checker) layers() error {
	for _, v := range c.g.Values {
		if v.Layer < -1 || v.Layer > maxLayer {
			return c.fail("layer", v, "layer %d is outside -1 to %d", v.Layer, maxLayer)
		}
	}
	return nil
}

// views: a view or a state has the element type of its first argument, whose
// storage it shares, and a view no more elements than that.
func (c *checker) views() error {
	for _, v := range c.g.Values {
		view, state := v.Op.Is(View), v.Op.Is(State)
		if !view && !state {
			continue
		}
		switch {
		case view && state || v.Op.Is(Leaf) || len(v.Args) == 0:
			return c.fail("view", v, "a view or state needs an argument 0 and is nothing else")
		case v.Type.DType != v.Args[0].Type.DType:
			return c.fail("view", v, "%s cannot share the storage of %s, %s", v.Type, v.Args[0], v.Args[0].Type)
		case view && v.Type.Shape.Fixed() && v.Args[0].Type.Shape.Fixed() && v.Type.Bytes(nil) > v.Args[0].Type.Bytes(nil):
			return c.fail("view", v, "%s is larger than what it shows, %s", v.Type, v.Args[0].Type)
		}
	}
	return nil
}

// states: the versions of a cache form one chain, and nobody reads a version
// after it was overwritten.
func (c *checker) states() error {
	var f *flow
	writer := map[*Value]*Value{}
	for i, v := range c.g.Values {
		if !v.Op.Is(State) {
			continue
		}
		from := v.Args[0]
		if root := v.Storage(); !root.Op.Is(Leaf) || root.Op.Is(Pure) {
			return c.fail("state", v, "writes to %s = %s, which is no cache", root, root.Op.Name)
		}
		if !v.Type.Equal(from.Type) {
			return c.fail("state", v, "type is %s, it writes to %s", v.Type, from.Type)
		}
		if o := writer[from]; o != nil {
			return c.fail("state", v, "%s is overwritten by %s already", from, o)
		}
		writer[from] = v
		if f == nil {
			var err error
			if f, err = newFlow(c.g); err != nil {
				return c.fail("state", v, "%v", err)
			}
		}
		for _, r := range f.readers(c.g, int32(c.pos[from])) {
			if int(r) > i {
				return c.fail("state", c.g.Values[r], "reads %s after %s overwrote it", from, v)
			}
		}
	}
	return nil
}

// outputs: at least one, names are not repeated, values are in the graph.
func (c *checker) outputs() error {
	if len(c.g.Outputs) == 0 {
		return c.fail("output", nil, "no output")
	}
	for i, o := range c.g.Outputs {
		if o.Name == "" {
			return c.fail("output", o.Value, "output %d has no name", i)
		}
		if _, ok := c.pos[o.Value]; !ok {
			return c.fail("output", o.Value, "output %q is not in the graph", o.Name)
		}
		for _, p := range c.g.Outputs[:i] {
			if p.Name == o.Name {
				return c.fail("output", o.Value, "two outputs named %q", o.Name)
			}
		}
	}
	return nil
}

// plan: once there is a plan, every value that owns memory has a place inside
// the arena for as long as it is needed, and shares no byte with a value alive
// in the same step.
func (c *checker) plan() error {
	planned := false
	for _, v := range c.g.Values {
		planned = planned || v.Mem != nil
	}
	if !planned {
		if c.g.Arena != 0 {
			return c.fail("plan", nil, "an arena of %d bytes and no value in it", c.g.Arena)
		}
		return nil
	}
	life := lives(c.g)
	var alive []*Value
	for i, v := range c.g.Values {
		m := v.Mem
		if m == nil && !v.owns() {
			continue
		}
		switch {
		case m == nil:
			return c.fail("plan", v, "has no place while others have one")
		case !v.owns():
			return c.fail("plan", v, "has a place but no memory of its own")
		case m.Offset < 0 || m.Size < 0 || m.Offset%arenaAlign != 0 || m.Size > c.g.Arena || m.Offset > c.g.Arena-m.Size:
			return c.fail("plan", v, "place %d+%d is unaligned or outside the arena of %d bytes", m.Offset, m.Size, c.g.Arena)
		case m.First != i || m.Last < life[i]:
			return c.fail("plan", v, "lives in steps %d to %d, needed in %d to %d", m.First, m.Last, i, life[i])
		}
		if n, err := bytesUnder(v.Type, c.g.Bound); c.g.Bound != nil && (err != nil || n != m.Size) {
			return c.fail("plan", v, "has %d bytes, %s under %s needs %d", m.Size, v.Type, c.g.Bound, n)
		}
		kept := alive[:0]
		for _, o := range alive {
			if o.Mem.Last < i {
				continue
			}
			kept = append(kept, o)
			if o.Mem.Offset < m.Offset+m.Size && m.Offset < o.Mem.Offset+o.Mem.Size {
				return c.fail("plan", v, "bytes %d+%d overlap %s at %d+%d, alive up to step %d", m.Offset, m.Size, o, o.Mem.Offset, o.Mem.Size, o.Mem.Last)
			}
		}
		alive = append(kept, v)
	}
	return nil
}
