package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// maxInput bounds what is read whole, so that an endless input is an error
// before memory ends.
const maxInput = 256 << 20

// readInput reads all of a file, or of standard input when path is "-". It does
// not wait longer than the command's context lasts.
func readInput(cmd *cobra.Command, path string) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1) // the read may be left behind
	go func() {
		data, err := readAtMost(cmd.InOrStdin(), path, maxInput)
		done <- result{data, err}
	}()
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	select {
	case r := <-done:
		return r.data, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func readAtMost(stdin io.Reader, path string, most int64) ([]byte, error) {
	in, name := stdin, "standard input"
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in, name = f, path
	}
	b, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s: more than %d bytes, which is too much to read at once", name, most)
	}
	return b, err
}
