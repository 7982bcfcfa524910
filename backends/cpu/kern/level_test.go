package kern

import "testing"

func TestLowerTo(t *testing.T) {
	old := features
	defer func() { features = old }()
	for _, c := range []struct {
		level string
		ok    bool
	}{{"", true}, {"AVX2", true}, {"generic", true}, {"avx512", true}, {"neon", true}, {"nonsense", false}, {"avx", false}} {
		features = old
		if err := lowerTo(c.level); (err == nil) != c.ok {
			t.Errorf("level %q: got error %v, want one: %v", c.level, err, !c.ok)
		}
		if c.level == "generic" && Level() != "generic" {
			t.Errorf("level generic leaves %s", Level())
		}
	}
}
