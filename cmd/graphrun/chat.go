package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"graphrun/chat"
	"graphrun/engine"
)

// chatFlags are the flags of graphrun chat.
type chatFlags struct {
	modelFlags
	sampleFlags
	system   string
	template string
	think    bool
}

func chatCmd() *cobra.Command {
	var f chatFlags
	cmd := &cobra.Command{
		Use:   "chat MODEL",
		Short: "Talk with a model",
		Long: `chat reads a message a line, renders the conversation with the model's own chat
template and prints the answer as it is written. A line that ends in a backslash
goes on in the next one. On a terminal, lines can be edited and called back with
the arrow keys; otherwise every line of standard input is a message.

` + chatHelp + `
Ctrl-C stops an answer, which is kept as far as it came; at the prompt it clears
the line, and a second one leaves. Reasoning is printed dimmed on a terminal,
and else on standard error.`,
		Example: `  graphrun chat model.gguf --system "Answer in one sentence."
  echo "Why is the sky blue?" | graphrun chat model.gguf --temp 0`,
		Args: args(0, 1),
		RunE: f.run,
	}
	f.modelFlags.register(cmd)
	f.sampleFlags.register(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&f.system, "system", "s", "", "system message")
	fs.StringVar(&f.template, "template", "", "use the chat template in this .jinja file")
	fs.BoolVar(&f.think, "think", false, "ask the template for reasoning before the answer (enable_thinking)")
	return cmd
}

const chatHelp = `Commands:
  /help          this list
  /reset         begin a new conversation; the system message stays
  /system TEXT   set the system message; without TEXT there is none any more
  /save FILE     write the conversation as JSON
  /load FILE     read one
  /stats         counts and speed of the last answer
  /exit          leave
A message that begins with a slash is written with two.
`

func (f *chatFlags) run(cmd *cobra.Command, args []string) error {
	gen, err := f.sampleFlags.options()
	if err != nil {
		return err
	}
	if f.schema == "-" || f.grammar == "-" {
		return usagef("standard input is the conversation: --json-schema and --grammar want a file")
	}
	if err := f.constraintFlags.read(cmd, &gen); err != nil {
		return err
	}
	if err := f.draftFlags.check(&f.modelFlags); err != nil {
		return err
	}
	path, err := modelArg(cmd, args)
	if err != nil {
		return err
	}
	o, err := f.options(cmd, path)
	if err != nil {
		return err
	}
	m, err := f.open(cmd, path, nil)
	if err != nil {
		return err
	}
	defer m.Close()
	closeDraft, err := f.drafter(cmd, m, f.modelFlags, &gen)
	if err != nil {
		return err
	}
	defer closeDraft()
	s, err := chat.NewSession(m, o)
	if err != nil {
		return err
	}
	defer s.Close()
	c := &conversation{s: s, gen: gen, constraint: &f.constraintFlags, out: cmd.OutOrStdout(), errOut: cmd.ErrOrStderr(), system: f.system, temp: f.temp, keep: modelFiles(m)}
	c.reset()
	return c.loop(cmd)
}

// options finds the template before the model is compiled: without one there is
// no chat.
func (f *chatFlags) options(cmd *cobra.Command, path string) (chat.Options, error) {
	var o chat.Options
	if cmd.Flags().Changed("think") {
		o.Vars = map[string]json.RawMessage{"enable_thinking": json.RawMessage(fmt.Sprint(f.think))}
	}
	if f.template != "" {
		t, err := chat.ReadTemplate(f.template)
		o.Template = t
		return o, err
	}
	file, err := openFile(cmd, path, engine.Options{})
	if err != nil {
		return o, err
	}
	defer file.Close()
	o.Template, err = chat.ModelTemplate(file.Meta, file.Path, "")
	if errors.Is(err, chat.ErrNoTemplate) {
		return o, fmt.Errorf("%s has no chat template, it only continues texts: use graphrun run, or give a template by --template FILE.jinja", file.Path)
	}
	return o, err
}

