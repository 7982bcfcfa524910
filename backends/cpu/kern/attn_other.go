//go:build !((amd64 || arm64) && gc && !noasm)

package kern

import "graphrun/graph"

// AttentionSupported is false for every type: none of these is called.

func attnScores(graph.DType, *scoreArgs) { panic("kern: no attention kernel") }

func attnMix(graph.DType, *mixArgs) { panic("kern: no attention kernel") }

func attnWeigh(*weighArgs) { panic("kern: no attention kernel") }

func attnMerge(*mergeArgs) { panic("kern: no attention kernel") }

func attnFinish(*mergeArgs) { panic("kern: no attention kernel") }

func unpackKeys(dst, src []byte, ahead int) { panic("kern: no attention kernel") }

func unpackValues(dst, src []byte, ahead int) { panic("kern: no attention kernel") }

func scaleTo(dst []byte, x []float32, c float32) { panic("kern: no attention kernel") }

func softcapBytes(p []byte, limit float32) { panic("kern: no attention kernel") }
