//go:build !linux

package loaders

// largePages does nothing: the system decides.
func largePages([]byte) {}

// largePagesAround does nothing: the system decides.
func largePagesAround([]byte) {}

// smallPages does nothing: the system decides.
func smallPages([]byte) {}

// dropPages does nothing: the system takes pages back when it needs them.
func dropPages([]byte) {}
