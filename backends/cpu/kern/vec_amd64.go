//go:build amd64 && gc && !noasm

package kern

import "unsafe"

func vecAdd(a *vecArgs) {
	if features.avx512 {
		vecAddAVX512(a)
	} else {
		vecAddAVX2(a)
	}
}

func vecMul(a *vecArgs) {
	if features.avx512 {
		vecMulAVX512(a)
	} else {
		vecMulAVX2(a)
	}
}

func vecAddScalar(a *vecArgs) {
	if features.avx512 {
		vecAddScalarAVX512(a)
	} else {
		vecAddScalarAVX2(a)
	}
}

func vecScale(a *vecArgs) {
	if features.avx512 {
		vecScaleAVX512(a)
	} else {
		vecScaleAVX2(a)
	}
}

func vecScaleMul(a *vecArgs) {
	if features.avx512 {
		vecScaleMulAVX512(a)
	} else {
		vecScaleMulAVX2(a)
	}
}

func vecSoftcap(a *vecArgs) {
	if features.avx512 {
		vecSoftcapAVX512(a)
	} else {
		vecSoftcapAVX2(a)
	}
}

func vecExp(a *vecArgs) {
	if features.avx512 {
		vecExpAVX512(a)
	} else {
		vecExpAVX2(a)
	}
}

func vecSiLU(a *vecArgs) {
	if features.avx512 {
		vecSiLUAVX512(a)
	} else {
		vecSiLUAVX2(a)
	}
}

func vecSiLUGate(a *vecArgs) {
	if features.avx512 {
		vecSiLUGateAVX512(a)
	} else {
		vecSiLUGateAVX2(a)
	}
}

func vecGELU(a *vecArgs) {
	if features.avx512 {
		vecGELUAVX512(a)
	} else {
		vecGELUAVX2(a)
	}
}

func vecGELUGate(a *vecArgs) {
	if features.avx512 {
		vecGELUGateAVX512(a)
	} else {
		vecGELUGateAVX2(a)
	}
}

func vecSwigluOAI(a *vecArgs) {
	if features.avx512 {
		vecSwigluOAIAVX512(a)
	} else {
		vecSwigluOAIAVX2(a)
	}
}

func vecSumSquares(a *vecArgs) {
	if features.avx512 {
		vecSumSquaresAVX512(a)
	} else {
		vecSumSquaresAVX2(a)
	}
}

func vecMax(a *vecArgs) {
	if features.avx512 {
		vecMaxAVX512(a)
	} else {
		vecMaxAVX2(a)
	}
}

func vecLargest(a *vecArgs) {
	if features.avx512 {
		vecLargestAVX512(a)
	} else {
		vecLargestAVX2(a)
	}
}

func ropeHalf(a *ropeArgs) {
	if features.avx512 {
		ropeHalfAVX512(a)
	} else {
		ropeHalfAVX2(a)
	}
}

func ropeAdjacent(a *ropeArgs) {
	if features.avx512 {
		ropeAdjacentAVX512(a)
	} else {
		ropeAdjacentAVX2(a)
	}
}

func find(x []float32, c float32) (i int) {
	if !features.avx512 {
		return findGeneric(x, c)
	}
	vecFindAVX512(&vecArgs{x: ptr(x, 0), y: unsafe.Pointer(&i), n: len(x), c: c})
	return i
}

func storeF16(dst []byte, x []float32) {
	if !features.avx512 {
		storeF16Generic(dst, x, 2)
		return
	}
	storeF16AVX512(&keyArgs{x: ptr(x, 0), dst: ptr(dst, 0), n: len(x)})
}

func storeKeyF16(dst []byte, x []float32) {
	if !features.avx512 {
		storeF16Generic(dst, x, 32)
		return
	}
	storeKeyF16AVX512(&keyArgs{x: ptr(x, 0), dst: ptr(dst, 0), n: len(x)})
}
