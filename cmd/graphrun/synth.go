package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"graphrun/loaders"
	"graphrun/synth"
)

func synthCmd() *cobra.Command {
	var o synth.Options
	var out string
	var list bool
	cmd := &cobra.Command{
		Use:   "synth SHAPE --type T -o FILE",
		Short: "Write a model with a real model's shapes and random weights",
		Long: `synth writes a GGUF file with the exact tensors, keys and vocabulary size of a
published model and random weights, to measure speed without a download. What
such a model writes is noise; llama.cpp and others open it as well.

Types are block types and the usual mixtures. As in published files, a file of a
quantized type has a head of more bits; --pure gives every matrix the type
itself. The same shape, type and seed give the same bytes.`,
		Example: `  graphrun synth llama-3.2-1b --type q4_k_m -o 1b.gguf
  graphrun synth --list`,
		Args: args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case list:
				return listShapes(cmd)
			case len(args) == 0:
				return usagef("synth needs a SHAPE; graphrun synth --list shows them")
			case out == "" || o.Type == "":
				return usagef("synth needs --type T and -o FILE; graphrun synth --list shows the types")
			}
			return writeSynth(cmd, args[0], out, o)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.Type, "type", "", "block type or mixture, for example q8_0 or q4_k_m")
	fs.StringVarP(&out, "output", "o", "", "file to write")
	fs.BoolVar(&o.Pure, "pure", false, "give every matrix the type itself")
	fs.Uint64Var(&o.Seed, "seed", 0, "another number gives other weights")
	fs.IntVarP(&o.Workers, "threads", "t", 0, "goroutines; 0 is one for each processor")
	fs.BoolVar(&list, "list", false, "list shapes and types")
	return cmd
}

func writeSynth(cmd *cobra.Command, name, out string, o synth.Options) error {
	if o.Workers < 0 || o.Workers > maxThreads {
		return usagef("--threads is %d, want 0 (the default) to %d", o.Workers, maxThreads)
	}
	shape, err := synth.Lookup(name)
	if err != nil {
		return unknownName(err)
	}
	p, err := synth.NewPlan(shape, o)
	if err != nil {
		return unknownName(err)
	}
	for _, what := range slices.Sorted(maps.Keys(p.Fallbacks)) {
		fmt.Fprintf(cmd.ErrOrStderr(), "graphrun: warning: %d matrices have rows that do not divide: %s\n", p.Fallbacks[what], what)
	}
	bar := newProgress(cmd, "MiB", p.Bytes>>20)
	at := 0
	o.Progress = func(done int) {
		if n := done >> 20; n > at {
			bar.add(n - at)
			at = n
		}
	}
	start := time.Now()
	err = p.Write(cmd.Context(), out, o)
	bar.done()
	if err != nil {
		return err
	}
	took := time.Since(start)
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d tensors, %.1f million weights, %.1f MiB, %.2f bits per weight, in %s (%.0f MB/s)\n",
		out, len(p.Tensors), float64(p.Params)/1e6, float64(p.Bytes)/(1<<20), 8*float64(p.Bytes)/float64(p.Params),
		took.Round(time.Millisecond), float64(p.Bytes)/1e6/took.Seconds())
	return nil
}

// unknownName makes an unknown shape or type wrong usage.
func unknownName(err error) error {
	var unknown *loaders.UnsupportedError
	if errors.As(err, &unknown) {
		return usagef("synth: unknown %s %q; known: %s", unknown.What, unknown.Name, strings.Join(unknown.Known, ", "))
	}
	return err
}

func listShapes(cmd *cobra.Command) error {
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "shape\tmodel\tmillion weights\tMiB as q4_k_m")
	for _, s := range synth.Shapes() {
		p, err := synth.NewPlan(s, synth.Options{Type: "q4_k_m"})
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s\t%s\t%.1f\t%.0f\n", s.Name, s.Doc, float64(p.Params)/1e6, float64(p.Bytes)/(1<<20))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "\ntypes: %s\n", strings.Join(synth.Types(), ", "))
	return err
}
