package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"graphrun/loaders"
	"graphrun/quant"
)

// quantizeFlags are the flags of quantize.
type quantizeFlags struct {
	rules      []string
	imatrix    string
	pure       bool
	requantize bool
	noFallback bool
	dryRun     bool
	threads    int
	output     string
}

func quantizeCmd() *cobra.Command {
	var f quantizeFlags
	cmd := &cobra.Command{
		Use:   "quantize IN OUT TYPE",
		Short: "Write a model with smaller weights",
		Long: `quantize writes a GGUF file whose matrices have the given type. IN is a model in
F32, F16 or BF16, as GGUF or as a Hugging Face folder; it is read once, a few
rows at a time.

TYPE is one of these, in any case:

` + typeTable() + `
Mixtures give each matrix the type it has in published files of that name; the
head (or the embedding that serves as one) gets more bits, unless --pure is set.
Rows that do not divide into blocks of 256 get a type with blocks of 32, and F16
where not even those fit; this is said and counted, and --no-fallback forbids it.`,
		Example: `  graphrun quantize model-f16.gguf model-q4_k_m.gguf Q4_K_M
  graphrun quantize model-f16.gguf small.gguf Q3_K_M --imatrix model.imatrix --tensor "ffn_down=q4_k"
  graphrun quantize model-f16.gguf Q4_K_M --dry-run`,
		Args: func(cmd *cobra.Command, list []string) error {
			if f.dryRun {
				return args(2, 3)(cmd, list)
			}
			return args(3, 3)(cmd, list)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fs := cmd.Flags()
	fs.StringArrayVar(&f.rules, "tensor", nil, "`PATTERN=TYPE`: give tensors whose names match the regular expression a type, or keep them as they are (=keep); the first that matches counts")
	fs.StringVar(&f.imatrix, "imatrix", "", "`FILE` with an importance matrix, which graphrun imatrix makes")
	fs.BoolVar(&f.pure, "pure", false, "give every matrix the type itself")
	fs.BoolVar(&f.requantize, "requantize", false, "allow matrices that are quantized already")
	fs.BoolVar(&f.noFallback, "no-fallback", false, "fail where rows do not divide into blocks")
	fs.BoolVar(&f.dryRun, "dry-run", false, "print what each tensor would be, and write nothing; OUT may be left out")
	fs.IntVarP(&f.threads, "threads", "t", 0, "goroutines; 0 is one for each processor")
	fs.StringVarP(&f.output, "output", "o", "text", "text or json")
	return cmd
}

// typeTable lists the types that can be written.
func typeTable() string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	writable := quant.Types()
	for _, m := range quant.Mixtures() {
		if slices.Contains(writable, m.Base) {
			fmt.Fprintf(w, "  %s\t%s\n", m.Name, m.Doc)
		}
	}
	w.Flush() //nolint:errcheck // to memory
	return b.String()
}

func (f *quantizeFlags) run(cmd *cobra.Command, args []string) error {
	typ, out := args[len(args)-1], ""
	if len(args) == 3 {
		out = args[1]
	}
	o, err := f.options(typ)
	if err != nil {
		return err
	}
	path, err := modelPath(cmd, args[0])
	if err != nil {
		return err
	}
	m, err := loaders.OpenModel(path, loaders.HFOptions{GGUF: true})
	if err != nil {
		return err
	}
	defer m.Close()
	for _, n := range m.Notes {
		fmt.Fprintln(cmd.ErrOrStderr(), "graphrun: warning:", n)
	}
	p, err := quant.NewPlan(m, o)
	var again *quant.RequantizeError
	switch {
	case errors.As(err, &again):
		return fmt.Errorf("%w; use --requantize", err)
	case errors.Is(err, quant.ErrFallback):
		return fmt.Errorf("%w; --no-fallback forbids that", err)
	case err != nil:
		return unknownType(err)
	case len(p.Unused) > 0:
		return usagef("--tensor %s decides for no tensor; graphrun inspect %s prints their names", f.rules[p.Unused[0]], args[0])
	}
	f.warn(cmd, p)
	if f.dryRun {
		return f.print(cmd, p, nil, 0)
	}
	bar := newProgress(cmd, "MiB", p.Bytes>>20)
	p.Progress(func(done int) {
		if n := done >> 20; n > bar.at {
			bar.add(n - bar.at)
		}
	})
	start := time.Now()
	r, err := p.Write(cmd.Context(), out)
	bar.done()
	if err != nil {
		return err
	}
	took := time.Since(start)
	for _, name := range slices.Sorted(maps.Keys(r.Clipped)) {
		fmt.Fprintf(cmd.ErrOrStderr(), "graphrun: warning: %s: %d weights are beyond the type's range and became its largest number\n", name, r.Clipped[name])
	}
	if f.output == "json" {
		return f.print(cmd, p, r, took)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d tensors, %.1f million weights, %s became %s, %.2f bits per weight, in %s (%.1f million weights/s)\n",
		out, len(p.Tensors), float64(p.Weights)/1e6, bytesText(p.From), bytesText(p.Bytes), p.Bits(),
		took.Round(time.Millisecond), float64(p.Weights)/1e6/took.Seconds())
	return nil
}

// options checks the flags.
func (f *quantizeFlags) options(typ string) (quant.Options, error) {
	o := quant.Options{Pure: f.pure, Requantize: f.requantize, NoFallback: f.noFallback, Workers: f.threads}
	if !isOneOf(f.output, []string{"text", "json"}) {
		return o, usagef("-o is %q, want text or json", f.output)
	}
	if f.threads < 0 || f.threads > maxThreads {
		return o, usagef("--threads is %d, want 0 (the default) to %d", f.threads, maxThreads)
	}
	var err error
	if o.Mixture, err = quant.MixtureByName(typ); err != nil {
		return o, unknownType(err)
	}
	for _, text := range f.rules {
		r, err := quant.ParseRule(text)
		if err != nil {
			return o, usagef("--tensor %s: %w", text, err)
		}
		o.Rules = append(o.Rules, r)
	}
	if f.imatrix != "" {
		if o.Imatrix, err = quant.OpenImatrix(f.imatrix); err != nil {
			return o, err
		}
	}
	return o, nil
}

// unknownType makes an unknown type wrong usage.
func unknownType(err error) error {
	var unknown *loaders.UnsupportedError
	if errors.As(err, &unknown) && len(unknown.Known) > 0 {
		return usagef("quantize: %w", err)
	}
	return err
}

// warn says what a person would not expect of the plan.
func (f *quantizeFlags) warn(cmd *cobra.Command, p *quant.Plan) {
	w := cmd.ErrOrStderr()
	for _, what := range slices.Sorted(maps.Keys(p.Fallbacks)) {
		fmt.Fprintf(w, "graphrun: warning: %d matrices have rows that do not divide: %s\n", p.Fallbacks[what], what)
	}
	if n := p.FallbackWeights; n > 0 {
		fmt.Fprintf(w, "graphrun: warning: these are %.1f %% of the weights; the file has %.2f bits per weight\n", 100*float64(n)/float64(p.Weights), p.Bits())
	}
	if n := len(p.Unweighted); n > 0 {
		names := strings.Join(p.Unweighted[:min(n, 3)], ", ")
		if n > 3 {
			names += ", …"
		}
		fmt.Fprintf(w, "graphrun: warning: the importance matrix says nothing of %d matrices, which are quantized without: %s\n", n, names)
	}
}

// print prints the plan, and what writing it found.
func (f *quantizeFlags) print(cmd *cobra.Command, p *quant.Plan, r *quant.Report, took time.Duration) error {
	var b bytes.Buffer
	if f.output == "json" {
		type tensor struct {
			Name   string  `json:"name"`
			Shape  []int   `json:"shape"`
			From   string  `json:"from"`
			Type   string  `json:"type"`
			Wanted string  `json:"wanted,omitempty"`
			Bytes  int     `json:"bytes"`
			Bits   float64 `json:"bits_per_weight"`
		}
		out := struct {
			Tensors   []tensor       `json:"tensors"`
			Weights   int            `json:"weights"`
			From      int            `json:"from_bytes"`
			Bytes     int            `json:"bytes"`
			Bits      float64        `json:"bits_per_weight"`
			Fallbacks map[string]int `json:"fallbacks"`
			Clipped   map[string]int `json:"clipped,omitempty"`
			Seconds   float64        `json:"seconds,omitempty"`
		}{Weights: p.Weights, From: p.From, Bytes: p.Bytes, Bits: p.Bits(), Fallbacks: p.Fallbacks, Seconds: took.Seconds()}
		if r != nil {
			out.Clipped = r.Clipped
		}
		for _, t := range p.Tensors {
			x := tensor{Name: t.Name, Shape: t.Shape, From: t.From.String(), Type: t.Type.String(), Bytes: t.Bytes, Bits: t.Bits()}
			if t.Wanted != t.Type {
				x.Wanted = t.Wanted.String()
			}
			out.Tensors = append(out.Tensors, x)
		}
		if err := json.NewEncoder(&b).Encode(out); err != nil {
			return err
		}
		return writeOutput(cmd, "", b.Bytes())
	}
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "tensor\tshape\tfrom\ttype\tsize\tbits per weight\t")
	for _, t := range p.Tensors {
		note := ""
		if t.Wanted != t.Type {
			note = fmt.Sprintf("instead of %s", t.Wanted)
		}
		fmt.Fprintf(w, "%s\t%v\t%s\t%s\t%s\t%.2f\t%s\n", t.Name, t.Shape, t.From, t.Type, bytesText(t.Bytes), t.Bits(), note)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(table.String()) {
		fmt.Fprintln(&b, strings.TrimRight(line, " \n")) // cells without a note
	}
	fmt.Fprintf(&b, "\n%d tensors, %.1f million weights, %s become %s, %.2f bits per weight\n", len(p.Tensors), float64(p.Weights)/1e6, bytesText(p.From), bytesText(p.Bytes), p.Bits())
	return writeOutput(cmd, "", b.Bytes())
}
