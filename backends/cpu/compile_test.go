package cpu

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"runtime"
	"testing"
	"time"

	"graphrun/backends"
	"graphrun/graph"
)

// gemma is the graph of Gemma 3 4B (q4_k_m, 34 layers) as it is built, the text
// of
//
//	graphrun synth gemma-3-4b --type q4_k_m -o g.gguf
//	graphrun --dump --pass build --ctx 8192 g.gguf
func gemma(t testing.TB) *graph.Graph {
	data, err := os.ReadFile("testdata/gemma-3-4b.grt.gz")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	g, err := graph.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

var gemmaDims = graph.Dims{"T": 512, "R": 64, "N": 1, "C": 128, "CW": 26, "S": 8192, "SW": 26 * 64}

// compileGemma is what Compile does with a graph before it looks at weights: all
// passes, and the plan of the small steps.
func compileGemma(g *graph.Graph) error {
	opt, err := Optimize(g, backends.Options{Dims: gemmaDims})
	if err != nil {
		return err
	}
	_, err = replan(opt, smallDims(gemmaDims))
	return err
}

// BenchmarkCompile compiles Gemma 3 4B. The aims are 10 ms and 8 MB.
func BenchmarkCompile(b *testing.B) {
	g := gemma(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := compileGemma(g); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPass times each pass on the graph that the passes before it leave.
func BenchmarkPass(b *testing.B) {
	g := gemma(b)
	g.Bound = gemmaDims
	for _, p := range passes.Passes() {
		before := g.Clone()
		if err := p.Run(g); err != nil {
			b.Fatal(err)
		}
		if err := g.Sort(); err != nil {
			b.Fatal(err)
		}
		b.Run(p.Name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				c := before.Clone()
				b.StartTimer()
				if err := p.Run(c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestCompileMemory: compiling allocates less than 8 MB. Time is looked at only
// when GRAPHRUN_TIMING is set: on a busy machine it says nothing.
func TestCompileMemory(t *testing.T) {
	g := gemma(t)
	if err := compileGemma(g); err != nil { // fills what is made once
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := compileGemma(g); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if os.Getenv("GRAPHRUN_TIMING") != "" {
		best := time.Hour
		for range 20 {
			start := time.Now()
			if err := compileGemma(g); err != nil {
				t.Fatal(err)
			}
			best = min(best, time.Since(start))
		}
		if best > 10*time.Millisecond {
			t.Errorf("compiling takes %v, want below 10 ms", best)
		}
	}
	const most = 8e6
	if n := after.TotalAlloc - before.TotalAlloc; n > most {
		t.Errorf("%.1f MB in %d allocations, want below %.1f MB", float64(n)/1e6, after.Mallocs-before.Mallocs, most/1e6)
	}
}
