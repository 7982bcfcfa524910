package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// progress shows how far long work has come: a bar on a terminal, a plain line
// every few seconds elsewhere. Work that ends within a second shows nothing.
type progress struct {
	what    string
	total   int
	at      int
	out     io.Writer
	group   *mpb.Progress
	bar     *mpb.Bar
	start   time.Time
	printed time.Time
}

const (
	progressDelay = time.Second
	progressEvery = 5 * time.Second
)

func newProgress(cmd *cobra.Command, what string, total int) *progress {
	now := time.Now()
	return &progress{what: what, total: total, out: cmd.ErrOrStderr(), start: now, printed: now}
}

func (p *progress) add(n int) {
	p.at += n
	now := time.Now()
	if p.bar == nil && now.Sub(p.start) < progressDelay {
		return
	}
	if f, ok := p.out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		if p.bar == nil {
			p.group = mpb.New(mpb.WithOutput(f), mpb.WithWidth(40))
			p.bar = p.group.AddBar(int64(p.total), mpb.BarRemoveOnComplete(),
				mpb.PrependDecorators(decor.Name(p.what+" "), decor.CountersNoUnit("%d / %d")),
				mpb.AppendDecorators(decor.Percentage()))
		}
		p.bar.SetCurrent(int64(p.at))
		return
	}
	if now.Sub(p.printed) >= progressEvery {
		p.printed = now
		fmt.Fprintf(p.out, "%s: %d of %d (%d %%)\n", p.what, p.at, p.total, 100*p.at/max(1, p.total))
	}
}

// done takes the bar away.
func (p *progress) done() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.group.Wait()
	}
}
