package cpu

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"graphrun/backends"
	"graphrun/backends/cpu/kern"
	"graphrun/graph"
	"graphrun/ops"
)

// storage is the memory of a program: weights where the file has them, caches,
// one arena for activations, and scratch memory for each worker.
type storage struct {
	weights map[string]*graph.Tensor
	consts  map[int]*graph.Tensor // by value id
	caches  []*cache
	arena   []byte
	scratch [][]byte
	threads int
	// attention is for attentions whose positions are divided among workers.
	attention kern.AttnShared
	ropes     []*ropeTable
	// uniform makes products of plain types independent of the number of
	// tokens, as those of quantized types are.
	uniform bool
	notices []string
	mapped  []mapping // to be given back
}

// bytes returns n zero bytes that start at a multiple of 64, for what. They lie
// outside Go's heap where the system has such memory: pages that no step touches
// then take none, and the garbage collector does not plan with them.
func (s *storage) bytes(n int, what string) ([]byte, error) {
	if n < mapFrom {
		return alignedBytes(n), nil
	}
	m, err := mapMemory(n)
	if err != nil {
		return nil, fmt.Errorf("cpu: no memory for the %s: %d bytes were asked for: %w", what, n, err)
	}
	s.mapped = append(s.mapped, m)
	return m.use, nil
}

// mapFrom is the size from which memory is mapped.
const mapFrom = 1 << 20

// free gives the mapped memory back. Nothing may use it afterwards.
func (s *storage) free() error {
	var errs []error
	for _, m := range s.mapped {
		errs = append(errs, m.free())
	}
	s.mapped = nil
	return errors.Join(errs...)
}

// notice records once that something runs slower than it could.
func (s *storage) notice(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(s.notices, text) {
		s.notices = append(s.notices, text)
	}
}

// cache is the pool of pages of one cache value.
type cache struct {
	value  *graph.Value
	tensor *graph.Tensor
	page   int // bytes
}

func (c *cache) copyPage(dst, src int) {
	copy(c.tensor.Raw[dst*c.page:(dst+1)*c.page], c.tensor.Raw[src*c.page:(src+1)*c.page])
}

// fill finds the weights of g and makes its caches.
func (s *storage) fill(g *graph.Graph, w backends.Weights, dims graph.Dims) (mem backends.Memory, err error) {
	s.weights, s.consts = map[string]*graph.Tensor{}, map[int]*graph.Tensor{}
	// All caches lie in one piece, so that they share large pages.
	for _, v := range g.Values {
		if v.Op == graph.OpCache {
			mem.Cache += aligned(v.Type.Bytes(dims))
		}
	}
	caches, err := s.bytes(mem.Cache, "caches")
	if err != nil {
		return mem, err
	}
	for _, v := range g.Values {
		switch v.Op {
		case graph.OpWeight:
			t, err := w.Weight(v.Name)
			if err != nil {
				return mem, err
			}
			if err := backends.CheckTensor(v, t); err != nil {
				return mem, err
			}
			if s.weights[v.Name] == nil {
				mem.Weights += v.Type.Bytes(nil)
			}
			s.weights[v.Name] = t
		case graph.OpConst:
			s.consts[v.ID] = &graph.Tensor{DType: graph.F32, Dims: backends.Sizes(v.Type.Shape, dims), Stride: v.Type.Shape.RowElems(), F32: v.Data}
		case graph.OpCache:
			n := v.Type.Bytes(dims)
			t := &graph.Tensor{DType: v.Type.DType, Dims: backends.Sizes(v.Type.Shape, dims)}
			t.Raw, caches = caches[:n:n], caches[aligned(n):]
			t.Stride = v.Type.DType.RowBytes(v.Type.Shape.RowElems())
			if t.Dims[0]%ops.PageSize != 0 {
				return mem, fmt.Errorf("cpu: cache %s has %d positions, want a multiple of %d", v.Label(), t.Dims[0], ops.PageSize)
			}
			s.caches = append(s.caches, &cache{v, t, t.Stride * ops.PageSize})
		}
	}
	return mem, nil
}

// cacheOf returns the index of the cache that v is, or is a later state of.
func (s *storage) cacheOf(v *graph.Value) int {
	for v.Op.Is(graph.State) {
		v = v.Args[0]
	}
	for i, c := range s.caches {
		if c.value.ID == v.ID {
			return i
		}
	}
	return -1
}

// alignedBytes returns n zero bytes that start at a multiple of 64.
func alignedBytes(n int) []byte {
	b := make([]byte, n+64)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & 63)
	return b[skip : skip+n : skip+n]
}

// floats views bytes as f32. The bytes must start at a multiple of 4.
func floats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

func ints(b []byte) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// rawFloats views f32 numbers as bytes.
func rawFloats(f []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), 4*len(f))
}
