package main

import (
	"bufio"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"graphrun/backends/cpu"
	"graphrun/backends/cpu/kern"
	"graphrun/engine"
	"graphrun/graph"
	"graphrun/loaders"
)

// roof measures what the machine can do with the weights of a model.
type roof struct {
	file    *loaders.Model
	threads int
	parts   [][]byte // weights that one token reads
	bytes   int      // of parts
	macs    int      // multiply-adds with weights, of one token with logits
	head    int      // of these, for the logits
	plain   bool     // most are with f32, f16 or bf16: the 8-bit roof says nothing
}

// newRoof finds the weights that products of one token read. A step reads the
// chosen share of a mixture's experts; the first experts stand for them.
func newRoof(m *engine.Model, threads int) *roof {
	r := &roof{file: m.File, threads: threads}
	plain := 0
	add := func(w *graph.Value, used, of int, logits bool) {
		t, ok := m.File.Tensor(w.Name)
		if !ok {
			return
		}
		part := t.Data[:len(t.Data)/of*used]
		macs := t.Elems() / of * used
		r.parts = append(r.parts, part)
		r.bytes += len(part)
		r.macs += macs
		if logits {
			r.head += macs
		}
		if !t.DType.Quantized() {
			plain += macs
		}
	}
	for _, v := range m.Program().Graph().Values {
		switch v.Op.Name {
		case "matmul", "matmuladd", "matmulcap":
			add(v.Args[1], 1, 1, v.Type.Shape[0].Name == "R")
		case "matmuls", "gatedmatmul", "gatedmatmulquant":
			for _, w := range v.Args[1:] {
				add(w, 1, 1, v.Type.Shape[0].Name == "R")
			}
		case "expertmatmul":
			add(v.Args[1], v.Type.Shape[1].Size, v.Args[1].Type.Shape[0].Size, false)
		}
	}
	r.plain = 2*plain > r.macs
	return r
}

// promptMACs returns the multiply-adds of a prompt of n tokens, of which one
// gives logits; 0 where no roof is known for them.
func (r *roof) promptMACs(n int) float64 {
	if r.plain || n == 0 {
		return 0
	}
	return float64(n)*float64(r.macs-r.head) + float64(r.head)
}

// measure returns the read bandwidth in GB/s and the rate of 8-bit
// multiply-adds in G/s.
func (r *roof) measure() (readGB, peakG float64, err error) {
	if readGB, err = r.measureRead(); err == nil {
		peakG, err = r.measurePeak()
	}
	return readGB, peakG, err
}

// readAfterStep reads the weights once, with all threads together. Before, it
// reads some, the last first, until the engine's workers, which wait a few
// milliseconds for another step, have left the processors.
func (r *roof) readAfterStep() (time.Duration, error) {
	if err := r.together(func(w int) { r.readFor(w, 5*time.Millisecond) }); err != nil {
		return 0, err
	}
	return r.readOnce()
}

func (r *roof) readOnce() (time.Duration, error) {
	start := time.Now()
	err := r.together(r.read)
	return time.Since(start), err
}

// measureRead returns the read bandwidth in GB/s.
func (r *roof) measureRead() (readGB float64, err error) {
	for range 3 { // the best of a few, as each is short
		took, err := r.readOnce()
		if err != nil {
			return 0, err
		}
		readGB = max(readGB, float64(r.bytes)/took.Seconds()/1e9)
	}
	return readGB, nil
}

// measurePeak returns the rate of 8-bit multiply-adds in G/s, of all threads
// together.
func (r *roof) measurePeak() (peakG float64, err error) {
	const n = 1 << 31 // 4 ms on a core with VNNI
	for range 3 {
		start := time.Now()
		done := 0
		err := r.together(func(w int) {
			if d := kern.PeakProducts(n); w == 0 {
				done = d
			}
		})
		if err != nil {
			return 0, err
		}
		peakG = max(peakG, float64(done)*float64(r.threads)/time.Since(start).Seconds()/1e9)
	}
	return peakG, nil
}

// together runs f once for each thread. It fails when the model file is lost
// under it.
func (r *roof) together(f func(w int)) error {
	var g errgroup.Group
	guarded := func(w int) error {
		return r.file.Guard(func() error {
			f(w)
			return nil
		})
	}
	for w := 1; w < r.threads; w++ {
		g.Go(func() error { return guarded(w) })
	}
	err := guarded(0)
	return errors.Join(err, g.Wait())
}

// read goes through the w-th share of each matrix, as the products do.
func (r *roof) read(w int) {
	for _, p := range r.parts {
		kern.ReadThrough(r.share(p, w))
	}
}

// readFor reads w-th shares for at least d, from the last matrix on: what it
// leaves in the caches is what a reading from the first on comes to last.
func (r *roof) readFor(w int, d time.Duration) {
	for end := time.Now().Add(d); r.bytes > 0; {
		for _, p := range slices.Backward(r.parts) {
			if kern.ReadThrough(r.share(p, w)); !time.Now().Before(end) {
				return
			}
		}
	}
}

// share returns the w-th share of a matrix.
func (r *roof) share(p []byte, w int) []byte { return p[len(p)*w/r.threads : len(p)*(w+1)/r.threads] }

func defaultThreads() int { return cpu.DefaultThreads() }

// commonType returns the type that most weights of a file have.
func commonType(f *loaders.Model) string {
	count := map[graph.DType]int{}
	best := graph.F32
	for _, t := range f.Tensors {
		count[t.DType] += t.Elems()
	}
	for _, dt := range graph.DTypes() {
		if count[dt] > count[best] {
			best = dt
		}
	}
	return best.String()
}

// cpuName returns what the processor calls itself, "" where that is not told.
func cpuName() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if key, value, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
