//go:build !noasm && (amd64 || arm64)

package engine

// plainKernels says that products run the plain-Go loops.
const plainKernels = false
