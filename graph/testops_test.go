package graph

import (
	"errors"
	"fmt"
)

// A small vocabulary for the tests of this package. Widths stay fixed so that
// every f32[T,4] fits everywhere.
var (
	opTestAdd = Register(&Op{Name: "testadd", Doc: "a + c, c may be a row", MinArgs: 2, MaxArgs: 2, Flags: Pure | Commutative, Infer: inferRow,
		Kernel: func(c *Call, lo, hi int) {
			for t := lo; t < hi; t++ {
				a, b, y := c.In[0].Row(t), rowOf(c.In[1], c.Out, t), c.Out.Row(t)
				for i := range y {
					y[i] = a[i] + b[i]
				}
			}
		}})
	opTestMul = Register(&Op{Name: "testmul", Doc: "a · c, c may be a row", MinArgs: 2, MaxArgs: 2, Flags: Pure | Commutative, Infer: inferRow,
		Kernel: func(c *Call, lo, hi int) {
			for t := lo; t < hi; t++ {
				a, b, y := c.In[0].Row(t), rowOf(c.In[1], c.Out, t), c.Out.Row(t)
				for i := range y {
					y[i] = a[i] * b[i]
				}
			}
		}})
	opTestNeg = Register(&Op{Name: "testneg", Doc: "-x", MinArgs: 1, MaxArgs: 1, Flags: Pure, Infer: inferSame,
		Kernel: func(c *Call, lo, hi int) {
			for t := lo; t < hi; t++ {
				x, y := c.In[0].Row(t), c.Out.Row(t)
				for i := range y {
					y[i] = -x[i]
				}
			}
		}})
	opTestSub = Register(&Op{Name: "testsub", Doc: "a - c", MinArgs: 2, MaxArgs: 2, Flags: Pure, Infer: inferRow,
		Kernel: func(c *Call, lo, hi int) {
			for t := lo; t < hi; t++ {
				a, b, y := c.In[0].Row(t), rowOf(c.In[1], c.Out, t), c.Out.Row(t)
				for i := range y {
					y[i] = a[i] + -b[i]
				}
			}
		}})
	opTestScale = Register(&Op{Name: "testscale", Doc: "x · by + bias", MinArgs: 1, MaxArgs: 1, Flags: Pure, Infer: inferSame,
		Attrs:   []AttrSpec{{Name: "by", Default: float32(0), Required: true}, {Name: "bias", Default: float32(0)}},
		Prepare: func(v *Value) (any, error) { return [2]float32{v.Attrs.Float("by"), v.Attrs.Float("bias")}, nil },
		Kernel: func(c *Call, lo, hi int) {
			p := c.Param.([2]float32)
			for t := lo; t < hi; t++ {
				x, y := c.In[0].Row(t), c.Out.Row(t)
				for i := range y {
					y[i] = x[i]*p[0] + p[1]
				}
			}
		}})
	opTestMatMul = Register(&Op{Name: "testmatmul", Doc: "x · wᵀ", MinArgs: 2, MaxArgs: 2, Flags: Pure,
		Infer: func(a []Type, _ Attrs) (Type, error) {
			x, w := a[0].Shape, a[1].Shape
			if len(x) != 2 || len(w) != 2 || x.Last() == 0 || x.Last() != w.Last() || w[0].Name != "" {
				return Type{}, fmt.Errorf("x %s and w %s do not share their last dimension", x, w)
			}
			return Type{F32, Shape{x[0], w[0]}}, nil
		},
		Units: func(c *Call) int { return c.Out.Dims[1] },
		Kernel: func(c *Call, lo, hi int) {
			for n := lo; n < hi; n++ {
				for t := range c.Out.Rows() {
					x, w, acc := c.In[0].Row(t), c.In[1].Row(n), float32(0)
					for i := range x {
						acc += x[i] * w[i]
					}
					c.Out.Row(t)[n] = acc
				}
			}
		},
		Cost: func(v *Value, b Dims) Cost {
			return Cost{MACs: v.Type.Shape.Elems(b) * v.Args[0].Type.Shape.Last(), Bytes: v.Args[1].Type.Bytes(b)}
		}})
	// testreshape shows the rows of x with another last shape.
	opTestReshape = Register(&Op{Name: "testreshape", MinArgs: 1, MaxArgs: 1, Flags: Pure | View,
		Attrs: []AttrSpec{{Name: "shape", Default: []int{}, Required: true}},
		Infer: func(a []Type, at Attrs) (Type, error) {
			if len(a[0].Shape) == 0 {
				return Type{}, errors.New("no rows")
			}
			n := 1
			for _, d := range at.Ints("shape") {
				if n *= d; d <= 0 || n > 1<<20 {
					return Type{}, fmt.Errorf("shape %v is out of range", at.Ints("shape"))
				}
			}
			if n != a[0].Shape.RowElems() {
				return Type{}, fmt.Errorf("%s has other rows than %v", a[0], at.Ints("shape"))
			}
			return Type{a[0].DType, append(Shape{a[0].Shape[0]}, ShapeOf(at.Ints("shape")...)...)}, nil
		}})
	// testwrite adds the sum of x to every element of a cache.
	opTestWrite = Register(&Op{Name: "testwrite", MinArgs: 2, MaxArgs: 2, Flags: State, Infer: inferSame,
		Units: func(*Call) int { return 1 },
		Kernel: func(c *Call, _, _ int) {
			sum := float32(0)
			for _, x := range c.In[1].F32[:c.In[1].Rows()*c.In[1].RowElems()] {
				sum += x
			}
			for i := range c.Out.F32 {
				c.Out.F32[i] += sum
			}
		}})
	// testread adds a row of a cache to every row of x.
	opTestRead = Register(&Op{Name: "testread", MinArgs: 2, MaxArgs: 2, Flags: Pure,
		Infer: func(a []Type, _ Attrs) (Type, error) {
			if a[0].Shape.Last() != a[1].Shape.Last() || a[0].Shape.Last() == 0 {
				return Type{}, errors.New("cache and x differ in width")
			}
			return a[1], nil
		},
		Kernel: func(c *Call, lo, hi int) {
			for t := lo; t < hi; t++ {
				x, y := c.In[1].Row(t), c.Out.Row(t)
				for i := range y {
					y[i] = x[i] + c.In[0].F32[i]
				}
			}
		}})
	// testattrs has an attribute of every type.
	_ = Register(&Op{Name: "testattrs", MinArgs: 1, MaxArgs: -1, Flags: Pure, Infer: inferSame,
		Attrs: []AttrSpec{{Name: "b", Default: false}, {Name: "f", Default: float32(1)}, {Name: "fs", Default: []float32{}},
			{Name: "i", Default: 7}, {Name: "is", Default: []int{1}}, {Name: "s", Default: "x"}}})
)

