package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"graphrun/engine"
)

func imatrixCmd() *cobra.Command {
	var f modelFlags
	var out string
	var window int
	cmd := &cobra.Command{
		Use:   "imatrix MODEL TEXT -o FILE",
		Short: "Measure which columns of a model's matrices matter, for quantize",
		Long: `imatrix runs the model over a text and writes an importance matrix: for each
matrix, the mean square of the activations that each column is multiplied with.
graphrun quantize --imatrix FILE lets errors in large columns count more, which
helps most at 2 to 4 bits. FILE has the GGUF form that llama.cpp reads and writes.

TEXT is a plain text like those the model will meet, some hundred thousand words
at best; - is standard input. The model is best the one in F16, BF16 or F32.`,
		Example: `  graphrun imatrix model-f16.gguf text.txt -o model.imatrix`,
		Args:    args(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case out == "":
				return usagef("imatrix needs -o FILE")
			case window != 0 && window < 4:
				return usagef("--window is %d, want 4 or more, or 0 for the default", window)
			case f.backend != "cpu":
				return usagef("--backend is %q; imatrix runs on cpu", f.backend)
			}
			text, err := readInput(cmd, args[1])
			if err != nil {
				return err
			}
			path, err := modelPath(cmd, args[0])
			if err != nil {
				return err
			}
			m, err := f.open(cmd, path, func(o *engine.Options) {
				if o.Context == 0 {
					o.Context = window // 0 is the default
				}
			})
			if err != nil {
				return err
			}
			defer m.Close()
			for _, file := range modelFiles(m) {
				if sameFile(file, out) {
					return fmt.Errorf("imatrix: %s is a file of the model; give another name", out)
				}
			}
			return writeImatrix(cmd, m, string(text), filepath.Base(args[1]), window, out)
		},
	}
	f.register(cmd)
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write")
	cmd.Flags().IntVar(&window, "window", 0, "tokens of a window; 0 is 512 or the context, whichever is less")
	return cmd
}

func writeImatrix(cmd *cobra.Command, m *engine.Model, text, name string, window int, out string) error {
	if window == 0 {
		window = min(512, m.Limits().Context)
	}
	var bar *progress
	defer func() {
		if bar != nil {
			bar.done()
		}
	}()
	im, err := m.Importance(cmd.Context(), m.Encode(text), engine.ImportanceOptions{Window: window, Progress: func(done, windows int) {
		if bar == nil {
			bar = newProgress(cmd, "windows", windows)
		}
		bar.add(done - bar.at)
	}})
	if err != nil {
		return err
	}
	im.Dataset = strings.TrimPrefix(name, "-")
	if err := im.Save(out, window); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d matrices, from %d windows of %d tokens\n", out, len(im.Names()), im.Chunks, window)
	return nil
}

// sameFile reports whether two paths lead to one file.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
