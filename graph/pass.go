package graph

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Pass is one row of the pipeline table. Run changes the graph; it redirects
// uses and leaves it to dce to remove values, appends new values at the end and
// leaves it to the pipeline to sort, and does not depend on the order of
// values.
type Pass struct {
	Name string // a lower-case verb or noun, the same in flags, logs and viewer
	Doc  string // one line for the list of passes
	Run  func(*Graph) error
	// Required passes cannot be disabled: what follows needs their result.
	Required bool
	// Orders is set for passes whose result is the order of values, or depends
	// on it. Check mode does not shuffle behind the first of them.
	Orders bool
}

// Order is a rule of the order table: pass Before runs before pass After.
type Order struct {
	Before, After string
	Reason        string
}

// Pipeline is a checked table of passes.
type Pipeline struct {
	passes []Pass
	order  []Order
}

// RunOptions changes how a pipeline runs. The zero value runs every pass.
type RunOptions struct {
	// Disable names passes to leave out.
	Disable []string
	// StopAfter names the last pass to run; "" runs all.
	StopAfter string
	// Check verifies the graph before the first and after each pass, and
	// shuffles its values before each pass that must not mind; after the pass
	// they are sorted again.
	Check bool
	// Seed is the seed of the shuffles; the same seed gives the same orders.
	Seed uint64
	// Hook is called after each pass with the graph as the pass left it, for
	// dumps and viewers. It must not change the graph.
	Hook func(*Graph, PassStat)
}

// PassStat says what a pass did.
type PassStat struct {
	Pass          string
	Before, After int  // number of values
	Changed       bool // only known when a Hook is set
	Disabled      bool
	Duration      time.Duration // of the pass alone
}

// PassError says which pass failed on which graph. Dump is the text form of the
// graph at that point, "" when it cannot be printed; Stack is set when the pass
// panicked.
type PassError struct {
	Pass, Graph string
	Err         error
	Dump        string
	Stack       []byte
}

// Error prints one line.
func (e *PassError) Error() string {
	return fmt.Sprintf("pass %s on graph %s: %v", e.Pass, e.Graph, e.Err)
}

// Unwrap returns the reason.
func (e *PassError) Unwrap() error { return e.Err }

// NewPipeline checks the tables: names are there once, rules speak of known
// passes, have a reason, and the order of the table keeps them.
func NewPipeline(passes []Pass, order []Order) (*Pipeline, error) {
	p := &Pipeline{passes: slices.Clone(passes), order: slices.Clone(order)}
	for i, s := range p.passes {
		if s.Name == "" || s.Run == nil {
			return nil, fmt.Errorf("graph: pipeline: row %d has no name or nothing to run", i)
		}
		if p.index(s.Name) != i {
			return nil, fmt.Errorf("graph: pipeline: two passes named %s", s.Name)
		}
	}
	for _, o := range p.order {
		for _, name := range []string{o.Before, o.After} {
			if p.index(name) < 0 {
				return nil, fmt.Errorf("graph: pipeline: rule %s before %s: no pass %s; known: %s", o.Before, o.After, name, p.known())
			}
		}
		if o.Reason == "" {
			return nil, fmt.Errorf("graph: pipeline: rule %s before %s: no reason given", o.Before, o.After)
		}
		if p.index(o.Before) >= p.index(o.After) {
			return nil, fmt.Errorf("graph: pipeline: %s must run before %s: %s", o.Before, o.After, o.Reason)
		}
	}
	return p, nil
}

// MustPipeline is NewPipeline for tables written in the program: it panics on
// an error, when the program starts.
func MustPipeline(passes []Pass, order []Order) *Pipeline {
	p, err := NewPipeline(passes, order)
	if err != nil {
		panic(err)
	}
	return p
}

// Passes returns the table, in order.
func (p *Pipeline) Passes() []Pass { return slices.Clone(p.passes) }

// Orders returns the order rules.
func (p *Pipeline) Orders() []Order { return slices.Clone(p.order) }

func (p *Pipeline) index(name string) int {
	return slices.IndexFunc(p.passes, func(s Pass) bool { return s.Name == name })
}

func (p *Pipeline) known() string {
	names := make([]string, len(p.passes))
	for i, s := range p.passes {
		names[i] = s.Name
	}
	return strings.Join(names, ", ")
}

