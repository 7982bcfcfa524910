package kern

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"graphrun/graph"
)

// dramBytes is more than the last-level cache holds.
const dramBytes = 96 << 20

// benchMat makes a matrix quickly: one random row block repeated.
func benchMat(typ graph.DType, n, k int) *Mat {
	small := &Mat{Type: typ, N: 1, K: k, Data: make([]byte, typ.RowBytes(k))}
	fillWeights(small, rand.New(rand.NewPCG(1, 2)))
	w := &Mat{Type: typ, N: n, K: k, Data: make([]byte, n*typ.RowBytes(k))}
	for i := 0; i < len(w.Data); i += len(small.Data) {
		copy(w.Data[i:], small.Data)
	}
	return w
}

func benchActs(typ graph.DType, T, k int) ([]byte, int) {
	act := ActType(typ)
	ldx := act.RowBytes(k)
	x := make([]byte, T*ldx)
	row := make([]float32, k)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range row {
		row[i] = float32(r.NormFloat64())
	}
	for t := range T {
		putActs(act, x[t*ldx:], row)
	}
	return x, ldx
}

// benchMul multiplies the weights of count matrices, split over workers.
func benchMul(b *testing.B, typ graph.DType, n, k, T, count, workers int) {
	w := benchMat(typ, n*count, k)
	x, ldx := benchActs(typ, T, k)
	y := make([]float32, T*n)
	scratch := make([][]byte, workers)
	for i := range scratch {
		scratch[i] = make([]byte, ScratchBytes(w, T))
	}
	b.SetBytes(int64(len(w.Data)))
	run := func(id int) {
		for m := range count {
			part := &Mat{Type: typ, N: n, K: k, Data: w.Data[m*n*w.rowBytes():]}
			lo, hi := id*n/workers/32*32, (id+1)*n/workers/32*32
			if id == workers-1 {
				hi = n
			}
			Mul(y, n, part, x, ldx, T, lo, hi, scratch[id])
		}
	}
	var took, roof []float64
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	macs := float64(n) * float64(k) * float64(T) * float64(count)
	for b.Loop() {
		// The roof is measured right before each run: reading the weights for
		// few tokens, multiplying in registers for many.
		b.StopTimer()
		start := cpuTime()
		if T < 16 {
			ReadThrough(w.Data)
			roof = append(roof, (cpuTime() - start).Seconds())
		} else if done := PeakProducts(1 << 26); done > 0 {
			roof = append(roof, (cpuTime()-start).Seconds()*macs/float64(done))
		}
		b.StartTimer()
		var wg sync.WaitGroup
		for i := 1; i < workers; i++ {
			wg.Go(func() { run(i) })
		}
		start = cpuTime()
		run(0)
		took = append(took, (cpuTime() - start).Seconds())
		wg.Wait()
	}
	for i := range roof {
		roof[i] /= float64(workers) * took[i]
	}
	if slices.Sort(roof); len(roof) > 0 {
		b.ReportMetric(100*roof[len(roof)/2], "%roof")
	}
	reportCPU(b, took, float64(workers), float64(len(w.Data)), macs)
}

// reportCPU reports rates per core by the processor time of one worker's
// runs: the median, and the best.
func reportCPU(b *testing.B, took []float64, workers, bytes, macs float64) {
	slices.Sort(took)
	median, best := took[len(took)/2], took[0]
	if macs > 0 {
		b.ReportMetric(macs/workers/median/1e9, "GMAC/s")
		b.ReportMetric(macs/workers/best/1e9, "bestGMAC/s")
	}
	b.ReportMetric(median*1e3, "ms")
	b.ReportMetric(bytes/workers/median/1e9, "GB/s")
	b.ReportMetric(bytes/workers/best/1e9, "bestGB/s")
}

func benchTypes() []graph.DType {
	return []graph.DType{graph.Q8_0, graph.Q4_0, graph.Q4_K, graph.Q6_K, graph.F32, graph.F16, graph.BF16, graph.Q4_1, graph.Q5_0,
		graph.Q5_1, graph.Q2_K, graph.Q3_K, graph.Q5_K, graph.IQ4_NL, graph.IQ4_XS, graph.IQ3_S, graph.MXFP4, graph.TQ1_0, graph.TQ2_0}
}

// BenchmarkGEMV multiplies one token; "dram" cycles through more weights than
// the caches hold. Compare with BenchmarkRead of the same minute.
func BenchmarkGEMV(b *testing.B) {
	for _, typ := range benchTypes() {
		for _, s := range [][2]int{{2048, 2048}, {2048, 8192}} {
			n, k := s[0], s[1]
			b.Run(fmt.Sprintf("%v/%dx%d/%s", typ, n, k, Level()), func(b *testing.B) {
				count := dramBytes/(n*typ.RowBytes(k)) + 1
				benchMul(b, typ, n, k, 1, count, 1)
			})
		}
	}
}

