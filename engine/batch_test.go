package engine

import (
	"slices"
	"strings"
	"testing"
)

// TestManyTextsInOneBatch is a scheduler in a few lines: prompts of different
// lengths in chunks, mixed with the next tokens of answers that run. Each text
// is the one a lone session writes.
func TestManyTextsInOneBatch(t *testing.T) {
	m := fakeModel(t, &fake{script: hashed}, 7, Options{Context: 256, Chunk: 24, MaxSeqs: 6})
	o := GenerateOptions{MaxTokens: 30, IgnoreEOG: true, Stop: []string{"qq"}, SampleOptions: SampleOptions{Temperature: 1.2, TopK: 50, Seed: 3}}
	type request struct {
		seq    *Sequence
		text   []int32 // tokens beyond seq.Len() are to be computed
		prompt int
		answer *Answer
		out    strings.Builder
	}
	var run []*request
	var want []string
	for i := range 6 {
		r := &request{seq: m.cache.NewSequence(), text: randomText(5+17*i, uint32(i))}
		r.prompt = len(r.text)
		var err error
		if r.answer, err = m.NewAnswer(r.text, o); err != nil {
			t.Fatal(err)
		}
		run = append(run, r)
	}
	done := make([]*request, 0, 6)
	b, err := m.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Clone(run)
	for len(run) > 0 {
		left := b.Limits().Step
		var items []Item
		for i, r := range run {
			n := min(len(r.text)-r.seq.Len(), left-(len(run)-1-i)) // leave a token for each of the others
			it := Item{Seq: r.seq, Tokens: r.text[r.seq.Len() : r.seq.Len()+n], Rows: RowsNone}
			if r.seq.Len()+n == len(r.text) {
				it.Rows = RowsLast
			}
			items = append(items, it)
			left -= n
		}
		if err := b.Step(t.Context(), items); err != nil {
			t.Fatal(err)
		}
		var next []*request
		for i, r := range run {
			if items[i].Rows == RowsLast {
				tok, err := r.answer.Next(b.Logits(&items[i], 0), r.text)
				if err != nil {
					t.Fatal(err)
				}
				r.out.WriteString(tok.Text)
				if tok.ID != NoToken {
					r.text = append(r.text, tok.ID)
				}
			}
			if r.answer.Done() {
				r.seq.Drop()
				done = append(done, r)
				continue
			}
			next = append(next, r)
		}
		run = next
	}
	b.Release()
	for i, r := range all {
		s := promptOf(t, m, randomText(5+17*i, uint32(i))...)
		text, _, err := answer(t, s, o)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, text)
		if r.out.String() != text || !slices.Equal(r.text, s.Tokens()) || r.answer.Reason() != s.StopReason() {
			t.Errorf("request %d: %q, %s, want %q, %s", i, r.out.String(), r.answer.Reason(), text, s.StopReason())
		}
		s.Close()
	}
	if len(done) != 6 || len(want) != 6 {
		t.Errorf("%d of 6 requests ended", len(done))
	}
}
