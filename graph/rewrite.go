package graph

import (
	"fmt"
	"slices"
)

// Rule is one row of a rewrite table: where Match finds its pattern and If
// holds, Make says what takes the root's place.
//
//	{
//		Name:  "scale-scale",
//		Doc:   "scale(scale(x,a),b) = scale(x,a·b)",
//		Match: graph.Pat("scale", graph.Pat("scale", graph.Any("x")).As("inner").Once()),
//		Make: func(m *graph.Match) *graph.Value {
//			by := m.Root.Attrs.Float("by") * m.Get("inner").Attrs.Float("by")
//			return m.New(OpScale, graph.MakeAttrs("by", by), m.Get("x"))
//		},
//	}
//
// Make returns a value made by m.New, a value that is in the graph already, or
// nil for "not here". A new value takes over the root itself, which keeps its
// id, role, layer and origin: uses need not be redirected. Helpers made by
// m.New on the way get new ids and the root's layer and origin. When Make
// returns a present value, uses and outputs of the root are redirected to it
// and dce removes the root.
type Rule struct {
	Name  string
	Doc   string // one line: the equation, and the gain if it is a fusion
	Match *Pattern
	If    func(m *Match) bool // nil: always
	Make  func(m *Match) *Value
}

// Pattern describes a value by its operation and patterns of its arguments.
// Patterns are built once and never changed by matching.
type Pattern struct {
	op   string // "" for any operation
	args []*Pattern
	name string
	once bool
	leaf bool // args are not looked at
}

// Pat matches a value of the operation whose arguments match args, in number
// too. The first two arguments of a commutative operation match in either
// order. Without args the arguments are not looked at.
func Pat(op string, args ...*Pattern) *Pattern {
	return &Pattern{op: op, args: args, leaf: len(args) == 0}
}

// Any matches every value; Match.Get returns it by name. A name that occurs
// twice must be the same value both times.
func Any(name string) *Pattern { return &Pattern{name: name, leaf: true} }

// As returns the pattern with a name for Match.Get.
func (p *Pattern) As(name string) *Pattern {
	q := *p
	q.name = name
	return &q
}

// Once returns the pattern restricted to values with a single use, which is the
// one being matched: after the rewrite nobody needs them. Outputs count as uses.
func (p *Pattern) Once() *Pattern {
	q := *p
	q.once = true
	return &q
}

// Match is one place where a pattern fits.
type Match struct {
	Root  *Value
	rw    *rewriter
	bound []binding
	made  []*Value
	err   error
}

type binding struct {
	name string
	v    *Value
}

// Get returns the value the pattern calls name. An unknown name is a mistake in
// the rule and panics.
func (m *Match) Get(name string) *Value {
	for _, b := range m.bound {
		if b.name == name {
			return b.v
		}
	}
	panic("graph: the pattern binds no " + name)
}

// Uses returns how often v is used as an argument or output.
func (m *Match) Uses(v *Value) int { return m.rw.uses(v) }

// Users returns the values that use v, one entry per argument position. The
// caller must not change it.
func (m *Match) Users(v *Value) []*Value { return m.rw.users[v.ID] }

// New makes a value. An error of the inference rule ends the rewrite with it.
func (m *Match) New(op *Op, a Attrs, args ...*Value) *Value {
	types := make([]Type, len(args))
	for i, x := range args {
		types[i] = x.Type
	}
	attrs, t, err := infer(op, types, a)
	v := &Value{ID: -1, Op: op, Args: args, Attrs: attrs, Type: t, Layer: m.Root.Layer, Origin: m.Root.Origin}
	if err != nil && m.err == nil {
		m.err = &ShapeError{Op: op.Name, Layer: v.Layer, Got: types, Origin: v.Origin, Err: err}
	}
	m.made = append(m.made, v)
	return v
}

// Const makes a const.
func (m *Match) Const(data []float32, sizes ...int) *Value {
	v := &Value{ID: -1, Op: OpConst, Type: Type{F32, ShapeOf(sizes...)}, Data: data, Layer: m.Root.Layer, Origin: m.Root.Origin}
	m.made = append(m.made, v)
	return v
}

