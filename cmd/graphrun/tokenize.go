package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"graphrun/loaders"
)

func tokenizeCmd() *cobra.Command {
	var opt loaders.EncodeOptions
	var array bool
	var output string
	cmd := &cobra.Command{
		Use:   "tokenize MODEL [TEXT]",
		Short: "Print the token ids of a text",
		Long: `tokenize prints the id and the piece of each token of a text, one a line. The
text is the argument, or comes from standard input, byte for byte. MODEL is a
GGUF file, a tokenizer.json, also packed as .gz, or a folder that holds one; no
weights are read.

Control tokens spelled in the text are text unless --parse-special is given.
With --json, standard input is a JSON array of strings and the output a JSON
array of arrays of ids.`,
		Example: `  graphrun tokenize model.gguf "Hello, world" --add-special
  echo '["Hello", "world"]' | graphrun tokenize tokenizer.json --json`,
		Args: args(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !isOneOf(output, []string{"text", "json"}) {
				return usagef("-o is %q, want text or json", output)
			}
			if array && len(args) == 2 {
				return usagef("--json reads texts from standard input, found the argument %q", args[1])
			}
			if !array && len(args) == 1 && inputIsTerminal(cmd) {
				return usagef("no text: give one as an argument or on standard input")
			}
			tok, err := openTokenizer(cmd, args[0])
			if err != nil {
				return err
			}
			w := bufio.NewWriter(cmd.OutOrStdout())
			if array {
				err = tokenizeJSON(cmd, w, tok, opt)
			} else {
				var text string
				if text, err = textArg(cmd, args[1:]); err == nil {
					err = printTokens(w, tok, tok.Encode(text, opt), output)
				}
			}
			if err != nil {
				return err
			}
			return w.Flush()
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&array, "json", false, "read a JSON array of strings, print a JSON array of arrays of ids")
	fs.BoolVar(&opt.AddSpecial, "add-special", false, "add the tokens that begin and end a text, as the vocabulary says")
	fs.BoolVar(&opt.ParseSpecial, "parse-special", false, "recognise control tokens that are spelled in the text")
	fs.StringVarP(&output, "output", "o", "text", "text, or json: an array of objects with id and piece")
	return cmd
}

// openTokenizer reads the vocabulary of a model; its warnings go to the error
// stream.
func openTokenizer(cmd *cobra.Command, path string) (*loaders.Tokenizer, error) {
	path, err := tokenizerPath(cmd, path)
	if err != nil {
		return nil, err
	}
	tok, err := loaders.OpenTokenizer(path)
	if err != nil {
		return nil, err
	}
	for _, w := range tok.Warnings() {
		fmt.Fprintln(cmd.ErrOrStderr(), "graphrun: warning:", w)
	}
	return tok, nil
}

// textArg returns the text argument, or all of standard input.
func textArg(cmd *cobra.Command, args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	b, err := readInput(cmd, "-")
	return string(b), err
}

func inputIsTerminal(cmd *cobra.Command) bool {
	f, ok := cmd.InOrStdin().(*os.File)
	return ok && isTerminal(f)
}

func tokenizeJSON(cmd *cobra.Command, w io.Writer, tok *loaders.Tokenizer, opt loaders.EncodeOptions) error {
	var texts []*string
	if err := decodeInput(cmd, &texts); err != nil {
		return fmt.Errorf("standard input: want a JSON array of strings: %w", err)
	}
	out := make([][]int32, len(texts))
	for i, s := range texts {
		if s == nil {
			return fmt.Errorf("standard input: want a JSON array of strings: text %d is null", i)
		}
		out[i] = tok.Encode(*s, opt)
		if out[i] == nil {
			out[i] = []int32{}
		}
	}
	return json.NewEncoder(w).Encode(out)
}

// decodeInput reads exactly one JSON value from standard input.
func decodeInput(cmd *cobra.Command, v any) error {
	b, err := readInput(cmd, "-")
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("there is more after the value")
	}
	return nil
}

