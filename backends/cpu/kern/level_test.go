package kern

import (
	"os"
	"testing"
)

func TestLowerTo(t *testing.T) {
	old := features
	defer func() { features = old }()
	for _, c := range []struct {
		level string
		ok    bool
	}{{"", true}, {"AVX2", true}, {"generic", true}, {"avx512", true}, {"neon", true}, {"neon-dot", true}, {"NEON-i8mm", true}, {"nonsense", false}, {"avx", false}} {
		features = old
		if err := lowerTo(c.level); (err == nil) != c.ok {
			t.Errorf("level %q: got error %v, want one: %v", c.level, err, !c.ok)
		}
		if c.level == "generic" && Level() != "generic" {
			t.Errorf("level generic leaves %s", Level())
		}
	}
}

// TestLevelOfProcessor checks the level where the processor is known: the
// steps of .ci/run that emulate one name it.
func TestLevelOfProcessor(t *testing.T) {
	want := os.Getenv("GRAPHRUN_TEST_LEVEL")
	if want == "" {
		t.Skip("GRAPHRUN_TEST_LEVEL is not set")
	}
	if got := Level(); got != want {
		t.Errorf("level is %s, want %s", got, want)
	}
}
