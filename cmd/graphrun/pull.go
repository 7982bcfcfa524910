package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"graphrun/hub"
)

func pullCmd() *cobra.Command {
	var revision, output string
	var parallel int
	cmd := &cobra.Command{
		Use:   "pull REPO[:QUANT] [FILE...]",
		Short: "Download a model from the Hugging Face hub",
		Long: `pull downloads a model into the cache that the hub's own tools use, and prints
where it lies. What is there already, from whichever tool, is not downloaded
again; what was cut goes on where it ended; every file is checked against the
hash that the server announces before it gets its name.

A repository of GGUF files has one model for each QUANT, such as Q4_K_M, which
is also what is taken where none is named. One without them is taken as it is:
safetensors, configuration and tokenizer. FILE names files, or patterns such as
"*.json", instead. hf.co/REPO[:QUANT] is understood wherever a MODEL is
expected, and downloaded only if the cache does not have it.

Variables, as for the hub's own tools: HF_TOKEN for private and gated models,
HF_HOME or HF_HUB_CACHE for the place of the cache, HF_ENDPOINT for another
server, HF_HUB_OFFLINE=1 for --offline.`,
		Example: `  graphrun pull bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M
  graphrun run hf.co/bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M "Once upon a time"
  graphrun pull google/gemma-3-1b-it --revision main config.json "tokenizer*"`,
		Args: func(cmd *cobra.Command, list []string) error {
			if len(list) == 0 {
				return args(1, 1)(cmd, list)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if !isOneOf(output, []string{"text", "json"}) {
				return usagef("-o is %q, want text or json", output)
			}
			if parallel < 1 || parallel > 64 {
				return usagef("--parallel is %d, want 1 to 64", parallel)
			}
			name, err := hub.ParseName(args[0])
			if err != nil {
				return &usageError{err}
			}
			if revision != "" {
				if name.Revision != "" && name.Revision != revision {
					return usagef("the revision is given twice: %s and --revision %s", name.Revision, revision)
				}
				if name, err = name.At(revision); err != nil {
					return &usageError{err}
				}
			}
			if len(args) > 1 {
				if name.Quant != "" {
					return usagef("files are named twice: by :%s and by %q", name.Quant, args[1])
				}
				name.Files = append(name.Files, args[1:]...)
			}
			s, err := pull(cmd, name, parallel)
			if err != nil {
				return err
			}
			return printSnapshot(cmd.OutOrStdout(), s, output)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&revision, "revision", "", "branch, tag or commit; main is the default")
	fs.IntVarP(&parallel, "parallel", "j", 4, "files downloaded at once")
	fs.StringVarP(&output, "output", "o", "text", "text: the path of the model, or of each file named; json: all about them")
	return cmd
}

// offlineFlag is the flag of every command that takes a MODEL.
const offlineFlag = "offline"

// hubClient returns a client for the command's flags and the environment.
func hubClient(cmd *cobra.Command) (*hub.Client, error) {
	c, err := hub.FromEnv()
	if err != nil {
		return nil, err
	}
	if f := cmd.Flag(offlineFlag); f != nil && f.Value.String() == "true" {
		c.Offline = true
	}
	return c, nil
}

// pull downloads what a name means, with progress.
func pull(cmd *cobra.Command, name hub.Name, parallel int) (*hub.Snapshot, error) {
	c, err := hubClient(cmd)
	if err != nil {
		return nil, err
	}
	report := &pullReport{out: cmd.ErrOrStderr()}
	c.Report, c.Parallel, c.Notice = report, parallel, report.notice
	s, err := c.Pull(cmd.Context(), name)
	report.stop()
	if err == nil && s.Note != "" {
		report.notice(s.Note)
	}
	return s, err
}

// fetchModel returns the path of a model on the hub, from the cache if that has
// it.
func fetchModel(cmd *cobra.Command, arg string, tokenizer bool) (string, error) {
	name, err := hub.ParseName(arg)
	if err != nil {
		return "", &usageError{err}
	}
	name.Tokenizer = tokenizer
	c, err := hubClient(cmd)
	if err != nil {
		return "", err
	}
	s, err := c.Find(name)
	if err != nil && !c.Offline {
		s, err = pull(cmd, name, 0)
	}
	if err != nil {
		return "", err
	}
	if s.Model == "" {
		return "", fmt.Errorf("model %s: %s is no model", arg, strings.Join(name.Files, ", "))
	}
	return s.Model, nil
}

// printSnapshot prints where the files lie.
func printSnapshot(w io.Writer, s *hub.Snapshot, output string) error {
	if output == "json" {
		type file struct {
			Name  string `json:"name"`
			Bytes int64  `json:"bytes"`
			Path  string `json:"path"`
		}
		out := struct {
			Repo    string `json:"repo"`
			Commit  string `json:"commit"`
			Model   string `json:"model,omitempty"`
			Files   []file `json:"files"`
			Fetched int64  `json:"fetched_bytes"`
		}{Repo: s.Repo, Commit: s.Commit, Model: s.Model, Fetched: s.Fetched}
		for _, f := range s.Files {
			out.Files = append(out.Files, file{f.Name, f.Size, f.Path})
		}
		return writeJSON(w, out)
	}
	if s.Model != "" {
		_, err := fmt.Fprintln(w, s.Model)
		return err
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range s.Files {
		fmt.Fprintln(tab, f.Path)
	}
	return tab.Flush()
}

// pullReport shows downloads: a bar for each file on a terminal, a line with
// rate and remaining time every few seconds elsewhere.
type pullReport struct {
	out io.Writer

	mu      sync.Mutex
	files   []hub.File
	total   int64
	at      int64 // bytes that are there
	fresh   int64 // of them, those that came since the start
	done    int
	start   time.Time
	printed time.Time
	group   *mpb.Progress
	bars    []*mpb.Bar
	last    []time.Time // of the bars' latest bytes
}

// Start implements hub.Reporter.
func (r *pullReport) Start(files []hub.File) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.files, r.start = files, time.Now()
	r.printed = r.start
	for _, f := range files {
		r.total += f.Size
	}
	if f, ok := r.out.(*os.File); !ok || !isTerminal(f) || len(files) == 0 {
		return
	}
	r.group = mpb.New(mpb.WithOutput(r.out), mpb.WithWidth(32))
	for _, f := range files {
		r.last = append(r.last, r.start)
		r.bars = append(r.bars, r.group.AddBar(f.Size,
			mpb.PrependDecorators(decor.Name(shorten(f.Name, 48), decor.WCSyncSpaceR), decor.CountersKibiByte("% .1f / % .1f", decor.WCSyncSpace)),
			mpb.AppendDecorators(decor.Percentage(decor.WCSyncSpace), decor.EwmaSpeed(decor.SizeB1024(0), "% .1f", 30, decor.WCSyncSpace),
				decor.Name(" "), decor.EwmaETA(decor.ET_STYLE_GO, 30))))
	}
}

// jump is more than one read of a download brings: what an earlier one left.
const jump = 1 << 20

// Advance implements hub.Reporter.
func (r *pullReport) Advance(i int, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at += n
	old := n < 0 || n > jump
	if !old {
		r.fresh += n
	}
	now := time.Now()
	if r.group != nil {
		if old {
			r.bars[i].SetCurrent(r.bars[i].Current() + n)
		} else {
			r.bars[i].EwmaIncrInt64(n, now.Sub(r.last[i]))
			r.last[i] = now
		}
		return
	}
	if now.Sub(r.printed) >= progressEvery {
		r.printed = now
		fmt.Fprintf(r.out, "graphrun: %s\n", r.line(now))
	}
}

// line sums up all downloads.
func (r *pullReport) line(now time.Time) string {
	s := fmt.Sprintf("%d of %d files, %s of %s", r.done, len(r.files), bytesText(int(r.at)), bytesText(int(r.total)))
	if spent := now.Sub(r.start).Seconds(); spent > 0 && r.fresh > 0 {
		rate := float64(r.fresh) / spent
		left := time.Duration(float64(r.total-r.at) / rate * float64(time.Second)).Round(time.Second)
		s += fmt.Sprintf(", %s/s, %s left", bytesText(int(rate)), left)
	}
	return s
}

// Done implements hub.Reporter.
func (r *pullReport) Done(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	if r.group != nil {
		r.bars[i].SetTotal(-1, true)
	}
}

// notice prints a sentence above the bars.
func (r *pullReport) notice(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.out
	if r.group != nil {
		w = r.group
	}
	fmt.Fprintln(w, "graphrun:", text)
}

// stop takes the bars away and prints the sum of what was downloaded.
func (r *pullReport) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.group != nil {
		for _, b := range r.bars {
			b.Abort(false)
		}
		r.group.Wait()
		r.group = nil
	}
	if r.fresh > 0 && r.done == len(r.files) {
		spent := time.Since(r.start)
		fmt.Fprintf(r.out, "graphrun: %d file(s), %s downloaded in %s, %s/s\n", r.done, bytesText(int(r.fresh)), spent.Round(time.Millisecond*100), bytesText(int(float64(r.fresh)/spent.Seconds())))
	}
}
