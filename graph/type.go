package graph

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Dim is one dimension of a shape: a fixed Size, or a Name whose size is known
// when a step runs (T tokens, R rows; doc.go has the letters).
type Dim struct {
	Name string // "" for a fixed dimension
	Size int    // valid when Name is ""
}

// Fix returns a dimension of n elements.
func Fix(n int) Dim { return Dim{Size: n} }

// Named returns a dimension whose size is bound by name when a step runs.
func Named(name string) Dim { return Dim{Name: name} }

// String returns the name, or the size in decimal.
func (d Dim) String() string {
	if d.Name != "" {
		return d.Name
	}
	return strconv.Itoa(d.Size)
}

// Dims binds names to sizes for one plan or one step.
type Dims map[string]int

// Of returns the size of d under the binding. An unbound name is a bug of the
// caller: Compile checks that every named dimension is bound.
func (b Dims) Of(d Dim) int {
	if d.Name == "" {
		return d.Size
	}
	n, ok := b[d.Name]
	if !ok {
		panic("graph: dimension " + d.Name + " is not bound")
	}
	return n
}

// Shape lists dimensions, the last one contiguous in memory (row-major).
type Shape []Dim

// ShapeOf returns the fixed shape with the given sizes.
func ShapeOf(sizes ...int) Shape {
	s := make(Shape, len(sizes))
	for i, n := range sizes {
		s[i] = Fix(n)
	}
	return s
}

// Rows returns the shape [d, sizes...]: a named leading dimension and fixed
// rest, the usual form of an activation.
func Rows(name string, sizes ...int) Shape {
	return append(Shape{Named(name)}, ShapeOf(sizes...)...)
}

// String returns the shape as the text form prints it, e.g. [T,576].
func (s Shape) String() string {
	parts := make([]string, len(s))
	for i, d := range s {
		parts[i] = d.String()
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// Equal reports whether both shapes have the same dimensions.
func (s Shape) Equal(o Shape) bool { return slices.Equal(s, o) }

// Last returns the fixed size of the last dimension, 0 for a scalar or a named
// last dimension.
func (s Shape) Last() int {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].Size
}

// RowElems returns the product of all dimensions but the first, which must be
// fixed: the elements of one row.
func (s Shape) RowElems() int {
	n := 1
	for _, d := range s[min(1, len(s)):] {
		n *= d.Size
	}
	return n
}

// Elems returns the number of elements under the binding.
func (s Shape) Elems(b Dims) int {
	n := 1
	for _, d := range s {
		n *= b.Of(d)
	}
	return n
}

// Fixed reports whether no dimension is named.
func (s Shape) Fixed() bool {
	return !slices.ContainsFunc(s, func(d Dim) bool { return d.Name != "" })
}

// Type is what a value is known to be before a run: element type and shape.
type Type struct {
	DType DType
	Shape Shape
}

// String returns the type as the text form prints it, e.g. f32[T,576].
func (t Type) String() string { return t.DType.String() + t.Shape.String() }

// Equal reports whether element type and shape are the same.
func (t Type) Equal(o Type) bool { return t.DType == o.DType && t.Shape.Equal(o.Shape) }

// Bytes returns the storage of a value of the type under the binding.
func (t Type) Bytes(b Dims) int {
	last := t.Shape.Last()
	if last == 0 || t.DType.BlockElems() == 1 {
		return t.Shape.Elems(b) * t.DType.BlockBytes()
	}
	return t.Shape.Elems(b) / last * t.DType.RowBytes(last)
}

// ParseType reads what Type.String prints.
func ParseType(s string) (Type, error) {
	open := strings.IndexByte(s, '[')
	if open < 0 || !strings.HasSuffix(s, "]") {
		return Type{}, fmt.Errorf("graph: type %q: want dtype[dim,dim]", s)
	}
	dt, ok := DTypeByName(s[:open])
	if !ok {
		return Type{}, fmt.Errorf("graph: type %q: unknown element type %q", s, s[:open])
	}
	t := Type{DType: dt, Shape: Shape{}}
	body := s[open+1 : len(s)-1]
	if body == "" {
		return t, nil
	}
	for f := range strings.SplitSeq(body, ",") {
		d, err := parseDim(f)
		if err != nil {
			return Type{}, fmt.Errorf("graph: type %q: %w", s, err)
		}
		t.Shape = append(t.Shape, d)
	}
	if n := t.Shape.Last(); dt.Quantized() && (n == 0 || n%dt.BlockElems() != 0) {
		return Type{}, fmt.Errorf("graph: type %q: rows of %d elements do not divide into blocks of %d", s, n, dt.BlockElems())
	}
	return t, nil
}

func parseDim(f string) (Dim, error) {
	if f == "" {
		return Dim{}, fmt.Errorf("empty dimension")
	}
	if f[0] >= '0' && f[0] <= '9' {
		n, err := strconv.Atoi(f)
		if err != nil || n > 1<<40 {
			return Dim{}, fmt.Errorf("dimension %q is not a size", f)
		}
		return Fix(n), nil
	}
	for _, c := range f {
		if !(c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') {
			return Dim{}, fmt.Errorf("dimension %q is neither a size nor a name", f)
		}
	}
	return Named(f), nil
}
