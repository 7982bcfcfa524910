// Package backends says what a backend is: something that compiles a graph
// into a program and runs it, step by step.
//
// Two are here. Package ref evaluates the graph as it was built, before any
// pass, in f32: the oracle. Package cpu runs the optimized plan with quantized
// kernels on a team of workers.
package backends

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"graphrun/graph"
)

// Backend compiles graphs.
type Backend interface {
	// Name is the word a user chooses the backend by.
	Name() string
	// Compile makes a program of g. It does not change g. The program reads
	// weights where they lie; w must stay open until Close.
	Compile(g *graph.Graph, w Weights, o Options) (Program, error)
}

// Weights finds tensors by the name the graph's weight values have.
type Weights interface {
	Weight(name string) (*graph.Tensor, error)
}

// Options say how to compile. The zero value of each field is its default.
type Options struct {
	// Threads is the number of workers, the caller's goroutine included.
	// 0 means the physical cores this process may use.
	Threads int
	// Dims are the largest sizes of the named dimensions a step may have:
	// T, R, N, C, CW as far as the graph names them, and S and SW, the
	// positions of the cache pools, which are fixed from Compile on.
	Dims graph.Dims
	// Off names passes to leave out.
	Off []string
	// Check verifies the graph between passes and shuffles value order.
	Check bool
	// Stop names the last pass to run, "" for all. A program needs all; the
	// graph after a pass can be looked at.
	Stop string
	// Keep plans memory without reuse, so that every value of a step can be
	// looked at after it: the program is then an Inspector. For finding faults.
	Keep bool
	// Finite looks at every value when it is computed: Run returns a *ValueError
	// for the first that is not finite. A step then takes up to twice as long.
	Finite bool
	// Deterministic makes the bits of a result independent of how a text is cut
	// into steps and of what else is in them. Without it that holds for graphs
	// with quantized activations only; those of plain weights alone then
	// multiply single tokens about twice as fast.
	Deterministic bool
	// OnPass is called after each pass with what it did and the graph.
	OnPass func(s graph.PassStat, g *graph.Graph)
}

// Feed binds an input of the graph for one step. The sizes of its tensor bind
// the named dimensions of the input's type.
type Feed struct {
	Name   string
	Tensor *graph.Tensor
}

// Program is a compiled graph with its caches and activation memory. It runs
// one step at a time; Run and Output are not for concurrent use.
type Program interface {
	// Run executes one step. It returns ctx.Err() within one layer after ctx
	// is cancelled; positions written to caches by a cancelled step are
	// undefined until they are written again.
	Run(ctx context.Context, feeds []Feed) error
	// Output returns the named result of the last step, nil when the graph has
	// none of that name. It stays valid until the next Run.
	Output(name string) *graph.Tensor
	// CopyPage copies a page of every cache of one kind: those that keep all
	// positions (windowed false) or those with a window.
	CopyPage(windowed bool, dst, src int)
	// Graph returns the graph as it is run, after all passes.
	Graph() *graph.Graph
	// Memory says what the program holds.
	Memory() Memory
	// Close stops the workers and frees caches and activations.
	Close() error
}

// Inspector is a Program whose values can be looked at: one of the ref backend,
// or of the cpu backend under Options.Keep.
type Inspector interface {
	Program
	// Value returns what the value with v's ID was in the last step, nil where
	// the program does not compute or keep it. It stays valid until the next
	// Run.
	Value(v *graph.Value) *graph.Tensor
}

// Reporter is a Program that has something to say about how it runs, such as an
// operation for which it has only a slow kernel.
type Reporter interface {
	Program
	// Notices returns what was found at Compile, one sentence each.
	Notices() []string
}

// Memory is the storage of a program in bytes.
type Memory struct {
	Weights int // mapped, as in the file
	Cache   int // keys and values
	Arena   int // activations
	Scratch int // of the workers
}

// Tensors are weights in memory, by name: for graphs whose weights come from no
// file.
type Tensors map[string]*graph.Tensor

// Weight implements Weights.
func (w Tensors) Weight(name string) (*graph.Tensor, error) {
	if t := w[name]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("backends: weight %q is not there; there are %s", name, strings.Join(slices.Sorted(maps.Keys(w)), ", "))
}

// ErrStep is the class of errors about a step that does not fit the program.
var ErrStep = errors.New("step does not fit the program")

// BindFeeds checks feeds against the inputs of g, within the maxima max, and
// writes the sizes they bind to dims, which must already hold the keys. It
// returns the tensors in the order of inputs.
func BindFeeds(inputs []*graph.Value, feeds []Feed, max, dims graph.Dims, into []*graph.Tensor) error {
	for i, in := range inputs {
		into[i] = nil
		for k := range feeds {
			if feeds[k].Name == in.Name {
				into[i] = feeds[k].Tensor
				break
			}
		}
		t := into[i]
		if t == nil {
			return fmt.Errorf("backends: input %q %s is not fed: %w", in.Name, in.Type, ErrStep)
		}
		if t.DType != in.Type.DType || len(t.Dims) != len(in.Type.Shape) {
			return fmt.Errorf("backends: input %q is %s%v, want %s: %w", in.Name, t.DType, t.Dims, in.Type, ErrStep)
		}
	}
	for k := range dims {
		dims[k] = -1
	}
	for i, in := range inputs {
		for j, d := range in.Type.Shape {
			got := into[i].Dims[j]
			if d.Name == "" {
				if got != d.Size {
					return fmt.Errorf("backends: input %q is %s%v, want %s: %w", in.Name, into[i].DType, into[i].Dims, in.Type, ErrStep)
				}
				continue
			}
			if limit, ok := max[d.Name]; !ok || got > limit {
				return fmt.Errorf("backends: input %q has %s = %d, the program was compiled for at most %d: %w", in.Name, d.Name, got, limit, ErrStep)
			}
			if old := dims[d.Name]; old >= 0 && old != got {
				return fmt.Errorf("backends: input %q has %s = %d, another input has %d: %w", in.Name, d.Name, got, old, ErrStep)
			}
			dims[d.Name] = got
		}
	}
	return nil
}

// PanicError returns what a kernel panicked with as an error. That of a memory
// fault has a method Addr, which tells the address.
func PanicError(r any) error {
	if err, ok := r.(error); ok {
		return err
	}
	return fmt.Errorf("%v", r)
}
