package main

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"graphrun/graph"
	"graphrun/loaders"
)

const netText = `graph "net" {
  v0 = input "x" : f32[T,2]
  v1 = weight "w1" : f32[3,2]
  v2 = weight "w2" : f32[1,3]
  v3 = matmul v0 v1
  v4 = scale v3 {by=2.0}
  v5 = matmul v4 v2
  output "y" = v5
}
`

// netFiles writes a small network and its weights.
func netFiles(t *testing.T) (net, weights string) {
	t.Helper()
	dir := t.TempDir()
	net, weights = filepath.Join(dir, "net.grt"), filepath.Join(dir, "net.gguf")
	if err := os.WriteFile(net, []byte(netText), 0o600); err != nil {
		t.Fatal(err)
	}
	bytesOf := func(x ...float32) []byte {
		var b []byte
		for _, v := range x {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
		return b
	}
	meta := loaders.NewMetadata()
	meta.Set("general.architecture", "net")
	err := loaders.WriteFile(weights, meta, []*loaders.Tensor{
		{Name: "w1", DType: graph.F32, Shape: []int{3, 2}, Data: bytesOf(1, 2, 3, 4, 5, 6)},
		{Name: "w2", DType: graph.F32, Shape: []int{1, 3}, Data: bytesOf(0.5, 0.25, 2)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return net, weights
}

// A network from two files: x·w1ᵀ is 5 11 17 and 3 7 11, doubled.
func TestRunGraph(t *testing.T) {
	net, weights := netFiles(t)
	for _, backend := range []string{"cpu", "ref"} {
		out := succeed(t, "run", "--graph", net, "--weights", weights, "--input", "x=1,2; 1,1", "--backend", backend)
		if want := "y f32[2 1]\n78.5\n50.5\n"; out != want {
			t.Errorf("%s: found %q, want %q", backend, out, want)
		}
	}
	out := succeed(t, "run", "--graph", net, "--weights", weights, "--input", "x=1,2", "-o", "json")
	if want := `[{"name":"y","dtype":"f32","shape":[1,1],"values":[[78.5]]}]` + "\n"; out != want {
		t.Errorf("found %q, want %q", out, want)
	}
}

// The embedded model runs the graph it has built, and the one it has compiled.
func TestRunOwnGraph(t *testing.T) {
	args := []string{"run", "Once", "-n", "5", "--temp", "0"}
	want := succeed(t, args...)
	path := filepath.Join(t.TempDir(), "own.grt")
	for _, dump := range [][]string{{"--dump", "--pass", "build"}, {"--dump"}} {
		succeed(t, append(dump, "-o", path)...)
		if got := succeed(t, append(args, "--graph", path)...); got != want {
			t.Errorf("%v: the text is %q, want %q", dump, got, want)
		}
	}
}

// TestRunGraphNotFinite: what is no number is said, with the output's name, and
// JSON has null for it.
func TestRunGraphNotFinite(t *testing.T) {
	net, weights := netFiles(t)
	args := []string{"run", "--graph", net, "--weights", weights, "--input", "x=nan,2;1,1;inf,1"}
	const warning = `output "y" has 1 NaN and 1 infinite of 3 numbers`
	if r := cli(t, "", args...); r.code != 0 || r.out != "y f32[3 1]\nNaN\n50.5\n+Inf\n" || strings.Count(r.err, warning) != 1 {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	if r := cli(t, "", append(args, "-o", "json")...); r.code != 0 || !strings.Contains(r.out, `"values":[[null],[50.5],[null]]`) || strings.Count(r.err, warning) != 1 {
		t.Errorf("json: exit %d, %q, %q", r.code, r.out, r.err)
	}
	refused(t, exitFailed, append(args, "--check=nan"), "NaN")
	if r := cli(t, "", "run", "--graph", net, "--weights", weights, "--input", "x=1,2"); r.err != "" {
		t.Errorf("a warning where all is finite: %q", r.err)
	}
}

func TestRunGraphRefuses(t *testing.T) {
	net, weights := netFiles(t)
	edited := func(old, to string) string {
		path := filepath.Join(t.TempDir(), "edited.grt")
		if err := os.WriteFile(path, []byte(strings.Replace(netText, old, to, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	x := "x=1,2"
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{exitUsage, []string{"--weights", weights}, "need --graph FILE"},
		{exitUsage, []string{"--graph", net, "--weights", weights}, `input "x" f32[T,2]: give it with --input x=`},
		{exitUsage, []string{"--graph", net, "--weights", weights, "--input", "x=1,2,3"}, "row 0 has 3 numbers, want 2"},
		{exitUsage, []string{"--graph", net, "--weights", weights, "--input", "x=1,b"}, `found "b", want a number of type f32`},
		{exitUsage, []string{"--graph", net, "--weights", weights, "--input", x, "--input", "z=1"}, "--input z: the graph has no such input; it has x"},
		{exitUsage, []string{"--graph", net, "--weights", weights, "--input", x, "--input", x}, "given twice"},
		{exitUsage, []string{"--graph", net, "--input", x}, `the graph has weights, "w1" f32[3,2] first: give their file`},
		{exitUsage, []string{"model.gguf", "--graph", net, "--input", x}, "there is no MODEL"},
		{exitFailed, []string{"--graph", edited(`"w2"`, `"w3"`), "--weights", weights, "--input", x}, "w3"},
		{exitFailed, []string{"--graph", edited(`f32[1,3]`, `f32[2,3]`), "--weights", weights, "--input", x}, "w2"},
		{exitFailed, []string{"--graph", edited(`f32[3,2]`, `f32[3,4]`), "--weights", weights, "--input", x}, "line 5, column 8: found operands that do not fit"},
		{exitFailed, []string{"--graph", edited("scale v3", "scale v5"), "--weights", weights, "--input", x}, "line 6, column 14: found v5, defined later on line 7"},
		{exitFailed, []string{"--graph", edited("scale v3", "shale v3"), "--weights", weights, "--input", x}, "line 6, column 8"},
		{exitFailed, []string{"--graph", net + ".none", "--weights", weights, "--input", x}, "no such file"},
	} {
		refused(t, c.code, append([]string{"run"}, c.args...), c.want)
	}
	model, _ := sample(t, "llama-gqa")
	refused(t, exitFailed, []string{"run", model, "--graph", net, "--tokens", "1"}, `has the input "x", which a step of this model does not give`)
}

// succeed runs a command line that must work and returns what it prints.
func succeed(t *testing.T, args ...string) string {
	t.Helper()
	r := cli(t, "", args...)
	if r.code != 0 {
		t.Fatalf("graphrun %s: exit %d: %s", strings.Join(args, " "), r.code, r.err)
	}
	return r.out
}