// Rules returns the pass that applies the rules until none fits. The order of
// values does not matter. Of several rules that fit a value the first in the
// table is taken.
func Rules(rules ...Rule) func(*Graph) error {
	byOp := map[string][]*Rule{}
	for i := range rules {
		r := &rules[i]
		if r.Name == "" || r.Match == nil || r.Match.op == "" || r.Make == nil {
			panic("graph: rewrite rule " + r.Name + ": no name, no operation at the root, or no Make")
		}
		byOp[r.Match.op] = append(byOp[r.Match.op], r)
	}
	return func(g *Graph) error {
		if !anyFits(g, byOp) {
			return nil
		}
		rw, err := newRewriter(g)
		if err != nil {
			return err
		}
		return rw.run(byOp)
	}
}

// anyFits reports whether the pattern of a rule fits somewhere, uses and
// conditions apart: most graphs have nothing for most tables.
func anyFits(g *Graph, byOp map[string][]*Rule) bool {
	var m Match
	for _, v := range g.Values {
		for _, r := range byOp[v.Op.Name] {
			m.Root, m.bound = v, m.bound[:0]
			if m.match(r.Match, v, true) {
				return true
			}
		}
	}
	return false
}

// rewriter keeps use lists up to date while rules change the graph. Tables are
// indexed by id.
type rewriter struct {
	g       *Graph
	users   [][]*Value
	outputs []int
	queued  []bool
	queue   []*Value
	changes int
}

func newRewriter(g *Graph) (*rewriter, error) {
	f, err := newFlow(g)
	if err != nil {
		return nil, err
	}
	order, err := f.canonical(g)
	if err != nil {
		return nil, err
	}
	rw := &rewriter{g: g, users: make([][]*Value, g.nextID), outputs: make([]int, g.nextID), queued: make([]bool, g.nextID)}
	needed := needed(g)
	count := make([]int, g.nextID)
	total := 0
	for _, v := range g.Values {
		if needed[v.ID] {
			for _, a := range v.Args {
				count[a.ID]++
			}
			total += len(v.Args)
		}
	}
	store := make([]*Value, total)
	for id, n := range count {
		rw.users[id], store = store[:0:n], store[n:]
	}
	rw.queue = make([]*Value, 0, 2*len(order))
	for _, i := range order {
		v := g.Values[i]
		if !needed[v.ID] {
			continue // waits for dce: neither rewritten nor a use
		}
		for _, a := range v.Args {
			rw.users[a.ID] = append(rw.users[a.ID], v)
		}
		rw.push(v)
	}
	for _, o := range g.Outputs {
		rw.outputs[o.Value.ID]++
	}
	return rw, nil
}

func (rw *rewriter) uses(v *Value) int { return len(rw.users[v.ID]) + rw.outputs[v.ID] }

func (rw *rewriter) push(v *Value) {
	if !rw.queued[v.ID] {
		rw.queued[v.ID] = true
		rw.queue = append(rw.queue, v)
	}
}

// run takes values from the queue until it is empty. Ten changes per value are
// more than any table that comes to an end needs.
func (rw *rewriter) run(byOp map[string][]*Rule) error {
	limit := 10*len(rw.g.Values) + 100
	for head := 0; head < len(rw.queue); head++ {
		v := rw.queue[head]
		rw.queued[v.ID] = false
		if rw.uses(v) == 0 && droppable(v.Op) {
			continue // waits for dce; a rewrite would be in vain
		}
		for _, r := range byOp[v.Op.Name] {
			done, err := rw.try(r, v)
			if err != nil {
				return fmt.Errorf("rule %s at %s: %w", r.Name, v, err)
			}
			if !done {
				continue
			}
			if rw.changes++; rw.changes > limit {
				return fmt.Errorf("graph: %s: rules do not come to an end after %d changes, last %s at %s", rw.g.Name, limit, r.Name, v)
			}
			break
		}
	}
	if rw.changes == 0 {
		return nil
	}
	rw.g.dropPlan()
	return rw.g.Sort()
}

// try applies one rule to one value.
func (rw *rewriter) try(r *Rule, v *Value) (bool, error) {
	m := &Match{Root: v, rw: rw}
	if !m.match(r.Match, v, true) || r.If != nil && !r.If(m) {
		return false, nil
	}
	to := r.Make(m)
	if m.err != nil {
		return false, m.err
	}
	if to == nil || to == v {
		return false, nil
	}
	if !to.Type.Equal(v.Type) {
		return false, fmt.Errorf("graph: %s has type %s, what replaces it %s", v, v.Type, to.Type)
	}
	for _, h := range append(m.made, to) {
		if slices.Contains(h.Args, v) && (h == to || h.ID < 0) {
			return false, fmt.Errorf("graph: what replaces %s uses it", v)
		}
	}
	if to.ID < 0 {
		rw.become(v, to, m.made)
	} else {
		rw.redirect(v, to)
	}
	return true, nil
}

