package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"graphrun/engine"
)

// draftFlags are the flags of speculative decoding.
type draftFlags struct {
	draft  string
	lookup bool
	most   int
}

func (f *draftFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.draft, "draft", "", "have this smaller MODEL of the same vocabulary propose tokens, which are then computed together; the same text, faster where it is often right")
	fs.BoolVar(&f.lookup, "lookup", false, "propose what followed the last time the text had the same end; for answers that repeat their prompt")
	fs.IntVar(&f.most, "draft-tokens", engine.DefaultDraftTokens, "tokens to propose for a step at most")
}

// check refuses what does not fit together. A model of F32, F16 or BF16 alone
// gives the same logits for tokens computed together only if it is asked to.
func (f *draftFlags) check(m *modelFlags) error {
	switch {
	case f.draft != "" && f.lookup:
		return usagef("--draft and --lookup exclude each other")
	case f.most < 1 || f.most > 64:
		return usagef("--draft-tokens is %d, want 1 to 64", f.most)
	}
	if f.draft != "" || f.lookup {
		m.deterministic = true
	}
	return nil
}

// drafter gives options their drafter. The function it returns closes what was
// opened.
func (f *draftFlags) drafter(cmd *cobra.Command, m *engine.Model, mf modelFlags, o *engine.GenerateOptions) (func(), error) {
	o.DraftTokens = f.most
	if f.lookup {
		var err error
		o.Drafter, err = engine.NewLookup(0, 0)
		return func() {}, err
	}
	if f.draft == "" {
		return func() {}, nil
	}
	path, err := modelPath(cmd, f.draft)
	if err != nil {
		return nil, err
	}
	mf.deterministic, mf.drop = false, nil // its own bits matter to nobody
	d, err := mf.open(cmd, path, func(o *engine.Options) { o.MaxSeqs, o.MaxRows = 1, 1 })
	if err != nil {
		return nil, fmt.Errorf("--draft: %w", err)
	}
	drafter, err := engine.NewDraft(m, d)
	if err != nil {
		d.Close()
		return nil, fmt.Errorf("--draft %s: %w", f.draft, err)
	}
	o.Drafter = drafter
	return func() { drafter.Close(); d.Close() }, nil
}

// draftLine sums up how well proposing went, "" without proposals.
func draftLine(st engine.Stats) string {
	if st.Steps == 0 {
		return ""
	}
	line := fmt.Sprintf("; %d steps, %.2f tokens each", st.Steps, float64(max(st.Generated-1, 0))/float64(st.Steps))
	if st.Drafted == 0 {
		return line + ", nothing proposed"
	}
	line += fmt.Sprintf(", %d of %d proposals right (%.0f %%)", st.Accepted, st.Drafted, 100*float64(st.Accepted)/float64(st.Drafted))
	if g := st.Gain(); g > 0 {
		line += fmt.Sprintf(", %.2f times as fast as one by one", g)
	}
	return line
}
