package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// lineReader reads what a user types. golang.org/x/term, which the program has
// anyway, edits lines and keeps their history; the terminal is in raw mode only
// while a line is read, so that Ctrl-C is a signal during answers.
type lineReader interface {
	// read returns a line without its end, io.EOF after the last one.
	read(ctx context.Context, prompt string) (string, error)
	interactive() bool
}

func newLineReader(in io.Reader, out io.Writer, interrupts <-chan struct{}) lineReader {
	fi, ok := in.(*os.File)
	if fo, isFile := out.(*os.File); ok && isFile && term.IsTerminal(int(fi.Fd())) && term.IsTerminal(int(fo.Fd())) {
		t := &termReader{file: fi}
		t.keys.r = fi
		t.term = term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{&t.keys, fo}, "")
		return t
	}
	return &pipeReader{in: bufio.NewReader(in), interrupts: interrupts}
}

// pipeReader reads lines of any length from a file or pipe.
type pipeReader struct {
	in         *bufio.Reader
	lines      chan readLine
	interrupts <-chan struct{}
}

type readLine struct {
	text string
	err  error
}

func (p *pipeReader) interactive() bool { return false }

// read waits for a line, the end of ctx, or a second Ctrl-C in a row.
func (p *pipeReader) read(ctx context.Context, _ string) (string, error) {
	if p.lines == nil {
		p.lines = make(chan readLine)
		go func() {
			for {
				text, err := p.in.ReadString('\n')
				if text != "" {
					p.lines <- readLine{text: strings.TrimRight(text, "\r\n")}
				}
				if err != nil {
					p.lines <- readLine{err: err}
					close(p.lines)
					return
				}
			}
		}()
	}
	for presses := 0; ; {
		select {
		case l, ok := <-p.lines:
			if !ok {
				return "", io.EOF
			}
			return l.text, l.err
		case <-ctx.Done():
			return "", ctx.Err()
		case <-p.interrupts:
			if presses++; presses == 2 {
				return "", context.Canceled
			}
		}
	}
}

// termReader reads lines from a terminal.
type termReader struct {
	file *os.File
	term *term.Terminal
	keys keyReader
}

func (t *termReader) interactive() bool { return true }

func (t *termReader) read(ctx context.Context, prompt string) (string, error) {
	old, err := term.MakeRaw(int(t.file.Fd()))
	if err != nil {
		return "", err
	}
	defer term.Restore(int(t.file.Fd()), old)
	if width, height, err := term.GetSize(int(t.file.Fd())); err == nil && width > 0 {
		t.term.SetSize(width, height)
	}
	t.term.SetBracketedPasteMode(true)
	defer t.term.SetBracketedPasteMode(false)
	t.term.SetPrompt(prompt)
	t.keys.presses = 0
	lines := make(chan readLine, 1)
	go func() {
		text, err := t.term.ReadLine()
		lines <- readLine{text, err}
	}()
	select {
	case l := <-lines:
		switch {
		case errors.Is(l.err, term.ErrPasteIndicator):
			l.err = nil
		case errors.Is(l.err, errInterrupted):
			l.err = errLeave
		}
		return l.text, l.err
	case <-ctx.Done(): // the program ends: the read is left behind
		return "", ctx.Err()
	}
}

var errInterrupted = errors.New("interrupted")

// keyReader makes the first Ctrl-C clear the line and the second in a row an
// error.
type keyReader struct {
	r       io.Reader
	presses int
}

func (k *keyReader) Read(p []byte) (int, error) {
	if len(p) < 2 {
		return k.r.Read(p)
	}
	n, err := k.r.Read(p[:len(p)-1])
	for i := 0; i < n; i++ {
		if p[i] != 3 { // Ctrl-C
			k.presses = 0
			continue
		}
		if k.presses++; k.presses == 2 {
			return 0, errInterrupted
		}
		if n == len(p) {
			p[i] = 21
			continue
		}
		// Ctrl-E and Ctrl-U clear the whole line.
		copy(p[i+2:n+1], p[i+1:n])
		p[i], p[i+1] = 5, 21
		n++
		i++
	}
	return n, err
}
