package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"graphrun/engine"
	"graphrun/graph"
)

// sampleFlags are the flags that say how tokens are chosen.
type sampleFlags struct {
	temp, topP, minP, penalty float64
	topK                      int
	seed                      int64
	max                       int
	stop                      []string
	ignoreEOG                 bool
	constraintFlags
	draftFlags
}

func (f *sampleFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.IntVarP(&f.max, "max-tokens", "n", 0, "tokens to generate at most; 0 is until the text or the context ends")
	fs.Float64Var(&f.temp, "temp", 0.8, "temperature; 0 always takes the most likely token")
	fs.IntVar(&f.topK, "top-k", 40, "choose among the K most likely tokens; 0 is all")
	fs.Float64Var(&f.topP, "top-p", 0.95, "choose among the most likely tokens of this probability together; 1 is all")
	fs.Float64Var(&f.minP, "min-p", 0.05, "leave out tokens with less than this share of the best one's probability")
	fs.Float64Var(&f.penalty, "repeat-penalty", 1, "make the last 64 tokens less likely; 1 is off")
	fs.Int64Var(&f.seed, "seed", -1, "seed of the draws; -1 takes a new one and prints it")
	fs.StringArrayVar(&f.stop, "stop", nil, "end the text before this string; may be given several times")
	fs.BoolVar(&f.ignoreEOG, "ignore-eog", false, "go on after end-of-generation tokens")
	f.constraintFlags.register(fs)
	f.draftFlags.register(fs)
}

// options checks the flags. The seed is drawn here when none was given.
func (f *sampleFlags) options() (engine.GenerateOptions, error) {
	if f.max < 0 {
		return engine.GenerateOptions{}, usagef("-n is %d, want 0 (no limit) or more", f.max)
	}
	if f.seed < -1 {
		return engine.GenerateOptions{}, usagef("--seed is %d, want 0 or more, or -1 for a new one", f.seed)
	}
	if f.seed < 0 {
		f.seed = int64(rand.Uint32())
	}
	for _, s := range f.stop {
		if s == "" || !utf8.ValidString(s) {
			return engine.GenerateOptions{}, usagef("--stop is %q, want a text", s)
		}
	}
	o := engine.GenerateOptions{
		SampleOptions: engine.SampleOptions{Temperature: f.temp, TopK: f.topK, TopP: f.topP, MinP: f.minP, RepeatPenalty: f.penalty, Seed: uint64(f.seed)},
		MaxTokens:     f.max, Stop: f.stop, IgnoreEOG: f.ignoreEOG,
	}
	if _, err := engine.NewSampler(1, o.SampleOptions); err != nil {
		return o, usagef("%w", err)
	}
	return o, nil
}

// runFlags are the flags of graphrun run.
type runFlags struct {
	modelFlags
	sampleFlags
	graphFlags
	file   string
	tokens string
	ids    bool
	output string
}

func runCmd() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [MODEL] [PROMPT]",
		Short: "Continue a text",
		Long: `run prints the prompt and what the model writes after it, as it is written, and
ends with one line of statistics on standard error.

An argument with a path separator or the extension .gguf is a MODEL and must
exist. The prompt is the other argument, or comes from -f FILE or from standard
input. Control tokens spelled in a prompt are text.

With --graph the graph is read from a file in the text form of graphrun --dump:
one that stands in for the model's own, or, with --weights and --input, any
other network, whose outputs are printed.`,
		Example: `  graphrun run "Once upon a time"
  graphrun run model.gguf "The capital of France is" -n 32 --temp 0
  graphrun run model.gguf -f prompt.txt
  graphrun run model.gguf "A person as JSON:" --json-schema person.json
  graphrun run --graph net.grt --weights net.safetensors --input "x=1,2;3,4"`,
		Args: args(0, 2),
		RunE: f.run,
	}
	f.modelFlags.register(cmd)
	f.sampleFlags.register(cmd)
	f.graphFlags.register(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&f.file, "file", "f", "", "read the prompt from this file")
	fs.StringVar(&f.tokens, "tokens", "", "token ids instead of a prompt, separated by commas")
	fs.BoolVar(&f.ids, "ids", false, "print only the generated token ids, as a JSON array")
	fs.StringVarP(&f.output, "output", "o", "text", "text, or json: one object with text, ids and statistics")
	return cmd
}

func (f *runFlags) run(cmd *cobra.Command, args []string) error {
	if !isOneOf(f.output, []string{"text", "json"}) {
		return usagef("-o is %q, want text or json", f.output)
	}
	alone, err := f.graphFlags.alone()
	if err != nil {
		return err
	}
	if alone {
		if len(args) > 0 {
			return usagef("found %q: with --weights, --input or --dim there is no MODEL and no prompt", args[0])
		}
		return f.runGraph(cmd)
	}
	path, prompt, err := f.arguments(cmd, args)
	if err != nil {
		return err
	}
	gen, err := f.sampleFlags.options()
	if err != nil {
		return err
	}
	if err := f.constraintFlags.read(cmd, &gen); err != nil {
		return err
	}
	if err := f.draftFlags.check(&f.modelFlags); err != nil {
		return err
	}
	var own *graph.Graph
	if f.graph != "" {
		if own, err = f.graphFlags.readGraph(cmd); err != nil {
			return err
		}
	}
	m, err := f.open(cmd, path, func(o *engine.Options) { o.Graph = own })
	if err != nil {
		return err
	}
	defer m.Close()
	closeDraft, err := f.drafter(cmd, m, f.modelFlags, &gen)
	if err != nil {
		return err
	}
	defer closeDraft()
	ids := []int32(nil)
	if f.tokens != "" {
		ids, err = parseTokens(f.tokens, m)
	} else {
		ids = m.Encode(prompt)
		if len(ids) == 0 {
			err = usagef("the prompt is empty and the model has no token to begin a text with")
		}
	}
	if err != nil {
		return err
	}
	return f.generate(cmd, m, prompt, ids, gen)
}