// closest names the pass that a wrong name may stand for, "" when none is near.
func (p *Pipeline) closest(name string) string {
	best, least := "", len(name)/2+1
	for _, s := range p.passes {
		if d := distance(name, s.Name); d < least {
			best, least = s.Name, d
		}
	}
	if best == "" {
		return ""
	}
	return "; closest: " + best
}

// distance counts the letters to insert, remove or change that lead from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := before
			if a[i] != b[j] {
				d = 1 + min(before, row[j], row[j+1])
			}
			before, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}

// Check says what is wrong with the names in o, nil when all are known and none
// that is disabled is required.
func (p *Pipeline) Check(o RunOptions) error {
	for _, name := range o.Disable {
		i := p.index(name)
		if i < 0 {
			return fmt.Errorf("graph: disable: unknown pass %q; known: %s%s", name, p.known(), p.closest(name))
		}
		if p.passes[i].Required {
			return fmt.Errorf("graph: disable: pass %s is required; can be disabled: %s", name, p.optional())
		}
	}
	if o.StopAfter != "" && p.index(o.StopAfter) < 0 {
		return fmt.Errorf("graph: stop after: unknown pass %q; known: %s%s", o.StopAfter, p.known(), p.closest(o.StopAfter))
	}
	return nil
}

func (p *Pipeline) optional() string {
	var names []string
	for _, s := range p.passes {
		if !s.Required {
			names = append(names, s.Name)
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, ", ")
}

// Run runs the passes on g in table order and says what each did. After an
// error, a *PassError unless the options are wrong, g is of no use.
func (p *Pipeline) Run(g *Graph, o RunOptions) ([]PassStat, error) {
	if err := p.Check(o); err != nil {
		return nil, err
	}
	if o.Check {
		if err := Verify(g); err != nil {
			return nil, err
		}
	}
	var stats []PassStat
	var print uint64
	shuffle := o.Check
	for i := range p.passes {
		s := &p.passes[i]
		st := PassStat{Pass: s.Name, Before: len(g.Values), After: len(g.Values), Disabled: slices.Contains(o.Disable, s.Name)}
		if !st.Disabled {
			if o.Hook != nil {
				print = g.Fingerprint()
			}
			if shuffle = shuffle && !s.Orders; shuffle {
				if err := g.Shuffle(o.Seed + uint64(i)); err != nil {
					return stats, p.fail(s, g, err, nil)
				}
			}
			start := time.Now()
			if err := p.runOne(s, g); err != nil {
				return stats, err
			}
			st.Duration, st.After = time.Since(start), len(g.Values)
			if shuffle {
				if err := g.Sort(); err != nil {
					return stats, p.fail(s, g, err, nil)
				}
			}
			st.Changed = o.Hook != nil && print != g.Fingerprint()
			if o.Check {
				if err := Verify(g); err != nil {
					return stats, p.fail(s, g, err, nil)
				}
			}
		}
		stats = append(stats, st)
		if o.Hook != nil {
			o.Hook(g, st)
		}
		if s.Name == o.StopAfter {
			break
		}
	}
	return stats, nil
}

// runOne runs one pass, turns a panic into an error and restores a valid order.
func (p *Pipeline) runOne(s *Pass, g *Graph) (err error) {
	defer func() {
		if r := recover(); r != nil {
			cause, ok := r.(error)
			if !ok {
				cause = errors.New(fmt.Sprint(r))
			}
			err = p.fail(s, g, fmt.Errorf("panic: %w", cause), debug.Stack())
		}
	}()
	if err := s.Run(g); err != nil {
		return p.fail(s, g, err, nil)
	}
	if !g.sorted() {
		if err := g.Sort(); err != nil {
			return p.fail(s, g, err, nil)
		}
	}
	return nil
}

func (p *Pipeline) fail(s *Pass, g *Graph, err error, stack []byte) error {
	return &PassError{Pass: s.Name, Graph: g.Name, Err: err, Dump: dump(g), Stack: stack}
}

// dump prints a graph that a failed pass may have left broken.
func dump(g *Graph) (text string) {
	defer func() {
		if recover() != nil {
			text = ""
		}
	}()
	return g.String()
}
