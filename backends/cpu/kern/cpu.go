package kern

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/cpu"
)

// features are the instruction sets the kernels may use. They are read once;
// GRAPHRUN_CPU and Disable take some away.
var features struct{ avx512, avx2, i8mm, dot, neon bool }

func init() {
	features.avx512 = haveAsm && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL &&
		cpu.X86.HasAVX512VBMI && cpu.X86.HasAVX512VNNI
	features.avx2 = haveAsm && cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasF16C
	features.neon = haveAsm && cpu.ARM64.HasASIMD
	features.dot = features.neon && cpu.ARM64.HasASIMDDP
	features.i8mm = features.dot && cpu.ARM64.HasI8MM
	levelErr = lowerTo(os.Getenv("GRAPHRUN_CPU"))
}

// levelErr says what is wrong with GRAPHRUN_CPU.
var levelErr error

// levels are the instruction sets of each processor, each with what is below
// it, best first.
var levels = [...]struct {
	name string
	has  *bool
}{
	{"avx512", &features.avx512},
	{"avx2", &features.avx2},
	{"neon-i8mm", &features.i8mm},
	{"neon-dot", &features.dot},
	{"neon", &features.neon},
}

// levelOf returns the index of a level.
func levelOf(name string) int {
	for i := range levels {
		if levels[i].name == name {
			return i
		}
	}
	return -1
}

// sameProcessor tells whether two levels belong to one kind of processor.
func sameProcessor(i, j int) bool { return (i < 2) == (j < 2) }

// lowerTo takes away the instruction sets above a level; "" leaves all. The
// levels of other processors do not matter here.
func lowerTo(level string) error {
	level = strings.ToLower(level)
	i := levelOf(level)
	switch {
	case level == "generic":
		for j := range levels {
			*levels[j].has = false
		}
	case i < 0 && level != "":
		return fmt.Errorf("kern: GRAPHRUN_CPU is %q, want generic, avx2, avx512, neon, neon-dot or neon-i8mm", level)
	}
	for j := range max(i, 0) {
		if sameProcessor(i, j) {
			*levels[j].has = false
		}
	}
	return nil
}

// LevelError returns what is wrong with the environment variable GRAPHRUN_CPU,
// nil when it is unset or names a level.
func LevelError() error { return levelErr }

// Level returns the name of the best instruction set in use: "avx512" or "avx2"
// on amd64, "neon-i8mm", "neon-dot" (with the dot products of int8 only) or
// "neon" on arm64, "generic" where there is none. The environment variable
// GRAPHRUN_CPU, read at start, lowers it to the level it names.
func Level() string {
	for i := range levels {
		if *levels[i].has {
			return levels[i].name
		}
	}
	return "generic"
}

// Disable turns an instruction set, named as by Level, off until restore is
// called. Higher levels that build on it go off as well. It is for tests and
// must not run beside other calls of the package.
func Disable(feature string) (restore func()) {
	old := features
	i := levelOf(feature)
	if i < 0 {
		panic("kern: unknown feature " + feature)
	}
	for j := range i + 1 {
		if sameProcessor(i, j) {
			*levels[j].has = false
		}
	}
	return func() { features = old }
}
