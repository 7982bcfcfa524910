// Command graphrun runs language models and shows the graph it runs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// Exit codes: 0 done, 1 failed, 2 wrong usage.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		// A later signal ends a program that hangs. One that follows at once is
		// the same: timeout and some shells send it to the program and its group.
		time.Sleep(2 * time.Second)
		stop()
	})
	code := execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// execute runs the command line and returns the exit code. Errors are one line
// on errOut.
func execute(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) (code int) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch r := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }: // the runtime's fault
			fmt.Fprintln(errOut, "graphrun: reading a model file failed: it was cut short meanwhile, or its disk fails")
			code = exitFailed
		default:
			panic(r)
		}
	}()
	root := rootCmd()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	var refused error
	err := root.ExecuteContext(context.WithValue(ctx, helpRefused{}, &refused))
	if err == nil {
		err = refused
	}
	if err == nil {
		return 0
	}
	text := strings.TrimRight(err.Error(), "\n")
	var usage *usageError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintf(errOut, "graphrun: %s\n", text)
		return exitUsage
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(errOut, "graphrun: interrupted")
		return exitFailed
	}
	fmt.Fprintf(errOut, "graphrun: %s\n", text)
	return exitFailed
}

// usageError is a command line that cannot be understood.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// args checks the number of positional arguments.
func args(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			name := cmd.Name() // the path begins with the program, as every error does
			if !cmd.HasParent() {
				name = "graphrun without a verb"
			}
			return usagef("%s takes %s, found %d; see %s --help", name, arguments(least, most), len(args), cmd.CommandPath())
		}
		return nil
	}
}

func arguments(least, most int) string {
	switch {
	case most == 1 && least == 1:
		return "1 argument"
	case least == most:
		return fmt.Sprintf("%d arguments", most)
	}
	return fmt.Sprintf("%d to %d arguments", least, most)
}
