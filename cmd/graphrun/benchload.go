package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"graphrun/backends/cpu/kern"
	"graphrun/engine"
)

// loadPhases are the phases of opening a model, in the order of the tables.
var loadPhases = []string{"check", "map", "read", "parse", "detect", "build", "compile", "tokenizer", "first token"}

// loadPhase is what one phase took.
type loadPhase struct {
	Mode  string  `json:"mode"` // "mapped" or "read"
	Phase string  `json:"phase"`
	MS    float64 `json:"ms"`
	CPUMS float64 `json:"cpu_ms"` // processor time of all threads
	// PeakMB is the most memory that was resident during the phase, RSSMB what
	// was resident at its end, HeapMB Go's part of that.
	PeakMB float64 `json:"peak_rss_mb"`
	RSSMB  float64 `json:"rss_mb"`
	HeapMB float64 `json:"heap_mb"`
}

// loadResult is what bench --load prints.
type loadResult struct {
	Model       string      `json:"model"`
	Format      string      `json:"format"`
	Bytes       int64       `json:"bytes"`
	WeightBytes int         `json:"weight_bytes"`
	CPU         string      `json:"cpu"`
	Level       string      `json:"level"`
	OS          string      `json:"os"`
	Threads     int         `json:"threads"`
	Context     int         `json:"context"`
	KVMB        float64     `json:"kv_mb"`
	Phases      []loadPhase `json:"phases"`
}

// runLoad opens the model mapped, and read into memory, and computes one token
// with each.
func (f *benchFlags) runLoad(cmd *cobra.Command, path string) error {
	for _, name := range []string{"prompt", "gen", "reps", "depth", "chunk", "cpuprofile", "read", "parallel", "ablate", "kernel"} {
		if cmd.Flags().Changed(name) {
			return usagef("--load measures opening a model; leave --%s out", name)
		}
	}
	res := &loadResult{CPU: cpuName(), Level: kern.Level(), OS: runtime.GOOS + "/" + runtime.GOARCH, Threads: f.threads}
	if res.Threads == 0 {
		res.Threads = defaultThreads()
	}
	modes := []bool{false, true}
	if path == "" {
		modes = modes[:1] // the embedded model is in memory
	}
	for _, f.read = range modes {
		if err := f.loadOnce(cmd, path, res); err != nil {
			return err
		}
		warnings := cmd.ErrOrStderr() // once is enough
		cmd.SetErr(nullWriter{})
		defer cmd.SetErr(warnings)
	}
	return res.write(cmd, f.output)
}

// loadOnce opens the model, computes one token, and adds the phases.
func (f *benchFlags) loadOnce(cmd *cobra.Command, path string, res *loadResult) (err error) {
	debug.FreeOSMemory() // what an earlier mode left
	mode := "mapped"
	if f.read {
		mode = "read"
	}
	phases := map[string]*loadPhase{}
	resetPeak()
	last, cpu := time.Now(), cpuTime()
	mark := func(name string) {
		took, used := time.Since(last), cpuTime()-cpu
		if name == "map" && f.read {
			name = "read"
		}
		p := phases[name]
		if p == nil {
			p = &loadPhase{Mode: mode, Phase: name}
			phases[name] = p
		}
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		now, peak := rssNow()
		p.MS, p.CPUMS = round(p.MS+milliseconds(took), 3), round(p.CPUMS+milliseconds(used), 3)
		p.PeakMB, p.RSSMB, p.HeapMB = round(max(p.PeakMB, peak), 1), round(now, 1), round(float64(mem.HeapAlloc)/1e6, 1)
		resetPeak()
		last, cpu = time.Now(), cpuTime()
	}
	open := func(tokensOnly bool) (*engine.Model, error) {
		clear(phases)
		last, cpu = time.Now(), cpuTime()
		return f.open(cmd, path, func(o *engine.Options) { o.OnPhase, o.MaxRows, o.TokensOnly = mark, 1, tokensOnly })
	}
	m, err := open(false)
	if none := (*engine.NoTokenizerError)(nil); errors.As(err, &none) {
		m, err = open(true) // a token needs no text
	}
	if err != nil {
		return err
	}
	defer m.Close()
	ctx := cmd.Context()
	b, err := m.Acquire(ctx)
	if err != nil {
		return err
	}
	defer b.Release()
	seq := m.Cache().NewSequence()
	defer seq.Drop()
	last, cpu = time.Now(), cpuTime()
	if err := b.Step(ctx, []engine.Item{{Seq: seq, Tokens: madeUp(1, 300, 37, m.Limits().Vocab), Rows: engine.RowsLast}}); err != nil {
		return err
	}
	mark("first token")
	for _, name := range loadPhases {
		if p := phases[name]; p != nil {
			res.Phases = append(res.Phases, *p)
		}
	}
	res.Model, res.Format, res.Bytes, res.WeightBytes = filepath.Base(m.File.Path), m.File.Format, m.File.Size, m.Arch.WeightBytes
	mem := m.Memory()
	res.Context, res.KVMB = m.Limits().Context, round(float64(mem.KVBytes())/1e6, 1)
	return nil
}

// total sums up the phases of a mode; the first token is counted apart.
func (r *loadResult) total(mode string) (open, first, peak float64) {
	for _, p := range r.Phases {
		if p.Mode != mode {
			continue
		}
		peak = max(peak, p.PeakMB)
		if p.Phase == "first token" {
			first = p.MS
			continue
		}
		open += p.MS
	}
	return open, first, peak
}

func (r *loadResult) write(cmd *cobra.Command, output string) error {
	out := cmd.OutOrStdout()
	number := func(x float64) string { return fmt.Sprintf("%.1f", x) }
	switch output {
	case "json":
		return writeJSON(out, r)
	case "csv":
		w := csv.NewWriter(out)
		w.Write([]string{"model", "mode", "phase", "ms", "cpu_ms", "peak_rss_mb", "rss_mb", "heap_mb"})
		for _, p := range r.Phases {
			w.Write([]string{r.Model, p.Mode, p.Phase, fmt.Sprintf("%.3f", p.MS), fmt.Sprintf("%.3f", p.CPUMS), number(p.PeakMB), number(p.RSSMB), number(p.HeapMB)})
		}
		w.Flush()
		return w.Error()
	}
	rows := [][]string{{"mode", "phase", "ms", "cpu ms", "peak MB", "resident MB", "Go heap MB"}}
	var modes []string
	for _, p := range r.Phases {
		if !slices.Contains(modes, p.Mode) {
			modes = append(modes, p.Mode)
		}
		rows = append(rows, []string{p.Mode, p.Phase, fmt.Sprintf("%.2f", p.MS), fmt.Sprintf("%.2f", p.CPUMS), number(p.PeakMB), number(p.RSSMB), number(p.HeapMB)})
	}
	writeMarkdown(out, rows)
	fmt.Fprintln(out)
	for _, mode := range modes {
		open, first, peak := r.total(mode)
		fmt.Fprintf(out, "%s: opened in %.1f ms, first token after %.1f ms more, peak %.0f MB\n", mode, open, first, peak)
	}
	_, err := fmt.Fprintf(out, "%s, %s, file %s, context %d, KV cache %.1f MB; %s, %s, %s, %d threads\n",
		r.Model, r.Format, bytesText(int(r.Bytes)), r.Context, r.KVMB, r.CPU, r.Level, r.OS, r.Threads)
	return err
}
