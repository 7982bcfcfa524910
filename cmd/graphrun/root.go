package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// rootCmd returns the whole command tree. Without a verb the command dumps a
// graph, or prints its help.
func rootCmd() *cobra.Command {
	var d dumpFlags
	root := &cobra.Command{
		Use:   "graphrun",
		Short: "Run language models on the CPU, and see the graph that runs",
		Long: `graphrun compiles a language model into a static dataflow graph and runs it on the CPU.

A MODEL is a GGUF file, a folder as Hugging Face has them, or
hf.co/REPO[:QUANT], which is downloaded once. Where none is named, a small model
that writes children's stories is used, which is part of the program.`,
		Example: `  graphrun run "Once upon a time"
  graphrun run model.gguf "The capital of France is" -n 32
  graphrun --dump=summary model.gguf
  graphrun --dump=html -o page.html model.gguf
  graphrun --dump model.gguf --pass quantize`,
		Args:          args(0, 1),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("dump") {
				if len(args) > 0 {
					return unknownVerb(args[0])
				}
				if err := d.unused(cmd); err != nil {
					return err
				}
				return cmd.Help()
			}
			return d.run(cmd, args)
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%v; see %s --help", err, cmd.CommandPath())
	})
	root.CompletionOptions.HiddenDefaultCmd = true
	root.Version = version()
	root.SetVersionTemplate("graphrun {{.Version}}\n")
	root.SetHelpCommand(helpCmd())
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		rest := cmd.Flags().Args()
		if refused, ok := root.Context().Value(helpRefused{}).(*error); ok && cmd == root && len(rest) > 0 && !cmd.Flags().Changed("dump") {
			*refused = unknownVerb(rest[0])
			return
		}
		help(cmd, args)
	})
	d.register(root)
	root.PersistentFlags().Bool(offlineFlag, false, "never use the network: hf.co/… names must be in the cache")
	root.AddCommand(runCmd(), inspectCmd(), logitsCmd(), tokenizeCmd(), detokenizeCmd(), templateCmd(), perplexityCmd(), embedCmd(), chatCmd(), checkCmd())
	root.AddCommand(benchCmd(), synthCmd(), convertCmd(), profileCmd(), diffCmd(), pullCmd())
	root.AddCommand(serveCmd())
	root.AddCommand(quantizeCmd(), imatrixCmd(), splitCmd(), mergeCmd())
	return root
}

// helpRefused is the key of a context's *error: help functions return none.
type helpRefused struct{}

func unknownVerb(word string) error {
	return usagef("unknown command %q; see graphrun --help (to dump a model's graph: graphrun --dump %s)", word, word)
}

// helpCmd is graphrun help VERB.
func helpCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "help [VERB]",
		Short:   "Explain a verb",
		Example: "  graphrun help run",
		Hidden:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, _, err := cmd.Root().Find(args)
			if err != nil || len(args) > 0 && target == cmd.Root() {
				return unknownVerb(args[0])
			}
			target.InitDefaultHelpFlag()
			target.InitDefaultVersionFlag()
			return target.Help()
		},
	}
}

// version says what was built: the module's version, or the commit of a clone.
func version() string {
	v, rest := "unknown", ""
	if b, ok := debug.ReadBuildInfo(); ok {
		v = b.Main.Version
		commit, dirty := "", ""
		for _, s := range b.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				dirty = ", changed"
			}
		}
		if commit != "" {
			rest = " (commit " + commit[:min(len(commit), 12)] + dirty + ")"
		}
	}
	return v + rest + ", " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}
