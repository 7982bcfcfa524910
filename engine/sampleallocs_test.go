//go:build !race

package engine

import "testing"

// Samplers share scratch memory in a pool, which the race detector makes forget.
func TestSamplerAllocates(t *testing.T) {
	x := randomLogits(32000, 1, 3)
	h := randomText(100, 1)
	for _, o := range []SampleOptions{
		{}, {Temperature: 1}, {Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05},
		{Temperature: 1, TopP: 0.9, RepeatPenalty: 1.1, Bias: []Bias{{5, 1}}, Suppress: []int32{3}},
	} {
		s := sampler(t, len(x), o)
		if n := testing.AllocsPerRun(20, func() { s.Pick(x, h) }); n != 0 {
			t.Errorf("%+v: %v allocations", o, n)
		}
	}
}
