package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"graphrun/graph"
)

// diffFlags are the flags of graphrun diff.
type diffFlags struct {
	dumpFlags
	passesB string
	json    bool
}

func diffCmd() *cobra.Command {
	var f diffFlags
	cmd := &cobra.Command{
		Use:   "diff A [B]",
		Short: "Compare two compiled graphs",
		Long: `diff compares the graphs of two models, or text forms that graphrun --dump wrote:
which values only one of them has, and which differ in operation, type, attributes
or arguments. Values are matched by layer and role, not by id. What is the same in
several layers is one line.

--passes is for both sides, --passes-b for the second instead; without B the
second side is A again, so that diff shows what a pass does.`,
		Example: `  graphrun diff a.gguf b.gguf
  graphrun diff model.gguf --passes-b=-fuse-gated`,
		Args: args(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.pass, "pass", "", "compare the state after this pass; \"build\" is before all")
	fs.StringVar(&f.passesB, "passes-b", "", "passes to switch off on the second side")
	fs.BoolVar(&f.json, "json", false, "print the differences as JSON")
	f.modelFlags.register(cmd)
	return cmd
}

func (f *diffFlags) run(cmd *cobra.Command, args []string) error {
	if err := f.knownPass(); err != nil {
		return err
	}
	second := args[0]
	if len(args) == 2 {
		second = args[1]
	}
	a, err := f.load(cmd, args[0])
	if err != nil {
		return err
	}
	if cmd.Flags().Changed("passes-b") {
		f.passes = f.passesB
	}
	b, err := f.load(cmd, second)
	if err != nil {
		return err
	}
	d := graph.Compare(a, b)
	if f.json {
		return writeDiffJSON(cmd.OutOrStdout(), d)
	}
	return d.WriteText(cmd.OutOrStdout())
}

// load returns the graph of a model or of a text form.
func (f *diffFlags) load(cmd *cobra.Command, path string) (*graph.Graph, error) {
	path, err := modelPath(cmd, path)
	if err != nil {
		return nil, err
	}
	text, err := graphText(cmd, path)
	if err != nil {
		return nil, err
	}
	if text == nil {
		g, _, err := f.graph(cmd, path)
		return g, err
	}
	g, err := graph.Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return g, nil
}

// graphText returns the text form in a file or pipe, or nil if the file is none.
// A pipe can be read only once.
func graphText(cmd *cobra.Command, path string) ([]byte, error) {
	mark := []byte("graph ")
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if st.Mode().IsRegular() {
		in, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer in.Close()
		head := make([]byte, len(mark))
		if _, err := io.ReadFull(in, head); err != nil || !bytes.Equal(head, mark) {
			return nil, nil // a model, or what loading says is none
		}
	} else if st.IsDir() {
		return nil, nil
	}
	text, err := readInput(cmd, path)
	if err == nil && !bytes.HasPrefix(text, mark) {
		err = fmt.Errorf("%s: a pipe must hold a graph's text form, as graphrun --dump writes it", path)
	}
	return text, err
}

// writeDiffJSON writes an object with the lines of the text form of each value.
func writeDiffJSON(w io.Writer, d *graph.Diff) error {
	type pair struct {
		A     string   `json:"a"`
		B     string   `json:"b"`
		Parts []string `json:"parts"`
	}
	out := struct {
		Same  int      `json:"same"`
		OnlyA []string `json:"only_a"`
		OnlyB []string `json:"only_b"`
		Both  []pair   `json:"differ"`
	}{d.Same, []string{}, []string{}, []pair{}}
	for _, v := range d.OnlyA {
		out.OnlyA = append(out.OnlyA, v.Line())
	}
	for _, v := range d.OnlyB {
		out.OnlyB = append(out.OnlyB, v.Line())
	}
	for _, p := range d.Both {
		out.Both = append(out.Both, pair{p.A.Line(), p.B.Line(), p.Parts})
	}
	return json.NewEncoder(w).Encode(out)
}
