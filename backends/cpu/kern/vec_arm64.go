//go:build arm64 && gc && !noasm

package kern

import (
	"math"
	"unsafe"
)

// The kernels take whole registers of four numbers. What is left goes through
// memory of its own, filled up; since an element of a result depends on the
// same elements of the operands alone, its bits are the same.

// whole runs a kernel over vectors of any length.
func (a *vecArgs) whole(k vecKind) {
	left := a.n % 4
	if a.n -= left; a.n > 0 {
		k.run(a)
	}
	if left == 0 {
		return
	}
	var x, z, y [4]float32
	t := vecArgs{x: unsafe.Pointer(&x), z: unsafe.Pointer(&z), y: unsafe.Pointer(&y), n: 4, c: a.c, d: a.d}
	copy(x[:], unsafe.Slice((*float32)(unsafe.Add(a.x, 4*a.n)), left))
	if a.z != nil {
		copy(z[:], unsafe.Slice((*float32)(unsafe.Add(a.z, 4*a.n)), left))
	}
	k.run(&t)
	copy(unsafe.Slice((*float32)(unsafe.Add(a.y, 4*a.n)), left), y[:])
}

func vecAdd(a *vecArgs)       { a.whole(kindAdd) }
func vecMul(a *vecArgs)       { a.whole(kindMul) }
func vecAddScalar(a *vecArgs) { a.whole(kindAddScalar) }
func vecScale(a *vecArgs)     { a.whole(kindScale) }
func vecScaleMul(a *vecArgs)  { a.whole(kindScaleMul) }
func vecSoftcap(a *vecArgs)   { a.whole(kindSoftcap) }
func vecExp(a *vecArgs)       { a.whole(kindExp) }
func vecSiLU(a *vecArgs)      { a.whole(kindSiLU) }
func vecSiLUGate(a *vecArgs)  { a.whole(kindSiLUGate) }
func vecGELU(a *vecArgs)      { a.whole(kindGELU) }
func vecGELUGate(a *vecArgs)  { a.whole(kindGELUGate) }
func vecSwigluOAI(a *vecArgs) { a.whole(kindSwigluOAI) }

// vecSumSquares stores a float64 at y. The rest is padded with zeros.
func vecSumSquares(a *vecArgs) {
	left := a.n % 8
	y := (*float64)(a.y)
	*y = 0
	if a.n -= left; a.n > 0 {
		vecSumSquaresNEON(a)
	}
	if left > 0 {
		var x [8]float32
		copy(x[:], unsafe.Slice((*float32)(unsafe.Add(a.x, 4*a.n)), left))
		rest := 0.0
		vecSumSquaresNEON(&vecArgs{x: unsafe.Pointer(&x), y: unsafe.Pointer(&rest), n: 8})
		*y += rest
	}
}

func vecMax(a *vecArgs) {
	left := a.n % 4
	m := (*float32)(a.y)
	*m = float32(math.Inf(-1))
	if a.n -= left; a.n > 0 {
		vecMaxNEON(a)
	}
	for _, v := range unsafe.Slice((*float32)(unsafe.Add(a.x, 4*a.n)), left) {
		if v > *m {
			*m = v
		}
	}
}

func vecLargest(a *vecArgs) {
	left := a.n % 4
	m := (*uint32)(a.y)
	*m = 0
	if a.n -= left; a.n > 0 {
		vecLargestNEON(a)
	}
	for _, v := range unsafe.Slice((*uint32)(unsafe.Add(a.x, 4*a.n)), left) {
		*m = max(*m, v&^(1<<31))
	}
}

func find(x []float32, c float32) (i int) {
	if n := len(x) &^ 15; features.neon && n > 0 {
		vecFindNEON(&vecArgs{x: ptr(x, 0), y: unsafe.Pointer(&i), n: n, c: c})
	}
	return i + findGeneric(x[i:], c)
}

// ropeHalf turns whole fours of pairs in assembly.
func ropeHalf(a *ropeArgs) {
	pairs := a.pairs
	a.half = 4 * pairs
	if a.pairs &^= 3; a.pairs > 0 {
		ropeHalfNEON(a)
	}
	for h := 0; h < a.heads && a.pairs < pairs; h++ {
		x, y := ropeHead(a.x, a.stride, h, 2*pairs), ropeHead(a.y, a.stride, h, 2*pairs)
		cos, sin := unsafe.Slice((*float32)(a.cos), pairs), unsafe.Slice((*float32)(a.sin), pairs)
		for i := a.pairs; i < pairs; i++ {
			u, v := x[i], x[i+pairs]
			y[i], y[i+pairs] = u*cos[i]-v*sin[i], u*sin[i]+v*cos[i]
		}
	}
}

// ropeAdjacent turns an even number of pairs in assembly.
func ropeAdjacent(a *ropeArgs) {
	pairs := a.pairs
	if a.pairs &^= 1; a.pairs > 0 {
		ropeAdjacentNEON(a)
	}
	for h := 0; h < a.heads && a.pairs < pairs; h++ {
		x, y := ropeHead(a.x, a.stride, h, 2*pairs), ropeHead(a.y, a.stride, h, 2*pairs)
		cos, sin := unsafe.Slice((*float32)(a.cos), 2*pairs), unsafe.Slice((*float32)(a.sin), 2*pairs)
		i := 2 * a.pairs
		u, v := x[i], x[i+1]
		y[i], y[i+1] = u*cos[i]-v*sin[i], u*sin[i]+v*cos[i]
	}
}

// ropeHead returns the first n numbers of head h.
func ropeHead(p unsafe.Pointer, stride, h, n int) []float32 {
	return unsafe.Slice((*float32)(unsafe.Add(p, h*stride)), n)
}

func storeF16(dst []byte, x []float32) {
	n := len(x) &^ 3
	if !features.neon {
		n = 0
	}
	if n > 0 {
		storeF16NEON(&keyArgs{x: ptr(x, 0), dst: ptr(dst, 0), n: n})
	}
	if n < len(x) {
		storeF16Generic(dst[2*n:], x[n:], 2)
	}
}

func storeKeyF16(dst []byte, x []float32) {
	if !features.neon || len(x) == 0 {
		storeF16Generic(dst, x, 32)
		return
	}
	storeKeyF16NEON(&keyArgs{x: ptr(x, 0), dst: ptr(dst, 0), n: len(x)})
}
