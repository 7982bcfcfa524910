package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"graphrun/backends/cpu"
	"graphrun/engine"
	"graphrun/graph"
)

// ablation is the outcome of graphrun bench --ablate.
type ablation struct {
	Model   string      `json:"model"`
	CPU     string      `json:"cpu"`
	Threads int         `json:"threads"`
	Prompt  int         `json:"prompt"`
	Gen     int         `json:"gen"`
	Reps    int         `json:"reps"`
	Passes  []ablatedBy `json:"passes"`
}

// ablatedBy is what one pass is worth: how many percent longer a run takes
// without it, below 0 where it is a loss. A pass that does not change the graph
// of the model has Changed false and no numbers.
type ablatedBy struct {
	Pass    string `json:"pass"`
	Changed bool   `json:"changed"`
	Prefill *gain  `json:"prefill,omitempty"`
	Decode  *gain  `json:"decode,omitempty"`
	// Processor time of all threads, which other programs hardly change.
	PrefillCPU *gain `json:"prefill_cpu,omitempty"`
	DecodeCPU  *gain `json:"decode_cpu,omitempty"`
}

// gain is the median of the gains of the pairs of runs, in percent, and the
// quartiles around it. Best compares the times that a twentieth of the steps of
// all runs stay below: what is left to compare when other programs disturb most
// steps.
type gain struct {
	Median  float64   `json:"median_pct"`
	Best    float64   `json:"best_pct"`
	Low     float64   `json:"low_pct"`
	High    float64   `json:"high_pct"`
	Samples []float64 `json:"samples_pct"`
}

// newGain takes the times of the steps of runs with the pass and of runs without,
// in pairs; nil when nothing was timed.
func newGain(with, without [][]float64) *gain {
	g := &gain{}
	for i := range with {
		if a := sum(with[i]); a > 0 {
			g.Samples = append(g.Samples, round(100*(sum(without[i])/a-1), 2))
		}
	}
	if len(g.Samples) == 0 {
		return nil
	}
	s := slices.Sorted(slices.Values(g.Samples))
	at := func(q float64) float64 {
		x := q * float64(len(s)-1)
		i := int(x)
		if i+1 == len(s) {
			return s[i]
		}
		return round(s[i]+(x-float64(i))*(s[i+1]-s[i]), 2)
	}
	g.Median, g.Low, g.High = at(0.5), at(0.25), at(0.75)
	g.Best = round(100*(fastest(without)/fastest(with)-1), 2)
	return g
}

func sum(x []float64) float64 {
	s := 0.0
	for _, y := range x {
		s += y
	}
	return s
}

// fastest is the time that a twentieth of the steps of all runs stay below.
func fastest(runs [][]float64) float64 {
	all := slices.Sorted(slices.Values(slices.Concat(runs...)))
	return all[len(all)/20]
}

func (g *gain) String() string {
	if g == nil {
		return "-"
	}
	return fmt.Sprintf("%+.1f (%+.1f to %+.1f), %+.1f", g.Median, g.Low, g.High, g.Best)
}

// ablate measures the model with each pass off in turn that can be switched off
// and changes something. Each run without the pass stands beside one with it;
// which of the two is first alternates.
func (f *benchFlags) ablate(cmd *cobra.Command, path string) error {
	open := func(off []string, onPass func(graph.PassStat, *graph.Graph)) (*engine.Model, error) {
		return f.open(cmd, path, func(o *engine.Options) {
			o.Chunk, o.MaxRows, o.OnPass = f.chunk, 1, onPass
			o.Off = append(slices.Clone(o.Off), off...)
		})
	}
	changed := map[string]bool{}
	base, err := open(nil, func(s graph.PassStat, _ *graph.Graph) { changed[s.Pass] = s.Changed })
	if err != nil {
		return err
	}
	defer base.Close()
	warnings := cmd.ErrOrStderr()
	cmd.SetErr(nullWriter{}) // they were said at the first opening
	defer cmd.SetErr(warnings)

	res := &ablation{
		Model: filepath.Base(path), CPU: cpuName(), Threads: f.threads, Prompt: f.prompt, Gen: f.gen, Reps: f.reps,
	}
	if path == "" {
		res.Model = base.File.Path
	}
	if res.Threads == 0 {
		res.Threads = defaultThreads()
	}
	var names []string
	for _, p := range cpu.Passes().Passes() {
		if !p.Required {
			res.Passes = append(res.Passes, ablatedBy{Pass: p.Name, Changed: changed[p.Name]})
			if changed[p.Name] {
				names = append(names, p.Name)
			}
		}
	}
	cmd.SetErr(warnings)
	bar := newProgress(cmd, "runs", len(names)*2*(f.reps+1))
	defer bar.done()
	cmd.SetErr(nullWriter{})
	for i := range res.Passes {
		a := &res.Passes[i]
		if !a.Changed {
			continue
		}
		m, err := open([]string{a.Pass}, nil)
		if err != nil {
			return err
		}
		err = f.pairs(cmd, a, base, m, bar)
		if closeErr := m.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return err
		}
	}
	return res.write(cmd.OutOrStdout(), f.output)
}

