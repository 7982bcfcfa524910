//go:build !(darwin || freebsd || linux || windows)

package hub

import (
	"errors"
	"os"
)

var errNoSpace = errors.New("no space left on device")

// lockFile has nothing to take here: two programs that download the same file
// at once are not kept apart.
func lockFile(*os.File) error { return nil }

// freeSpace does not know.
func freeSpace(string) (int64, bool) { return 0, false }
