//go:build !(darwin || freebsd || linux || netbsd || openbsd || windows)

package engine

import (
	"errors"
	"math"
)

// canTake knows only what can be addressed.
func canTake(n int) error {
	if n > math.MaxInt/2 {
		return errors.New("more than can be addressed")
	}
	return nil
}