// side is one of two models that are run in turn.
type side struct {
	b             *engine.Batch
	seq           *engine.Sequence
	prompt, gen   [][]float64 // seconds of each step, by run
	promptC, genC [][]float64 // processor seconds of each run
}

// turn is the number of tokens a model generates before it is the other's turn.
const turn = 8

// pairs runs both models in turn: the prompt of one, that of the other, then a
// few tokens each.
func (f *benchFlags) pairs(cmd *cobra.Command, a *ablatedBy, base, without *engine.Model, bar *progress) error {
	var sides [2]side
	for rep := range f.reps + 1 {
		if err := f.pair(cmd, rep, &sides, [2]*engine.Model{base, without}); err != nil {
			return err
		}
		bar.add(2)
	}
	// The first run of each side does not count.
	a.Prefill, a.PrefillCPU = newGain(sides[0].prompt[1:], sides[1].prompt[1:]), newGain(sides[0].promptC[1:], sides[1].promptC[1:])
	a.Decode, a.DecodeCPU = newGain(sides[0].gen[1:], sides[1].gen[1:]), newGain(sides[0].genC[1:], sides[1].genC[1:])
	return nil
}

// pair is one run of each side, in new sequences.
func (f *benchFlags) pair(cmd *cobra.Command, rep int, sides *[2]side, models [2]*engine.Model) error {
	for i, m := range models {
		b, err := m.Acquire(cmd.Context())
		if err != nil {
			return err
		}
		defer b.Release()
		sides[i].b, sides[i].seq = b, m.Cache().NewSequence()
		defer sides[i].seq.Drop()
	}
	limits := models[0].Limits()
	return f.alternate(cmd, rep, sides, madeUp(f.prompt, 300, 37, limits.Vocab), madeUp(f.gen, 17, 31, limits.Vocab), limits.Step)
}

func (f *benchFlags) alternate(cmd *cobra.Command, rep int, sides *[2]side, prompt, gen []int32, step int) error {
	for i := range sides {
		s := &sides[i]
		s.prompt, s.gen = append(s.prompt, nil), append(s.gen, nil)
		s.promptC, s.genC = append(s.promptC, []float64{0}), append(s.genC, []float64{0})
	}
	// both gives each side ids from to to-1 in steps of n.
	both := func(ids []int32, n int, decode bool) error {
		for k := range 2 {
			s := &sides[(rep+k)%2]
			// Workers of the other side spin a little while before they sleep.
			time.Sleep(4 * time.Millisecond)
			times, cpuTimes := &s.prompt[rep], s.promptC[rep]
			if decode {
				times, cpuTimes = &s.gen[rep], s.genC[rep]
			}
			cpu := cpuTime()
			for at := 0; at < len(ids); at += n {
				item := engine.Item{Seq: s.seq, Tokens: ids[at:min(at+n, len(ids))], Rows: engine.RowsNone}
				if at+n >= len(ids) || decode {
					item.Rows = engine.RowsLast
				}
				start := time.Now()
				if err := s.b.Step(cmd.Context(), []engine.Item{item}); err != nil {
					return err
				}
				*times = append(*times, time.Since(start).Seconds())
			}
			cpuTimes[0] += (cpuTime() - cpu).Seconds()
		}
		return nil
	}
	if err := both(prompt, step, false); err != nil {
		return err
	}
	for at := 0; at < len(gen); at += turn {
		if err := both(gen[at:min(at+turn, len(gen))], 1, true); err != nil {
			return err
		}
	}
	return nil
}

func (r *ablation) write(w io.Writer, format string) error {
	if format == "json" {
		return json.NewEncoder(w).Encode(r)
	}
	pp, tg := "pp"+strconv.Itoa(r.Prompt), "tg"+strconv.Itoa(r.Gen)
	rows := [][]string{{"pass", "changes", pp + " %", pp + " cpu %", tg + " %", tg + " cpu %"}}
	for _, p := range r.Passes {
		rows = append(rows, []string{p.Pass, yesNo(p.Changed), p.Prefill.String(), p.PrefillCPU.String(), p.Decode.String(), p.DecodeCPU.String()})
	}
	if format == "csv" {
		out := csv.NewWriter(w)
		if err := out.WriteAll(rows); err != nil {
			return err
		}
		return out.Error()
	}
	width := make([]int, len(rows[0]))
	for _, cells := range rows {
		for i, c := range cells {
			width[i] = max(width[i], len(c))
		}
	}
	for i, cells := range rows {
		line := "|"
		for j, c := range cells {
			line += fmt.Sprintf(" %-*s |", width[j], c)
		}
		fmt.Fprintln(w, line)
		if i == 0 {
			line = "|"
			for _, n := range width {
				line += strings.Repeat("-", n+2) + "|"
			}
			fmt.Fprintln(w, line)
		}
	}
	_, err := fmt.Fprintf(w, "\n%s, %s, %d threads: how much longer a run takes without the pass, in percent, median (quartiles) of %d pairs, and for the fastest steps.\nMinus: the pass is a loss. cpu is processor time of all threads, which other programs hardly change.\n",
		r.Model, r.CPU, r.Threads, r.Reps)
	return err
}