// conversation is a running chat.
type conversation struct {
	s          *chat.Session
	gen        engine.GenerateOptions
	constraint *constraintFlags
	out        io.Writer
	errOut     io.Writer
	lines      lineReader
	system     string
	temp       float64
	tty        bool     // output is a terminal
	keep       []string // the model: not to be written over

	interrupts chan struct{} // Ctrl-C
	done       <-chan struct{}
}

// errLeave says that the user wants to leave.
var errLeave = errors.New("leave")

func (c *conversation) loop(cmd *cobra.Command) error {
	ctx, stop := c.signals(cmd.Context())
	defer stop()
	c.tty = isTerminal(c.out)
	c.lines = newLineReader(cmd.InOrStdin(), c.out, c.interrupts)
	if c.lines.interactive() {
		fmt.Fprintln(c.errOut, "/help lists the commands, /exit leaves.")
	}
	for {
		text, err := c.message(ctx)
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, errLeave):
			return nil
		case err != nil:
			return err
		case strings.TrimSpace(text) == "":
			continue
		}
		if strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "//") {
			err = c.command(text)
		} else {
			err = c.answer(ctx, strings.TrimPrefix(text, "/"))
		}
		switch {
		case errors.Is(err, errLeave):
			return nil
		case err != nil && (ctx.Err() != nil || !c.lines.interactive()):
			return err
		case err != nil:
			fmt.Fprintf(c.errOut, "graphrun: %v\n", err)
		}
	}
}

// signals makes Ctrl-C an event of the chat instead of the end of the program.
// The context it returns ends when the program shall end for another reason.
func (c *conversation) signals(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	c.interrupts = make(chan struct{}, 1)
	c.done = ctx.Done()
	sigs := make(chan os.Signal, 1)
	signal.Notify(sigs, os.Interrupt, syscall.SIGTERM)
	var seen atomic.Bool
	go func() {
		ended := parent.Done()
		for {
			select {
			case <-ctx.Done():
				return
			case sig := <-sigs:
				if sig == syscall.SIGTERM {
					cancel()
					return
				}
				seen.Store(true)
				select {
				case c.interrupts <- struct{}{}:
				default:
				}
			case <-ended:
				// The same Ctrl-C ends the parent; its signal comes here too.
				ended = nil
				time.AfterFunc(200*time.Millisecond, func() {
					if !seen.Load() {
						cancel()
					}
				})
			}
		}
	}()
	return ctx, func() { signal.Stop(sigs); cancel() }
}

