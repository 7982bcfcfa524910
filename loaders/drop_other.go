//go:build !linux

package loaders

// dropPages does nothing: the system takes pages back when it needs them.
func dropPages([]byte) {}
