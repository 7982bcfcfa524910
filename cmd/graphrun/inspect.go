package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"graphrun"
	"graphrun/engine"
	"graphrun/loaders"
)

func inspectCmd() *cobra.Command {
	var f modelFlags
	var output string
	var full, memory bool
	cmd := &cobra.Command{
		Use:   "inspect [MODEL]",
		Short: "Print a model's metadata, tensors and memory",
		Long: `inspect prints the metadata, the tensors with type, shape and size, and what the
model would need in memory for the given context: weights, KV cache of each kind
of layer, activations, total. With --memory it prints this alone. Nothing is
loaded for it: the header of the file is enough.

With --drop the memory is that of a model opened without these parts, and a line
says how many bytes of tensors are then never read.`,
		Example: `  graphrun inspect model.gguf
  graphrun inspect model.gguf --memory --ctx 8192 --kv q8_0`,
		Args: args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !isOneOf(output, []string{"text", "json"}) {
				return usagef("-o is %q, want text or json", output)
			}
			path, err := modelArg(cmd, args)
			if err != nil {
				return err
			}
			o, err := f.options()
			if err != nil {
				return err
			}
			file, err := openFile(cmd, path, o)
			if err != nil {
				return err
			}
			defer file.Close()
			var mem engine.MemoryReport
			var memErr error
			if isModel := file.IsHF() || file.Format != "safetensors"; isModel {
				if mem, memErr = engine.Estimate(file, o); memErr == nil {
					memErr = checkVocab(file)
				}
			} else {
				fmt.Fprintln(cmd.ErrOrStderr(), "graphrun: warning: no config.json lies beside the weights: their tensors are shown, the model is not known")
			}
			var buf bytes.Buffer
			if memory {
				if memErr != nil {
					return memErr
				}
				if output == "json" {
					err = writeJSON(&buf, mem)
				} else {
					fmt.Fprintf(&buf, "%s", mem.String())
				}
				if err != nil {
					return err
				}
				return writeOutput(cmd, "", buf.Bytes())
			}
			if output == "json" {
				err = inspectJSON(&buf, file, mem, memErr)
			} else {
				err = inspectText(&buf, file, full)
				if err == nil && memErr == nil && mem.Total > 0 {
					fmt.Fprintf(&buf, "\nmemory\n%s\n", mem.String())
				}
			}
			if err != nil {
				return err
			}
			if err := writeOutput(cmd, "", buf.Bytes()); err != nil {
				return err
			}
			return memErr
		},
	}
	f.register(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	cmd.Flags().BoolVar(&memory, "memory", false, "print only what the model needs in memory")
	cmd.Flags().BoolVar(&full, "full", false, "print long arrays and texts whole")
	return cmd
}

// checkVocab reports what is wrong with the tokenizer of a file that has one.
func checkVocab(file *loaders.Model) error {
	if !file.HasVocab() {
		return nil
	}
	_, err := file.Vocab()
	return err
}

// openFile opens a model without compiling it. Safetensors without a config.json
// are shown all the same.
func openFile(cmd *cobra.Command, path string, o engine.Options) (*loaders.Model, error) {
	if path == "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "graphrun: no MODEL named, using the embedded story model")
		return loaders.OpenBytes(graphrun.StoriesName, graphrun.Stories)
	}
	load := o.Folder()
	load.Read = false // nothing is computed
	m, err := loaders.OpenModel(path, load)
	if errors.Is(err, loaders.ErrNoConfig) {
		return loaders.OpenSafetensors(path)
	}
	if err != nil {
		return nil, err
	}
	for _, n := range m.Notes {
		fmt.Fprintln(cmd.ErrOrStderr(), "graphrun: warning:", n)
	}
	return m, nil
}

func inspectText(w io.Writer, file *loaders.Model, full bool) error {
	fmt.Fprintf(w, "%s: %s, %s in %d file(s), %d tensors\n\nmetadata\n", file.Path, file.Format, bytesText(int(file.Size)), len(file.Files), len(file.Tensors))
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, k := range file.Meta.Keys() {
		v, _ := file.Meta.Value(k)
		text := v.String()
		if !full {
			text = shorten(text, 100)
		}
		fmt.Fprintf(tab, "  %s\t%s\t%s\n", k, v.TypeName(), strings.ReplaceAll(text, "\n", `\n`))
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\ntensors (shape is row-major: the last number is the length of a row)\n")
	sum := map[string][2]int{}
	var types []string
	for _, t := range file.Tensors {
		fmt.Fprintf(tab, "  %s\t%s\t%v\t%s\n", t.Name, t.DType, t.Shape, bytesText(t.Size()))
		name := t.DType.String()
		if _, ok := sum[name]; !ok {
			types = append(types, name)
		}
		sum[name] = [2]int{sum[name][0] + 1, sum[name][1] + t.Size()}
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\ntypes\n")
	for _, name := range types {
		fmt.Fprintf(tab, "  %s\t%d tensors\t%s\n", name, sum[name][0], bytesText(sum[name][1]))
	}
	return tab.Flush()
}

func inspectJSON(w io.Writer, file *loaders.Model, mem engine.MemoryReport, memErr error) error {
	type tensor struct {
		Name  string `json:"name"`
		Type  string `json:"type"`
		Shape []int  `json:"shape"`
		Bytes int    `json:"bytes"`
	}
	type pair struct {
		Key   string `json:"key"`
		Type  string `json:"type"`
		Value any    `json:"value"`
	}
	out := struct {
		File     string               `json:"file"`
		Format   string               `json:"format"`
		Bytes    int64                `json:"bytes"`
		Metadata []pair               `json:"metadata"`
		Tensors  []tensor             `json:"tensors"`
		Memory   *engine.MemoryReport `json:"memory,omitempty"`
	}{File: file.Path, Format: file.Format, Bytes: file.Size}
	for _, k := range file.Meta.Keys() {
		v, _ := file.Meta.Value(k)
		var val any = v.Any()
		if _, err := json.Marshal(val); err != nil {
			val = v.String() // NaN and infinities, which JSON has no words for
		}
		out.Metadata = append(out.Metadata, pair{k, v.TypeName(), val})
	}
	for _, t := range file.Tensors {
		out.Tensors = append(out.Tensors, tensor{t.Name, t.DType.String(), t.Shape, t.Size()})
	}
	if memErr == nil && mem.Total > 0 {
		out.Memory = &mem
	}
	return json.NewEncoder(w).Encode(out)
}

// shorten cuts a text to about n characters.
func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n]) + fmt.Sprintf(" … (%d more characters)", len(r)-n)
}

func bytesText(n int) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}
