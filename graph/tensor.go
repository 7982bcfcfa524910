package graph

// Tensor is the storage of a value during a run. Rows are indexed by the
// leading dimension; Stride lets a value be a group of columns of a wider one.
//
// Exactly one of F32, I32 and Raw is set: F32 for f32, I32 for i32, Raw for
// every other element type (blocks of quantized rows, 16-bit floats, caches).
type Tensor struct {
	DType  DType
	Dims   []int // sizes in this step
	Stride int   // elements (bytes for Raw) from one row to the next
	F32    []float32
	I32    []int32
	Raw    []byte
}

// NewTensor returns zeroed storage for a value of type t under the binding,
// rows packed one after the other.
func NewTensor(t Type, b Dims) *Tensor {
	x := &Tensor{DType: t.DType, Dims: make([]int, len(t.Shape))}
	for i, d := range t.Shape {
		x.Dims[i] = b.Of(d)
	}
	n := x.Rows() * x.RowElems()
	x.Stride = x.RowElems()
	switch t.DType {
	case F32:
		x.F32 = make([]float32, n)
	case I32:
		x.I32 = make([]int32, n)
	default:
		x.Raw = make([]byte, t.Bytes(b))
		// The rows of a tensor of three and more dimensions lie in blocks along
		// the last one, so the stride is the share of one leading index.
		x.Stride = len(x.Raw) / max(1, x.Rows())
	}
	return x
}

// Rows returns the size of the leading dimension.
func (t *Tensor) Rows() int {
	if len(t.Dims) == 0 {
		return 1
	}
	return t.Dims[0]
}

// RowElems returns the number of elements of a row.
func (t *Tensor) RowElems() int {
	n := 1
	for _, d := range t.Dims[min(1, len(t.Dims)):] {
		n *= d
	}
	return n
}

// Row returns row i of an f32 tensor.
func (t *Tensor) Row(i int) []float32 {
	o := i * t.Stride
	return t.F32[o : o+t.RowElems()]
}

// RawRow returns the bytes of row i of a tensor stored as Raw.
func (t *Tensor) RawRow(i int) []byte {
	o := i * t.Stride
	return t.Raw[o : o+t.DType.RowBytes(t.RowElems())]
}

// Call is one operation of a running program: the value, its operands and its
// result. Kernels read it and write Out; they keep nothing of it.
type Call struct {
	Value *Value
	In    []*Tensor
	Out   *Tensor
	// Param is what Op.Prepare made of the value's attributes.
	Param any
}

// Units returns the number of independent pieces of work of the call.
func (c *Call) Units() int {
	if c.Value.Op.Units != nil {
		return c.Value.Op.Units(c)
	}
	return c.Out.Rows()
}
