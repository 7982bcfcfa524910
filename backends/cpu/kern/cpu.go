package kern

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/cpu"
)

// features are the instruction sets the kernels may use. They are read once;
// GRAPHRUN_CPU and Disable take some away.
var features struct{ avx512, avx2, neon bool }

func init() {
	features.avx512 = haveAsm && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL &&
		cpu.X86.HasAVX512VBMI && cpu.X86.HasAVX512VNNI
	features.avx2 = haveAsm && cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasF16C
	levelErr = lowerTo(os.Getenv("GRAPHRUN_CPU"))
}

// levelErr says what is wrong with GRAPHRUN_CPU.
var levelErr error

// lowerTo takes away the instruction sets above a level; "" leaves all.
func lowerTo(level string) error {
	switch strings.ToLower(level) {
	case "", "avx512", "neon":
	case "avx2":
		features.avx512 = false
	case "generic":
		features.avx512, features.avx2, features.neon = false, false, false
	default:
		return fmt.Errorf("kern: GRAPHRUN_CPU is %q, want generic, avx2, avx512 or neon", level)
	}
	return nil
}

// LevelError returns what is wrong with the environment variable GRAPHRUN_CPU,
// nil when it is unset or names a level.
func LevelError() error { return levelErr }

// Level returns the name of the best instruction set in use: "avx512",
// "avx2", "neon" or "generic". The environment variable GRAPHRUN_CPU, read at
// start, lowers it to the level it names.
func Level() string {
	switch {
	case features.avx512:
		return "avx512"
	case features.avx2:
		return "avx2"
	case features.neon:
		return "neon"
	}
	return "generic"
}

// Disable turns an instruction set ("avx512", "avx2" or "neon") off until
// restore is called. Higher levels that build on it go off as well. It is for
// tests and must not run beside other calls of the package.
func Disable(feature string) (restore func()) {
	old := features
	switch feature {
	case "avx512":
		features.avx512 = false
	case "avx2":
		features.avx512, features.avx2 = false, false
	case "neon":
		features.neon = false
	default:
		panic("kern: unknown feature " + feature)
	}
	return func() { features = old }
}
