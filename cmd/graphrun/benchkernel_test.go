package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// Every kernel of every family of models runs alone.
func TestBenchKernel(t *testing.T) {
	for _, name := range []string{"llama-q8_0", "gemma3", "gemma4-e2b", "gemma4-moe", "gptoss-mxfp4"} {
		model, _ := sample(t, name)
		out := succeed(t, "bench", model, "--kernel", "all", "-t", "1", "-p", "5", "-d", "9", "-r", "1", "-o", "json")
		var all []kernelResult
		if err := json.Unmarshal([]byte(out), &all); err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for _, r := range all {
			op, _, _ := strings.Cut(r.Kernel, " ")
			seen[op] |= r.T
			if r.Calls < 1 || r.US <= 0 || r.Best > r.US || r.GBS < 0 {
				t.Errorf("%s: %+v", name, r)
			}
		}
		for _, op := range []string{"matmul", "attention", "rmsnorm", "ropewrite"} {
			if seen[op] != 1|5 {
				t.Errorf("%s: %s was not measured with 1 and with 5 tokens", name, op)
			}
		}
	}
}

func TestBenchKernelForms(t *testing.T) {
	model, _ := sample(t, "llama-q8_0")
	args := []string{"bench", model, "-t", "1", "-p", "4", "-r", "1", "--kernel"}
	out := succeed(t, append(args, "gatedmatmul", "-o", "go")...)
	line := regexp.MustCompile(`^BenchmarkKernel/gatedmatmulquant_q8_0·q8_\w+/\d+x\d+/T[14] \t2\t\d+ ns/op\t[\d.]+ GB/s\t[\d.]+ GMAC/s$`)
	for _, l := range strings.Split(strings.TrimSpace(out), "\n") {
		if !line.MatchString(l) {
			t.Errorf("%q is not a line of a Go benchmark", l)
		}
	}
	refused(t, exitUsage, append(args, "nix"), `no kernel of this model has "nix" in its name; it runs embed`)
	refused(t, exitUsage, append(args, "matmul", "-o", "csv"), "want one of [md json go] with --kernel")
	refused(t, exitUsage, append(args, "matmul", "--backend", "ref"), "needs --backend cpu")
}
