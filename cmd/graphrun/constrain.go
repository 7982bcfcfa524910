package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"graphrun/engine"
	"graphrun/grammar"
)

// constraintFlags are the flags that say what an answer must look like.
type constraintFlags struct {
	grammar, schema string

	compiled *grammar.Grammar
	vocab    *grammar.Vocab
}

func (f *constraintFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.grammar, "grammar", "", "write only what the GBNF grammar in this file allows")
	fs.StringVar(&f.schema, "json-schema", "", "write only JSON that is valid under the schema in this file; - is standard input")
}

// given reports whether there is a constraint.
func (f *constraintFlags) given() bool { return f.grammar != "" || f.schema != "" }

// read compiles the grammar or schema, before a model is opened.
func (f *constraintFlags) read(cmd *cobra.Command, o *engine.GenerateOptions) error {
	switch {
	case !f.given():
		return nil
	case f.grammar != "" && f.schema != "":
		return usagef("--grammar and --json-schema exclude each other")
	case o.IgnoreEOG:
		return usagef("--ignore-eog cannot be combined with --grammar or --json-schema: the text ends where they let it end")
	}
	path := f.grammar + f.schema
	src, err := readInput(cmd, path)
	if err != nil {
		return err
	}
	if f.schema != "" {
		f.compiled, err = grammar.FromSchema(src)
	} else {
		f.compiled, err = grammar.ParseGBNF(string(src))
	}
	if err != nil {
		if path == "-" {
			path = "standard input"
		}
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// begin gives options a constraint at its beginning, for one answer.
func (f *constraintFlags) begin(m *engine.Model, o *engine.GenerateOptions) {
	if f.compiled == nil {
		return
	}
	if f.vocab == nil {
		f.vocab = grammar.NewVocab(m.Tokenizer)
	}
	o.Constraint = f.compiled.Matcher(f.vocab)
}
