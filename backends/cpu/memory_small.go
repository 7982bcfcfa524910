//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package cpu

// adviseLarge does nothing: the system decides.
func adviseLarge([]byte) {}
