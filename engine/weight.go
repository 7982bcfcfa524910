package engine

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"graphrun/graph"
	"graphrun/loaders"
)

// tensor views a tensor of a file as kernels want it. f32 and i32 numbers are
// used where they lie, or copied if they do not lie at a multiple of four bytes
// or the machine is big-endian; other types are bytes.
func tensor(t *loaders.Tensor) (*graph.Tensor, error) {
	g := &graph.Tensor{DType: t.DType, Dims: t.Shape}
	n := g.RowElems()
	if n%t.DType.BlockElems() != 0 {
		return nil, &loaders.TensorError{Format: "engine", File: t.File, Name: t.Name,
			Err: fmt.Errorf("rows of %d elements are no multiple of the %d of a %s block", n, t.DType.BlockElems(), t.DType)}
	}
	switch t.DType {
	case graph.F32:
		g.F32, g.Stride = numbers(t.Data, math.Float32frombits), n
	case graph.I32:
		g.I32, g.Stride = numbers(t.Data, func(u uint32) int32 { return int32(u) }), n
	default:
		g.Raw, g.Stride = t.Data, t.DType.RowBytes(n)
	}
	return g, nil
}

// numbers views little-endian bytes as four-byte numbers.
func numbers[T float32 | int32](b []byte, from func(uint32) T) []T {
	p := unsafe.Pointer(unsafe.SliceData(b))
	if littleEndian && uintptr(p)%4 == 0 {
		return unsafe.Slice((*T)(p), len(b)/4)
	}
	out := make([]T, len(b)/4)
	for i := range out {
		out[i] = from(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1
