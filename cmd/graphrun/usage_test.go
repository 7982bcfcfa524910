package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestUsage(t *testing.T) {
	model, _ := sample(t, "llama-gqa")
	out := filepath.Join(t.TempDir(), "x")
	for _, c := range []struct {
		args  string
		parts string
	}{
		{"nosuch", `"nosuch"`},
		{"--frob", "--frob"},
		{"run --frob", "--frob"},
		{"run a b c", "graphrun: run takes 0 to 2 arguments, found 3; see graphrun run --help"},
		{"nonsense --help", `unknown command "nonsense"`},
		{"help nonsense", `unknown command "nonsense"`},
		{"--dump a b", "graphrun without a verb takes 0 to 1 arguments"},
		{"logits", "1 argument"},
		{"logits " + model, "--tokens"},
		{"logits " + model + " --tokens 1", "-o FILE"},
		{"logits " + model + " --tokens 1,x -o " + out, `"x"`},
		{"logits " + model + " --tokens 1,288 -o " + out, "288"},
		{"logits " + model + " --tokens 1 --chunk -1 -o " + out, "--chunk"},
		{"logits " + model + " --tokens 1 --backend gpu -o " + out, "cpu, ref"},
		{"run " + model + " hi -n -1", "-n is -1"},
		{"run " + model + " hi -n many", "many"},
		{"run " + model + " hi --temp -1", "temperature"},
		{"run " + model + " hi --temp NaN", "temperature"},
		{"run " + model + " hi --stop=", "--stop"},
		{"run " + model + " hi -t -1", "--threads"},
		{"run " + model + " hi -c -1", "--ctx"},
		{"run " + model + " hi --kv q4_0", "f16, f32 or q8_0"},
		{"run " + model + " hi -o xml", `"xml"`},
		{"run " + model + " hi -f prompt.txt", "twice"},
		{"run " + model + " hi --tokens 1,2", "twice"},
		{"run " + model + " --tokens 1,999", "0 to 287"},
		{"run " + model + " hi --passes cse", `"cse"`},
		{"run " + model + " hi --passes -nosuch", `unknown pass "nosuch"; known: constfold`},
		{"run " + model + " hi --passes -fuse-gate", "closest: fuse-gated"},
		{"run " + model + " hi --passes -memplan", "required"},
		{"inspect " + model + " -o xml", `"xml"`},
		{"--dump=pdf " + model, `"pdf"`},
		{"--dump= " + model, `--dump is ""`},
		{"--pass cse", "--pass needs --dump"},
		{"-o x", "--output needs --dump"},
		{"run " + model + " hi -t 99999999999", "0 (the default) to 1024"},
		{"run " + model + " hi --seed -2", "--seed is -2"},
		{"run " + model + " --tokens 1 -f prompt.txt", "twice"},
		{"perplexity " + model + " text.txt --window 3", "--window is 3, want 4 or more"},
		{"bench " + model + " -p 9223372036854775807", "-p, -n and -d"},
		{"synth tiny-llama --type q8_0 -o " + out + " -t -5", "--threads is -5"},
		{"--dump --pass nosuch " + model, `unknown pass "nosuch"; known: [build constfold`},
	} {
		refused(t, exitUsage, strings.Fields(c.args), c.parts)
	}
}

// A MODEL is never taken for a text, and a text never for a MODEL.
func TestMistypedModel(t *testing.T) {
	for _, args := range []string{
		"run nosuch.gguf", "run nosuch.gguf hi", "run ./nosuch", "run no/nosuch hi", "run nosuch hi", "run nosuch.GGUF", "run nosuch.safetensors",
		"run nosuch.gguf --tokens 1", "inspect nosuch", "--dump nosuch.gguf", "--dump --passes list nosuch", "logits nosuch.gguf --tokens 1 -o x",
	} {
		refused(t, exitFailed, strings.Fields(args), "nosuch", "no such file")
	}
	refused(t, exitFailed, []string{"run", t.TempDir(), "hi"}, "holds no .gguf file")
}

// A path to write to that cannot be written is named as given.
func TestNoSuchOutput(t *testing.T) {
	model, tokens := sample(t, "llama-gqa")
	out := filepath.Join(t.TempDir(), "no", "out.bin")
	refused(t, exitFailed, []string{"logits", model, "--tokens", tokens, "-o", out}, "create "+out+":")
	refused(t, exitFailed, []string{"--dump", model, "-o", out}, "create "+out+":")
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	model, tokens := sample(t, "llama-gqa")
	dir := t.TempDir()
	for _, args := range [][]string{
		{"run", model, "hi"},
		{"logits", model, "--tokens", tokens, "-o", filepath.Join(dir, "out")},
	} {
		r := cliContext(ctx, "", args...)
		if r.code != exitFailed || r.err != "graphrun: interrupted\n" {
			t.Errorf("%v: exit %d, %q", args, r.code, r.err)
		}
	}
	if names := left(t, dir); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
}

// Each verb has an example that begins with it, and a place in the README.
func TestVerbs(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range rootCmd().Commands() {
		name := c.Name()
		if !strings.Contains(c.Example, "graphrun "+name+" ") && !strings.HasSuffix(c.Example, "graphrun "+name) {
			t.Errorf("the example of %s is %q", name, c.Example)
		}
		if !strings.Contains(string(readme), "`"+name+" ") && !strings.Contains(string(readme), "`"+name+"`") {
			t.Errorf("the README has no verb %s", name)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, verb := range []string{"", "run", "inspect", "logits"} {
		out := must(t, strings.Fields(verb+" --help")...)
		if !strings.Contains(out, "Examples:") || !strings.Contains(out, "graphrun") {
			t.Errorf("help of %q shows no example", verb)
		}
	}
	if must(t, "help", "run") != must(t, "run", "--help") || must(t, "help") != must(t, "--help") || must(t, "--dump", "x.gguf", "--help") != must(t, "--help") {
		t.Error("help and --help differ")
	}
	if v := must(t, "--version"); !strings.HasPrefix(v, "graphrun ") || !strings.Contains(v, runtime.Version()) || strings.Count(v, "\n") != 1 {
		t.Errorf("--version prints %q", v)
	}
	if must(t) != must(t, "--help") {
		t.Error("graphrun alone is not graphrun --help")
	}
}

func TestCheckFlag(t *testing.T) {
	model, tokens := sample(t, "llama-gqa")
	want := must(t, "run", model, "--tokens", tokens, "-n", "4", "--temp", "0", "--ids")
	for _, flag := range []string{"--check", "--check=graph", "--check=nan"} {
		if got := must(t, "run", flag, model, "--tokens", tokens, "-n", "4", "--temp", "0", "--ids"); got != want {
			t.Errorf("%s changes the answer from %s to %s", flag, want, got)
		}
	}
	refused(t, exitUsage, []string{"run", model, "hi", "--check=inf"}, `"inf"`, "nan")
}

// Memory that the system refuses is an error, not the end of the process.
func TestTooMuchMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the amount is one that Linux refuses")
	}
	model, _ := sample(t, "llama-gqa")
	for _, backend := range []string{"cpu", "ref"} {
		refused(t, exitFailed, []string{"run", model, "hi", "--force", "-c", "1000000000", "--kv", "f32", "--backend", backend}, "the system refuses", "GiB", "use a smaller context")
	}
	refused(t, exitFailed, []string{"--dump", model, "-c", "1000000000", "--kv", "f32"}, "the system refuses")
}
