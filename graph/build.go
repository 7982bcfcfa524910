package graph

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// ErrShape is the class of errors about operands that do not fit an operation.
var ErrShape = errors.New("shape does not fit")

// ShapeError says which operation got which operands, and where it was called.
type ShapeError struct {
	Op     string
	Name   string // role of the value, may be empty
	Layer  int
	Got    []Type
	Origin string
	Err    error
}

// Error prints one line: operation, operands, reason and the calling line.
func (e *ShapeError) Error() string {
	args := make([]string, len(e.Got))
	for i, t := range e.Got {
		args[i] = t.String()
	}
	where := ""
	if e.Layer >= 0 {
		where = fmt.Sprintf(" in layer %d", e.Layer)
	}
	return fmt.Sprintf("graph: %s(%s)%s at %s: %v", e.Op, strings.Join(args, ", "), where, e.Origin, e.Err)
}

// Unwrap returns ErrShape and the reason, for errors.Is.
func (e *ShapeError) Unwrap() []error { return []error{ErrShape, e.Err} }

// Builder adds values to a graph and keeps the first error: later calls do
// nothing and Finish reports it, so that model code reads as mathematics.
type Builder struct {
	g      *Graph
	err    error
	layer  int
	leaves map[string]*Value
}

// NewBuilder returns a Builder of a new graph.
func NewBuilder(name string) *Builder {
	return &Builder{g: New(name), layer: -1, leaves: map[string]*Value{}}
}

// Err returns the first error so far.
func (b *Builder) Err() error { return b.err }

// Fail keeps err if it is the first. Constructors use it for errors that no
// inference rule can see.
func (b *Builder) Fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// SetLayer makes l the layer of the values added from now on; -1 is none.
func (b *Builder) SetLayer(l int) { b.layer = l }

// Op adds the value op(args) and returns it. After an error it returns an
// invalid value that later calls accept.
func (b *Builder) Op(op *Op, a Attrs, args ...*Value) *Value {
	v := &Value{Op: op, Args: args, Layer: b.layer}
	if b.err != nil {
		return v
	}
	v.Origin = origin()
	types := make([]Type, len(args))
	for i, x := range args {
		if x == nil {
			b.Fail(fmt.Errorf("graph: %s at %s: argument %d is nil", op.Name, v.Origin, i))
			return v
		}
		types[i] = x.Type
	}
	attrs, typ, err := infer(op, types, a)
	if err != nil {
		b.Fail(&ShapeError{Op: op.Name, Layer: b.layer, Got: types, Origin: v.Origin, Err: err})
		return v
	}
	v.Attrs, v.Type = attrs, typ
	return b.g.Add(v)
}

// infer checks arity and attributes and returns them completed, with the type.
func infer(op *Op, types []Type, a Attrs) (Attrs, Type, error) {
	if err := op.checkArity(len(types)); err != nil {
		return nil, Type{}, err
	}
	attrs, err := op.checkAttrs(a)
	if err != nil {
		return nil, Type{}, err
	}
	t, err := op.Infer(types, attrs)
	return attrs, t, err
}

// Name gives v its role and returns it.
func (b *Builder) Name(v *Value, role string) *Value {
	v.Name = role
	return v
}

// leaf adds a value without arguments, or returns the one of that name.
func (b *Builder) leaf(op *Op, name string, t Type) *Value {
	key := op.Name + " " + name
	if v := b.leaves[key]; v != nil {
		if !v.Type.Equal(t) {
			b.Fail(fmt.Errorf("graph: %s %s is wanted as %s and as %s", op.Name, name, v.Type, t))
		}
		return v
	}
	v := &Value{Op: op, Type: t, Name: name, Layer: b.layer}
	if b.err != nil {
		return v
	}
	v.Origin = origin()
	b.leaves[key] = v
	return b.g.Add(v)
}

// Input returns the input of that name; a second call returns the same value.
func (b *Builder) Input(name string, dt DType, s Shape) *Value {
	return b.leaf(OpInput, name, Type{dt, s})
}

// Weight returns the weight of that name; a second call returns the same value.
func (b *Builder) Weight(name string, dt DType, s Shape) *Value {
	return b.leaf(OpWeight, name, Type{dt, s})
}

// Const adds numbers known now. len(data) must be the product of the sizes.
func (b *Builder) Const(name string, data []float32, sizes ...int) *Value {
	t := Type{F32, ShapeOf(sizes...)}
	if t.Shape.Elems(nil) != len(data) {
		b.Fail(fmt.Errorf("graph: const %s: %d numbers for shape %s", name, len(data), t.Shape))
	}
	v := &Value{Op: OpConst, Type: t, Name: name, Layer: b.layer, Data: data}
	if b.err != nil {
		return v
	}
	v.Origin = origin()
	return b.g.Add(v)
}

// Cache adds the storage of keys and values of the current layer. window 0
// keeps all positions.
func (b *Builder) Cache(name string, t Type, window int) *Value {
	v := &Value{Op: OpCache, Type: t, Name: name, Layer: b.layer, Attrs: MakeAttrs("window", window)}
	if b.err != nil {
		return v
	}
	v.Origin = origin()
	return b.g.Add(v)
}

// Output names a result of the graph.
func (b *Builder) Output(name string, v *Value) {
	if b.err == nil {
		b.g.Outputs = append(b.g.Outputs, Output{name, v})
	}
}

// Finish returns the graph, or the first error.
func (b *Builder) Finish() (*Graph, error) {
	if b.err != nil {
		return nil, b.err
	}
	if len(b.g.Outputs) == 0 {
		return nil, fmt.Errorf("graph: %s has no output", b.g.Name)
	}
	return b.g, nil
}

// origin returns "file.go:line" of the nearest caller outside of the op
// constructors and the shared blocks: the line of a model that asked for the
// value.
func origin() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		if !more || !isBuilding(f.Function) || strings.HasSuffix(f.File, "_test.go") {
			return filepath.Base(f.File) + ":" + strconv.Itoa(f.Line)
		}
	}
}

// isBuilding reports whether a function only adds values for its caller.
func isBuilding(function string) bool {
	for _, prefix := range []string{"graphrun/graph.", "graphrun/ops.", "graphrun/archs.(*Build)."} {
		if strings.HasPrefix(function, prefix) {
			return true
		}
	}
	return false
}
