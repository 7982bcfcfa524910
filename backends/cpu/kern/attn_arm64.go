//go:build arm64 && gc && !noasm

package kern

import (
	"unsafe"

	"graphrun/graph"
)

func attnScores(t graph.DType, a *scoreArgs) {
	if t == graph.F16 {
		attnScoresF16NEON(a)
	} else {
		attnScoresF32NEON(a)
	}
}

func attnMix(t graph.DType, a *mixArgs) {
	if t == graph.F16 {
		attnMixF16NEON(a)
	} else {
		attnMixF32NEON(a)
	}
}

func attnWeigh(a *weighArgs) {
	a.hideRest()
	attnWeighNEON(a)
}

func attnMerge(a *mergeArgs) { attnMergeNEON(a) }

func attnFinish(a *mergeArgs) { attnFinishNEON(a) }

// unpackKeys turns whole groups of 32 dimensions of q8_0 key blocks into f32.
func unpackKeys(dst, src []byte, _ int) {
	unpackKeysQ8NEON(&cacheArgs{src: ptr(src, 0), dst: ptr(dst, 0), n: len(src) / (34 * attnBlock)})
}

// unpackValues turns blocks of q8_0 into f32.
func unpackValues(dst, src []byte, _ int) {
	unpackValuesQ8NEON(&cacheArgs{src: ptr(src, 0), dst: ptr(dst, 0), n: len(src) / 34})
}

// scaleTo writes c·x as little-endian f32.
func scaleTo(dst []byte, x []float32, c float32) {
	vecScale(&vecArgs{x: unsafe.Pointer(&x[0]), y: ptr(dst[:4*len(x)], 0), n: len(x), c: c})
}

// softcapBytes is SoftcapVec in place on little-endian f32.
func softcapBytes(p []byte, limit float32) {
	vecSoftcap(&vecArgs{x: ptr(p, 0), y: ptr(p, 0), n: len(p) / 4, c: limit, d: 1 / limit})
}