func BenchmarkGEMVCached(b *testing.B) {
	for _, typ := range benchTypes() {
		b.Run(fmt.Sprintf("%v/256x2048/%s", typ, Level()), func(b *testing.B) { benchMul(b, typ, 256, 2048, 1, 1, 1) })
	}
}

// BenchmarkShortRows multiplies one token with rows as small models have them,
// one after the other and four together.
func BenchmarkShortRows(b *testing.B) {
	for _, typ := range benchTypes() {
		if typ.BlockElems() != 32 {
			continue
		}
		for _, k := range []int{576, 640, 768, 896, 1024, 1152, 1536} {
			for name, way := range map[string]way{"rows": wayRows, "fours": wayFours} {
				b.Run(fmt.Sprintf("%v/768x%d/%s/%s", typ, k, name, Level()), func(b *testing.B) {
					forced = way
					defer func() { forced = wayBest }()
					benchMul(b, typ, 768, k, 1, 1, 1)
				})
			}
		}
	}
}

// BenchmarkLongRows multiplies one token with rows as large models have them,
// step by step and four steps side by side, weights in DRAM.
func BenchmarkLongRows(b *testing.B) {
	for _, typ := range benchTypes() {
		if typ.BlockElems() != 32 || typ == graph.Q8_0 {
			continue
		}
		for _, k := range []int{2048, 8192} {
			for name, way := range map[string]way{"rows": wayRows, "whole": wayWhole} {
				b.Run(fmt.Sprintf("%v/2048x%d/%s/%s", typ, k, name, Level()), func(b *testing.B) {
					forced = way
					defer func() { forced = wayBest }()
					benchMul(b, typ, 2048, k, 1, dramBytes/(2048*typ.RowBytes(k))+1, 1)
				})
			}
		}
	}
}

// BenchmarkGEMM multiplies 512 tokens with a matrix of a 1B model.
func BenchmarkGEMM(b *testing.B) {
	for _, typ := range benchTypes() {
		for _, s := range [][2]int{{2048, 2048}, {2048, 8192}, {8192, 2048}} {
			n, k := s[0], s[1]
			b.Run(fmt.Sprintf("%v/%dx%dx512/%s", typ, n, k, Level()), func(b *testing.B) { benchMul(b, typ, n, k, 512, 1, 1) })
		}
	}
}

// BenchmarkBatch shows how the time for a few tokens grows, weights in DRAM,
// with each of the algorithms.
func BenchmarkBatch(b *testing.B) {
	for _, typ := range benchTypes() {
		for _, T := range []int{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32, 64} {
			for name, way := range map[string]way{"rows": wayRows, "quads": wayQuads, "panels": wayPanels} {
				if way == wayRows && T > 16 {
					continue
				}
				b.Run(fmt.Sprintf("%v/2048x2048x%d/%s/%s", typ, T, name, Level()), func(b *testing.B) {
					forced = way
					defer func() { forced = wayBest }()
					count := dramBytes/(2048*typ.RowBytes(2048)) + 1
					benchMul(b, typ, 2048, 2048, T, count, 1)
				})
			}
		}
	}
}

// BenchmarkRead is the memory's roof: a plain read of the same amount.
func BenchmarkRead(b *testing.B) {
	data := make([]byte, dramBytes)
	for i := 0; i < len(data); i += 64 {
		data[i] = byte(i)
	}
	b.SetBytes(int64(len(data)))
	var took []float64
	for b.Loop() {
		start := cpuTime()
		ReadThrough(data)
		took = append(took, (cpuTime() - start).Seconds())
	}
	reportCPU(b, took, 1, float64(len(data)), 0)
}

// BenchmarkPeak is the processor's roof.
func BenchmarkPeak(b *testing.B) {
	var took []float64
	done := 0
	for b.Loop() {
		start := cpuTime()
		done = PeakProducts(1 << 28)
		took = append(took, (cpuTime() - start).Seconds())
	}
	reportCPU(b, took, 1, 0, float64(done))
}

func BenchmarkQuantize(b *testing.B) {
	for _, typ := range []graph.DType{graph.Q8, graph.Q8K} {
		b.Run(strings.ToLower(typ.String())+"/2048/"+Level(), func(b *testing.B) {
			x, dst := make([]float32, 2048), make([]byte, typ.RowBytes(2048))
			for i := range x {
				x[i] = float32(i%77) - 30
			}
			b.SetBytes(2048 * 4)
			for b.Loop() {
				QuantizeRow(typ, dst, x)
			}
		})
	}
}

func BenchmarkDequant(b *testing.B) {
	for _, typ := range benchTypes() {
		b.Run(fmt.Sprintf("%v/2048/%s", typ, Level()), func(b *testing.B) {
			w := benchMat(typ, 1, 2048)
			dst := make([]float32, 2048)
			b.SetBytes(2048 * 4)
			for b.Loop() {
				DequantRow(typ, dst, w.Data)
			}
		})
	}
}
