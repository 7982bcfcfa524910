//go:build !unix

package kern

import "testing"

func guarded(t testing.TB, n int) []byte { return make([]byte, n) }
