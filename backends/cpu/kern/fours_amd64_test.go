//go:build amd64 && gc && !noasm

package kern

import "testing"

// TestMulFours multiplies single tokens with rows of any length by fours.
func TestMulFours(t *testing.T) {
	forced = wayFours
	defer func() { forced = wayBest }()
	testMul(t)
}

func TestSameBitsFours(t *testing.T) {
	forced = wayFours
	defer func() { forced = wayBest }()
	testSameBits(t)
}

// TestMulRows multiplies single tokens with short rows one after the other.
func TestMulRows(t *testing.T) {
	forced = wayRows
	defer func() { forced = wayBest }()
	testSameBits(t)
}
