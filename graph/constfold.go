package graph

import "fmt"

// maxFolded is the number of elements up to which constfold computes a value:
// tables of a few kilobytes, never something the size of a weight.
const maxFolded = 4096

// ConstFold computes values whose arguments are all consts, with the kernel of
// their operation, and makes them consts. The operation must be pure and have a
// kernel, the result be f32 of fixed shape and at most 4096 elements. The value
// keeps its id, role, layer and origin.
func ConstFold(g *Graph) error {
	f, err := newFlow(g)
	if err != nil {
		return err
	}
	order, err := f.canonical(g)
	if err != nil {
		return err
	}
	for _, i := range order {
		v := g.Values[i]
		if !foldable(v) {
			continue
		}
		in := make([]*Tensor, len(v.Args))
		for k, a := range v.Args {
			in[k] = NewTensor(Type{F32, a.Type.Shape}, nil)
			in[k].F32 = a.Data
		}
		out, err := Compute(v, in, nil)
		if err != nil {
			return err
		}
		v.Op, v.Args, v.Attrs, v.Data = OpConst, nil, nil, out.F32
		g.dropPlan()
	}
	return nil
}

func foldable(v *Value) bool {
	if !v.Op.Is(Pure) || v.Op.Is(Leaf) || v.Op.Is(State) || v.Op.Kernel == nil || len(v.Args) == 0 {
		return false
	}
	for _, a := range v.Args {
		if a.Op != OpConst {
			return false
		}
	}
	n, ok := constElems(v.Type)
	return ok && n <= maxFolded
}

// Compute runs the plain kernel of v on the given operands and returns the
// result in new storage. It is for values with a kernel of their own: no leaf,
// no view, no state.
func Compute(v *Value, in []*Tensor, b Dims) (*Tensor, error) {
	if v.Op.Kernel == nil {
		return nil, fmt.Errorf("graph: compute %s = %s: the operation has no kernel", v, v.Op.Name)
	}
	c := &Call{Value: v, In: in, Out: NewTensor(v.Type, b)}
	if v.Op.Prepare != nil {
		var err error
		if c.Param, err = v.Op.Prepare(v); err != nil {
			return nil, fmt.Errorf("graph: prepare %s = %s: %w", v, v.Op.Name, err)
		}
	}
	v.Op.Kernel(c, 0, c.Units())
	return c.Out, nil
}
