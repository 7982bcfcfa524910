package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"graphrun/engine"
)

func perplexityCmd() *cobra.Command {
	var f modelFlags
	var base, output string
	var window int
	cmd := &cobra.Command{
		Use:   "perplexity MODEL FILE",
		Short: "Measure how well a model predicts a text, and how far it is from another",
		Long: `perplexity prints the perplexity of a text with its standard error. FILE is a
plain text; - is standard input. It is cut into windows that do not overlap, and
in each the tokens of the second half are scored, as llama.cpp does, so that
numbers can be compared.

With --base MODEL2 the same text is read by both, and the divergence of MODEL
from MODEL2 is printed: the mean Kullback-Leibler divergence and how often both
find the same token likeliest. A base is the model before it was quantized.`,
		Example: `  graphrun perplexity model-q4_0.gguf text.txt --base model-f16.gguf`,
		Args:    args(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !isOneOf(output, []string{"text", "json"}) {
				return usagef("-o is %q, want text or json", output)
			}
			if window != 0 && window < 4 {
				return usagef("--window is %d, want 4 or more, or 0 for the default", window)
			}
			text, err := readInput(cmd, args[1])
			if err != nil {
				return err
			}
			path, err := modelPath(cmd, args[0])
			if err != nil {
				return err
			}
			if base != "" {
				if base, err = modelPath(cmd, base); err != nil {
					return err
				}
			}
			m, err := f.open(cmd, path, nil)
			if err != nil {
				return err
			}
			defer m.Close()
			tokens := m.Encode(string(text))
			var bar *progress
			o := engine.PerplexityOptions{Window: window, Progress: func(done, windows int, p engine.Perplexity) {
				if bar == nil {
					bar = newProgress(cmd, "windows", windows)
				}
				bar.add(done - bar.at)
			}}
			defer func() {
				if bar != nil {
					bar.done()
				}
			}()
			if base == "" {
				p, err := m.Perplexity(cmd.Context(), tokens, o)
				if err != nil {
					return err
				}
				return printPerplexity(cmd, output, p, nil)
			}
			b, err := f.open(cmd, base, nil)
			if err != nil {
				return err
			}
			defer b.Close()
			d, err := m.Compare(cmd.Context(), b, tokens, o)
			if err != nil {
				return err
			}
			return printPerplexity(cmd, output, d.Model, &d)
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&base, "base", "", "compare with this model")
	cmd.Flags().IntVar(&window, "window", 0, "tokens of a window; 0 is 512 or the context, whichever is less")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

func printPerplexity(cmd *cobra.Command, output string, p engine.Perplexity, d *engine.Divergence) error {
	var w bytes.Buffer
	if output == "json" {
		type perplexity struct {
			Value   float64 `json:"perplexity"`
			Error   float64 `json:"error"`
			Mean    float64 `json:"mean_nll"`
			Tokens  int     `json:"tokens"`
			Windows int     `json:"windows"`
		}
		out := struct {
			perplexity
			Base      *perplexity `json:"base,omitempty"`
			KL        *float64    `json:"kl,omitempty"`
			KLError   *float64    `json:"kl_error,omitempty"`
			KLMax     *float64    `json:"kl_max,omitempty"`
			Top1      *float64    `json:"top1,omitempty"`
			Top1Error *float64    `json:"top1_error,omitempty"`
		}{perplexity: perplexity{p.Value, p.Error, p.Mean, p.Tokens, p.Windows}}
		if d != nil {
			b := perplexity{d.Base.Value, d.Base.Error, d.Base.Mean, d.Base.Tokens, d.Base.Windows}
			out.Base, out.KL, out.KLError, out.KLMax, out.Top1, out.Top1Error = &b, &d.KL, &d.KLError, &d.KLMax, &d.Top1, &d.Top1Error
		}
		if err := json.NewEncoder(&w).Encode(out); err != nil {
			return err
		}
		return writeOutput(cmd, "", w.Bytes())
	}
	fmt.Fprintf(&w, "perplexity %.4f +- %.4f over %d tokens in %d windows\n", p.Value, p.Error, p.Tokens, p.Windows)
	if d != nil {
		fmt.Fprintf(&w, "base       %.4f +- %.4f\n", d.Base.Value, d.Base.Error)
		fmt.Fprintf(&w, "divergence %.6f +- %.6f nats (KL, mean), %.6f at most\n", d.KL, d.KLError, d.KLMax)
		fmt.Fprintf(&w, "same top token %.2f %% +- %.2f %%\n", 100*d.Top1, 100*d.Top1Error)
	}
	return writeOutput(cmd, "", w.Bytes())
}
