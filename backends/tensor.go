package backends

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"graphrun/graph"
	"graphrun/ops"
)

// Sizes returns the sizes of s under the binding.
func Sizes(s graph.Shape, dims graph.Dims) []int {
	out := make([]int, len(s))
	for i, d := range s {
		out[i] = dims.Of(d)
	}
	return out
}

// View returns the tensor of a view value over the storage of its argument x.
func View(v *graph.Value, x *graph.Tensor, dims graph.Dims) *graph.Tensor {
	return &graph.Tensor{DType: v.Type.DType, Dims: Sizes(v.Type.Shape, dims), Stride: x.Stride,
		F32: x.F32[min(ops.ViewOffset(v), len(x.F32)):]}
}

// CheckTensor reports whether t can be the weight v: same element type and
// sizes.
func CheckTensor(v *graph.Value, t *graph.Tensor) error {
	same := t.DType == v.Type.DType && len(t.Dims) == len(v.Type.Shape)
	for i := 0; same && i < len(t.Dims); i++ {
		same = t.Dims[i] == v.Type.Shape[i].Size
	}
	if !same {
		return fmt.Errorf("backends: weight %q is %s%v, the graph wants %s", v.Name, t.DType, t.Dims, v.Type)
	}
	return nil
}

// TensorOf returns a tensor over the bytes of a file: f32 numbers are viewed as
// such when they start at a multiple of 4, and copied otherwise; every other
// type stays bytes.
func TensorOf(dt graph.DType, sizes []int, data []byte) *graph.Tensor {
	t := &graph.Tensor{DType: dt, Dims: sizes, Stride: 1}
	for _, n := range sizes[min(1, len(sizes)):] {
		t.Stride *= n
	}
	if dt != graph.F32 {
		t.Stride = dt.RowBytes(t.Stride)
		t.Raw = data
		return t
	}
	if uintptr(unsafe.Pointer(unsafe.SliceData(data)))%4 == 0 {
		t.F32 = unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(data))), len(data)/4)
		return t
	}
	t.F32 = make([]float32, len(data)/4)
	for i := range t.F32 {
		t.F32[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return t
}
