package kern

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/x448/float16"
)

// VectorsSupported reports whether the functions over vectors have kernels with
// the instruction sets in use. Where it is false, only ArgMax, Finite,
// StoreF16 and StoreKeyF16 may be called.
//
// The functions take slices of equal length of at least one number, need no
// alignment, and y may be x or z but must not overlap them otherwise. An element
// of a result depends on the same elements of the operands alone, so a vector
// may be cut anywhere. NaN gives NaN.
func VectorsSupported() bool { return features.avx512 || features.avx2 || features.neon }

// Add computes y = x + z.
func Add(y, x, z []float32) {
	var a vecArgs
	a.two(y, x, z)
	vecAdd(&a)
}

// Mul2 computes y = x·z.
func Mul2(y, x, z []float32) {
	var a vecArgs
	a.two(y, x, z)
	vecMul(&a)
}

// AddScalar computes y = x + c.
func AddScalar(y, x []float32, c float32) {
	var a vecArgs
	a.one(y, x, c)
	vecAddScalar(&a)
}

// Scale computes y = x·c.
func Scale(y, x []float32, c float32) {
	var a vecArgs
	a.one(y, x, c)
	vecScale(&a)
}

// Softcap computes y = limit·tanh(x/limit) with an error below 4e-7 of the
// result. limit is at least 1e-30.
func Softcap(y, x []float32, limit float32) {
	var a vecArgs
	a.one(y, x, limit)
	a.d = 1 / limit
	vecSoftcap(&a)
}

// SiLU computes y = x / (1 + exp(-x)).
func SiLU(y, x []float32) {
	var a vecArgs
	a.one(y, x, 0)
	vecSiLU(&a)
}

// GELU computes y = x/2 · (1 + tanh(sqrt(2/π)·(x + 0.044715·x³))).
func GELU(y, x []float32) {
	var a vecArgs
	a.one(y, x, 0)
	vecGELU(&a)
}

// GateOf returns the function y = act(x)·z of package ops by the name of act:
// "silu", "gelu" or "swiglu_oai". It is nil for another name and where vectors
// are not supported.
func GateOf(act string) func(y, x, z []float32) {
	if !VectorsSupported() {
		return nil
	}
	switch act {
	case "silu":
		return func(y, x, z []float32) {
			var a vecArgs
			a.two(y, x, z)
			vecSiLUGate(&a)
		}
	case "gelu":
		return func(y, x, z []float32) {
			var a vecArgs
			a.two(y, x, z)
			vecGELUGate(&a)
		}
	case "swiglu_oai":
		return func(y, x, z []float32) {
			var a vecArgs
			a.two(y, x, z)
			vecSwigluOAI(&a)
		}
	}
	return nil
}

// RMSNorm computes y = x·w / sqrt(mean x² + eps); w may be nil for no weight.
// The squares are summed in float64, in 32 lanes.
func RMSNorm(y, x, w []float32, eps float64) {
	var sum float64
	vecSumSquares(&vecArgs{x: unsafe.Pointer(&x[0]), y: unsafe.Pointer(&sum), n: len(x)})
	f := float32(1 / math.Sqrt(sum/float64(len(x))+eps))
	if w == nil {
		var a vecArgs
		a.one(y, x, f)
		vecScale(&a)
		return
	}
	var a vecArgs
	a.two(y, x, w)
	a.c = f
	vecScaleMul(&a)
}

// Softmax computes y = exp(x - max x) / Σ exp(x - max x). Numbers more than 87
// below the largest give 0.
func Softmax(y, x []float32) {
	var m float32
	vecMax(&vecArgs{x: unsafe.Pointer(&x[0]), y: unsafe.Pointer(&m), n: len(x)})
	var a vecArgs
	a.one(y, x, m)
	vecExp(&a)
	sum := 0.0
	for _, e := range y {
		sum += float64(e)
	}
	a.one(y, y, float32(1/sum))
	vecScale(&a)
}

// ArgMax returns the index of the largest number, the lowest of equal ones, and
// -1 if there is none. NaN is not a number.
func ArgMax(x []float32) int {
	if len(x) == 0 {
		return -1
	}
	m := float32(math.Inf(-1))
	if VectorsSupported() {
		vecMax(&vecArgs{x: unsafe.Pointer(&x[0]), y: unsafe.Pointer(&m), n: len(x)})
	} else {
		for _, v := range x {
			if v > m {
				m = v
			}
		}
	}
	if i := find(x, m); i < len(x) {
		return i
	}
	return -1 // all NaN
}

