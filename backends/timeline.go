package backends

import (
	"time"

	"graphrun/graph"
)

// Recorder is a Program that can write down when its workers did what.
type Recorder interface {
	Program
	// Record makes the program fill t in each step from now on; nil ends it.
	// Nothing is recorded, and nothing is paid for it, until it is called. It
	// must not be called while a step runs.
	Record(t *Timeline)
}

// Timeline is what the workers of a program did in its last step. All times are
// nanoseconds since Epoch, which whoever makes the Timeline sets.
type Timeline struct {
	Epoch time.Time
	// Labels gives the goroutines of the workers the pprof labels layer and op
	// while they run an instruction, for a CPU profile. Other labels they have
	// are lost.
	Labels bool

	// The program fills the rest.

	// Begin and End enclose the step; the workers start after Start.
	Begin, Start, End int64
	// Dims are the sizes of the step.
	Dims graph.Dims
	// Instrs are the instructions of the step, in the order of execution. They
	// stay the same for steps of one size, as a slice that must not be changed.
	Instrs []Instr
	// Lanes holds for each worker what it did, in order.
	Lanes [][]Span
}

// Instr is an instruction of a program.
type Instr struct {
	Value  *graph.Value
	Kernel string // what computes it: operation, types, instruction set
}

// Span is the work of one worker on a part of an instruction.
type Span struct {
	Instr      int // index in Instrs
	Begin, End int64
}

// Now returns the nanoseconds since Epoch.
func (t *Timeline) Now() int64 { return int64(time.Since(t.Epoch)) }
