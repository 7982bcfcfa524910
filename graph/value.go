package graph

import "strconv"

// Value is one node of the graph in SSA form: it is computed once, by Op from
// Args and Attrs, and never changes. Its ID stays the same through all passes.
type Value struct {
	ID    int
	Op    *Op
	Args  []*Value
	Attrs Attrs
	Type  Type
	// Name is the role of an activation ("attn.q") or, for inputs and weights,
	// the name they are found by ("tokens", "blk.3.attn_q.weight").
	Name string
	// Layer is the decoder block the value belongs to, -1 outside of any.
	Layer int
	// Origin is the source line that made the value, as "file.go:12".
	Origin string
	// Data is the content of a const.
	Data []float32
	// Hook is the function of a tap (package ops): it sees the value in each step.
	// The text form does not have it.
	Hook func(v *Value, t *Tensor) error
	// Mem is where the memory plan put the value; nil before memplan and for
	// values that own no activation memory.
	Mem *Mem
}

// Mem is a place in the arena and the steps of the schedule during which it is
// occupied, first and last inclusive. Offset and Size count bytes.
type Mem struct {
	Offset, Size int
	First, Last  int
}

// String returns "v" and the ID, as the text form names values.
func (v *Value) String() string { return "v" + strconv.Itoa(v.ID) }

// Storage returns the value whose memory v lives in: v itself, or for a view or
// a state the value at the end of the chain of first arguments.
func (v *Value) Storage() *Value {
	for (v.Op.Is(View) || v.Op.Is(State)) && len(v.Args) > 0 {
		v = v.Args[0]
	}
	return v
}

// owns reports whether v needs a place of its own in the arena.
func (v *Value) owns() bool { return v.Op.Flags&(Leaf|View|State) == 0 }

// Label returns the name a person would look for: role and layer.
func (v *Value) Label() string {
	name := v.Name
	if name == "" {
		name = v.Op.Name
	}
	if v.Layer >= 0 && !v.Op.Is(Leaf) {
		name += "-" + strconv.Itoa(v.Layer)
	}
	return name
}
