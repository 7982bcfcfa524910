package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"graphrun/loaders"
)

func splitCmd() *cobra.Command {
	var size string
	var tensors int
	cmd := &cobra.Command{
		Use:   "split IN PREFIX",
		Short: "Cut a model file into parts",
		Long: `split writes a GGUF model as several files, PREFIX-00001-of-00003.gguf and so on,
for disks and hosts that limit the size of a file. Every verb takes the name of
any part, or of the folder, for the model. A part holds whole tensors, one at
least, so it can be larger than the limit.`,
		Example: `  graphrun split model.gguf model --size 2G`,
		Args:    args(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			limit := loaders.SplitLimit{Tensors: tensors}
			switch {
			case (size == "") == (tensors == 0):
				return usagef("split needs one of --size and --tensors")
			case tensors < 0:
				return usagef("--tensors is %d, want 1 or more", tensors)
			case size != "":
				var err error
				if limit.Bytes, err = parseSize(size); err != nil {
					return err
				}
			}
			path, err := modelPath(cmd, args[0])
			if err != nil {
				return err
			}
			m, err := loaders.Open(path)
			if err != nil {
				return err
			}
			defer m.Close()
			paths, err := m.WriteSplit(cmd.Context(), args[1], limit)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s to %s: %d tensors, %s in %d files\n", paths[0], paths[len(paths)-1], len(m.Tensors), bytesText(int(m.Size)), len(paths))
			return nil
		},
	}
	cmd.Flags().StringVar(&size, "size", "", "most bytes of tensors in a part: a number with K, M or G for 1000, a million or 1000 million")
	cmd.Flags().IntVar(&tensors, "tensors", 0, "most tensors in a part")
	return cmd
}

// parseSize reads a number of bytes, such as 2G or 500M.
func parseSize(text string) (int, error) {
	number, unit := text, 1.0
	for suffix, u := range map[string]float64{"K": 1e3, "M": 1e6, "G": 1e9} {
		if n, ok := strings.CutSuffix(strings.ToUpper(text), suffix); ok {
			number, unit = n, u
		}
	}
	x, err := strconv.ParseFloat(number, 64)
	if err != nil || !(x > 0) || x*unit < 1 || x*unit > math.MaxInt64/2 {
		return 0, usagef("--size is %q, want a number of bytes such as 500M or 2G", text)
	}
	return int(x * unit), nil
}

func mergeCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "merge IN OUT",
		Short:   "Join the parts of a model to one file",
		Long:    `merge writes a model that consists of several GGUF files as one. IN is any of the parts, or their folder.`,
		Example: `  graphrun merge model-00001-of-00003.gguf model.gguf`,
		Args:    args(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := modelPath(cmd, args[0])
			if err != nil {
				return err
			}
			m, err := loaders.Open(path)
			if err != nil {
				return err
			}
			defer m.Close()
			if err := m.WriteWhole(cmd.Context(), args[1]); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d tensors, %s from %d files\n", args[1], len(m.Tensors), bytesText(int(m.Size)), len(m.Files))
			return nil
		},
	}
	return cmd
}