func inferSame(a []Type, _ Attrs) (Type, error) { return a[0], nil }

func inferRow(a []Type, _ Attrs) (Type, error) {
	if a[0].Equal(a[1]) && len(a[0].Shape) > 0 {
		return a[0], nil
	}
	if len(a[1].Shape) != 1 || len(a[0].Shape) == 0 || a[1].Shape.Last() == 0 || a[1].Shape.Last() != a[0].Shape.Last() {
		return Type{}, fmt.Errorf("%s and %s are not alike", a[0], a[1])
	}
	return a[0], nil
}

// rowOf returns what stands beside row t of out: row t of x, or all of x where x
// is one row for all.
func rowOf(x, out *Tensor, t int) []float32 {
	if len(x.Dims) < len(out.Dims) {
		return x.F32
	}
	return x.Row(t)
}

// evaluate runs g in graph order with the plain kernels and returns the outputs
// followed by the caches as the step leaves them. Leaves get numbers that depend
// on their name alone. Where g has a memory plan, values live in an arena full
// of garbage.
func evaluate(g *Graph, b Dims) [][]float32 {
	arena := make([]float32, g.Arena/4)
	for i := range arena {
		arena[i] = 1e9
	}
	mem := map[*Value]*Tensor{}
	var caches []*Tensor
	for _, v := range g.Values {
		x := NewTensor(v.Type, b)
		switch {
		case v.Op == OpConst:
			x.F32 = v.Data
		case v.Op.Is(Leaf):
			seed := uint64(newHasher())
			h := hasher(seed)
			h.text(v.Name)
			for i := range x.F32 {
				x.F32[i] = float32((uint64(h)>>8+uint64(i)*7)%9) - 4
			}
			if v.Op == OpCache {
				caches = append(caches, x)
			}
		case v.Op.Is(View) || v.Op.Is(State):
			x.F32 = mem[v.Args[0]].F32
		case v.Mem != nil:
			x.F32 = arena[v.Mem.Offset/4:][:v.Mem.Size/4]
		}
		mem[v] = x
		if v.Op.Kernel == nil {
			continue
		}
		c := &Call{Value: v, Out: x}
		for _, a := range v.Args {
			c.In = append(c.In, mem[a])
		}
		if v.Op.Prepare != nil {
			c.Param, _ = v.Op.Prepare(v)
		}
		v.Op.Kernel(c, 0, c.Units())
	}
	var out [][]float32
	for _, o := range g.Outputs {
		out = append(out, mem[o.Value].F32)
	}
	for _, c := range caches {
		out = append(out, c.F32)
	}
	return out
}
