package graph

// Graph is a static dataflow graph. Values are in a valid order: every value
// comes after its arguments.
type Graph struct {
	Name    string
	Values  []*Value
	Outputs []Output
	// Arena is the peak of the memory plan in bytes, 0 before memplan; Bound is
	// the binding of named dimensions it was made for.
	Arena int
	Bound Dims

	nextID int
}

// Output is a named result of the graph.
type Output struct {
	Name  string
	Value *Value
}

// New returns an empty graph.
func New(name string) *Graph { return &Graph{Name: name} }

// Output returns the value of the named output, nil when there is none.
func (g *Graph) Output(name string) *Value {
	for _, o := range g.Outputs {
		if o.Name == name {
			return o.Value
		}
	}
	return nil
}

// Find returns the first value with the given name and layer, nil when there
// is none.
func (g *Graph) Find(name string, layer int) *Value {
	for _, v := range g.Values {
		if v.Name == name && v.Layer == layer {
			return v
		}
	}
	return nil
}

// Add appends a value, gives it the next ID and returns it.
func (g *Graph) Add(v *Value) *Value {
	v.ID = g.nextID
	g.nextID++
	g.Values = append(g.Values, v)
	return v
}

// Clone returns a copy that shares nothing changeable with g. IDs are kept.
func (g *Graph) Clone() *Graph {
	c := &Graph{Name: g.Name, Arena: g.Arena, nextID: g.nextID}
	if g.Bound != nil {
		c.Bound = Dims{}
		for k, n := range g.Bound {
			c.Bound[k] = n
		}
	}
	twin := make(map[*Value]*Value, len(g.Values))
	store := make([]Value, len(g.Values))
	c.Values = make([]*Value, len(g.Values))
	for i, v := range g.Values {
		w := &store[i]
		*w = *v
		if v.Mem != nil {
			m := *v.Mem
			w.Mem = &m
		}
		twin[v] = w
		c.Values[i] = w
	}
	for _, w := range c.Values {
		args := make([]*Value, len(w.Args))
		for i, a := range w.Args {
			args[i] = twin[a]
		}
		w.Args = args
	}
	for _, o := range g.Outputs {
		c.Outputs = append(c.Outputs, Output{o.Name, twin[o.Value]})
	}
	return c
}

// Uses returns for each value the values that have it as an argument, in graph
// order, each once per argument position. Outputs are not counted.
func (g *Graph) Uses() map[*Value][]*Value {
	uses := make(map[*Value][]*Value, len(g.Values))
	for _, v := range g.Values {
		for _, a := range v.Args {
			uses[a] = append(uses[a], v)
		}
	}
	return uses
}

// Replace redirects every use of old, outputs included, to v. dce removes old.
func (g *Graph) Replace(old, v *Value) {
	for _, u := range g.Values {
		if u == v {
			continue
		}
		for i, a := range u.Args {
			if a == old {
				u.Args[i] = v
			}
		}
	}
	for i := range g.Outputs {
		if g.Outputs[i].Value == old {
			g.Outputs[i].Value = v
		}
	}
}