// message reads a message, over several lines where they end in a backslash.
func (c *conversation) message(ctx context.Context) (string, error) {
	prompt, text := "> ", ""
	for {
		line, err := c.lines.read(ctx, prompt)
		if err != nil {
			if errors.Is(err, io.EOF) && text != "" {
				return text, nil
			}
			return "", err
		}
		more, ok := strings.CutSuffix(line, `\`)
		if !ok {
			return text + line, nil
		}
		text += more + "\n"
		prompt = "… "
	}
}

// answer sends a message and prints what comes.
func (c *conversation) answer(ctx context.Context, text string) error {
	select {
	case <-c.interrupts:
	default:
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var stopped atomic.Bool
	finished := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-c.interrupts:
			stopped.Store(true)
			cancel()
		case <-finished:
		}
	}()
	err := c.print(ctx, text)
	close(finished)
	<-watched
	if stopped.Load() && errors.Is(err, context.Canceled) {
		fmt.Fprintln(c.errOut, "(stopped)")
		err = nil
	}
	return err
}

func (c *conversation) print(ctx context.Context, text string) error {
	w := bufio.NewWriter(c.out)
	const dim, plain = "\x1b[2m", "\x1b[0m"
	thinking := false
	last := ""
	endThought := func() {
		if thinking && c.tty {
			w.WriteString(plain + "\n")
		} else if thinking {
			fmt.Fprintln(c.errOut)
		}
		thinking = false
	}
	var failed error
	c.constraint.begin(c.s.Engine().Model(), &c.gen)
	for d, err := range c.s.Send(ctx, chat.UserMessage(text), c.gen) {
		if err != nil {
			failed = err
			break
		}
		if d.Reasoning != "" {
			if !thinking && c.tty {
				w.WriteString(dim)
			}
			thinking = true
			if c.tty {
				w.WriteString(d.Reasoning)
			} else {
				io.WriteString(c.errOut, d.Reasoning)
			}
		}
		if d.Content != "" {
			endThought()
			w.WriteString(d.Content)
			last = d.Content
		}
		for _, call := range d.ToolCalls {
			endThought()
			fmt.Fprintf(w, "[calls %s %s]\n", call.Function.Name, call.Function.Arguments)
			last = "\n"
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	endThought()
	if !strings.HasSuffix(last, "\n") {
		w.WriteByte('\n')
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if failed == nil && c.s.StopReason() == engine.StopLength && c.gen.MaxTokens == 0 {
		fmt.Fprintln(c.errOut, "(the context is full: /reset begins a new conversation)")
	}
	return failed
}

// command runs a line that begins with a slash.
func (c *conversation) command(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch word {
	case "/help", "/?":
		_, err := io.WriteString(c.out, chatHelp)
		return err
	case "/exit", "/quit":
		return errLeave
	case "/reset":
		c.reset()
		return nil
	case "/system":
		c.system = rest
		list := c.s.Messages()
		if len(list) > 0 && list[0].Role == "system" {
			list = list[1:]
		}
		if rest != "" {
			list = append([]chat.Message{{Role: "system", Content: chat.Text(rest)}}, list...)
		}
		c.s.SetMessages(list)
		return nil
	case "/stats":
		prompt, cached, _ := c.s.Usage()
		_, err := fmt.Fprintf(c.out, "%s\ncontext %d of %d tokens; last prompt %d tokens, %d of them known\n",
			statsLine(c.s.Engine(), c.gen), c.s.Engine().Len(), c.s.Engine().Model().Limits().Context, prompt, cached)
		return err
	case "/save":
		return c.save(rest)
	case "/load":
		return c.load(rest)
	}
	return fmt.Errorf("unknown command %s; /help lists them", word)
}

// reset begins a new conversation.
func (c *conversation) reset() {
	c.s.SetMessages(nil)
	if c.system != "" {
		c.s.SetMessages([]chat.Message{{Role: "system", Content: chat.Text(c.system)}})
	}
}

func (c *conversation) save(path string) error {
	if path == "" {
		return errors.New("/save needs a file name")
	}
	list := c.s.Messages()
	if list == nil {
		list = []chat.Message{}
	}
	b, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	out, err := createOutput(c.out, path, c.keep...)
	if err != nil {
		return err
	}
	defer out.discard()
	if _, err := out.Write(append(b, '\n')); err != nil {
		return err
	}
	if err := out.commit(); err != nil {
		return err
	}
	fmt.Fprintf(c.errOut, "%d messages in %s\n", len(list), path)
	return nil
}

func (c *conversation) load(path string) error {
	if path == "" {
		return errors.New("/load needs a file name")
	}
	b, err := readAtMost(nil, path, maxInput)
	if err != nil {
		return err
	}
	var list []chat.Message
	if err := json.Unmarshal(b, &list); err != nil {
		return fmt.Errorf("%s: want a JSON array of messages: %w", path, err)
	}
	for i, m := range list {
		switch m.Role {
		case "system", "developer", "user", "assistant", "tool":
		default:
			return fmt.Errorf("%s: message %d has the role %q", path, i, m.Role)
		}
	}
	c.s.SetMessages(list)
	c.system = ""
	if len(list) > 0 && list[0].Role == "system" {
		c.system = list[0].Content.String()
	}
	fmt.Fprintf(c.errOut, "%d messages from %s\n", len(list), path)
	return nil
}
