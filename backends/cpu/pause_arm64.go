//go:build arm64 && gc && !noasm

package cpu

// pause tells the processor that this is a spin loop.
//
//go:noescape
func pause()
