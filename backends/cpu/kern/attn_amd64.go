//go:build amd64 && gc && !noasm

package kern

import (
	"unsafe"

	"graphrun/graph"
)

func attnScores(t graph.DType, a *scoreArgs) {
	switch {
	case features.avx512 && t == graph.F16:
		attnScoresF16AVX512(a)
	case features.avx512:
		attnScoresF32AVX512(a)
	case t == graph.F16:
		attnScoresF16AVX2(a)
	default:
		attnScoresF32AVX2(a)
	}
}

func attnMix(t graph.DType, a *mixArgs) {
	switch {
	case features.avx512 && t == graph.F16:
		attnMixF16AVX512(a)
	case features.avx512:
		attnMixF32AVX512(a)
	case t == graph.F16:
		attnMixF16AVX2(a)
	default:
		attnMixF32AVX2(a)
	}
}

func attnWeigh(a *weighArgs) {
	if features.avx512 {
		attnWeighAVX512(a)
		return
	}
	a.hideRest()
	attnWeighAVX2(a)
}

func attnMerge(a *mergeArgs) {
	if features.avx512 {
		attnMergeAVX512(a)
	} else {
		attnMergeAVX2(a)
	}
}

func attnFinish(a *mergeArgs) {
	if features.avx512 {
		attnFinishAVX512(a)
	} else {
		attnFinishAVX2(a)
	}
}

// unpackKeys turns whole groups of 32 dimensions of q8_0 key blocks into f32 and
// asks for what lies ahead bytes behind them.
func unpackKeys(dst, src []byte, ahead int) {
	a := cacheArgs{src: ptr(src, 0), dst: ptr(dst, 0), n: len(src) / (34 * attnBlock), ahead: ahead}
	if features.avx512 {
		unpackKeysQ8AVX512(&a)
	} else {
		unpackKeysQ8AVX2(&a)
	}
}

// unpackValues turns blocks of q8_0 into f32 and asks for what lies ahead bytes
// behind them.
func unpackValues(dst, src []byte, ahead int) {
	a := cacheArgs{src: ptr(src, 0), dst: ptr(dst, 0), n: len(src) / 34, ahead: ahead}
	if features.avx512 {
		unpackValuesQ8AVX512(&a)
	} else {
		unpackValuesQ8AVX2(&a)
	}
}

// scaleTo writes c·x as little-endian f32.
func scaleTo(dst []byte, x []float32, c float32) {
	vecScale(&vecArgs{x: unsafe.Pointer(&x[0]), y: ptr(dst[:4*len(x)], 0), n: len(x), c: c})
}

// softcapBytes is SoftcapVec in place on little-endian f32.
func softcapBytes(p []byte, limit float32) {
	vecSoftcap(&vecArgs{x: ptr(p, 0), y: ptr(p, 0), n: len(p) / 4, c: limit, d: 1 / limit})
}
