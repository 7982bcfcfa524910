package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"graphrun/engine"
)

func logitsCmd() *cobra.Command {
	var f modelFlags
	var tokens, out string
	var chunk int
	cmd := &cobra.Command{
		Use:   "logits MODEL --tokens IDS -o FILE",
		Short: "Write the logits after each token, to compare engines",
		Long: `logits feeds token ids from position 0 on and writes one row of V little-endian
float32 numbers for each. The KV cache is f32 here unless --kv says otherwise,
so that nothing is rounded that the model does not round.`,
		Example: "  graphrun logits model.gguf --tokens 1,15,27 -o logits.f32",
		Args:    args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if tokens == "" || out == "" {
				return usagef("logits needs --tokens IDS and -o FILE")
			}
			if chunk < 0 {
				return usagef("--chunk is %d, want 1 or more, or 0 for the default", chunk)
			}
			path, err := modelArg(cmd, args)
			if err != nil {
				return err
			}
			if f.kv == "" {
				f.kv = "f32"
			}
			if isOneOf("head", f.drop) {
				return usagef("--drop head: logits are what the head computes")
			}
			m, err := f.open(cmd, path, func(o *engine.Options) { o.Chunk, o.MaxRows, o.TokensOnly = chunk, chunk, true })
			if err != nil {
				return err
			}
			defer m.Close()
			ids, err := parseTokens(tokens, m)
			if err != nil {
				return err
			}
			return writeLogits(cmd, m, ids, out)
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&tokens, "tokens", "", "token ids, separated by commas")
	cmd.Flags().IntVar(&chunk, "chunk", 0, "tokens per step; 0 is 512")
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write")
	return cmd
}

// writeLogits runs ids in steps of as many tokens as the model's limits allow
// rows for.
func writeLogits(cmd *cobra.Command, m *engine.Model, ids []int32, path string) error {
	if have := m.Limits().Context; len(ids) > have {
		return &engine.ContextError{Have: have, Want: len(ids)}
	}
	out, err := createOutput(cmd.OutOrStdout(), path, modelFiles(m)...)
	if err != nil {
		return err
	}
	defer out.discard()
	w := bufio.NewWriterSize(out, 1<<20)

	ctx := cmd.Context()
	b, err := m.Acquire(ctx)
	if err != nil {
		return err
	}
	defer b.Release()
	seq := m.Cache().NewSequence()
	defer seq.Drop()
	bar := newProgress(cmd, "tokens", len(ids))
	defer bar.done()
	size := min(b.Limits().Step, b.Limits().Rows)
	raw := make([]byte, 4*b.Limits().Vocab)
	for at := 0; at < len(ids); at += size {
		items := []engine.Item{{Seq: seq, Tokens: ids[at:min(at+size, len(ids))], Rows: engine.RowsAll}}
		if err := b.Step(ctx, items); err != nil {
			return err
		}
		for k := range items[0].Tokens {
			for i, x := range b.Logits(&items[0], k) {
				binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(x))
			}
			if _, err := w.Write(raw); err != nil {
				return err
			}
		}
		bar.add(len(items[0].Tokens))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := out.commit(); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%d rows of %d float32 numbers in %s\n", len(ids), b.Limits().Vocab, path)
	return nil
}
