//go:build !((amd64 || arm64) && gc && !noasm)

package cpu

// pause tells the processor that this is a spin loop, where Go can say so.
func pause() {}
