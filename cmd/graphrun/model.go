package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"graphrun"
	"graphrun/backends/cpu"
	"graphrun/engine"
	"graphrun/graph"
	"graphrun/hub"
	"graphrun/quant"
)

// modelFlags are the flags of every command that compiles a model.
type modelFlags struct {
	threads int
	backend string
	kv      string
	context int
	passes  string
	// quantize is the type that matrices of a folder get while they are loaded.
	quantize string
	check    string
	force    bool
	drop     []string
	read     bool
	// deterministic asks for the same bits however a text is cut.
	deterministic bool
}

func (f *modelFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.IntVarP(&f.threads, "threads", "t", 0, "workers; 0 is one for each physical core this process may use")
	fs.StringVar(&f.backend, "backend", "cpu", "cpu, or ref: the slow reference")
	fs.StringVar(&f.kv, "kv", "", "type of the KV cache: f16, f32 or q8_0 (default f16; f32 for --backend ref)")
	fs.IntVarP(&f.context, "ctx", "c", 0, "positions of the context; 0 is the model's, at most 4096")
	fs.StringVar(&f.quantize, "quantize", "", "give the matrices of a Hugging Face folder a smaller type while loading, e.g. q8_0")
	fs.StringVar(&f.passes, "passes", "", "passes to switch off, e.g. -fuse-gated,-cse; list prints the table")
	fs.StringVar(&f.check, "check", "", "verify the graph between passes and the weights for NaN; --check=nan: look at every value that is computed, too")
	fs.Lookup("check").NoOptDefVal = "graph"
	fs.BoolVar(&f.deterministic, "deterministic", false, "the same bits however a text is cut, for models of F32, F16 or BF16 alone too (about half the speed); others have them anyway")
	fs.BoolVar(&f.read, "read", false, "read the weights into memory instead of mapping their files: faster from disks over a network")
	fs.StringSliceVar(&f.drop, "drop", nil, "parts to leave out and never read: ffn, attn, head, embed")
	fs.BoolVar(&f.force, "force", false, "open a model that the machine's memory cannot hold")
}

// maxThreads is more than any machine has cores.
const maxThreads = 1024

// options checks the flags and returns them as engine options.
func (f *modelFlags) options() (o engine.Options, err error) {
	o = engine.Options{Backend: f.backend, Threads: f.threads, Context: f.context, Overcommit: f.force, Deterministic: f.deterministic, Drop: f.drop, Read: f.read}
	for _, part := range f.drop {
		if !isOneOf(part, engine.Parts()) {
			return o, usagef("--drop is %q, want one or more of %s", part, strings.Join(engine.Parts(), ", "))
		}
	}
	if f.threads < 0 || f.threads > maxThreads {
		return o, usagef("--threads is %d, want 0 (the default) to %d", f.threads, maxThreads)
	}
	switch f.check {
	case "", "false":
	case "graph", "true":
		o.Check = true
	case "nan":
		o.Check, o.Finite = true, true
	default:
		return o, usagef("--check is %q, want graph (the default of --check) or nan", f.check)
	}
	switch f.kv {
	case "":
	case "f16", "f32", "q8_0":
		o.KV, _ = graph.DTypeByName(f.kv)
	default:
		return o, usagef("--kv is %q, want f16, f32 or q8_0", f.kv)
	}
	if f.quantize != "" {
		if o.Quantize, err = quantType(f.quantize); err != nil {
			return o, usagef("--quantize: %w", err)
		}
	}
	if !isOneOf(f.backend, engine.Backends()) {
		return o, usagef("--backend is %q, want one of %s", f.backend, strings.Join(engine.Backends(), ", "))
	}
	if f.context < 0 {
		return o, usagef("--ctx is %d, want 0 (the default) or more", f.context)
	}
	off, err := parsePasses(f.passes)
	if err != nil {
		return o, err
	}
	if err := cpu.Passes().Check(graph.RunOptions{Disable: off}); err != nil {
		return o, usagef("--passes: %w", err)
	}
	o.Off = off
	return o, nil
}

// quantType returns a type of blocks by its name.
func quantType(name string) (graph.DType, error) {
	var known []string
	for _, t := range quant.Types() {
		if !t.Quantized() {
			continue
		}
		known = append(known, t.String())
		if t.String() == strings.ToLower(name) {
			return t, nil
		}
	}
	return 0, fmt.Errorf("found %q, want one of %s", name, strings.Join(known, ", "))
}

// parsePasses reads a list of switched-off passes: -name,-name.
func parsePasses(list string) ([]string, error) {
	var off []string
	for part := range strings.SplitSeq(list, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		name, ok := strings.CutPrefix(part, "-")
		if !ok {
			return nil, usagef("--passes: found %q, want names with a minus, e.g. -cse, or the word list alone", part)
		}
		off = append(off, name)
	}
	return off, nil
}

func isOneOf(s string, list []string) bool {
	for _, x := range list {
		if s == x {
			return true
		}
	}
	return false
}

// open opens the model at path, or the embedded one when path is "". Warnings
// go to the error stream, a line each.
func (f *modelFlags) open(cmd *cobra.Command, path string, change func(*engine.Options)) (*engine.Model, error) {
	o, err := f.options()
	if err != nil {
		return nil, err
	}
	if change != nil {
		change(&o)
	}
	var m *engine.Model
	if path == "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "graphrun: no MODEL named, using the embedded story model")
		m, err = engine.OpenBytes(graphrun.StoriesName, graphrun.Stories, o)
	} else {
		m, err = engine.Open(path, o)
	}
	if err != nil {
		return nil, err
	}
	for _, w := range m.Warnings() {
		fmt.Fprintln(cmd.ErrOrStderr(), "graphrun: warning:", w)
	}
	return m, nil
}

// looksLikeModel reports whether an argument must be a MODEL rather than a
// text: it has a path separator or a model's extension.
func looksLikeModel(arg string) bool {
	if strings.ContainsRune(arg, '/') || strings.ContainsRune(arg, filepath.Separator) {
		return true
	}
	switch strings.ToLower(filepath.Ext(arg)) {
	case ".gguf", ".safetensors":
		return true
	}
	return false
}

// modelPath returns where a MODEL lies: the argument itself, a file or folder
// that must exist, or the place in the cache of a name such as hf.co/org/name,
// which is downloaded if it is not there.
func modelPath(cmd *cobra.Command, arg string) (string, error) {
	return findModel(cmd, arg, false)
}

// tokenizerPath is modelPath for who needs no weights.
func tokenizerPath(cmd *cobra.Command, arg string) (string, error) {
	return findModel(cmd, arg, true)
}

func findModel(cmd *cobra.Command, arg string, tokenizer bool) (string, error) {
	_, err := os.Stat(arg)
	switch {
	case err == nil:
		return arg, nil
	case hub.IsName(arg):
		return fetchModel(cmd, arg, tokenizer)
	case os.IsNotExist(err):
		return "", fmt.Errorf("model %s: no such file or folder", arg)
	}
	return "", err
}

// modelArg returns the path of the only argument, a MODEL, or "" for the
// embedded model.
func modelArg(cmd *cobra.Command, args []string) (string, error) {
	if len(args) == 0 {
		return "", nil
	}
	return modelPath(cmd, args[0])
}