// idList is a JSON array of token ids, none of them null.
type idList []int32

// UnmarshalJSON implements json.Unmarshaler.
func (l *idList) UnmarshalJSON(b []byte) error {
	var list []*int32
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	if list == nil {
		return errors.New("found null")
	}
	*l = make(idList, len(list))
	for i, id := range list {
		if id == nil {
			return errors.New("found null")
		}
		(*l)[i] = *id
	}
	return nil
}

func printTokens(w io.Writer, tok *loaders.Tokenizer, ids []int32, output string) error {
	if output == "json" {
		type token struct {
			ID    int32  `json:"id"`
			Piece string `json:"piece"`
		}
		list := make([]token, len(ids))
		for i, id := range ids {
			list[i] = token{id, string(tok.Piece(id))}
		}
		return writeJSON(w, list)
	}
	for _, id := range ids {
		if _, err := fmt.Fprintf(w, "%7d  %s\n", id, strconv.Quote(string(tok.Piece(id)))); err != nil {
			return err
		}
	}
	return nil
}

// writeJSON writes one line without escaping for HTML.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func detokenizeCmd() *cobra.Command {
	var array, skip bool
	cmd := &cobra.Command{
		Use:   "detokenize MODEL [IDS...]",
		Short: "Print the text of token ids",
		Long: `detokenize prints the text of token ids, given as arguments or separated by
commas, without a newline after it. MODEL is as for tokenize. Bytes that are no
character are printed as they are.

Control tokens are printed as they are spelled; --skip-special leaves them out.
With --json, standard input is a JSON array of arrays of ids and the output a
JSON array of strings, in which such bytes are U+FFFD.`,
		Example: `  graphrun detokenize model.gguf 9906 11 1917
  echo '[[9906,11,1917]]' | graphrun detokenize tokenizer.json --json`,
		Args: func(cmd *cobra.Command, list []string) error {
			if len(list) == 0 {
				return args(1, 1)(cmd, list)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, list []string) error {
			if array == (len(list) > 1) {
				return usagef("detokenize takes token ids as arguments, or --json and an array on standard input")
			}
			tok, err := openTokenizer(cmd, list[0])
			if err != nil {
				return err
			}
			opt := loaders.DecodeOptions{Special: !skip}
			if array {
				return detokenizeJSON(cmd, tok, opt)
			}
			var ids []int32
			for _, arg := range list[1:] {
				for part := range strings.SplitSeq(arg, ",") {
					id, err := strconv.ParseInt(strings.TrimSpace(part), 10, 32)
					if err != nil {
						return usagef("found %q, want token ids such as 1 15 27", part)
					}
					ids = append(ids, int32(id))
				}
			}
			if err := checkIDs(tok, ids); err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(tok.AppendDecode(nil, ids, opt))
			return err
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&array, "json", false, "read a JSON array of arrays of ids, print a JSON array of strings")
	fs.BoolVar(&skip, "skip-special", false, "leave out control tokens")
	return cmd
}

func checkIDs(tok *loaders.Tokenizer, ids []int32) error {
	for _, id := range ids {
		if id < 0 || int(id) >= tok.Size() {
			return fmt.Errorf("token id %d is outside of the vocabulary, 0 to %d", id, tok.Size()-1)
		}
	}
	return nil
}

func detokenizeJSON(cmd *cobra.Command, tok *loaders.Tokenizer, opt loaders.DecodeOptions) error {
	var lists []idList
	if err := decodeInput(cmd, &lists); err != nil {
		return fmt.Errorf("standard input: want a JSON array of arrays of token ids: %w", err)
	}
	out := make([]string, len(lists))
	for i, ids := range lists {
		if err := checkIDs(tok, ids); err != nil {
			return err
		}
		out[i] = tok.Decode(ids, opt)
	}
	return writeJSON(cmd.OutOrStdout(), out)
}
