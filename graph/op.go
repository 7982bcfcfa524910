package graph

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Flag says what passes may assume about an operation.
type Flag uint16

const (
	// Pure results depend on arguments and attributes alone: cse may merge two
	// such values and dce may drop one nobody uses.
	Pure Flag = 1 << iota
	// Commutative operations allow their first two arguments to be swapped.
	Commutative
	// View results share the storage of argument 0: no copy, no memory of
	// their own.
	View
	// State results are the storage of argument 0 after it was changed in
	// place (a cache after a write). Order is kept by the edges of the graph.
	State
	// Leaf values have no arguments and come from outside: inputs, weights,
	// constants, caches.
	Leaf
)

// Op describes an operation. Package ops registers the vocabulary; a program
// may register its own.
type Op struct {
	Name string
	Doc  string // one line: the formula
	// MinArgs and MaxArgs bound the number of arguments; MaxArgs -1 is no bound.
	MinArgs, MaxArgs int
	// Attrs lists the attributes the operation knows. Others are refused.
	Attrs []AttrSpec
	Flags Flag
	// Infer returns the result type or says which argument does not fit.
	Infer func(args []Type, a Attrs) (Type, error)
	// Prepare turns attributes into the Param of a Call, once per compile. nil
	// means no Param.
	Prepare func(v *Value) (any, error)
	// Units returns the number of independent pieces of work of a call: rows
	// of the result as a rule. nil means the rows of the result.
	Units func(c *Call) int
	// Kernel computes pieces lo to hi-1 in plain Go. It is the specification:
	// its loop is the formula. It allocates nothing and starts no goroutine.
	Kernel func(c *Call, lo, hi int)
	// Cost counts the work of a value under a binding. nil means bytes of
	// operands and result, no multiply-adds.
	Cost func(v *Value, b Dims) Cost
}

// AttrSpec is one attribute of an operation. Default is a value of the
// attribute's type; Required attributes have no default, their Default tells
// only the type.
type AttrSpec struct {
	Name     string
	Default  any
	Required bool
}

// attr returns the attribute of that name, nil when the operation has none.
func (op *Op) attr(name string) *AttrSpec {
	for i := range op.Attrs {
		if op.Attrs[i].Name == name {
			return &op.Attrs[i]
		}
	}
	return nil
}

// Is reports whether all given flags are set.
func (op *Op) Is(f Flag) bool { return op.Flags&f == f }

// Cost is the work of one value in one step.
type Cost struct {
	MACs  int // multiply-adds of matrix products and attention
	Bytes int // bytes read and written
}

// Add returns the sum.
func (c Cost) Add(o Cost) Cost { return Cost{c.MACs + o.MACs, c.Bytes + o.Bytes} }

// CostOf returns the cost of v under the binding.
func CostOf(v *Value, b Dims) Cost {
	if v.Op.Cost != nil {
		return v.Op.Cost(v, b)
	}
	if v.Op.Is(Leaf) || v.Op.Is(View) {
		return Cost{}
	}
	n := v.Type.Bytes(b)
	for _, a := range v.Args {
		n += a.Type.Bytes(b)
	}
	return Cost{Bytes: n}
}

var registry = struct {
	sync.RWMutex
	ops map[string]*Op
}{ops: map[string]*Op{}}

// Register adds an operation to the vocabulary. It panics when the name is
// taken or a part every operation needs is missing: both are programming
// errors, seen at start.
func Register(op *Op) *Op {
	registry.Lock()
	defer registry.Unlock()
	if op.Name == "" || op.Infer == nil || registry.ops[op.Name] != nil {
		panic("graph: operation " + op.Name + ": no name, no Infer, or registered twice")
	}
	slices.SortFunc(op.Attrs, func(a, b AttrSpec) int { return cmp.Compare(a.Name, b.Name) })
	registry.ops[op.Name] = op
	return op
}

// LookupOp returns the operation of that name, nil when there is none.
func LookupOp(name string) *Op {
	registry.RLock()
	defer registry.RUnlock()
	return registry.ops[name]
}

// Ops returns all operations in name order.
func Ops() []*Op {
	registry.RLock()
	defer registry.RUnlock()
	return slices.SortedFunc(maps.Values(registry.ops), func(a, b *Op) int { return cmp.Compare(a.Name, b.Name) })
}

// checkArity says what is wrong with n arguments, nil when they fit.
func (op *Op) checkArity(n int) error {
	if n >= op.MinArgs && (n <= op.MaxArgs || op.MaxArgs < 0) {
		return nil
	}
	return fmt.Errorf("%d arguments, want %s", n, op.arityText())
}

func (op *Op) arityText() string {
	switch {
	case op.MaxArgs < 0:
		return fmt.Sprintf("%d or more", op.MinArgs)
	case op.MaxArgs == op.MinArgs:
		return fmt.Sprint(op.MinArgs)
	}
	return fmt.Sprintf("%d to %d", op.MinArgs, op.MaxArgs)
}

// checkAttrs returns a with defaults filled in, or what is wrong with it.
func (op *Op) checkAttrs(a Attrs) (Attrs, error) {
	for _, x := range a {
		s := op.attr(x.Key)
		if s == nil {
			return nil, fmt.Errorf("%s has no attribute %q", op.Name, x.Key)
		}
		if got, want := attrType(x.Val), attrType(s.Default); got != want {
			return nil, fmt.Errorf("%s: attribute %s is a %s, want %s", op.Name, x.Key, got, want)
		}
	}
	for _, s := range op.Attrs {
		if a.Get(s.Name) != nil {
			continue
		}
		if s.Required {
			return nil, fmt.Errorf("%s: attribute %s is missing", op.Name, s.Name)
		}
		a = a.With(s.Name, s.Default)
	}
	return a, nil
}

// The structural operations: values that come from outside the graph.
var (
	// OpInput is a value given for each step, found by its name.
	OpInput = Register(&Op{Name: "input", Doc: "given for each step", Flags: Leaf, Infer: leafType})
	// OpWeight is a tensor of the model file, found by its name.
	OpWeight = Register(&Op{Name: "weight", Doc: "a tensor of the model file", Flags: Leaf | Pure, Infer: leafType})
	// OpConst holds its f32 content in Value.Data.
	OpConst = Register(&Op{Name: "const", Doc: "numbers known when the graph is built", Flags: Leaf | Pure, Infer: leafType})
	// OpCache is the storage of a layer's keys and values, kept between steps:
	// [S,2,G,K], S positions in pages. A window of 0 keeps every position; a
	// window of w keeps at least the last w of each sequence.
	OpCache = Register(&Op{Name: "cache", Doc: "keys and values of a layer, kept between steps", Flags: Leaf, Infer: leafType,
		Attrs: []AttrSpec{{Name: "window", Default: 0}}})
)

// leafType is never called with success: the Builder gives leaves their type.
func leafType([]Type, Attrs) (Type, error) {
	return Type{}, fmt.Errorf("the type of a leaf is given, not inferred")
}
