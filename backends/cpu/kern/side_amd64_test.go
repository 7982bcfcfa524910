//go:build amd64 && gc && !noasm

package kern

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"graphrun/graph"
)

// The side numbers of many rows are those of the plain loop, row by row.
func TestMakeSides(t *testing.T) {
	if !features.avx512 {
		t.Skip("no AVX-512")
	}
	const k, rows = 768, 5
	r := rand.New(rand.NewPCG(3, 4))
	tried := 0
	for i := range formats {
		f := &formats[i]
		if f.act != graph.Q8 && f.act != graph.Q8K || f.side() == sideNone {
			continue
		}
		tried++
		stride, side := f.act.RowBytes(k), f.sideBytes(k)
		x := make([]byte, rows*stride)
		row := make([]float32, k)
		for n := range rows {
			for j := range row {
				row[j] = float32(r.NormFloat64())
			}
			QuantizeRow(f.act, x[n*stride:(n+1)*stride], row)
		}
		got, want := make([]byte, rows*side), make([]byte, rows*side)
		makeSides(f, got, side, x, stride, rows, k)
		for n := range rows {
			f.makeSide(want[n*side:], x[n*stride:], k)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: side numbers differ from the plain loop", graph.DType(i))
		}
	}
	if tried < 8 {
		t.Errorf("only %d formats have side numbers", tried)
	}
}