// Finite reports whether x holds neither NaN nor infinity.
func Finite(x []float32) bool {
	var m uint32
	switch {
	case len(x) == 0:
	case VectorsSupported():
		vecLargest(&vecArgs{x: unsafe.Pointer(&x[0]), y: unsafe.Pointer(&m), n: len(x)})
	default:
		for _, v := range x {
			m = max(m, math.Float32bits(v)&^(1<<31))
		}
	}
	return m < 0x7f800000
}

// findGeneric returns the first i with x[i] = c, len(x) if there is none.
func findGeneric(x []float32, c float32) int {
	for i, v := range x {
		if v == c {
			return i
		}
	}
	return len(x)
}

// RopeHalf turns pairs i, i+len(cos) of each head of k numbers.
//
//	y[i], y[i+n] = x[i]·cos[i] - x[i+n]·sin[i], x[i]·sin[i] + x[i+n]·cos[i]
//
// The numbers of a head from 2·len(cos) on are not written.
func RopeHalf(y, x, cos, sin []float32, k int) {
	var a ropeArgs
	a.set(y, x, cos, sin, k, len(cos))
	ropeHalf(&a)
}

// RopeAdjacent turns pairs 2i, 2i+1 of each head of k numbers. cos and sin hold
// each number twice.
//
//	y[2i], y[2i+1] = x[2i]·cos[2i] - x[2i+1]·sin[2i], x[2i]·sin[2i] + x[2i+1]·cos[2i]
//
// The numbers of a head from len(cos) on are not written.
func RopeAdjacent(y, x, cos, sin []float32, k int) {
	var a ropeArgs
	a.set(y, x, cos, sin, k, len(cos)/2)
	ropeAdjacent(&a)
}

func (a *ropeArgs) set(y, x, cos, sin []float32, k, pairs int) {
	if len(x)%k != 0 || 2*pairs > k {
		panic("kern: x is not whole heads")
	}
	a.x, a.y, a.cos, a.sin = unsafe.Pointer(&x[0]), unsafe.Pointer(&y[:len(x)][0]), unsafe.Pointer(&cos[0]), unsafe.Pointer(&sin[:len(cos)][0])
	a.pairs, a.heads, a.stride = pairs, len(x)/k, 4*k
}

// StoreF16 writes x as f16, ties to even; finite numbers beyond the largest
// become the largest.
func StoreF16(dst []byte, x []float32) {
	storeF16(dst[:2*len(x)], x)
}

// StoreKeyF16 is StoreF16 into one of the 16 lanes of a block of keys: number d
// goes to dst[32·d:]. len(x) is a multiple of 16.
func StoreKeyF16(dst []byte, x []float32) {
	if len(x)%16 != 0 {
		panic("kern: a key is not a multiple of 16 numbers")
	}
	storeKeyF16(dst[:32*len(x)-30], x)
}

// storeF16Generic writes numbers that lie step bytes apart.
func storeF16Generic(dst []byte, x []float32, step int) {
	for i, v := range x {
		h := float16.Fromfloat32(v).Bits()
		if h&0x7fff == 0x7c00 && !math.IsInf(float64(v), 0) {
			h-- // the largest finite number
		}
		binary.LittleEndian.PutUint16(dst[i*step:], h)
	}
}

// Arguments are written where they stay. Copies of them would read 16 bytes of
// what was written by 8, which waits until all stores before are done: while
// results go to memory that is in no cache, longer than the kernel takes.

func (a *vecArgs) one(y, x []float32, c float32) {
	a.x, a.y, a.n, a.c = unsafe.Pointer(&x[0]), unsafe.Pointer(&y[:len(x)][0]), len(x), c
}

func (a *vecArgs) two(y, x, z []float32) {
	a.x, a.z, a.y, a.n = unsafe.Pointer(&x[0]), unsafe.Pointer(&z[:len(x)][0]), unsafe.Pointer(&y[:len(x)][0]), len(x)
}

// The arguments of the vector kernels; the generator knows the offsets.
type (
	vecArgs struct {
		x, z, y unsafe.Pointer
		n       int
		c, d    float32
	}
	ropeArgs struct {
		x, y, cos, sin       unsafe.Pointer
		pairs, heads, stride int
		//lint:ignore U1000 only arm64 needs it
		half int // bytes between the numbers of a pair
	}
	keyArgs struct {
		x, dst unsafe.Pointer
		n      int
	}
)
