package quant_test

import (
	"testing"

	"graphrun/backends/cpu/kern"
	"graphrun/graph"
	"graphrun/ops"
	"graphrun/quant"
)

// BenchmarkEncode encodes rows of 4096; MB/s counts the f32 numbers read.
func BenchmarkEncode(b *testing.B) {
	x, w := gaussian(4096, 1), make([]float32, 4096)
	for i, v := range gaussian(4096, 2) {
		w[i] = v * v
	}
	run := func(name string, dt graph.DType, weights []float32) {
		b.Run(dt.String()+name, func(b *testing.B) {
			row := make([]byte, dt.RowBytes(len(x)))
			b.SetBytes(int64(4 * len(x)))
			for b.Loop() {
				if err := quant.Row(row, x, dt, weights); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for _, dt := range quant.Types() {
		run("", dt, nil)
		if dt.Quantized() && dt != graph.Q8_0 {
			run("/weights", dt, w)
		}
	}
}

// BenchmarkDecode decodes rows of 4096, with the kernels of the CPU and in plain
// Go; MB/s counts the f32 numbers written.
func BenchmarkDecode(b *testing.B) {
	x := gaussian(4096, 1)
	for _, dt := range quant.Types() {
		row := make([]byte, dt.RowBytes(len(x)))
		if err := quant.Row(row, x, dt, nil); err != nil {
			b.Fatal(err)
		}
		b.Run(dt.String()+"/"+kern.Level(), func(b *testing.B) {
			b.SetBytes(int64(4 * len(x)))
			for b.Loop() {
				kern.DequantRow(dt, x, row)
			}
		})
		b.Run(dt.String()+"/plain", func(b *testing.B) {
			b.SetBytes(int64(4 * len(x)))
			for b.Loop() {
				ops.DequantRow(dt, x, row)
			}
		})
	}
}
