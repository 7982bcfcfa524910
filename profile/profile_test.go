package profile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pprof "github.com/google/pprof/profile"

	"graphrun/backends"
	"graphrun/engine"
	"graphrun/graph"
	"graphrun/profile"
	"graphrun/synth"
)

// open opens a model of the given path.
func open(t testing.TB, path string, threads int) *engine.Model {
	t.Helper()
	m, err := engine.Open(path, engine.Options{Threads: threads, Context: 512, MaxRows: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func small(t testing.TB, threads int) *engine.Model {
	return open(t, filepath.Join("..", "testdata", "models", "llama-gqa.gguf"), threads)
}

// stepper runs steps of one sequence.
type stepper struct {
	t     testing.TB
	b     *engine.Batch
	items []engine.Item
	at    int
}

func newStepper(t testing.TB, m *engine.Model) *stepper {
	t.Helper()
	b, err := m.Acquire(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Release)
	return &stepper{t: t, b: b, items: []engine.Item{{Seq: m.Cache().NewSequence()}}}
}

// step feeds n tokens.
func (s *stepper) step(n int) time.Duration {
	s.t.Helper()
	s.items[0].Tokens, s.items[0].Rows = make([]int32, n), engine.RowsLast
	start := time.Now()
	if err := s.b.Step(context.Background(), s.items); err != nil {
		s.t.Fatal(err)
	}
	s.at += n
	return time.Since(start)
}

// collect profiles a prompt and a few tokens.
func collect(t testing.TB, threads int) *profile.Collector {
	t.Helper()
	m := small(t, threads)
	c := profile.New(m.Program().(backends.Recorder), "small", threads)
	c.Events = 2
	s := newStepper(t, m)
	c.Start(false)
	defer c.Stop()
	for i, n := range []int{40, 1, 1, 1} {
		name := "prefill"
		if i > 0 {
			name = "decode"
		}
		begin, at := time.Now(), s.at
		d := s.step(n)
		c.Rest(name, "engine", d-c.Last())
		ended := time.Now()
		c.Step(name, n, at)
		c.Rest(name, "adding up", time.Since(ended))
		c.Wall(name, time.Since(begin))
	}
	return c
}

// TestSum wants the rows of a table to add up to the time that passed, with
// little left over.
func TestSum(t *testing.T) {
	for _, threads := range []int{1, 2} {
		left := 1.0
		for range 5 { // the machine may be busy with other tests
			r := collect(t, threads).Report(profile.Roof{})
			if len(r.Phases) != 2 || r.Phases[0].Steps != 1 || r.Phases[1].Steps != 3 || r.Phases[0].Tokens != 40 {
				t.Fatalf("phases %+v", r.Phases)
			}
			most := 0.0
			for _, p := range r.Phases {
				ops, layers, rest := sum(p.Ops), sum(p.Layers), sum(p.Rest)
				if ops+rest != p.NS {
					t.Errorf("%d threads, %s: operations %d and rest %d ns do not add up to %d", threads, p.Name, ops, rest, p.NS)
				}
				if d := layers - ops; d > 100 || d < -100 { // rounded apart
					t.Errorf("%d threads, %s: layers take %d ns, operations %d", threads, p.Name, layers, ops)
				}
				other := p.Rest[len(p.Rest)-1]
				if other.Name != "other" {
					t.Fatalf("the last row is %q", other.Name)
				}
				// The steps of this model are so short that the test's own look at
				// the clock counts.
				most = max(most, (math.Abs(float64(other.NS))-float64(1000*p.Steps))/float64(p.NS))
				for _, row := range p.Ops {
					if row.Name == "barrier" || row.NS < 0 || row.Busy*int64(threads) < row.NS {
						t.Errorf("row %+v", row)
					}
				}
			}
			left = min(left, most)
		}
		if left > 0.02 {
			t.Errorf("%d threads: %.1f %% of the time has no name, want 2 %% at most", threads, 100*left)
		}
	}
}

func sum(rows []profile.Row) (ns int64) {
	for _, r := range rows {
		ns += r.NS
	}
	return ns
}

// TestSame wants the same logits with recording as without, and no memory per
// step for it.
func TestSame(t *testing.T) {
	plain, recorded := newStepper(t, small(t, 2)), (*stepper)(nil)
	m := small(t, 2)
	rec := m.Program().(backends.Recorder)
	recorded = newStepper(t, m)
	line := &backends.Timeline{Epoch: time.Now()}
	rec.Record(line)
	for _, n := range []int{30, 1, 1} {
		plain.step(n)
		recorded.step(n)
		if !slices.Equal(plain.b.Logits(&plain.items[0], 0), recorded.b.Logits(&recorded.items[0], 0)) {
			t.Fatal("recording changes the logits")
		}
		for w := range line.Lanes {
			last := line.Start
			for _, x := range line.Lanes[w] {
				if x.Begin < last || x.End < x.Begin {
					t.Fatalf("worker %d: %+v after %d", w, x, last)
				}
				last = x.End
			}
			if line.Begin > line.Start || last > line.End {
				t.Fatalf("worker %d: step %d to %d to %d, lane ends at %d", w, line.Begin, line.Start, line.End, last)
			}
		}
	}
	tokens := make([]int32, 1)
	allocs := testing.AllocsPerRun(5, func() {
		recorded.items[0].Tokens = tokens
		if err := recorded.b.Step(context.Background(), recorded.items); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 0 {
		t.Errorf("a recorded step allocates %v times", allocs)
	}
	if line.Instrs[0].Kernel == "" || line.Dims["T"] != 1 {
		t.Errorf("first instruction %+v, dims %v", line.Instrs[0], line.Dims)
	}
	rec.Record(nil)
	before := line.End
	recorded.step(1)
	if line.End != before {
		t.Error("a step is recorded after the end of recording")
	}
}

// smollm writes a model of SmolLM2 135M's shape.
func smollm(t testing.TB) string {
	t.Helper()
	shape, err := synth.Lookup("smollm2-135m")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "smollm.gguf")
	if err := synth.Write(t.Context(), path, shape, synth.Options{Type: "q4_0", Pure: true}); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSmolLM counts the multiply-adds of a published shape: 30 layers of
// 576·(2·576+2·192) + 3·576·1536, and the head of 49152·576. It also bounds what
// recording costs.
func TestSmolLM(t *testing.T) {
	if testing.Short() {
		t.Skip("writes a model of 76 MB")
	}
	m := open(t, smollm(t), 1) // each worker pays for itself; one does not wait for another
	one := graph.Dims{"T": 1, "R": 1, "N": 1, "C": 1, "CW": 1, "S": 64, "SW": 64}
	for _, g := range []*graph.Graph{m.Graph, m.Program().Graph()} {
		products, attention := profile.MACsOf(g, one)
		if products != 134479872 {
			t.Errorf("%d multiply-adds per token, want 134479872 (134.5 million)", products)
		}
		if attention == 0 {
			t.Error("attention has no multiply-adds")
		}
	}
	s := newStepper(t, m)
	rec := m.Program().(backends.Recorder)
	line := &backends.Timeline{Epoch: time.Now()}
	s.step(16)
	best := math.Inf(1)
	steps := 25
	if s.step(1) > 50*time.Millisecond { // no assembly here
		steps = 3
	}
	for range 6 { // the machine may be busy with other tests
		with, without := time.Hour, time.Hour
		for range steps {
			rec.Record(nil)
			without = min(without, s.step(1))
			rec.Record(line)
			with = min(with, s.step(1))
		}
		best = min(best, float64(with)/float64(without)-1)
		if best < 0.03 {
			break
		}
	}
	t.Logf("recording makes a decode step %.2f %% slower", 100*best)
	if best >= 0.03 {
		t.Errorf("recording makes a decode step %.1f %% slower, want less than 3 %%", 100*best)
	}
}

func TestPprof(t *testing.T) {
	c := collect(t, 2)
	path := filepath.Join(t.TempDir(), "ops.pb.gz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.WritePprof(f); err != nil {
		t.Fatal(err)
	}
	f.Close()
	for flag, parts := range map[string][]string{
		"-top": {"Type: time", "flat%", "matmul", "barrier"},
		"-raw": {"time/nanoseconds[dflt]", "bytes/bytes", "macs/count", "phase:[decode]", "layer 1", "attn", "llama.go"},
	} {
		out, err := exec.Command("go", "tool", "pprof", flag, path).CombinedOutput()
		if err != nil {
			t.Fatalf("go tool pprof %s: %v\n%s", flag, err, out)
		}
		for _, part := range parts {
			if !strings.Contains(string(out), part) {
				t.Errorf("go tool pprof %s lacks %q:\n%s", flag, part, out)
			}
		}
	}
	p := c.Pprof()
	if err := p.CheckValid(); err != nil {
		t.Fatal(err)
	}
	macs, seen := int64(0), false
	for _, s := range p.Sample {
		macs += s.Value[2]
		stack := names(s)
		if len(stack) == 5 && slices.Equal(stack[1:], []string{"matmuladd ffn.res", "ffn", "layer 1", "small"}) && strings.HasPrefix(stack[0], "matmuladd ") {
			seen = true
		}
	}
	if !seen {
		t.Error("no stack of kernel, operation, block, layer and model for ffn.res of layer 1")
	}
	if macs == 0 {
		t.Error("no multiply-adds")
	}
}

func names(s *pprof.Sample) (list []string) {
	for _, l := range s.Location {
		list = append(list, l.Line[0].Function.Name)
	}
	return list
}

func TestTrace(t *testing.T) {
	var b bytes.Buffer
	if err := collect(t, 2).WriteTrace(&b); err != nil {
		t.Fatal(err)
	}
	var trace struct {
		Events []struct {
			Ph, Name, Cat string
			Tid           int
			Ts, Dur       float64
			Args          map[string]any
		} `json:"traceEvents"`
	}
	if err := json.Unmarshal(b.Bytes(), &trace); err != nil {
		t.Fatal(err)
	}
	end := map[int]float64{}
	count := map[string]int{}
	for _, e := range trace.Events {
		if e.Ph != "X" {
			continue
		}
		count[e.Cat]++
		if e.Ts < end[e.Tid]-0.002 || e.Dur < 0 {
			t.Fatalf("event %+v begins before %v, the end of the one before", e, end[e.Tid])
		}
		if e.Tid > 0 {
			end[e.Tid] = e.Ts + e.Dur
		}
	}
	// Two phases, of which the second has three steps and keeps two.
	if count["step"] != 3 || count["op"] == 0 || count["wait"] == 0 || len(end) != 2 {
		t.Errorf("events %v on %d lanes, want 3 steps, operations and waits on 2", count, len(end))
	}
}

func TestCompare(t *testing.T) {
	c := collect(t, 1)
	var old bytes.Buffer
	if err := c.WritePprof(&old); err != nil {
		t.Fatal(err)
	}
	changes, err := c.Compare(bytes.NewReader(old.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range changes {
		if x.Old != x.New || x.Phase == "" || x.Op == "" {
			t.Errorf("%+v: a profile differs from itself", x)
		}
	}
	if len(changes) < 10 {
		t.Errorf("only %d rows", len(changes))
	}
	var text strings.Builder
	if err := profile.WriteChanges(&text, []profile.Change{{"decode", "matmul", 10, 5}, {"decode", "add", 0, 1}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"-50.0 %", "new", "-40.0 %"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, text.String())
		}
	}
	for _, bad := range []string{"", "garbage"} {
		if _, err := c.Compare(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is compared", bad)
		}
	}
	// A CPU profile is a profile, but not one of operations.
	var cpu bytes.Buffer
	if err := (&pprof.Profile{SampleType: []*pprof.ValueType{{Type: "cpu", Unit: "nanoseconds"}}}).Write(&cpu); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Compare(&cpu); err == nil || !strings.Contains(err.Error(), "not a profile of graphrun") {
		t.Errorf("a CPU profile: %v", err)
	}
}

func TestText(t *testing.T) {
	r := collect(t, 2).Report(profile.Roof{ReadGB: 10, GMACs: 100})
	var b strings.Builder
	if err := r.WriteText(&b, true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"small, 2 threads; this machine reads 10.0 GB/s", "prefill: 40 tokens in 1 step,", "decode: 3 tokens in 3 steps,", "matmul", "layer 1", "outside", "barrier", "other", "100.0 %"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the tables lack %q:\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := r.WriteText(&b, false); err != nil || strings.Contains(b.String(), "layer 1") {
		t.Errorf("layers are not left out (%v)", err)
	}
}
