package ops_test

import (
	"fmt"
	"testing"

	"graphrun/graph"
	"graphrun/ops"
	"graphrun/ops/opstest"
)

// BenchmarkAttention is one token of a decode step over a filled cache. Bytes
// are those of the cache read.
func BenchmarkAttention(b *testing.B) {
	const g, h, k, n = 8, 32, 64, 511
	for _, dt := range []graph.DType{graph.F32, graph.F16, graph.Q8_0} {
		b.Run(fmt.Sprintf("%s/%dof%dx%d/%d", dt, h, g, k, n+1), func(b *testing.B) {
			gr := attentionGraph(b, dt, g, h, k, ops.AttnParams{Scale: 0.125})
			m := opstest.NewMachine(b, gr, nil, map[string]*graph.Tensor{
				"q": rowsOf(make([]float32, h*k), []int{0}, h, k), "k": rowsOf(make([]float32, g*k), []int{0}, g, k),
				"v": rowsOf(make([]float32, g*k), []int{0}, g, k), "pos": ints([]int{1}, []int32{n}), "seq": ints([]int{1}, []int32{0}),
				"pages": ints([]int{1, 8}, []int32{0, 1, 2, 3, 4, 5, 6, 7}),
			})
			m.Run(nil)
			c := m.Calls[1]
			l := ops.LayoutOf(c.Value.Args[1].Type)
			b.SetBytes(int64(2 * (n + 1) * g * l.RowBytes()))
			b.ReportAllocs()
			for b.Loop() {
				c.Value.Op.Kernel(c, 0, c.Units())
			}
		})
	}
}

// BenchmarkDequant counts bytes of f32 written.
func BenchmarkDequant(b *testing.B) {
	for _, dt := range graph.DTypes() {
		if !ops.IsWeightType(dt) {
			continue
		}
		b.Run(dt.String()+"/4096", func(b *testing.B) {
			w := opstest.Weight("w", dt, 1, 4096)
			if dt == graph.F32 {
				w.Raw = make([]byte, 4*4096)
			}
			y := make([]float32, 4096)
			b.SetBytes(4 * 4096)
			for b.Loop() {
				ops.DequantRow(dt, y, w.Raw)
			}
		})
	}
}