// match reports whether p fits v and binds names on the way.
func (m *Match) match(p *Pattern, v *Value, root bool) bool {
	if p.op != "" && v.Op.Name != p.op || p.once && !root && m.rw != nil && m.rw.uses(v) != 1 {
		return false
	}
	if p.name != "" {
		for _, b := range m.bound {
			if b.name == p.name && b.v != v {
				return false
			}
		}
		m.bound = append(m.bound, binding{p.name, v})
	}
	if p.leaf {
		return true
	}
	if len(p.args) != len(v.Args) {
		return false
	}
	at := len(m.bound)
	if m.matchArgs(p.args, v.Args) {
		return true
	}
	m.bound = m.bound[:at]
	if !v.Op.Is(Commutative) || len(v.Args) < 2 {
		return false
	}
	swapped := slices.Clone(v.Args)
	swapped[0], swapped[1] = swapped[1], swapped[0]
	return m.matchArgs(p.args, swapped)
}

func (m *Match) matchArgs(ps []*Pattern, args []*Value) bool {
	for i, p := range ps {
		if !m.match(p, args[i], false) {
			return false
		}
	}
	return true
}

// become makes v compute what to describes and adds the helpers to needs.
func (rw *rewriter) become(v, to *Value, made []*Value) {
	for _, h := range made {
		if h == to || h.ID >= 0 || !reaches(to, h) {
			continue
		}
		rw.g.Add(h)
		rw.users = append(rw.users, nil)
		rw.outputs = append(rw.outputs, 0)
		rw.queued = append(rw.queued, false)
		for _, a := range h.Args {
			rw.users[a.ID] = append(rw.users[a.ID], h)
		}
		rw.push(h)
	}
	old := v.Args
	v.Op, v.Args, v.Attrs, v.Data = to.Op, to.Args, to.Attrs, to.Data
	for _, a := range v.Args {
		rw.users[a.ID] = append(rw.users[a.ID], v)
	}
	rw.release(v, old)
	rw.touch(v)
}

// reaches reports whether a new value to uses the new value h, directly or
// through other new values.
func reaches(to, h *Value) bool {
	for _, a := range to.Args {
		if a == h || a.ID < 0 && reaches(a, h) {
			return true
		}
	}
	return false
}

// redirect moves the uses of v to another value of the graph.
func (rw *rewriter) redirect(v, to *Value) {
	for _, u := range rw.users[v.ID] {
		i := slices.Index(u.Args, v)
		u.Args[i] = to
		rw.users[to.ID] = append(rw.users[to.ID], u)
		rw.push(u)
	}
	for i := range rw.g.Outputs {
		if rw.g.Outputs[i].Value == v {
			rw.g.Outputs[i].Value = to
		}
	}
	rw.outputs[to.ID] += rw.outputs[v.ID]
	rw.users[v.ID], rw.outputs[v.ID] = nil, 0
	if to.Name == "" {
		to.Name = v.Name
	}
	if droppable(v.Op) {
		rw.release(v, v.Args)
	}
	rw.touch(to)
}

// touch queues what may match anew because v or its uses changed.
func (rw *rewriter) touch(v *Value) {
	rw.push(v)
	for _, u := range rw.users[v.ID] {
		rw.push(u)
	}
}

// release takes v off the use lists of its former arguments. An argument that
// nobody needs any more releases its own in turn: values that wait for dce must
// not count as uses. One that is down to a single use may match Once now.
func (rw *rewriter) release(v *Value, args []*Value) {
	for _, a := range args {
		i := slices.Index(rw.users[a.ID], v)
		if i < 0 {
			continue
		}
		rw.users[a.ID] = slices.Delete(rw.users[a.ID], i, i+1)
		switch {
		case rw.uses(a) == 0 && droppable(a.Op):
			rw.release(a, a.Args)
		case rw.uses(a) == 1:
			rw.touch(a)
		}
	}
}