// arguments tells MODEL and PROMPT apart and finds the prompt.
func (f *runFlags) arguments(cmd *cobra.Command, args []string) (path, prompt string, err error) {
	given := f.tokens != "" // a prompt is there
	switch {
	case given && f.file != "":
		return "", "", usagef("a prompt is given twice: by --tokens and by --file")
	case len(args) == 2:
		if given || f.file != "" {
			return "", "", usagef("a prompt is given twice: as argument %q and by --tokens or --file", args[1])
		}
		path, err := modelPath(cmd, args[0])
		return path, args[1], err
	case len(args) == 1 && (looksLikeModel(args[0]) || given || f.file != ""):
		if path, err = modelPath(cmd, args[0]); err != nil {
			if !given && f.file == "" {
				err = fmt.Errorf("%w (a text that has a / in it goes to -f FILE or standard input)", err)
			}
			return "", "", err
		}
	case len(args) == 1:
		return "", args[0], nil
	}
	if given {
		return path, "", nil
	}
	text, err := f.read(cmd)
	return path, text, err
}

// read returns the prompt of -f FILE or of standard input.
func (f *runFlags) read(cmd *cobra.Command) (string, error) {
	path := f.file
	if f.grammar+f.schema == "-" && (path == "" || path == "-") {
		return "", usagef("standard input is the schema or grammar: give the prompt as an argument or by -f FILE")
	}
	if path == "" {
		if path = "-"; inputIsTerminal(cmd) {
			return "", usagef("no prompt: give one as an argument, by -f FILE or on standard input")
		}
	}
	b, err := readInput(cmd, path)
	return string(b), err
}

// generate prints the answer in the chosen form.
func (f *runFlags) generate(cmd *cobra.Command, m *engine.Model, prompt string, ids []int32, gen engine.GenerateOptions) error {
	ctx := cmd.Context()
	s := m.NewSession()
	defer s.Close()
	if err := appendPrompt(ctx, cmd, s, ids); err != nil {
		return err
	}
	w := bufio.NewWriter(cmd.OutOrStdout())
	defer w.Flush()
	stream := f.output == "text" && !f.ids
	if stream {
		w.WriteString(prompt)
		w.Flush()
	}
	text := ""
	var out []int32
	f.begin(m, &gen)
	for tok, err := range s.Generate(ctx, gen) {
		if err != nil {
			return err
		}
		if tok.ID != engine.NoToken {
			out = append(out, tok.ID)
		}
		text += tok.Text
		if stream {
			w.WriteString(tok.Text)
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	st := s.Stats()
	switch {
	case f.ids:
		if out == nil {
			out = []int32{}
		}
		if err := json.NewEncoder(w).Encode(out); err != nil {
			return err
		}
	case f.output == "json":
		err := json.NewEncoder(w).Encode(map[string]any{
			"prompt": prompt, "text": text, "ids": out, "stop": s.StopReason(), "seed": gen.Seed,
			"prompt_tokens": st.Prompt, "generated_tokens": st.Generated,
			"prompt_tok_s": st.PromptRate(), "generate_tok_s": st.GenerateRate(),
			"steps": st.Steps, "drafted_tokens": st.Drafted, "accepted_tokens": st.Accepted, "gain": st.Gain(),
		})
		if err != nil {
			return err
		}
	case isTerminal(cmd.OutOrStdout()):
		w.WriteByte('\n')
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(cmd.ErrOrStderr(), statsLine(s, gen))
	return nil
}

// statsLine sums up one answer.
func statsLine(s *engine.Session, gen engine.GenerateOptions) string {
	st := s.Stats()
	line := fmt.Sprintf("prompt %d tokens, %.1f tok/s; generated %d tokens, %.1f tok/s; first token after %s; ended by %s",
		st.Prompt, st.PromptRate(), st.Generated, st.GenerateRate(), (st.PromptTime + st.FirstToken).Round(time.Millisecond/10), s.StopReason())
	line += draftLine(st)
	if gen.Temperature > 0 {
		line += fmt.Sprintf("; seed %d", gen.Seed)
	}
	return line
}

// appendPrompt computes a prompt, with progress when it takes long.
func appendPrompt(ctx context.Context, cmd *cobra.Command, s *engine.Session, ids []int32) error {
	if have := s.Model().Limits().Context; s.Len()+len(ids) > have {
		return &engine.ContextError{Have: have, Want: s.Len() + len(ids)}
	}
	bar := newProgress(cmd, "prompt", len(ids))
	defer bar.done()
	for step := s.Model().Limits().Step; len(ids) > 0; {
		n := min(step, len(ids))
		if err := s.Append(ctx, ids[:n]...); err != nil {
			return err
		}
		bar.add(n)
		ids = ids[n:]
	}
	return nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
