package profile

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"

	"github.com/google/pprof/profile"
)

// Change is how the time of an operation per token differs between two profiles.
type Change struct {
	Phase string  `json:"phase"`
	Op    string  `json:"op"`
	Old   float64 `json:"old_us"` // microseconds per token
	New   float64 `json:"new_us"`
}

// Compare reads a profile that WritePprof wrote earlier and returns how this one
// differs, for each phase that both have, the largest differences first.
func (c *Collector) Compare(old io.Reader) ([]Change, error) {
	p, err := profile.Parse(old)
	if err != nil {
		return nil, fmt.Errorf("profile: the profile to compare with: %w", err)
	}
	was, err := perToken(p)
	if err != nil {
		return nil, err
	}
	is, err := perToken(c.Pprof())
	if err != nil {
		return nil, err
	}
	changes := []Change{}
	for _, ph := range c.phases {
		if was[ph.name] == nil {
			continue
		}
		ops := map[string]bool{}
		for op := range was[ph.name] {
			ops[op] = true
		}
		for op := range is[ph.name] {
			ops[op] = true
		}
		part := []Change{}
		for op := range ops {
			part = append(part, Change{ph.name, op, was[ph.name][op], is[ph.name][op]})
		}
		slices.SortFunc(part, func(a, b Change) int {
			return cmp.Or(cmp.Compare(math.Abs(b.New-b.Old), math.Abs(a.New-a.Old)), cmp.Compare(a.Op, b.Op))
		})
		changes = append(changes, part...)
	}
	if len(changes) == 0 {
		return nil, fmt.Errorf("profile: the profile to compare with has no phase in common with this one")
	}
	return changes, nil
}

// perToken returns microseconds per token by phase and operation.
func perToken(p *profile.Profile) (map[string]map[string]float64, error) {
	tokens := map[string]int{}
	for _, text := range p.Comments {
		var name string
		var steps, n int
		if k, _ := fmt.Sscanf(text, "phase %s steps=%d tokens=%d", &name, &steps, &n); k == 3 && n > 0 {
			tokens[name] = n
		}
	}
	if len(tokens) == 0 || len(p.SampleType) == 0 || p.SampleType[0].Type != "time" {
		return nil, fmt.Errorf("profile: not a profile of graphrun: no phases in its comments")
	}
	out := map[string]map[string]float64{}
	for _, s := range p.Sample {
		phase, op := first(s.Label["phase"]), first(s.Label["op"])
		if n := tokens[phase]; n > 0 {
			if out[phase] == nil {
				out[phase] = map[string]float64{}
			}
			out[phase][op] += float64(s.Value[0]) / 1e3 / float64(n)
		}
	}
	return out, nil
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// WriteChanges writes a table for people.
func WriteChanges(w io.Writer, changes []Change) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	phase := ""
	var old, new float64
	total := func() {
		if phase != "" {
			changeRow(t, "total", old, new)
		}
	}
	for _, c := range changes {
		if c.Phase != phase {
			total()
			phase, old, new = c.Phase, 0, 0
			fmt.Fprintf(t, "%s\tbase µs/token\tµs/token\tchange\t\n", phase)
		}
		old, new = old+c.Old, new+c.New
		changeRow(t, c.Op, c.Old, c.New)
	}
	total()
	return t.Flush()
}

func changeRow(w io.Writer, name string, old, new float64) {
	change := "new"
	if old > 0 {
		change = fmt.Sprintf("%+.1f %%", 100*(new-old)/old)
	}
	fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%s\t\n", name, old, new, change)
}
