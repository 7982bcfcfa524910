//go:build !linux

package engine

// mapPages is for systems that can map pages ahead.
func mapPages([]byte) bool { return false }
