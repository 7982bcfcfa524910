package main

import (
	"bufio"
	"encoding/json"
	"strconv"

	"github.com/spf13/cobra"

	"graphrun/engine"
)

func embedCmd() *cobra.Command {
	var f modelFlags
	var pool, output string
	var raw bool
	cmd := &cobra.Command{
		Use:   "embed MODEL [TEXT]",
		Short: "Print the embedding of a text",
		Long: `embed prints a vector for a text, the argument or standard input: the state of
the model after its last norm, averaged over the tokens (--pool mean) or that of
the last token (--pool last), divided by its length unless --raw is given.`,
		Example: `  graphrun embed model.gguf "The weather is lovely" -o json`,
		Args:    args(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !isOneOf(output, []string{"text", "json"}) {
				return usagef("-o is %q, want text or json", output)
			}
			o := engine.EmbedOptions{Raw: raw}
			switch pool {
			case "mean":
			case "last":
				o.Pool = engine.PoolLast
			default:
				return usagef("--pool is %q, want mean or last", pool)
			}
			if len(args) == 1 && inputIsTerminal(cmd) {
				return usagef("no text: give one as an argument or on standard input")
			}
			path, err := modelPath(cmd, args[0])
			if err != nil {
				return err
			}
			text, err := textArg(cmd, args[1:])
			if err != nil {
				return err
			}
			m, err := f.open(cmd, path, func(o *engine.Options) {
				if !isOneOf("head", o.Drop) { // a vector needs no logits
					o.Drop = append(o.Drop, "head")
				}
			})
			if err != nil {
				return err
			}
			defer m.Close()
			ids := m.Encode(text)
			v, err := m.Embed(cmd.Context(), ids, o)
			if err != nil {
				return err
			}
			if output == "json" {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(struct {
					Embedding []float32 `json:"embedding"`
					Pool      string    `json:"pool"`
					Tokens    int       `json:"tokens"`
				}{v, pool, len(ids)})
			}
			w := bufio.NewWriter(cmd.OutOrStdout())
			for _, x := range v {
				w.WriteString(strconv.FormatFloat(float64(x), 'g', -1, 32))
				w.WriteByte('\n')
			}
			return w.Flush()
		},
	}
	f.register(cmd)
	fs := cmd.Flags()
	fs.StringVar(&pool, "pool", "mean", "mean of all tokens, or last: the state of the last one")
	fs.BoolVar(&raw, "raw", false, "do not divide the vector by its length")
	fs.StringVarP(&output, "output", "o", "text", "text: a number a line, or json")
	return cmd
}
